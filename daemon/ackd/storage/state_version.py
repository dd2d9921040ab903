"""The version of the files in ``state/``, in ``state/version``: an older state is read, a newer one is refused by name.

The file has the number, the release that wrote it, and when a daemon of this number first started on this root
(``Begun.first_start``, for code that must leave alone what lay there before). The holder of the root writes it before
anything else; every command that changes ``state/`` without a daemon asks ``require`` first. Raise ``VERSION`` whenever
an older ackd could misread what a newer one writes, never for a file that it would not look at.

Fails with ``NewerState``, also for a file that cannot be understood, because only a newer ackd writes in another way;
reading may fail with OSError. Writing never fails: on a full disk the daemon starts all the same, ``Begun.refused`` has
the disk's error, and the next start writes it. Synchronous and quick to import.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd import __version__
from ackd.core.errors import NewerState
from ackd.storage.json_state import BadState, JsonState

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "version"
VERSION: Final = 1
#: The version of a state that is older than this file.
BEFORE: Final = 0

_MAX_BYTES: Final = 65_536


class Begun(NamedTuple):
    """A daemon's start. ``before``: the version that it found; ``first_start``: wall seconds, of this version on this
    root."""

    before: int
    first_start: float
    refused: OSError | None = None


class _Found(NamedTuple):
    version: int
    first_start: float | None
    by: str


def require(state_dir: Path) -> int:
    """Return the version of the state, ``BEFORE`` if none is given; ``NewerState`` if this ackd must not touch it."""
    return _read(state_dir).version


def begin(state_dir: Path, now: float) -> Begun:
    """Write this version, if it is not there yet. Called by a daemon that holds the root, before it writes anything
    else into ``state_dir``, which exists."""
    found = _read(state_dir)
    if found.version == VERSION and found.first_start is not None:
        return Begun(found.version, found.first_start)
    try:
        _file(state_dir).save({"version": VERSION, "first_start": _stamp(now), "ackd": __version__})
    except OSError as refused:
        return Begun(found.version, now, refused)
    return Begun(found.version, now)


def _file(state_dir: Path) -> JsonState:
    return JsonState(state_dir / NAME, durable=True, max_bytes=_MAX_BYTES)


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _read(state_dir: Path) -> _Found:
    path = state_dir / NAME
    try:
        found = _file(state_dir).load()
    except BadState:
        raise NewerState(str(path), None, VERSION, "") from None
    if found is None:
        return _Found(BEFORE, None, "")
    match found:
        case {"version": int(version), **more} if not isinstance(version, bool) and version > BEFORE:
            by = str(more.get("ackd", ""))[:64]
        case _:
            raise NewerState(str(path), None, VERSION, "")
    if version > VERSION:
        raise NewerState(str(path), version, VERSION, by)
    return _Found(version, _wall(more.get("first_start")), by)


def _wall(said: object) -> float | None:
    """Return the time in seconds; None if somebody has edited it."""
    try:
        at = datetime.fromisoformat(said) if isinstance(said, str) else None
        return at.timestamp() if at is not None and at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
