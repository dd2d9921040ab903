"""Takes secrets out of what people are shown: the one place where that is done.

A command that shows bodies, reasons or agents' output says so when it starts (``use``); from then on every text that is
made harmless for a terminal (``facts.visible``, ``cli.output.printable``) and every text of a JSON document passes here
first, before it is cut or folded. Until then, and in the daemon, this does nothing. Files stay as they are.

A pattern of a user may take for ever on the wrong text. It gets little time for each text, and some for all of them;
a text that cannot be looked through in time is withheld as a whole, because a secret may be in it.
"""

from __future__ import annotations

import contextlib
import json
import signal
from typing import TYPE_CHECKING, Any, Final

from ackd.core import redaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.core.redaction import Redaction

#: Processor time for one text, and for all texts that took too long.
PATIENCE_S: Final = 0.1
PATIENCE_FOR_ALL_S: Final = 2.0
WITHHELD: Final = "[withheld: a pattern of [redact] takes too long]"

_in_use: Redaction | None = None
_left_s = PATIENCE_FOR_ALL_S


def use(wanted: Redaction | None) -> None:
    """From now on, replace what these patterns find; None: nothing."""
    global _in_use, _left_s
    _in_use, _left_s = wanted, PATIENCE_FOR_ALL_S


def redacted(text: str) -> str:
    if _in_use is None or len(text) < 4:
        return text
    if _in_use.defaults:
        text = redaction.by_default(text)
    return _by_patterns(text, _in_use.patterns) if _in_use.patterns else text


def redacted_data(value: Any) -> Any:
    """The same for every text in a JSON document."""
    if _in_use is None:
        return value
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {key: redacted_data(one) for key, one in value.items()}
    return [redacted_data(one) for one in value] if isinstance(value, list | tuple) else value


def redacted_line(line: bytes) -> bytes:
    """The same for a line that holds a JSON document; a line without secrets stays as it is, to the byte."""
    if _in_use is None or _is_clean(line):
        return line
    try:
        found = json.loads(line)
    except ValueError:
        return redacted(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    clean = redacted_data(found)
    return line if clean == found else json.dumps(clean, ensure_ascii=False, separators=(",", ":")).encode()


def _is_clean(line: bytes) -> bool:
    """Tell without reading the document that there is nothing to take out: a log has many lines, and few secrets."""
    assert _in_use is not None
    if _in_use.patterns or b"\\u00" in line:  # an escape may hide a letter
        return False
    return not _in_use.defaults or not redaction.may_hold_one(line.decode(errors="replace"))


# --- patterns of a user -----------------------------------------------------------------------------------------------
class _TooSlow(Exception):  # noqa: N818 - never leaves this module
    pass


def _by_patterns(text: str, patterns: tuple[str, ...]) -> str:
    global _left_s  # noqa: PLW0603 - as above
    if _left_s <= 0:
        return WITHHELD
    try:
        with _within(min(PATIENCE_S, _left_s)):
            for pattern in patterns:
                text = redaction.replaced(redaction.compiled(pattern), text)
    except _TooSlow:
        _left_s -= PATIENCE_S
        return WITHHELD
    return text


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise ``_TooSlow`` inside the block when so much processor time is over. Python's matcher looks for signals."""
    armed = [True]

    def too_slow(_number: int, _frame: object) -> None:
        if armed[0]:
            raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        armed[0] = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
