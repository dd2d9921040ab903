"""What a child writes to its stderr: ``logs/<agent>.stderr.log`` and a few older ones.

We write it, not the child, so that it can be rotated while the child goes on. Owns the file's size and its last words.
Refuses to know what is written. A disk that says no loses text and never stops a child: the first refusal is reported.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_BYTES: Final = 4 * 1024 * 1024
#: Files beside the current one: .1 is the newest of them.
OLD_FILES: Final = 2
_TAIL_BYTES: Final = 4096


class StderrLog:
    def __init__(self, path: Path, trouble: Callable[[OSError], None], max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._trouble = trouble
        self._max_bytes = max_bytes
        self._fd: int | None = None
        self._failing = False
        self.tail = b""

    def begin(self, first_line: str) -> None:
        """A new life: the last words of the one before are not its own."""
        self._append(first_line.encode() + b"\n")
        self.tail = b""

    def write(self, text: bytes) -> None:
        self.tail = (self.tail + text)[-_TAIL_BYTES:]
        self._append(text)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _append(self, text: bytes) -> None:
        try:
            fd = self._opened(len(text))
            while text:
                text = text[os.write(fd, text) :]
            self._failing = False
        except OSError as error:
            if not self._failing:
                self._trouble(error)
            self._failing = True

    def _opened(self, more: int) -> int:
        if self._fd is None:
            self._fd = self._open()
        size = os.fstat(self._fd).st_size
        if size and size + more > self._max_bytes:
            self.close()
            self._rotate()
            self._fd = self._open()
        return self._fd

    def _open(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _rotate(self) -> None:
        for number in range(OLD_FILES, 0, -1):
            newer = self._old(number - 1) if number > 1 else self.path
            with contextlib.suppress(FileNotFoundError):
                newer.rename(self._old(number))

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
