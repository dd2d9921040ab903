"""Back up a root while its daemon runs, and bring a backup back elsewhere.

``backup`` asks whoever holds the root for a snapshot (storage/backup), and packs that. ``restore`` verifies the whole
file, lays the root out beside its new place, takes out of it what belongs to the processes of the original, marks it as
restored, and only then gives it its name. A restored root has every agent paused until a person resumes it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client.errors import CannotWrite, NoAnswer
from ackd.client.writing import check_reader, creating
from ackd.coordination.registry import CAPABILITIES, load
from ackd.core.errors import RootHeld
from ackd.core.escalations import stamp
from ackd.core.words import ReceiptKind
from ackd.endpoints import registry
from ackd.storage import atomic_file, journal, maildrop, root_lock, state_version
from ackd.storage.backup import bundle, restored
from ackd.storage.backup.bundle import Contents, Source
from ackd.storage.backup.snapshot import Snapshot
from ackd.storage.paused import RESTORED

if TYPE_CHECKING:
    from ackd.config.site import Site

#: How long the daemon may take. It answers in a moment, unless it is starting, or its queues are very long.
TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02


class BackupDone(NamedTuple):
    """``held_s``: how long nothing was moved meanwhile, with a daemon. ``gone``: old files of the archive that were
    removed before they could be read."""

    file: str
    contents: Contents
    size_bytes: int
    gone: tuple[str, ...]


class RestoreDone(NamedTuple):
    """``runs``: commands that were at work when the backup was taken, whose messages are offered again. ``config``:
    where the backup's ackd.toml was written, if anywhere; ``config_root``: the root that it names."""

    root: str
    contents: Contents
    runs: int
    config: str | None
    config_root: str | None


# --- backup -----------------------------------------------------------------------------------------------------------
def backup(site: Site, file: Path, *, timeout_s: float = TIMEOUT_S) -> BackupDone:
    """Write a backup of a root. Fails with ``NewerState``, ``CannotWrite`` (also if the file exists) and ``NoAnswer``.
    Nothing is left behind then."""
    file = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are
    _check_place(site, file)
    state_version.require(site.state)
    with creating(site.run, file.parent):
        maildrop.make_private_directory(site.run, fsync=site.fsync)
        snapshot = Snapshot.new(site.root)
        try:
            _take(site, snapshot, timeout_s)
            config = _config_of(site)
            sources = (Source(*one) for one in snapshot.files())
            at = stamp(snapshot.taken_at)
            contents, gone = bundle.pack(file, sources, root=str(site.root), taken_at=at, config=config)
        finally:
            snapshot.remove()
    return BackupDone(str(file), contents, file.stat().st_size, tuple(gone))


def _check_place(site: Site, file: Path) -> None:
    if os.path.lexists(file):
        raise CannotWrite(f"{file} exists: a backup replaces nothing. Name another file, or remove it")
    if not os.path.isdir(file.parent):  # noqa: PTH112 - Path.is_dir raises where nobody may look
        raise CannotWrite(f"{file.parent} is no directory: make it first")
    if os.path.realpath(file.parent).startswith((f"{os.path.realpath(site.root)}/",)) or (
        os.path.realpath(file.parent) == os.path.realpath(site.root)
    ):
        raise CannotWrite(f"{file} lies in the root itself, and the next backup would hold it: name another place")


def _take(site: Site, snapshot: Snapshot, timeout_s: float) -> None:
    """Have the snapshot taken by the daemon, or take it while we hold the root ourselves."""
    deadline = time.monotonic() + timeout_s
    asked: Path | None = None
    while not snapshot.is_taken():
        try:
            lock = root_lock.hold(site.run)
        except RootHeld as held:
            if asked is None:
                check_reader(site)
                asked = maildrop.drop_receipt(
                    site.receipts, ReceiptKind.SNAPSHOT, None, None, file=snapshot.name, fsync=site.fsync
                )
            if _waited(snapshot, deadline):
                asked.unlink(missing_ok=True)
                raise NoAnswer(f"{held}, and took no snapshot within {timeout_s:g} s: nothing was written") from None
        else:  # there was no daemon, or there is none any more
            try:
                if asked is not None:
                    asked.unlink(missing_ok=True)
                if not snapshot.is_taken():
                    snapshot.take(time.time())
            finally:
                lock.release()


