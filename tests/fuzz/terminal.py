"""`ackd` in this process, through its real entry, in front of a terminal that remembers what it was shown.

``ackd`` holds what every command owes, whatever it was given: a documented exit code other than "a bug", no traceback,
and nothing on the terminal that would move a cursor.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.cli import errors
from ackd.cli.errors import BUG, EXIT_CODES
from ackd.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

_FINE: Final = frozenset(code for code, _ in EXIT_CODES) - {BUG}


class Shown(NamedTuple):
    code: int
    out: str
    err: str


class _Terminal(io.TextIOWrapper):
    def __init__(self, errors: str) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


def ackd(*words: str, stdin: bytes = b"") -> Shown:
    """What the command says and how it ends."""
    out, err = _Terminal("strict"), _Terminal("backslashreplace")
    with _streams(words, stdin, out, err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    shown = Shown(code, out.shown, err.shown)
    assert code in _FINE, f"{words} ended with {code}:\n{shown.err}"
    assert "Traceback (most recent call last)" not in shown.err
    assert_harmless(shown.out)
    assert_harmless(shown.err)
    return shown


def assert_harmless(text: str) -> None:
    """Nothing in it that a terminal acts on, colours included: the fuzzer's terminal asks for none."""
    bad = {c for c in set(text) if not (c.isprintable() or c == "\n" or unicodedata.category(c) == "Zs")}
    assert not bad, f"{sorted(map(ascii, bad))} reached the terminal in {text!r:.300}"


@contextlib.contextmanager
def _streams(words: tuple[str, ...], stdin: bytes, out: _Terminal, err: _Terminal) -> Iterator[None]:
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["ackd", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout, sys.stderr = out, err
    try:
        with environment(NO_COLOR="1", TERM="dumb", ACKD_DEBUG="1"):
            yield
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("ACKD_")]:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Ended:
    """How what ran inside ``quiet`` ended."""

    code = 0


@contextlib.contextmanager
def quiet() -> Iterator[Ended]:
    """For a part of a command, without its command line: the same terminal, and its end as a code."""
    ended = Ended()
    out, err = _Terminal("strict"), _Terminal("backslashreplace")
    with _streams((), b"", out, err):
        try:
            yield ended
        except errors.Ended as end:
            ended.code = end.exit_code
    assert_harmless(out.shown + err.shown)
