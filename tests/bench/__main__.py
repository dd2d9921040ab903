"""``make bench``: speed as ratios to a limit measured in the same run, medians of several repetitions.

Numbers of two runs are not comparable on a shared machine; ratios within one run are. Prints a Markdown table and the
machine and file system that it was measured on.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import handling, starting

if TYPE_CHECKING:
    from collections.abc import Callable

REPETITIONS = 5


def median_s(action: Callable[[], float]) -> float:
    return statistics.median(action() for _ in range(REPETITIONS))


def file_system(path: Path) -> str:
    found = subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ackd-bench-") as name:
        place = Path(name)
        rows = [*starting.rows(place / "starting", median_s), *handling.rows(place / "handling")]
        print(
            f"\n{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
            f"Python {platform.python_version()}, {file_system(place)}, {time.strftime('%Y-%m-%d')}\n"
        )
        print("| what | ackd | limit | ratio |\n|---|---|---|---|")
        for row in rows:
            print(f"| {row.what} | {row.ours} | {row.limit} | {row.ratio:.1f} |")
    sys.exit(0)


main()
