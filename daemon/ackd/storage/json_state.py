"""State files: each holds a JSON object, is read whole or refused with a reason, and is replaced as a whole.

The daemon keeps such files in ``state/`` and ``run/`` beside the messages. One process writes a file at a time (the
holder of the root, or of the file's lock). ``load`` returns None for a file that is missing, and raises ``BadState``
for one that is no JSON object of ours: torn, edited, or written by another version in another way. The caller decides
what to do then, because the loss of a count does no harm and the loss of a pause does; ``keep_aside`` keeps such a file
for a person before it is overwritten. Any other OSError passes. Quick to import: JSON is imported when it is used.

Files that people read are written by the standard library, indented; the others by orjson, which is quicker, except
where it cannot say a value (a name that is not UTF-8, an integer of more than 64 bits).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from ackd.core.errors import BadMessage, TheirFault
from ackd.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Larger than any state file of ours: a larger file is somebody else's.
MAX_BYTES: Final = 64 * 1024 * 1024
_ASIDE: Final = ".broken"


class BadState(TheirFault):
    """The file is not what we wrote. ``why`` does not repeat the path."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def load_or_empty(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read a state file whose loss does no harm: empty if it is missing, cannot be read, or is none of ours."""
    try:
        return JsonState(path, durable=False, readable=True, max_bytes=max_bytes).load() or {}
    except (OSError, BadState):
        return {}


class JsonState:
    """A state file. ``durable``: flushed before ``save`` returns. ``readable``: indented, for people."""

    __slots__ = ("_durable", "_max_bytes", "_readable", "path")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool,
        readable: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.path = os.fspath(path)
        self._durable = durable
        self._readable = readable
        self._max_bytes = max_bytes

    def load(self) -> dict[str, Any] | None:
        try:
            data = atomic_file.read_regular(self.path, self._max_bytes)
        except FileNotFoundError:
            return None
        except BadMessage as odd:
            raise BadState(self.path, odd.detail) from None
        try:
            found = self._decode(data)
        except (ValueError, RecursionError) as error:
            raise BadState(self.path, f"not JSON ({error})") from None
        if not isinstance(found, dict):
            raise BadState(self.path, "not a JSON object")
        return found

    def _decode(self, data: bytes) -> object:
        if not self._readable:
            import orjson  # noqa: PLC0415

            with contextlib.suppress(ValueError):
                return orjson.loads(data)
        import json  # noqa: PLC0415

        return json.loads(data)

    def save(self, content: Mapping[str, object]) -> None:
        self.save_encoded(self.encode(content))

    def encode(self, content: Mapping[str, object]) -> bytes:
        """Return the bytes for ``save_encoded``: for a caller that writes in a thread while the content may change."""
        if not self._readable:
            import orjson  # noqa: PLC0415

            with contextlib.suppress(TypeError):
                return orjson.dumps(content) + b"\n"
        import json  # noqa: PLC0415

        return json.dumps(content, indent=1 if self._readable else None).encode() + b"\n"

    def save_encoded(self, data: bytes) -> None:
        atomic_file.write(self.path, data, durable=self._durable)

    def keep_aside(self) -> None:
        """Give the file a second name, ``<name>.broken``, so that a person can repair it. The first name stays."""
        with contextlib.suppress(OSError):
            os.link(self.path, self.path + _ASIDE)
