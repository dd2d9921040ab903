"""Reads what is typed after the options of `ackd board`: a text, @FILE, or @- for stdin; and a context's file."""

from __future__ import annotations

import math
from typing import Final

from ackd.cli.errors import BAD_DATA, Failure

MAX_TEXT_BYTES: Final = 128 * 1024


def context(path: str | None) -> object:
    """Return the context in a file: a JSON value, or else its text.

    JSON with a number that could not be written as JSON again (NaN, 1e999) counts as text.
    """
    import json

    from ackd.coordination.board.rules.meeting import TOO_DEEP

    if path is None:
        return None
    text = text_of(f"@{path}", "--context")
    try:
        found: object = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise Failure(BAD_DATA, f"--context {TOO_DEEP}") from None
    except ValueError:
        return text
    return found


def _no_number(word: str) -> float:
    raise ValueError(word)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits)


def text_of(given: str, what: str) -> str:
    """Return an option's text: the value itself, or the content of @FILE or of stdin (@-)."""
    from ackd.cli.output import read_stdin
    from ackd.storage import atomic_file

    if not given.startswith("@"):
        data = given.encode("utf-8", "surrogateescape")
    elif given == "@-":
        data = read_stdin(MAX_TEXT_BYTES + 1)
    else:
        data = atomic_file.read_regular(given[1:], MAX_TEXT_BYTES)
    if len(data) > MAX_TEXT_BYTES:
        raise Failure(BAD_DATA, f"{what} has more than {MAX_TEXT_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Failure(BAD_DATA, f"{what} is not UTF-8 at byte {error.start}") from None
