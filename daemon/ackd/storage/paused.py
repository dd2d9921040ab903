"""The agents that are paused, kept in ``state/paused.json``: a pause outlives the daemon that was asked for it.

Each entry says who is paused, since when, by whom, and whether the agent was stopped as well. Only the holder of the
root's lock writes here: the daemon, or `ackd agent pause` while none is running. What being paused means is decided in
core. Synchronous and quick to import. Fails with OSError and ``BadPauses``; a missing file means that nobody is paused.
A file that cannot be read leaves unknown who is paused: callers then take every agent for paused (``assume``) until a
person says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import BadName, TheirFault
from ackd.core.names import agent_name, identity
from ackd.storage.json_state import BadState, JsonState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME: Final = "paused.json"
#: ``by`` of the pauses that every agent of a root has when the root was restored from a backup.
RESTORED: Final = "restore"


class BadPauses(TheirFault):
    """The file is not one that ackd has written: somebody has edited it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}: everybody stays paused until it is mended, or removed if nobody is to be"


class Pause(NamedTuple):
    """A pause. ``stopped``: the agent's child or pane was ended too, and is not started again without a request."""

    at: str
    by: str
    stopped: bool = False

    @property
    def reason(self) -> str:
        """Say in a few words why, for `ackd status`."""
        return "restored from a backup" if self.by == RESTORED else "by hand"


class Pauses:
    """The paused agents by name. Two spellings of a name are one agent."""

    def __init__(self, state_dir: Path) -> None:
        self._file = JsonState(state_dir / NAME, durable=True, readable=True)
        self._paused: dict[str, tuple[str, Pause]] = {}
        self._is_broken = False

    def load(self) -> None:
        self._paused, self._is_broken = {}, True
        self._paused = {identity(name): (name, pause) for name, pause in _read(self._file).items()}
        self._is_broken = False

    def __contains__(self, agent: str) -> bool:
        return identity(agent) in self._paused

    def all(self) -> Mapping[str, Pause]:
        return dict(self._paused.values())

    def is_stopped(self, agent: str) -> bool:
        return agent in self and self._paused[identity(agent)][1].stopped

    def reason(self, agent: str) -> str:
        return self._paused[identity(agent)][1].reason

    def assume(self, agent: str, pause: Pause) -> None:
        """Take an agent for paused until it is resumed. Written to disk with the next change of the file."""
        self._paused.setdefault(identity(agent), (agent, pause))

    def save(self) -> None:
        """Write down what was assumed, durably."""
        self._save(self._paused)

    def add(self, agent: str, pause: Pause) -> bool:
        """Pause an agent, durably. False: it was paused already, and the first pause stays as it is."""
        if agent in self and not (pause.stopped and not self.is_stopped(agent)):
            return False
        self._save({**self._paused, identity(agent): (agent, pause)})
        return True

    def remove(self, agent: str) -> bool:
        """End a pause, durably. False: the agent was not paused."""
        if agent not in self:
            return False
        self._save({one: named for one, named in self._paused.items() if one != identity(agent)})
        return True

    def _save(self, paused: dict[str, tuple[str, Pause]]) -> None:
        """Write the file, then change the values in memory: a pause that the disk refused did not happen."""
        if self._is_broken:  # keep the unreadable file for a person to repair
            self._file.keep_aside()
        self._file.save({name: pause._asdict() for name, pause in paused.values()})
        self._paused, self._is_broken = paused, False


def _read(file: JsonState) -> dict[str, Pause]:
    try:
        found = file.load() or {}
    except BadState as bad:
        raise BadPauses(bad.path, bad.why) from None
    return {_name(file.path, name): _pause(file.path, said) for name, said in found.items()}


def _name(path: str, name: str) -> str:
    try:
        return agent_name(name)
    except BadName as bad:
        raise BadPauses(path, str(bad)) from None


def _pause(path: str, said: object) -> Pause:
    match said:
        case {"at": str(at), "by": str(by), **more}:
            return Pause(at, by, more.get("stopped") is True)
        case _:
            raise BadPauses(path, "a pause says `at` and `by`")
