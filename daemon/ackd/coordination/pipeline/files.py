"""Stories on disk: one file each below ``state/stories/``, changed by the daemon and by the command line alike.

There is one writer at a time (flock on a lock file that is never unlinked), and nobody ever sees half of a file (write
new, rename). Beside the records there are, for each generation of a worker, an ``active`` flag (its Execute is being
told), a ``done`` flag (its side has seen the ACK), an ``asked`` flag (a status check waits for an answer) and its own
notes; and for each story a checkpoint.

Fails with ``StoriesHeld`` if the lock cannot be had, ``BadStoryRecord`` for a record that cannot be read, and OSError.
All methods block; the daemon calls those that wait for the lock from a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Final

from ackd.coordination.pipeline.rules.keepalive import Notes
from ackd.coordination.pipeline.rules.record import BadStoryRecord, Story, decode, encode
from ackd.coordination.pipeline.rules.stage_names import worker_name
from ackd.core.errors import BadMessage, Busy
from ackd.core.words import Rejection
from ackd.storage import atomic_file, file_lock
from ackd.storage.json_state import JsonState, load_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

MAX_BYTES: Final = 4 * 1_048_576
PATIENCE_S: Final = 10.0
_SUFFIX: Final = ".json"


class StoriesHeld(Busy):
    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"another process is changing {self.directory}"


class StoryFiles:
    """``directory``: ``<root>/state/stories``; it need not exist. ``durable``: flushed before anyone is answered."""

    __slots__ = ("directory", "durable")

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self.directory = directory
        self.durable = durable

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
        """Return a value that changes with the record: records are replaced, never written into."""
        try:
            info = os.lstat(self.path(story_id))
        except OSError:
            return None
        return info.st_ino, info.st_mtime_ns, info.st_size

    def read(self, story_id: str) -> Story | None:
        try:
            return decode(atomic_file.read_regular(self.path(story_id), MAX_BYTES), story_id)
        except FileNotFoundError:
            return None
        except BadMessage as odd:
            large = ", or too large" if odd.code == Rejection.TOO_LARGE.value else ""
            raise BadStoryRecord(story_id, f"not a regular file{large}") from None

    def all(self) -> tuple[list[Story], list[BadStoryRecord]]:
        """Return the stories in the order of their start, and the errors of records that cannot be read."""
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
        """Change a story, and return it before and after.

        If ``new`` returns the same object or None, nothing is written.
        """
        with self.locked():
            before = self.read(story_id)
            after = new(before)
            if after is not None and after is not before:
                self.write(after)
            return before, after

    def write(self, story: Story) -> None:
        """Write a file. The caller holds the lock."""
        self._put(self.path(story.story_id), encode(story))

    def make(self) -> None:
        """Make the directory: one that does not exist cannot be watched."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        self.make()
        lock = file_lock.acquire(self.directory / ".lock", patience_s)
        if lock is None:
            raise StoriesHeld(str(self.directory))
        with lock:
            yield

    # --- one generation of a worker -----------------------------------------------------------------------------------
    @property
    def flags(self) -> Path:
        return self.directory / "flags"

    def flag(self, story_id: str, stage: int, generation: int, kind: str) -> Path:
        return self.flags / f"{worker_name(story_id, stage)}.g{generation}.{kind}"

    def raise_flag(self, story_id: str, stage: int, generation: int, kind: str, **said: object) -> None:
        about = {"story": story_id, "stage": stage, "generation": generation, **said}
        with self.locked():
            self._save(self.flag(story_id, stage, generation, kind), about)

    def lower_flag(self, story_id: str, stage: int, generation: int, kind: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.flag(story_id, stage, generation, kind).unlink()

    def is_flagged(self, story_id: str, stage: int, generation: int, kind: str) -> bool:
        return self.flag(story_id, stage, generation, kind).is_file()

    def said(self, story_id: str, stage: int, generation: int, kind: str) -> Mapping[str, object]:
        """Return the content of a flag; empty if it is not raised, or cannot be read."""
        return load_or_empty(self.flag(story_id, stage, generation, kind), MAX_BYTES)

    def notes(self, story_id: str, stage: int, generation: int) -> Notes:
        """Return the worker's notes. Damaged ones count as none."""
        raw = load_or_empty(self.flag(story_id, stage, generation, "notes"), MAX_BYTES)
        with contextlib.suppress(TypeError, ValueError, KeyError):
            since = raw.get("held_since")
            return Notes(
                tuple(float(at) for at in raw["reports"]),
                int(raw["stays"]),
                int(raw["stays_asked"]),
                float(since) if isinstance(since, int | float) else None,
            )
        return Notes()

    def note(self, story_id: str, stage: int, generation: int, new: Callable[[Notes], Notes]) -> Notes:
        with self.locked():
            notes = new(self.notes(story_id, stage, generation))
            self._save(self.flag(story_id, stage, generation, "notes"), notes._asdict())
        return notes

    # --- checkpoints --------------------------------------------------------------------------------------------------
    def checkpoint_path(self, story_id: str) -> Path:
        return self.directory / "checkpoints" / f"checkpoint-{story_id}.json"

    def checkpoint(self, story_id: str, stage: int) -> Mapping[str, object] | None:
        """Return the checkpoint of this stage. One of an earlier stage does not count."""
        found = load_or_empty(self.checkpoint_path(story_id), MAX_BYTES)
        return found if found.get("stage") == stage and found.get("story") == story_id else None

    def keep_checkpoint(self, story_id: str, said: Mapping[str, object]) -> Path:
        path = self.checkpoint_path(story_id)
        with self.locked():
            self._put(path, _encoded(said))
        return path

    def note_action(self, story_id: str, stage: int, said: Mapping[str, object], *, replaces: bool) -> None:
        """Write what the lead knows of a stage. What its worker has said of its tasks by now is kept, because it may
        speak at any time. ``replaces``: False if any checkpoint of the stage knows more."""
        with self.locked():
            before = self.checkpoint(story_id, stage)
            if before is not None and not replaces:
                return
            kept = {key: (before or {}).get(key, []) for key in ("tasks_done", "tasks_remaining")}
            self._put(self.checkpoint_path(story_id), _encoded({**said, **kept}))

    def drop_checkpoint(self, story_id: str) -> None:
        """Remove the checkpoint of a story that begins anew. The caller holds the lock."""
        self.checkpoint_path(story_id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove files that killed writers left half-written. Writers hold the lock, so nobody writes meanwhile."""
        with self.locked():
            for directory in (self.directory, self.flags, self.checkpoint_path("").parent):
                atomic_file.remove_temporaries(directory)

    def _save(self, path: Path, content: Mapping[str, object]) -> None:
        """Write a flag or notes. The caller holds the lock."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        JsonState(path, durable=self.durable, readable=True).save(content)

    def _put(self, path: Path, data: bytes) -> None:
        """Write a record or a checkpoint, which have a form of their own. The caller holds the lock."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_file.write(path, data, durable=self.durable)


def _encoded(checkpoint: Mapping[str, object]) -> bytes:
    return json.dumps(dict(checkpoint), ensure_ascii=False, indent=1).encode(errors="replace") + b"\n"


def reported_again(notes: Notes, at: float) -> Notes:
    """Note that a report was sent: the count of "stay" begins anew.

    After the first report the worker is held for its ACK and no longer for a report, so the lead may ask once more.
    After another one it was asked already.
    """
    since = notes.held_since if notes.reports else None
    return notes._replace(reports=(*notes.reports[-7:], at), stays=0, stays_asked=0, held_since=since)


def stayed(notes: Notes, at: float, *, asked: bool) -> Notes:
    since = notes.held_since if notes.held_since is not None else at
    return notes._replace(stays=notes.stays + 1, stays_asked=notes.stays_asked + asked, held_since=since)
