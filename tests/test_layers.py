"""The layers of the design, held by reading every import.

frontends → runtime → adapters, dialects → ports → core; adapters and dialects know neither each other nor themselves;
core is pure. And: what `ackd send` and `ackd ack` import stays small.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[1] / "daemon" / "ackd"

#: Which rooms each room may import from; itself is said apart, since adapters and dialects may not.
MAY_IMPORT: Final = {
    "core": {"core"},
    "ports": {"core"},
    "json_line": {"core"},
    "dialects": {"ports", "core", "json_line"},
    "syscalls": set(),
    "threads": set(),
    "processes": {"processes", "core", "threads"},
    "adapters": {"ports", "core", "handlers", "syscalls", "processes", "threads"},
    "handlers": {"dialects", "ports", "core"},  # the public API: bodies reach a handler read
    "protocol": {"core"},  # the public API for workers: the words
    "worker": {"worker"},  # the same, in a process of its own, which starts quickly and knows nothing of the daemon
    # The public API for programs of a team, in processes of their own: nothing of ours imports it.
    "public": {"public", "runtime", "adapters", "dialects", "ports", "core", "site"},
    "the demo's team": {"worker"},  # programs that are laid out, and run as anybody's would be
    "leases": {
        "adapters",
        "dialects",
        "core",
    },  # the public API: the files of leases, and what is said of them on a bus
    "bus": {"bus", "adapters", "dialects", "core", "site"},  # the public API: a bus from Python
    "stage": {"adapters", "dialects", "core", "site"},  # the public API: a stage worker's own side
    "site": {"core", "site"},
    "config": {"site", "config", "core"},
    "runtime": {
        "runtime",
        "adapters",
        "dialects",
        "json_line",
        "ports",
        "core",
        "site",
        "config",
        "handlers",
        "syscalls",
        "processes",
        "threads",
        "leases",
    },
    "frontends": {
        "frontends",
        "runtime",
        "adapters",
        "dialects",
        "ports",
        "core",
        "site",
        "config",
        "handlers",
        "leases",
        "bus",
        "stage",
    },
}
#: Modules directly below the package, and the room each counts to. A new one has to be given its room here.
TOP_MODULES: Final = {
    "ports": "ports",
    "syscalls": "syscalls",
    "json_line": "json_line",
    "handlers": "handlers",
    "protocol": "protocol",
    "leases": "leases",
    "site": "site",
    "plain_toml": "site",
    "state_version": "site",
    "tracks": "site",
    "config": "config",
    "config_coordination": "config",
    "config_pipeline": "config",
    "config_problems": "config",
    "config_values": "config",
    "files": "public",
    "ack": "public",
    "log": "public",
    "bus": "bus",
    "bus_waiting": "bus",
    "stage": "stage",
    "__main__": "frontends",
}
#: Modules that are one dialect together.
ONE_DIALECT: Final = {"yaml_body": "ignite", "bodies": "ignite", "body_shapes": "ignite"}

#: What reaches outside, or keeps time, chance or concurrency of its own.
IMPURE: Final = frozenset(
    "asyncio concurrent contextvars ctypes fcntl fileinput glob io logging mmap multiprocessing os pathlib platform "
    "queue random resource sched secrets select selectors shutil signal socket sqlite3 ssl subprocess sys syslog "
    "tempfile termios threading time tty urllib uuid warnings http signal pty".split()
)
#: Dialects turn bytes into messages: they may shape a time that they are given, and have libraries, but touch nothing.
IMPURE_FOR_DIALECTS: Final = IMPURE - {"io", "time", "sys", "warnings"}

CLOCK: Final = re.compile(r"\b(datetime|date|dt)\.(now|utcnow|today)$")

FAST_PATH: Final = (
    "ackd.frontends.cli.main",
    "ackd.frontends.cli.send",
    "ackd.frontends.cli.receipts",
    "ackd.frontends.cli.lock",
    "ackd.leases",
    "ackd.adapters.maildrop",
    "ackd.dialects.ignite",
    "ackd.frontends.cli.bus_post",
    "ackd.bus",
    "ackd.site",
    "ackd.worker",
)
SLOW: Final = ("asyncio", "anyio", "pydantic", "structlog", "rich", "click", "dataclasses", "inspect", "tomllib")


@dataclass(frozen=True)
class Import:
    of: str
    line: int
    for_types: bool


def modules() -> dict[str, Path]:
    """Dotted name below the package → file."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


MODULES: Final = modules()


def imports_of(name: str) -> list[Import]:
    tree = ast.parse(MODULES[name].read_bytes())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [
        Import(target, node.lineno, id(node) in for_types)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for target in targets(node, name)
    ]


