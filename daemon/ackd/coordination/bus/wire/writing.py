"""Writes messages of a bus: the seed's object, one line. Quick to import, for `ackd bus post` and `ackd lock`.

Fails with ValueError for a payload that is no JSON.
"""

import functools
import json
import time
from collections.abc import Callable, Mapping
from typing import Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


def _encoded() -> Callable[[object], str]:
    """``_ENCODER.encode``, without making CPython's encoder anew for every value, which takes longer than to encode a
    message: where there is one, it is made once."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    encode_text = json.encoder.encode_basestring
    chunks = make(None, _ENCODER.default, encode_text, None, ": ", ", ", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_json: Final = _encoded()


@functools.lru_cache(maxsize=2)
def _to_the_second(second: int) -> str:
    """Return the time as text. Cached, because thousands of messages may come in one second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def encode(message_id: str, type_: str, source: str, payload: Mapping[str, object], wall: float) -> bytes:
    """Encode a message as one line with its end. ``wall``: the time of the message, written as the seed does, UTC with
    a ``Z``."""
    second, micros = divmod(round(wall * 1_000_000), 1_000_000)
    timestamp = f"{_to_the_second(second)}.{micros:06d}Z"
    said = payload if isinstance(payload, dict) else dict(payload)
    message = {"id": message_id, "type": type_, "source": source, "timestamp": timestamp, "payload": said}
    return _json(message).encode("utf-8", "backslashreplace") + b"\n"
