"""The version of what lies in ``state/``, in ``state/version``: an older state is read, a newer one is refused by name.

Owns the file: the number, the release that wrote it, and when a daemon of this number first started on this root
(``Begun.first_start``; whoever must leave alone what lay there before goes by it). Written by the holder of the root
before anything else is written; every command that changes ``state/`` without a daemon asks ``require`` first. Raise
``VERSION`` whenever an older ackd could misread what a newer one writes, never for a file that it would not look at.

Fails with ``NewerState``, also for a file that cannot be understood, because only a newer ackd writes in another way;
reading may fail with OSError. Writing never fails: on a full disk the daemon starts all the same, ``Begun.refused``
says what the disk said, and the next start writes it. Synchronous and quick to import.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd import __version__
from ackd.core.errors import NewerState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME: Final = "version"
VERSION: Final = 1
#: Of a state from before there was the file.
BEFORE: Final = 0

_MAX_BYTES: Final = 65_536


class Begun(NamedTuple):
    """``before``: the version that this start found; ``first_start``: wall seconds, of this version on this root."""

    before: int
    first_start: float
    refused: OSError | None = None


class _Found(NamedTuple):
    version: int
    first_start: float | None
    by: str


def require(state_dir: Path) -> int:
    """The version that lies there, ``BEFORE`` if none is said; ``NewerState`` if this ackd must not touch it."""
    return _read(state_dir).version


def begin(state_dir: Path, now: float, put: Callable[[Path, Path, bytes], None]) -> Begun:
    """For a daemon that holds the root, before it writes anything else into ``state_dir``, which exists.

    ``put`` writes a file whole and durably, by way of another (``atomic_file.put_durably``).
    """
    found = _read(state_dir)
    if found.version == VERSION and found.first_start is not None:
        return Begun(found.version, found.first_start)
    try:
        put(state_dir / NAME, state_dir / f".{NAME}.tmp", _content(now))
    except OSError as refused:
        return Begun(found.version, now, refused)
    return Begun(found.version, now)


def _content(now: float) -> bytes:
    import json  # noqa: PLC0415 - not for commands that find no file

    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"version": VERSION, "first_start": at, "ackd": __version__}).encode() + b"\n"


def _read(state_dir: Path) -> _Found:
    path = state_dir / NAME
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return _Found(BEFORE, None, "")
    import json  # noqa: PLC0415

    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise NewerState(str(path), None, VERSION, "") from None
    match found:
        case {"version": int(version), **more} if not isinstance(version, bool) and version > BEFORE:
            by = str(more.get("ackd", ""))[:64]
        case _:
            raise NewerState(str(path), None, VERSION, "")
    if version > VERSION:
        raise NewerState(str(path), version, VERSION, by)
    return _Found(version, _wall(more.get("first_start")), by)


def _wall(said: object) -> float | None:
    """None for someone's edit."""
    try:
        at = datetime.fromisoformat(said) if isinstance(said, str) else None
        return at.timestamp() if at is not None and at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