def targets(node: ast.Import | ast.ImportFrom, importer: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = importer if MODULES[importer].name == "__init__.py" else importer.rpartition(".")[0]
        up = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join(part for part in ["ackd", *up, base] if part)
    # `from ackd.adapters import maildrop` imports a module, `from ackd.ports import Clock` a name in one.
    return [
        f"{base}.{alias.name}" if f"{base}.{alias.name}".removeprefix("ackd.") in MODULES else base
        for alias in node.names
    ]


def room(name: str) -> str:
    """The layer of a module, by its dotted name below the package."""
    if name.startswith("frontends.demo."):
        return "the demo's team"
    top = name.partition(".")[0]
    return TOP_MODULES.get(top, top)


def unit(name: str) -> str:
    """What counts as one adapter or dialect: a module, a sub-package, or the modules of one format together."""
    parts = name.split(".")
    inner = parts[1] if len(parts) > 1 else ""
    return ONE_DIALECT.get(inner, inner) if parts[0] == "dialects" else inner


def inside(name: str) -> list[tuple[str, int]]:
    """The modules of our own that a module imports."""
    found = [(one.of, one.line) for one in imports_of(name)]
    return [(of.removeprefix("ackd").removeprefix("."), line) for of, line in found if of.split(".")[0] == "ackd"]


def outside(name: str, *, types_too: bool) -> list[tuple[str, int]]:
    found = [one for one in imports_of(name) if types_too or not one.for_types]
    return [(one.of, one.line) for one in found if one.of.split(".")[0] not in ("ackd", "__future__")]


def in_room(*rooms: str) -> list[str]:
    return [name for name in MODULES if name and room(name) in rooms]


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_imports_go_down_only(name: str) -> None:
    assert room(name) in MAY_IMPORT, f"{name} is in no known room: give it one in TOP_MODULES"
    allowed = MAY_IMPORT[room(name)]
    wrong = [
        f"{name}:{line} imports {of}"
        for of, line in inside(name)
        if of and room(of) not in allowed and (room(of), unit(of)) != (room(name), unit(name))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", in_room("core"))
def test_core_is_pure_standard_library(name: str) -> None:
    for of, line in outside(name, types_too=True):
        assert of.split(".")[0] in sys.stdlib_module_names, f"{name}:{line} imports {of}"
    for of, line in outside(name, types_too=False):
        assert of.split(".")[0] not in IMPURE, f"{name}:{line} imports {of}"


@pytest.mark.parametrize("name", in_room("core"))
def test_core_reads_no_clock(name: str) -> None:
    """datetime is a value type with a clock hidden in it."""
    calls = [node for node in ast.walk(ast.parse(MODULES[name].read_bytes())) if isinstance(node, ast.Call)]
    called = [ast.unparse(call.func) for call in calls]
    assert [one for one in called if CLOCK.search(one)] == []


@pytest.mark.parametrize("name", in_room("dialects"))
def test_dialects_touch_nothing_outside(name: str) -> None:
    for of, line in outside(name, types_too=False):
        assert of.split(".")[0] not in IMPURE_FOR_DIALECTS, f"{name}:{line} imports {of}"


@pytest.mark.parametrize("name", FAST_PATH)
def test_what_send_ack_and_workers_need_loads_quickly(name: str) -> None:
    assert importlib.util.find_spec(name) is not None, "the fast path has moved: say where to in FAST_PATH"
    code = f"import sys, {name}; print(*sorted(set(sys.modules) & set({SLOW!r})))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr, ended.returncode) == ("", "", 0)


# --- the test itself --------------------------------------------------------------------------------------------------
def test_the_reader_of_imports_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "probe.py"
    source.write_text(
        "import os.path\nfrom ackd.adapters import maildrop\nfrom ackd.ports import Clock\nfrom . import ladder\n"
        "from ..ports import Flusher\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import random\n"
        "def late():\n    import socket\n    return datetime.now()\n"
    )
    monkeypatch.setitem(MODULES, "core.probe", source)
    found = {one.of: one.for_types for one in imports_of("core.probe")}
    assert found == {
        "os.path": False,
        "ackd.adapters.maildrop": False,
        "ackd.ports": False,
        "ackd.core.ladder": False,
        "typing": False,
        "random": True,
        "socket": False,
    }
    with pytest.raises(AssertionError, match=r"imports adapters\.maildrop"):
        test_imports_go_down_only("core.probe")
    with pytest.raises(AssertionError, match="imports os"):
        test_core_is_pure_standard_library("core.probe")
    with pytest.raises(AssertionError):
        test_core_reads_no_clock("core.probe")


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("adapters.clock", "from ackd.adapters import maildrop"),
        ("adapters.clock", "from ackd.dialects import ignite"),
        ("adapters.clock", "from ackd.site import Site"),
        ("adapters.clock", "import ackd.runtime.pump"),
        ("dialects.other", "from ackd.dialects import ignite"),
        ("runtime.pump", "from ackd.frontends.cli import main"),
        ("ports", "from ackd.adapters import clock"),
        ("site", "import ackd.config"),
        ("stray", "import ackd.core"),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importer: str, line: str) -> None:
    source = MODULES.get(importer, tmp_path / "probe.py")
    probe = tmp_path / source.name
    probe.write_text(line)
    monkeypatch.setitem(MODULES, importer, probe)
    with pytest.raises(AssertionError, match=r"imports|no known room"):
        test_imports_go_down_only(importer)
