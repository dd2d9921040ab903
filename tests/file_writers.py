"""A process that changes one file again and again under its lock. Run as a program: path, times, durable or not.

Whoever is inside leaves a mark that nobody else may find; the file counts the changes, and is long, so that half of it
could be told from all of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ackd.files import atomic_write, with_file_lock

LINES = 400


def content(count: int) -> str:
    return f"{count}\n" * LINES


def count_of(text: str) -> int:
    """AssertionError for half a file, or for one of two parts."""
    lines = text.splitlines(keepends=True)
    assert len(lines) == LINES, f"{len(lines)} lines"
    assert len(set(lines)) == 1, set(lines)
    return int(lines[0])


def main() -> None:
    path, times, durable = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "durable"
    mark = path.parent / "inside"

    @with_file_lock(path, timeout=100)
    def change() -> None:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        atomic_write(path, content(count_of(path.read_text()) + 1), durable=durable)
        mark.unlink()

    for _ in range(times):
        change()


if __name__ == "__main__":
    main()