def _waited(snapshot: Snapshot, deadline: float) -> bool:
    """Wait for the daemon's answer a while; True if it is too late now."""
    soon = min(deadline, time.monotonic() + 1.0)  # then we look whether it still lives
    while not snapshot.is_taken():
        now = time.monotonic()
        if now >= soon:
            return now >= deadline
        time.sleep(_POLL_S)
    return False


def _config_of(site: Site) -> bytes | None:
    if site.config_path is None:
        return None
    try:
        return site.config_path.read_bytes()
    except FileNotFoundError:
        return None


# --- restore ----------------------------------------------------------------------------------------------------------
def restore(file: Path, root: Path, *, config_to: Path | None = None) -> RestoreDone:
    """Bring a backup back as ``root``, and its config as ``config_to`` if that is said.

    Fails with ``BadBackup`` and ``NewerState``, and with ``CannotWrite`` for a root that is there and not empty. All of
    the file is verified before anything is written, and nothing is left behind.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100
    _check_empty(root)
    if config_to is not None and os.path.lexists(config_to):
        raise CannotWrite(f"{config_to} exists: nothing is replaced. Name another file, or move it away")
    parent = next(path for path in root.parents if os.path.isdir(path))  # noqa: PTH112
    found = bundle.verify(file, lambda needed: _check_room(parent, needed))
    if config_to is not None and found.config is None:
        raise CannotWrite(f"{file} holds no ackd.toml: its root had none")
    runs = 0

    def finish(directory: Path, contents: Contents) -> None:
        nonlocal runs
        runs = _made_a_copy(directory, contents)

    with creating(root.parent):
        bundle.lay_out(file, root, finish)
    if config_to is not None and found.config is not None:
        with creating(config_to.parent):
            atomic_file.write_new(config_to, found.config)
    written = str(config_to) if config_to is not None else None
    return RestoreDone(str(root), found.contents, runs, written, _root_named(config_to))


def verify(file: Path) -> Contents:
    """Read all of a backup, and say what it is. Fails with ``BadBackup`` and ``NewerState``."""
    return bundle.verify(file).contents


def _check_empty(root: Path) -> None:
    if not os.path.lexists(root):
        return
    if root.is_symlink() or not os.path.isdir(root):  # noqa: PTH112
        raise CannotWrite(f"{root} is there and no directory: name another root")
    with os.scandir(root) as entries:
        is_empty = next(entries, None) is None
    if not is_empty:
        raise CannotWrite(f"{root} is not empty: a backup is restored into a new directory only. Name another root")


def _check_room(parent: Path, needed: int) -> None:
    room = os.statvfs(parent)
    free = room.f_bavail * room.f_frsize
    if needed > free:
        raise CannotWrite(f"{parent}: {needed} bytes are needed, and {free} are free: make room, or name another root")


def _made_a_copy(directory: Path, contents: Contents) -> int:
    """Take out what ties the root to the original; return how many commands were at work."""
    state = directory / "state"
    maildrop.make_private_directory(state, fsync=False)
    state_version.require(state)
    for capability in CAPABILITIES:
        if capability.restoring:
            load(capability.restoring)(state, RESTORED)
    runs = 0
    for name, kind in registry.KINDS.items():
        if kind.keeps_processes:
            runs += registry.part(name, "restoring").let_go_of_processes(state)
    journal.add_stop(state / "journal.ndjson")  # nothing has crashed here: no message is to be blamed for it
    for name in ("queue", "receipts", "archive", "logs", "run"):
        maildrop.make_private_directory(directory / name, fsync=False)
    mark = restored.Restored(contents.root, contents.taken_at, stamp(time.time()))
    restored.save(state, mark)
    return runs


def _root_named(config: Path | None) -> str | None:
    """Return the root that the restored config means where it lies now."""
    if config is None:
        return None
    from ackd.config.site import read_site
    from ackd.core.errors import BadConfig

    try:
        return str(read_site(config).root)
    except BadConfig:
        return "?"
