"""`ackd` in this process: its command line, with its own stdin, stdout and stderr."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Result:
    """How a command ended. ``output`` is both streams, in the order in which they were written."""

    exit_code: int
    stdout: str
    stderr: str
    output: str
    stdout_bytes: bytes


class _Copied(io.BytesIO):
    """Keeps what is written, and copies it to where both streams meet."""

    def __init__(self, both: io.BytesIO) -> None:
        super().__init__()
        self._both = both

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self._both.write(data)
        return super().write(data)


def run(words: Sequence[str], stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    """What `ackd WORDS…` prints, and its exit code."""
    both = io.BytesIO()
    out, err = _Copied(both), _Copied(both)
    given = stdin.encode() if isinstance(stdin, str) else stdin or b""
    with _streams(given, out, err), _environment(env or {}):
        exit_code = main.run(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
    return Result(exit_code, _text(out), _text(err), _text(both), out.getvalue())


def _text(stream: io.BytesIO) -> str:
    return stream.getvalue().decode(errors="replace").replace("\r\n", "\n")


@contextmanager
def _streams(stdin: bytes, out: io.BytesIO, err: io.BytesIO) -> Iterator[None]:
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", write_through=True)
    wrapped = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in wrapped:
            stream.detach()  # or its bytes would be closed with it


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
