"""Stories on disk: one file each below ``state/stories/``, changed by the daemon and by the command line alike.

Owns the files: their names, one writer at a time (flock on a lock file that is never unlinked), that nobody ever sees
half of one (write new, rename). Beside the records: per generation of a worker an ``active`` flag (its Execute is being
told), a ``done`` flag (its side has seen the ACK), an ``asked`` flag (a status check waits for its answer) and its own
notes; and a checkpoint for each story. Refuses to know what a change means. Fails: ``StoriesHeld`` when the lock is not
to be had, ``BadStoryRecord`` for what lies there, OSError. Synchronous; the daemon calls what waits for the lock from a
thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from ackd.core.errors import Busy
from ackd.core.keepalive import Notes
from ackd.core.stage_words import worker_name
from ackd.core.story_record import BadStoryRecord, Story, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

MAX_BYTES: Final = 4 * 1_048_576
PATIENCE_S: Final = 10.0
_STEP_S: Final = 0.01
_SUFFIX: Final = ".json"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class StoriesHeld(Busy):
    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"another process is changing {self.directory}"


@dataclass(frozen=True, slots=True)
class StoryFiles:
    """``directory``: ``<root>/state/stories``; it need not exist. ``durable``: flushed before anyone is answered."""

    directory: Path
    durable: bool = True

    # --- records ------------------------------------------------------------------------------------------------------
    def path(self, story_id: str) -> Path:
        return self.directory / f"{story_id}{_SUFFIX}"

    def ids(self) -> list[str]:
        try:
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX) and not n.startswith("."))

    def signature(self, story_id: str) -> tuple[int, int, int] | None:
        """Another one means another content: a record is replaced, never written into."""
        try:
            info = os.lstat(self.path(story_id))
        except OSError:
            return None
        return info.st_ino, info.st_mtime_ns, info.st_size

    def read(self, story_id: str) -> Story | None:
        try:
            return decode(_content(self.path(story_id)), story_id)
        except FileNotFoundError:
            return None
        except _NotOurs as odd:
            raise BadStoryRecord(story_id, str(odd)) from None

    def all(self) -> tuple[list[Story], list[BadStoryRecord]]:
        """In the order in which they were started; and those that cannot be read."""
        stories, bad = [], []
        for story_id in self.ids():
            try:
                story = self.read(story_id)
            except BadStoryRecord as error:
                bad.append(error)
            else:
                stories += [story] if story is not None else []
        return sorted(stories, key=lambda one: (one.sequence, one.created_at, one.story_id)), bad

    def change(self, story_id: str, new: Callable[[Story | None], Story | None]) -> tuple[Story | None, Story | None]:
        """Before and after. What ``new`` returns is on disk when this returns; the same, or None, is not written."""
        with self.locked():
            before = self.read(story_id)
            after = new(before)
            if after is not None and after is not before:
                self.write(after)
            return before, after

    def write(self, story: Story) -> None:
        """For whoever holds the lock."""
        self._put(self.path(story.story_id), encode(story))

    def make(self) -> None:
        """The directory, for whoever watches it: what is not there cannot be watched."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        self.make()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.directory / ".lock", flags, 0o600)
        try:
            self._take(fd, patience_s)
            yield
        finally:
            os.close(fd)

    def _take(self, fd: int, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoriesHeld(str(self.directory)) from None
                time.sleep(_STEP_S)
            else:
                return

    # --- one generation of a worker -----------------------------------------------------------------------------------
    @property
    def flags(self) -> Path:
        return self.directory / "flags"

    def flag(self, story_id: str, stage: int, generation: int, kind: str) -> Path:
        return self.flags / f"{worker_name(story_id, stage)}.g{generation}.{kind}"

    def raise_flag(self, story_id: str, stage: int, generation: int, kind: str, **said: object) -> None:
        about = {"story": story_id, "stage": stage, "generation": generation, **said}
        with self.locked():
            self._put(self.flag(story_id, stage, generation, kind), json.dumps(about).encode() + b"\n")

    def lower_flag(self, story_id: str, stage: int, generation: int, kind: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.flag(story_id, stage, generation, kind).unlink()

    def is_flagged(self, story_id: str, stage: int, generation: int, kind: str) -> bool:
        return self.flag(story_id, stage, generation, kind).is_file()

    def said(self, story_id: str, stage: int, generation: int, kind: str) -> Mapping[str, object]:
        """What stands in a flag; nothing if it is not raised, or cannot be read."""
        return _object(self.flag(story_id, stage, generation, kind))

    def notes(self, story_id: str, stage: int, generation: int) -> Notes:
        """What lies there damaged is as good as nothing."""
        raw = _object(self.flag(story_id, stage, generation, "notes"))
        with contextlib.suppress(TypeError, ValueError, KeyError):
            since = raw.get("held_since")
            return Notes(
                tuple(float(at) for at in raw["reports"]),  # type: ignore[attr-defined]
                int(raw["stays"]),  # type: ignore[call-overload]
                int(raw["stays_asked"]),  # type: ignore[call-overload]
                float(since) if isinstance(since, int | float) else None,
            )
        return Notes()

    def note(self, story_id: str, stage: int, generation: int, new: Callable[[Notes], Notes]) -> Notes:
        with self.locked():
            notes = new(self.notes(story_id, stage, generation))
            self._put(self.flag(story_id, stage, generation, "notes"), json.dumps(asdict(notes)).encode() + b"\n")
        return notes

    # --- where a stage stands -----------------------------------------------------------------------------------------
    def checkpoint_path(self, story_id: str) -> Path:
        return self.directory / "checkpoints" / f"checkpoint-{story_id}.json"

    def checkpoint(self, story_id: str, stage: int) -> Mapping[str, object] | None:
        """Of this stage; one of an earlier stage is nobody's any more."""
        found = _object(self.checkpoint_path(story_id))
        return found if found.get("stage") == stage and found.get("story") == story_id else None

    def keep_checkpoint(self, story_id: str, said: Mapping[str, object]) -> Path:
        path = self.checkpoint_path(story_id)
        with self.locked():
            self._put(path, json.dumps(dict(said), ensure_ascii=False, indent=1).encode(errors="replace") + b"\n")
        return path

    def drop_checkpoint(self, story_id: str) -> None:
        """For whoever holds the lock: the story begins anew, and nothing of it is done."""
        self.checkpoint_path(story_id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """What writers that were killed left half-written. Who writes holds the lock: with it in hand, nobody does."""
        with self.locked():
            for directory in (self.directory, self.flags, self.checkpoint_path("").parent):
                for left in directory.glob(".*.tmp"):
                    left.unlink(missing_ok=True)

    def _put(self, path: Path, data: bytes) -> None:
        """For whoever holds the lock."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temp = path.with_name(f".{path.name}.tmp")
        try:
            with os.fdopen(os.open(temp, _CREATE, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())
            temp.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temp.unlink(missing_ok=True)
            raise
        if self.durable:
            _flush_directory(path.parent)


def reported_again(notes: Notes, at: float) -> Notes:
    """A report was sent: whatever it was held for begins anew. After the first, it is held for its ACK and no longer
    for a report, so the lead may ask once more; after another, it was asked already."""
    since = notes.held_since if notes.reports else None
    return replace(notes, reports=(*notes.reports[-7:], at), stays=0, stays_asked=0, held_since=since)


def stayed(notes: Notes, at: float, *, asked: bool) -> Notes:
    since = notes.held_since if notes.held_since is not None else at
    return replace(notes, stays=notes.stays + 1, stays_asked=notes.stays_asked + asked, held_since=since)


def _object(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(_content(path))
    except (OSError, ValueError, RecursionError, _NotOurs):
        return {}
    return found if isinstance(found, dict) else {}


class _NotOurs(Exception):  # noqa: N818 - what lies there, in words
    """No regular file of a size that we would write."""


def _content(path: Path) -> bytes:
    """Whatever lies there, it is neither followed nor waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _NotOurs("not a regular file") from None
        raise
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
            raise _NotOurs("not a regular file, or too large")
        return file.read(MAX_BYTES)


def _flush_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
