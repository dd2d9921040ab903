"""One target under atheris, in a process of its own: libFuzzer never returns."""

from __future__ import annotations

import importlib
import pkgutil
import sys


def main() -> None:
    import atheris

    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["ackd"]):
        import ackd

        # All of them now: commands import each other when they are run, and what comes later is not instrumented.
        for module in pkgutil.walk_packages(ackd.__path__, "ackd."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
