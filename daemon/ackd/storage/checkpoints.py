"""Stores checkpoints: an agent's own record of how far it has got with a message. One file for each message and agent,
below ``state/checkpoints/``.

A file is seen whole or not at all, and is durable before anyone is told of it. A newer checkpoint replaces the older.
The contents of checkpoints, whom to tell of them and when a message is over are decided elsewhere.

Files are called ``<agent>--<sha256(message id)[:32]>.json``, 0600: ids come from messages and may hold anything, so
their hash is the name, and the file says which id it means. Keeping one fails with OSError (nothing is left of it) or
``CheckpointTooLarge``; reading gives None for a file that is absent, damaged or not ours, and such work is begun anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from ackd.core.errors import BadMessage, TheirFault
from ackd.core.names import agent_name
from ackd.storage import atomic_file
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A checkpoint as its agent wrote it: a JSON object.
Checkpoint: TypeAlias = Mapping[str, object]

#: A checkpoint is meant to be about a page, not a data store; but everything that fits in a worker's line can be kept.
MAX_BYTES: Final = 4 * 1_048_576
#: Locks that give each file one writer at a time, because its writers share a temporary name. A file's lock is chosen
#: by hash, from so many that writers of different files rarely wait for each other.
_TURNS: Final = tuple(threading.Lock() for _ in range(16))


class CheckpointTooLarge(TheirFault):
    def __init__(self, agent: str, message_id: str, size_bytes: int) -> None:
        super().__init__(agent, message_id, size_bytes)
        self.agent = agent
        self.message_id = message_id
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        return f"a checkpoint of {self.size_bytes} bytes, more than {MAX_BYTES}"


@dataclass(eq=False)
class CheckpointFiles:
    """The checkpoints of one root, for one process. The directory is listed once, because most messages have no
    checkpoint when they end."""

    directory: Path

    @cached_property
    def _there(self) -> set[str]:
        try:
            return {path.name for path in self.directory.iterdir()}
        except OSError:
            return set()

    def path(self, agent: str, message_id: str) -> Path:
        name = hashlib.sha256(message_id.encode(errors="surrogateescape")).hexdigest()[:32]
        return self.directory / f"{agent_name(agent)}--{name}.json"

    async def keep(self, agent: str, message_id: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; durable when this returns. Raises TypeError for values that JSON cannot express.

        orjson is not used, because it refuses integers above 64 bits and reads them back rounded. The file is not
        indented, because that would multiply the size of a long line.
        """
        said = {"agent": agent, "message_id": message_id, "checkpoint": dict(checkpoint)}
        data = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
        if len(data) > MAX_BYTES:
            raise CheckpointTooLarge(agent, message_id, len(data))
        path = self.path(agent, message_id)
        self._there.add(path.name)
        # Shielded: if this were cancelled half way, its thread would go on and could overwrite a newer checkpoint.
        with anyio.CancelScope(shield=True):
            await in_thread(_write, path, data)

    def read(self, agent: str, message_id: str) -> Checkpoint | None:
        """Return the newest checkpoint, of whichever attempt."""
        match _read(self.path(agent, message_id)):
            case {"message_id": str(of), "checkpoint": dict(checkpoint)} if of == message_id:
                return checkpoint
            case _:
                return None

    def forget(self, agent: str, message_id: str) -> None:
        """Remove a checkpoint. The removal is not flushed: a checkpoint that a power cut brings back belongs to a
        message that is over, and is never read."""
        if not self._there:  # true of most teams; this is called for every message, and making the name is slow
            return
        path = self.path(agent, message_id)
        for one in (path, Path(atomic_file.temporary_of(str(path)))):
            if one.name in self._there:
                self._there.discard(one.name)
                with contextlib.suppress(OSError):
                    one.unlink()

    def kept(self) -> Iterator[tuple[str, str]]:
        """Yield (agent, message id) of every checkpoint: for the cleanup of those whose message ended with a crash."""
        with contextlib.suppress(OSError):
            for path in sorted(self.directory.glob("*--*.json")):
                match _read(path):
                    case {"agent": str(agent), "message_id": str(message_id)}:
                        yield agent, message_id
                    case _:
                        continue


def _read(path: Path) -> object:
    try:
        read: object = json.loads(atomic_file.read_regular(path, MAX_BYTES))
    except (OSError, BadMessage, ValueError, RecursionError):
        return None
    return read


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _TURNS[hash(path) % len(_TURNS)]:
        atomic_file.write(path, data, durable=True)
    atomic_file.flush_directory(path.parent.parent)  # the directory itself may be new
