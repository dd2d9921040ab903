"""The mark of a root that came out of a backup: ``state/restored.json``.

Until a daemon has started on such a root, every agent of it counts as paused, because the root that the backup was
taken of may still be served. The first daemon pauses each by name (``done``), and from then on they are agents that
somebody has paused. Fails with OSError; a file that cannot be understood counts as a mark whose origin is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.storage.json_state import BadState, JsonState

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "restored.json"


class Restored(NamedTuple):
    """``root``: the one that the backup was taken of, at ``taken_at``; ``done``: its agents are paused by name."""

    root: str
    taken_at: str
    at: str
    done: bool = False

    @property
    def words(self) -> str:
        return f"restored from a backup of {self.root}, taken {self.taken_at}"


def load(state_dir: Path) -> Restored | None:
    """Read the mark; None for a root that was never restored."""
    try:
        found = JsonState(state_dir / NAME, durable=True, readable=True).load()
    except BadState:
        return Restored("another root", "at an unknown time", "")
    if found is None:
        return None
    root, taken_at, at = (str(found.get(key, "?")) for key in ("root", "taken_at", "at"))
    return Restored(root, taken_at, at, found.get("done") is True)


def pending(state_dir: Path) -> Restored | None:
    """Return the mark if no daemon has started on the root since it was restored."""
    mark = load(state_dir)
    return mark if mark is not None and not mark.done else None


def save(state_dir: Path, mark: Restored) -> None:
    JsonState(state_dir / NAME, durable=True, readable=True).save(mark._asdict())
