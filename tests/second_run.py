"""Which tests CI runs a second time after they failed: those that ``second_run.txt`` names with a reason, and no other.

Run as ``python -m tests.second_run`` after a failed run: prints every failed test, and exits 0 only if all of them may be
run again. CI then runs the failed ones once more; whatever fails twice fails CI.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

NAMED: Final = Path(__file__).with_name("second_run.txt")
#: Where pytest notes what failed in the last run.
LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")


def named(text: str) -> dict[str, str]:
    """From a test's id, without its parameters, to the reason why it may be run again. A line without a reason is refused."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        test, mark, reason = line.partition(" # ")
        if not mark or not reason.strip():
            raise ValueError(f"{NAMED.name}: no reason is given for {line.strip()}")
        found[test.strip()] = reason.strip()
    return found


def refused(failed: list[str], reasons: dict[str, str]) -> list[str]:
    """The failed tests that may not be run again."""
    return [test for test in failed if test.partition("[")[0] not in reasons]


def main() -> int:
    failed = list(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    reasons = named(NAMED.read_text())
    for test in failed:
        print(f"CI: failed: {test} ({reasons.get(test.partition('[')[0], 'no second run')})")
    return 1 if not failed or refused(failed, reasons) else 0


if __name__ == "__main__":
    sys.exit(main())
