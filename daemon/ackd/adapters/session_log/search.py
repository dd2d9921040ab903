"""Everything that the logs say about one message, given its id or the beginning of it.

Owns which lines belong to a message, and which id is meant. Looks for bytes and parses only what it found: minutes
become moments on big logs. Fails with UnknownMessage and AmbiguousMessage; never for what is in a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from ackd.adapters.session_log.files import session_files
from ackd.adapters.session_log.lines import Line, parse_line
from ackd.adapters.session_log.reading import chunks
from ackd.core import message_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def find_message_lines(logs_dir: Path, message_id: str) -> list[Line]:
    """All lines about a message, oldest first, given its id, a unique beginning of it, or its hash.

    Lines of its answers (``in_reply_to``) and of the escalation that it is (``escalation_id``) belong to it too.
    Raises UnknownMessage, AmbiguousMessage.
    """
    return _lines_of(logs_dir, message_id) or _lines_of(
        logs_dir, choose_id(message_id, matching_ids(logs_dir, message_id))
    )


def choose_id(wanted: str, ids: Iterable[str]) -> str:
    """The one id that is meant, by whatever part of it (core/message_ids.py)."""
    return message_ids.choose(wanted, ids)


def matching_ids(logs_dir: Path, wanted: str) -> set[str]:
    """The ids in all logs that begin so, or whose hash does, without reading any line as JSON: minutes become moments
    on big logs."""
    start = re.escape(_in_json(wanted))
    if message_ids.may_be_hash(wanted):
        start = rb'(?:[^".\\\n]*\.[^".\\\n]*\.)?' + start
    pattern = re.compile(rb'"message_id": ?"(' + start + rb'(?:[^"\\\n]|\\.)*)"')
    found = {raw for path in session_files(logs_dir) for chunk in chunks(path) for raw in pattern.findall(chunk)}
    return {text for raw in found if (text := _from_json(raw)) is not None and message_ids.fits(wanted, text)}


def _lines_of(logs_dir: Path, message_id: str) -> list[Line]:
    needle = b'"' + _in_json(message_id) + b'"'
    raws = (raw for path in session_files(logs_dir) for chunk in chunks(path) for raw in _lines_with(chunk, needle))
    lines = (parse_line(raw) for raw in raws)
    return [line for line in lines if line is not None and _is_about(line, message_id)]


def _is_about(line: Line, message_id: str) -> bool:
    return message_id in (line.data.get(key) for key in ("message_id", "in_reply_to", "escalation_id"))


def _lines_with(chunk: bytes, needle: bytes) -> Iterator[bytes]:
    at = chunk.find(needle)
    while at >= 0:
        start, end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at)
        if end < 0:
            return  # torn
        yield chunk[start:end]
        at = chunk.find(needle, end)


def _in_json(text: str) -> bytes:
    return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]


def _from_json(raw: bytes) -> str | None:
    try:
        return str(orjson.loads(b'"' + raw + b'"'))
    except ValueError:
        return None
