"""The files of the session log while the daemon runs: when one is full, when it is compressed, when it is removed.

A file is full by ``log_rotate_mb`` and ``log_rotate_hours``. Finished ones are compressed ``log_compress_hours`` after
their last line, and removed after ``log_keep_days``, unless they name a message that is open or a dead letter. Both are
done one file at a time, in a thread that rests three times as long as it works. What the disk refuses is logged, and
tried again after a while that doubles each time. The order of the steps is that of storage/session_log/README.md.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.daemon_facts import log_compressed, log_continued, logs_swept
from ackd.core.errors import BadMessage
from ackd.formats import ignite
from ackd.storage import atomic_file
from ackd.storage.session_log import age_order, keeping, session_files
from ackd.storage.session_log.stored import state
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ackd.config.live import LiveConfig
    from ackd.core.events import Now
    from ackd.core.fact import Fact
    from ackd.core.ports import Clock
    from ackd.core.state import Deliveries
    from ackd.runtime.recorder import Recorder
    from ackd.storage.spool import Spool

#: How often it is looked for logs to compress and to remove; a file that is full has it done at once.
EVERY_S: Final = 3600.0
#: How soon it is tried again when the disk has refused something, the first time.
AGAIN_S: Final = 2.0
#: How long the thread rests after a step, as a multiple of the time that the step took.
_REST: Final = 3.0
_DAY_S: Final = 86_400.0
_MB: Final = 1_000_000


@dataclass(kw_only=True)
class LogUpkeep:
    config: LiveConfig
    recorder: Recorder
    deliveries: Deliveries
    spool: Spool
    clock: Clock
    logs_dir: Path
    #: A directory of the team in which links to the logs are kept.
    shown_in: Callable[[], Path | None]
    #: The name of the log up to which the totals are counted: logs before it are not needed for that any more.
    counted: Callable[[], str]
    #: Everything that lay there at the start was found, and so was what became of what did not.
    all_met: bool = False
    _full: anyio.Event = field(default_factory=anyio.Event)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _first_file: str = ""
    #: Files of this session that are needed, and the last message that was met before each was begun.
    _begun: list[tuple[str, int]] = field(default_factory=list)
    #: By the name of an old log: a message for which it was kept.
    _kept_for: dict[str, str] = field(default_factory=dict)

    def attach(self) -> None:
        """Let the log that was just opened ask here. Called before the first message is met."""
        log = self.recorder.log
        self._begun, self._first_file = [(log.path.name, 0)], log.path.name
        log.is_full, log.first_line = self._is_full, self._first_line

    def detach(self) -> None:
        """Called before the session's last line, which must stand at the end of its last file."""
        self.recorder.log.is_full = lambda _size_bytes, _age_s: False

    # --- the file that is written to ----------------------------------------------------------------------------------
    def _is_full(self, size_bytes: int, age_s: float) -> bool:
        config = self.config.now
        most_bytes, most_s = config.log_rotate_mb * _MB, config.log_rotate_hours * 3600
        return bool(most_bytes and size_bytes >= most_bytes) or bool(most_s and size_bytes and age_s >= most_s)

    def _first_line(self, before: Path, now: Path) -> Fact:
        """Return the first line of a new file. Once this session has met all messages that lay there, it names the file
        from which a start must read to find all lines of those that are open now."""
        self._begun.append((now.name, self.deliveries.last_key))
        oldest = self.deliveries.oldest_key
        needed = [name for name, last_key in self._begun if oldest is None or last_key < oldest]
        self._begun = self._begun[self._index_of(needed[-1]) :]
        self._full.set()
        return log_continued(before=before.name, needed_from=needed[-1] if self.all_met else None)

    def _index_of(self, name: str) -> int:
        return [one for one, _ in self._begun].index(name)

    # --- finished files -----------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Compress and remove, for as long as the daemon runs. Nothing is removed in the first hour, because a machine
        may start with a wrong clock and set it after a while."""
        began = self.clock.now()
        again_s = AGAIN_S
        try:
            while True:
                done = False
                with self.recorder.reporting("care of the logs"):
                    await self.compress()
                    if (now := self.clock.now()).mono - began.mono >= EVERY_S:
                        await self.sweep(began, now)
                    done = True
                again_s = AGAIN_S if done else min(2 * again_s, EVERY_S)
                with anyio.move_on_after(EVERY_S if done else again_s):
                    await self._full.wait()
                self._full = anyio.Event()
        finally:
            self._stopping.set()

    async def compress(self) -> None:
        """Compress the logs that are finished for long enough."""
        since = self.clock.now().wall - self.config.now.log_compress_hours * 3600
        for path in await in_thread(self._to_compress, self.recorder.log.path, since):
            done = await in_thread(keeping.compress, path, self._pace, abandon_on_cancel=True)
            if done is not None:
                self.recorder.record(
                    log_compressed(file=path.name, bytes=done.size_bytes, stored_bytes=done.stored_bytes)
                )
        await in_thread(self._mend_links)

    def _to_compress(self, current: Path, since: float) -> list[Path]:
        atomic_file.remove_temporaries(self.logs_dir)  # of a daemon that was killed
        return [path for path in self._finished(current) if keeping.is_plain(path) and self._is_older(path, since)]

    async def sweep(self, began: Now, now: Now) -> None:
        """Remove the logs that are old, and needed by nobody. Those of this session are as old as the daemon at most,
        whatever the clock says."""
        keep_s = self.config.now.log_keep_days * _DAY_S
        if not keep_s:
            return
        own = self._first_file if now.mono - began.mono < keep_s else ""
        removed: list[str] = []
        try:
            for path in await in_thread(self._to_remove, self.recorder.log.path, now.wall - keep_s, own):
                open_ids = {one.message.message_id for one in self.deliveries}
                if await in_thread(self._is_needed, path, open_ids, abandon_on_cancel=True):
                    continue
                await in_thread(keeping.remove, path)
                removed.append(path.name)
        finally:
            if removed:
                self.recorder.record(logs_swept(files=removed))
        await in_thread(self._mend_links)

    def _to_remove(self, current: Path, since: float, own: str) -> list[Path]:
        end = min(age_order(name) for name in (self.counted(), own or current.name))
        old = (path for path in self._finished(current) if age_order(path.name) < end)
        return [path for path in old if self._is_older(path, since)]

    def _is_needed(self, path: Path, open_ids: set[str]) -> bool:
        ids = open_ids | self._dead_letters()
        if self._kept_for.get(path.name) not in ids:
            self._kept_for.pop(path.name, None)
            found = keeping.names_any(path, ids, self._pace)
            if found is None:
                return False
            self._kept_for[path.name] = found
        return True

    def _dead_letters(self) -> set[str]:
        found = set()
        for name in self.spool.dead_letters.files():
            head = self.spool.dead_letters.head(name)
            try:
                found.add(ignite.bare_id(ignite.split_head(head or b"").fields.get("message-id", "")))
            except BadMessage:
                continue  # no message, or one that was written over
        return found

    def _finished(self, current: Path) -> list[Path]:
        """List the logs before the one that is written to. Those that programs of the team keep there are not ours."""
        before = (path for path in session_files(self.logs_dir) if age_order(path.name) < age_order(current.name))
        return [path for path in before if keeping.is_daemons(path)]

    def _is_older(self, path: Path, since: float) -> bool:
        now = state(path)
        return now is not None and now.mtime_ns <= since * 1e9

    def _mend_links(self) -> None:
        if (directory := self.shown_in()) is not None:
            keeping.mend_links(directory, self.logs_dir)

    def _pace(self, took_s: float) -> bool:
        """Rest after a step. False: the daemon ends."""
        return not self._stopping.wait(took_s * _REST)
