"""Who is paused, kept in ``state/paused.json``: a person's word outlives the daemon that heard it.

Owns the file: who, since when, by whom, and whether it was stopped as well. For the holder of the root only: the
daemon, or with none running `ackd agent pause`. Refuses to know what being paused means (core/availability).
Synchronous and quick to import. Fails with OSError and ``BadPauses``; a file that is not there says that nobody is.
Nobody knows whom a file names that cannot be read: whoever asks takes everybody for paused (``assume``), until a person
says otherwise.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.adapters import atomic_file
from ackd.core.errors import BadName, TheirFault
from ackd.core.names import agent_name, identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME: Final = "paused.json"
BROKEN: Final = "paused.json.broken"


class BadPauses(TheirFault):
    """The file is not what we wrote: someone's edit."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}: everybody stays paused until it is mended, or removed if nobody is to be"


class Pause(NamedTuple):
    """``stopped``: what lives behind its endpoint was ended with it, and is not to be started by itself."""

    at: str
    by: str
    stopped: bool = False


class Pauses:
    """``ackd agent pause`` by agent. Two spellings of a name are one agent."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME
        self._paused: dict[str, tuple[str, Pause]] = {}
        self._is_broken = False

    def load(self) -> None:
        self._paused, self._is_broken = {}, True
        self._paused = {identity(name): (name, pause) for name, pause in _read(self._path).items()}
        self._is_broken = False

    def __contains__(self, agent: str) -> bool:
        return identity(agent) in self._paused

    def all(self) -> Mapping[str, Pause]:
        return dict(self._paused.values())

    def is_stopped(self, agent: str) -> bool:
        return agent in self and self._paused[identity(agent)][1].stopped

    def assume(self, agent: str, pause: Pause) -> None:
        """Paused as long as nobody says otherwise, and written down with the next word about anybody."""
        self._paused.setdefault(identity(agent), (agent, pause))

    def add(self, agent: str, pause: Pause) -> bool:
        """Durable when this returns. False: it was paused already, and the first to say so stays named."""
        if agent in self and not (pause.stopped and not self.is_stopped(agent)):
            return False
        self._save({**self._paused, identity(agent): (agent, pause)})
        return True

    def remove(self, agent: str) -> bool:
        """Durable when this returns. False: it was not paused."""
        if agent not in self:
            return False
        self._save({one: named for one, named in self._paused.items() if one != identity(agent)})
        return True

    def _save(self, paused: dict[str, tuple[str, Pause]]) -> None:
        """What the disk refused did not happen."""
        import json  # noqa: PLC0415 - a command that only looks does not need it

        if self._is_broken:  # kept, for whoever can read it after all
            with contextlib.suppress(OSError):
                self._path.with_name(BROKEN).hardlink_to(self._path)
        content = {name: pause._asdict() for name, pause in paused.values()}
        temp = self._path.with_name(f".{NAME}.tmp")  # one name: what a crash leaves, the next writer takes
        atomic_file.put_durably(self._path, temp, json.dumps(content, indent=1).encode() + b"\n")
        self._paused, self._is_broken = paused, False


def _read(path: Path) -> dict[str, Pause]:
    import json  # noqa: PLC0415

    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise BadPauses(str(path), f"not JSON ({error})") from None
    if not isinstance(found, dict):
        raise BadPauses(str(path), "not a JSON object")
    return {_name(path, name): _pause(path, said) for name, said in found.items()}


def _name(path: Path, name: str) -> str:
    try:
        return agent_name(name)
    except BadName as bad:
        raise BadPauses(str(path), str(bad)) from None


def _pause(path: Path, said: object) -> Pause:
    match said:
        case {"at": str(at), "by": str(by), **more}:
            return Pause(at, by, more.get("stopped") is True)
        case _:
            raise BadPauses(str(path), "a pause says `at` and `by`")
