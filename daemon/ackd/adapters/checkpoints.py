"""Where work stands, as its agent said it: one file for each message and agent, below ``state/checkpoints/``.

Owns the files: their names, that nobody ever sees half of one, and that one is durable before anyone is told of it. A
newer word replaces the older. Refuses to know what a checkpoint says, who is told of it, and when its message is over.

``<agent>--<sha256(message id)[:32]>.json``, 0600: ids come from messages and may hold anything, so their hash is the
name, and the file says which id it means. Fails: keeping raises OSError (nothing is left of it) or
``CheckpointTooLarge``; reading answers None for what is absent, not ours or damaged: such work is begun anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from ackd.core.errors import TheirFault
from ackd.core.names import agent_name
from ackd.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What its agent said: a JSON object.
Checkpoint: TypeAlias = Mapping[str, object]

#: A place in the work is a page, not a store; but whatever a worker can say in one line can be kept.
MAX_BYTES: Final = 4 * 1_048_576
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
#: One writer at a time for one file: they share its temporary name. By hash: enough that nobody waits for a stranger.
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
class Checkpoints:
    """For one process: which files there are is looked up once, for most messages have none when they end."""

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
        """Durable when this returns. TypeError for what JSON cannot say.

        Not by orjson, which refuses integers above 64 bits and reads them back rounded; not indented, which makes any
        size of what came in a line.
        """
        said = {"agent": agent, "message_id": message_id, "checkpoint": dict(checkpoint)}
        data = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
        if len(data) > MAX_BYTES:
            raise CheckpointTooLarge(agent, message_id, len(data))
        path = self.path(agent, message_id)
        self._there.add(path.name)
        # Not to be left half way: a cancelled keeper would leave its thread writing over a newer one.
        with anyio.CancelScope(shield=True):
            await in_thread(_write, path, data)

    def read(self, agent: str, message_id: str) -> Checkpoint | None:
        """The newest that was kept, whichever attempt it is of."""
        match _read(self.path(agent, message_id)):
            case {"message_id": str(of), "checkpoint": dict(checkpoint)} if of == message_id:
                return checkpoint
            case _:
                return None

    def forget(self, agent: str, message_id: str) -> None:
        """Not flushed: one that a power cut brings back belongs to a message that is over, and nobody asks for it."""
        if not self._there:  # of most teams, and asked at every message's end: its name costs more than its move
            return
        path = self.path(agent, message_id)
        for one in (path, _temporary(path)):
            if one.name in self._there:
                self._there.discard(one.name)
                with contextlib.suppress(OSError):
                    one.unlink()

    def kept(self) -> Iterator[tuple[str, str]]:
        """(agent, message id) of all there are: for whoever clears away those of messages that ended with a crash."""
        with contextlib.suppress(OSError):
            for path in sorted(self.directory.glob("*--*.json")):
                match _read(path):
                    case {"agent": str(agent), "message_id": str(message_id)}:
                        yield agent, message_id
                    case _:
                        continue


def _read(path: Path) -> object:
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
            return None
        with os.fdopen(os.dup(fd), "rb") as file:
            read: object = json.loads(file.read(MAX_BYTES))
            return read
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(fd)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hidden = _temporary(path)
    with _TURNS[hash(path) % len(_TURNS)]:
        try:
            fd = os.open(hidden, _CREATE, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            hidden.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                hidden.unlink()
            raise
    _flush_directory(path.parent)
    _flush_directory(path.parent.parent)  # the directory itself may be new


def _temporary(path: Path) -> Path:
    """One for each file: what a crash leaves under it, the next writer takes."""
    return path.with_name(f".{path.name}.tmp")


def _flush_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
