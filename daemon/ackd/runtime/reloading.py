"""Reads the config again while the daemon runs, and has every part go by it.

A reload is asked for by `ackd reload` (a receipt), by SIGHUP, by the service manager, or, with ``watch_config``, by a
change of the file. It is one at a time. The file is read, checked and compared in a thread, so that no delivery waits
for it. A file that is not right changes nothing: what is wrong is logged, stays on the status page, and is the answer
to whoever asked. What is right is put in force at once (``LiveConfig.swap``), and then told to the engine, agent by
agent; those whose lines did not change are not touched (``config/comparing.py`` is the table).

Nothing of a reload is kept on disk but the log line and the mark of the file (``run/config``): after a crash at any
moment, the next start reads the file and serves what it says.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from ackd.config.comparing import When, compare
from ackd.config.file_mark import NOTE_NAME, mark_of
from ackd.config.model import load_again
from ackd.config.site import distrust, read_toml
from ackd.core.daemon_facts import config_refused, config_reloaded, io_error
from ackd.core.errors import BadConfig, Problem
from ackd.core.escalations import stamp
from ackd.core.events import TeamChanged
from ackd.core.message import USER
from ackd.storage import atomic_file
from ackd.storage.spool.reading import has_settled
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ackd.config.comparing import Changes
    from ackd.config.file_mark import FileMark
    from ackd.config.live import LiveConfig
    from ackd.config.model import Config
    from ackd.config.site import Site
    from ackd.core.message import Receipt, ReceiptFile
    from ackd.core.ports import Services
    from ackd.core.state import EngineState
    from ackd.runtime.team import Makers, Team
    from ackd.storage.spool import Spool

#: How often the file is looked at with ``watch_config``. A look is one system call; a watch of the file's directory
#: would report everything that happens in the project, and miss a file that a link leads to elsewhere.
LOOK_EVERY_S: Final = 1.0
#: Agents that are taken over before the event loop is given a turn.
_SLICE: Final = 16


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """A file that was read again and may be put in force."""

    config: Config
    fingerprint: str
    not_live: tuple[str, ...]
    changes: Changes


@dataclass(kw_only=True)
class Reloads:
    site: Site
    config: LiveConfig
    services: Services
    spool: Spool
    state: EngineState
    team: Team
    makers: Makers
    #: Takes a queue directory into service, and makes it; its agent joins the team.
    admit: Callable[[str], bool]
    #: Returns when the daemon is up, everything posted so far is decided, and the status page shows it.
    shown: Callable[[], Awaitable[None]]
    #: Called before and after a reload: tells the service manager.
    begins: Callable[[], None]
    ended: Callable[[], None]
    #: Puts a config with its fingerprint in force.
    swap: Callable[[Config, str], None]
    _one_at_a_time: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _swapped: anyio.Event = field(default_factory=anyio.Event, init=False)
    _under_way: set[ReceiptFile] = field(default_factory=set, init=False)
    _not_live: tuple[str, ...] = ()
    _refused: dict[str, object] | None = None
    #: Agents that were removed in this session, in their own spelling.
    _removed: dict[str, None] = field(default_factory=dict, init=False)
    #: The file as it was read last, in force or refused.
    _seen: FileMark | None = field(default=None, init=False)
    #: Of the file that the daemon was started with: the root that it names, and whether others could have written it.
    _first_root: object = field(default=None, init=False)
    _was_trusted: bool = field(default=True, init=False)

    # --- at the start -------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Note the file that the daemon was started with."""
        self._seen = self.config.now.file_mark
        if self._path is not None:
            self._first_root, self._was_trusted = _root_in(self._path), _why_not_trusted(self._path) is None
        self._leave_note()

    @property
    def _path(self) -> Path | None:
        return self.site.config_path

    def _leave_note(self) -> None:
        """Write the mark of the file in force, by which commands see that it has changed."""
        mark = self.config.now.file_mark
        try:
            if mark is not None:
                line = mark.as_line().encode(errors="surrogateescape")
                atomic_file.write(self.site.run / NOTE_NAME, line, durable=False)
        except OSError as error:
            self.services.record(io_error(what=f"write run/{NOTE_NAME}", error=str(error)))

    # --- who asks -----------------------------------------------------------------------------------------------------
    def take(self, receipt: Receipt) -> None:
        """Answer a request, and remove its receipt."""
        if receipt.receipt_file not in self._under_way:
            self._under_way.add(receipt.receipt_file)
            self.services.tasks.start_soon(self._answer, receipt, name=receipt.name)

    async def _answer(self, receipt: Receipt) -> None:
        try:
            await self.reload(receipt.by or USER, receipt.name)
            self.spool.remove_receipt(*receipt.receipt_file)
        except OSError as error:  # the next scan finds it again, and reading a file again does no harm
            self.services.record(io_error(what=f"receipt {receipt.name}", error=str(error)))
        finally:
            self._under_way.discard(receipt.receipt_file)

    def ask(self, by: str) -> None:
        self.services.tasks.start_soon(self.reload, by, name=f"reload ({by})")

    async def watch(self) -> None:
        """Read the file again whenever it has changed and settled, while ``watch_config`` is set."""
        before: object = None
        while self._path is not None:
            if not self.config.now.daemon.watch_config:
                await self._swapped.wait()
                continue
            await anyio.sleep(LOOK_EVERY_S)
            before, found = (found := self._look()), before
            if found is not None and found == before and self._has_changed():
                await self.reload("the file has changed")

    def _look(self) -> object:
        """Return what tells one state of the file from another; None if it cannot be looked at, as between the two
        steps of an editor that replaces it."""
        assert self._path is not None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _has_changed(self) -> bool:
        """Say whether the file has other bytes than those that were read last, and nobody is writing it."""
        assert self._path is not None
        path = str(self._path)
        try:
            if self._seen is not None and self._seen.is_still(path):
                return False
            return has_settled(os.path.realpath(path), self.services.clock.now().wall, self.config.now.watch.settle_s)
        except OSError:
            return False

    # --- a reload -----------------------------------------------------------------------------------------------------
    async def reload(self, by: str, receipt: str | None = None) -> None:
        await self.shown()
        async with self._one_at_a_time:
            if self.state.stopping:
                return
            self.begins()
            try:
                await self._reload(by, receipt)
            finally:
                self.ended()

    async def _reload(self, by: str, receipt: str | None) -> None:
        try:
            found = await in_thread(self._read, self.team.names())
        except BadConfig as bad:
            await self._refuse(bad, by, receipt)
            return
        self._refused, self._not_live = None, found.not_live
        await self._put_in_force(found)
        await self.shown()
        changes = found.changes
        self.services.record(
            config_reloaded(
                by=by,
                config_hash=found.fingerprint,
                added=list(changes.added) or None,
                changed=list(changes.changed) or None,
                removed=list(changes.removed) or None,
                settings=list(changes.settings) or None,
                waiting=[name for name in changes.waiting if self._waits(name)] or None,
                not_live=list(found.not_live) or None,
                mail=self._mail_of(changes.removed) or None,
                receipt=receipt,
            )
        )

    def _read(self, known: list[str]) -> ReadAgain:
        """Read, check and compare the file. Raises BadConfig. Runs in a thread, and changes nothing."""
        path, old = self._path, self.config.now
        if path is None:
            nothing = "this root has no ackd.toml: there is nothing to read again"
            raise BadConfig(str(self.site.root), (Problem("", nothing),))
        self._seen = mark_of(path)
        if self._was_trusted and (why := _why_not_trusted(path)) is not None:  # it says which commands are run
            raise BadConfig(str(path), (Problem("", why),))
        config, not_live = load_again(self.site, old)
        changes = compare(old, config, known)
        for name, when in changes.agents.items():
            if when is not When.NOW:
                self.makers.verify(name, config)
        if _root_in(path) != self._first_root:
            not_live = ("root", *not_live)
        return ReadAgain(config, config.fingerprint(), not_live, changes)

    async def _refuse(self, bad: BadConfig, by: str, receipt: str | None) -> None:
        problems = [str(one) for one in bad.problems]
        self._refused = {"at": stamp(self.services.clock.now().wall), "by": by, "problems": problems}
        await self.shown()
        self.services.record(config_refused(by=by, problems=problems, receipt=receipt))

    async def _put_in_force(self, found: ReadAgain) -> None:
        old, config, changes = self.config.now, found.config, found.changes
        self.swap(config, found.fingerprint)
        self._swapped.set()
        self._swapped = anyio.Event()
        self._leave_note()
        if (policy := config.engine_policy()) != old.engine_policy():
            self.services.post(TeamChanged(policy))
        for number, name in enumerate(changes.added, 1):
            if self.team.called(name) is None:
                self.admit(self.team.box(name))
            if number % _SLICE == 0:
                await anyio.lowlevel.checkpoint()
        for number, (name, when) in enumerate(changes.agents.items(), 1):
            self._take(name, when, config)
            if number % _SLICE == 0:
                await anyio.lowlevel.checkpoint()
        self._removed = {
            name: None for name in (*self._removed, *map(self._spelled, changes.removed)) if not _is_named(config, name)
        }

    def _take(self, name: str, when: When, config: Config) -> None:
        agent = self.team.called(name)
        if agent is None:
            return  # it has just joined, under the new config
        self.team.take(agent, when)
        if when is When.WHEN_FREE and not _is_named(config, name):
            self.team.drain(agent)

    def _spelled(self, name: str) -> str:
        return self.team.called(name) or name

    def _waits(self, name: str) -> bool:
        agent = self.state.agents.get(self._spelled(name))
        return agent is not None and agent.becomes is not None

    def _mail_of(self, names: tuple[str, ...]) -> dict[str, int]:
        """Count the open messages of agents, without those who have none."""
        agents = ((name, self.state.agents.get(self._spelled(name))) for name in names)
        counts = {name: one.queued + one.retrying + len(one.window) for name, one in agents if one is not None}
        return {name: count for name, count in counts.items() if count}

    # --- the status page ----------------------------------------------------------------------------------------------
    def page(self) -> dict[str, object]:
        """Return what the status page says about the config: empty values are left out."""
        said: dict[str, object] = {
            "path": str(self._path) if self._path is not None else None,
            "refused": self._refused,
            "not_live": list(self._not_live),
            "waiting": [agent.name for agent in self.state.agents.values() if agent.becomes is not None],
            "removed": self._mail_of(tuple(self._removed)),
        }
        return {key: value for key, value in said.items() if value}


def _is_named(config: Config, name: str) -> bool:
    return (
        config.has_table(name)
        or (bool(config.groups) and config.group_called(name) is not None)
        or (bool(config.pools) and config.pool_called(name) is not None)
    )


def _why_not_trusted(path: Path) -> str | None:
    try:
        return distrust(path)
    except OSError:
        return None  # whoever reads it says why that is impossible


def _root_in(path: Path) -> object:
    """The root as the file names it: the daemon may have been given another."""
    try:
        return read_toml(path).get("root")
    except BadConfig:
        return None
