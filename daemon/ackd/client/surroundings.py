"""Findings of a check about a root: rights, owners, leftovers, room, file system, clock, daemon.

Each function answers one question with one ``Finding``. They read what the kernel tells and never change anything, but
for the one hidden file that proves the root writable. What is asked of the machine alone is in machine.py.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.client import machine
from ackd.client.findings import FAIL, OK, WARN, Finding
from ackd.core.message_files import STRAY_AFTER_S, STRAY_CURE, STRAY_WORDS
from ackd.storage import message_lookup, repairs, room_probe, root_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.config.model import Config
    from ackd.config.site import Site

_MOUNTS: Final = Path("/proc/self/mountinfo")
#: inotify does not see what other machines (or the other side of a shared folder) write there.
REMOTE_KINDS: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p ceph glusterfs lustre afs vboxsf virtiofs drvfs fuse.sshfs fuse.rclone".split()
)
_LITTLE_BYTES: Final = 100 * 1024 * 1024
_TOO_LITTLE_BYTES: Final = 4 * 1024 * 1024
#: No clock that shows an earlier time is right.
_BUILT_AT: Final = 1_735_689_600  # 2025


def surroundings(site: Site, config: Config) -> Iterator[Finding]:
    yield _answered("daemon", lambda: daemon(site))
    yield from running_config(site, config)
    yield _answered("trust", lambda: trust(site))
    if not os.path.isdir(site.root):  # noqa: PTH112 - Path.is_dir raises where nobody may look
        yield _answered("root", lambda: absent(site.root))
        return
    yield _answered("root", lambda: writable(site.root))
    yield from restored_from(site)
    yield _answered("rights", lambda: rights(site))
    yield from owners(site)
    yield from to_repair(site)
    yield _answered("state", lambda: state(site))
    yield _answered("disk", lambda: disk_space(site.root, config.min_free_mb))
    yield _answered("file system", lambda: file_system(site.root, config.watch.mode))
    yield from mounts(site)
    if config.watch.mode != "polling":
        yield _answered("inotify", lambda: machine.watches(len(site.known_agents())))
        yield from machine.inotify_room(running=_is_served(site))
    yield _answered("clock", lambda: machine.clock_and_log(site) or clock(site.root))
    yield from filter(None, [machine.kept_time()])
    yield machine.machine()
    yield from machine.units()
    yield from stray_files(site)


def stray_files(site: Site) -> Iterator[Finding]:
    """Files in the queues that are never delivered."""
    try:
        found = list(message_lookup.strays(site.root, time.time()))
    except OSError:  # another row says why
        return
    for one in found:
        if one.age_s > STRAY_AFTER_S:
            yield Finding(WARN, "stray", f"{one.path}: {STRAY_WORDS}", STRAY_CURE)


def _answered(subject: str, question: Callable[[], Finding]) -> Finding:
    """Turn a refusal of the system into a finding: a thing that may not even be looked at is an answer, too."""
    try:
        return question()
    except OSError as error:
        mend = "see who owns it (ls -ld), and that it is what it should be"
        return Finding(FAIL, subject, f"cannot read {error.filename}: {error.strerror}", mend)


def absent(root: Path) -> Finding:
    try:
        root.lstat()
    except FileNotFoundError:
        return Finding(WARN, "root", f"{root} is not there yet", "`ackd init` makes it")
    return Finding(FAIL, "root", f"{root} is not a directory", "move it away")


def daemon(site: Site) -> Finding:
    pid = root_lock.holder(site.run)
    if pid is None:
        return Finding(OK, "daemon", "not running (`ackd run` starts it)")
    return Finding(OK, "daemon", f"running, pid {pid}" if pid else "running")


def running_config(site: Site, config: Config) -> Iterator[Finding]:
    """Compare the config on disk with the one that the running daemon has, which reads it at its start."""
    from ackd.client.reloading import has_drifted
    from ackd.client.status import running_daemon

    try:
        said = running_daemon(site)
    except OSError:  # another row says why
        return
    known = said.get("config_hash")
    if not isinstance(known, str) or known == config.fingerprint():
        return
    words = f"{site.config_path} is not what the running daemon (pid {said.get('pid')}) has: it goes on by that"
    about = said.get("config")
    not_live = about.get("not_live") if isinstance(about, dict) else None
    if not_live and not has_drifted(site):
        named = ", ".join(map(str, not_live))
        yield Finding(
            WARN, "config", f"{words} in {named}", "end the daemon and start it again: its mail waits meanwhile"
        )
    else:
        yield Finding(WARN, "config", words, "`ackd reload` has it read again")


def writable(root: Path) -> Finding:
    probe = root / f".check.{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        probe.unlink()
    except OSError as error:
        return Finding(FAIL, "root", f"{root} cannot be written: {error.strerror}", f"chown or chmod u+rwx {root}")
    return Finding(OK, "root", f"{root} can be written")


def rights(site: Site) -> Finding:
    """Warn if others on the machine could read the mail, or write in an agent's name."""
    named = (site.root, site.queue, site.receipts, site.archive, site.logs, site.state, site.run)
    boxes = tuple(site.queue / box for box in site.boxes())
    for directory in (*named, *boxes):
        try:
            mode = directory.lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            return Finding(FAIL, "rights", f"{directory} is not a directory", "move it away")
        if mode & 0o077:
            words = f"{directory} is open to others ({stat.S_IMODE(mode):04o})"
            return Finding(WARN, "rights", words, f"chmod -R go-rwx {site.root}")
    return Finding(OK, "rights", "nobody else can read or write the mail")


def owners(site: Site) -> Iterator[Finding]:
    """Warn of what another user made in the root where only ackd writes: mostly a command that was run as root."""
    try:
        found = list(repairs.foreign(site.root))
    except OSError:  # another row says why
        return
    if found:
        path, uid = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        owner = site.root.stat().st_uid
        words = f"{path} belongs to uid {uid}{more}, and the root to uid {owner}, who cannot write there"
        yield Finding(WARN, "owners", words, f"chown -R {owner} {site.root}")


def to_repair(site: Site) -> Iterator[Finding]:
    """Warn of what `ackd check --fix` puts in order: missing directories, open files, leftovers of killed programs."""
    found = repairs.find(site.root)
    missing = [one.path for one in found if one.what == repairs.MAKE]
    if missing:
        names = ", ".join(str(path.relative_to(site.root)) for path in missing)
        yield Finding(WARN, "layout", f"{site.root} lacks {names}", "`ackd check --fix` makes it")
    files = [one.path for one in found if one.what == repairs.CLOSE and not one.path.is_dir()]
    if files:
        words = f"{_first_of(files)} can be read or written by others"
        yield Finding(WARN, "rights", words, "`ackd check --fix` closes it")
    left = [one.path for one in found if one.what == repairs.REMOVE]
    if left:
        words = f"{_first_of(left)} was left by a program that was killed"
        yield Finding(WARN, "leftovers", words, "`ackd check --fix` removes it")


def _first_of(paths: list[Path]) -> str:
    return f"{paths[0]} (and {len(paths) - 1} more like it)" if len(paths) > 1 else str(paths[0])


def restored_from(site: Site) -> Iterator[Finding]:
    """Remind of agents that wait because the root was restored from a backup."""
    from ackd.client.status import restored

    try:
        said = restored(site, site.known_agents())
    except OSError:  # another row says why
        return
    if said is not None:
        names = ", ".join(said["paused"]) or "every agent"
        words = f"from a backup of {said['root']}, taken {said['taken_at']}; paused for that: {names}"
        yield Finding(WARN, "restored", words, "`ackd agent resume AGENT...`, once the original does not run")


def _is_served(site: Site) -> bool:
    try:
        return root_lock.holder(site.run) is not None
    except OSError:
        return False


def trust(site: Site) -> Finding:
    """Warn if others can write the config or the root, and so say which commands are run."""
    from ackd.config.site import writable_by_group

    for path in filter(None, (site.config_path, site.root)):
        if os.path.lexists(path) and (owner := path.stat().st_uid) not in (os.geteuid(), 0):
            words = f"{path} belongs to uid {owner}, who says which commands you run"
            return Finding(WARN, "trust", words, "make it your own (chown), unless that is meant")
        if os.path.lexists(path) and writable_by_group(path):
            words = f"{path} can be written or replaced by others of its group, and it decides which commands you run"
            return Finding(WARN, "trust", words, f"chmod g-w {path} {path.parent}, unless that is meant")
    return Finding(OK, "trust", "only you and root decide which commands are run")


def state(site: Site) -> Finding:
    from ackd.core.errors import NewerState
    from ackd.storage import state_version

    try:
        found = state_version.require(site.state)
    except NewerState as newer:
        return Finding(FAIL, "state", str(newer))
    if found == state_version.BEFORE:
        return Finding(OK, "state", "no daemon of this version has run here yet")
    return Finding(OK, "state", f"version {found}")


def disk_space(root: Path, min_free_mb: float) -> Finding:
    room = os.statvfs(root)
    if (short := room_probe.shortage([root], min_free_mb * 1e6)) is not None:
        mend = "make room: until then no message is taken up; then all go on by themselves"
        return Finding(FAIL, "disk", room_probe.words_of_shortage(short), mend)
    free_bytes = room.f_bavail * room.f_frsize
    words = f"{free_bytes // (1024 * 1024)} MiB free"
    if room.f_files and room.f_favail < 1000:
        return Finding(WARN, "disk", f"only {room.f_favail} inodes free", "make room: every message is a file")
    if free_bytes < _TOO_LITTLE_BYTES:
        return Finding(FAIL, "disk", words, "make room: nothing can be queued")
    return Finding(WARN, "disk", words, "make room") if free_bytes < _LITTLE_BYTES else Finding(OK, "disk", words)


def file_system(root: Path, mode: str) -> Finding:
    kind = _kind_of(root)
    if kind in REMOTE_KINDS and mode != "polling":
        mend = 'set [watch] mode = "polling" if other machines write there'
        return Finding(WARN, "file system", f"{kind}: inotify does not see what other machines write", mend)
    if kind in {"tmpfs", "ramfs"}:
        return Finding(WARN, "file system", f"{kind}: everything is gone after a reboot", "use a root on a disk")
    return Finding(OK, "file system", kind or "unknown")


def mounts(site: Site) -> Iterator[Finding]:
    """Warn of directories on another mount: no rename leads there, so files are copied, which may not be meant."""
    points = {point for point, _ in _mounted()}
    try:
        boxes = site.boxes()
    except OSError:  # another row says why
        return
    for path in (site.queue, site.archive, *(site.queue / box for box in boxes)):
        if str(path.resolve()) in points:
            words = f"{path} is a mount of its own: messages are copied into and out of it"
            yield Finding(WARN, "file system", words, "mount the whole root there instead, if speed matters")


def _kind_of(root: Path) -> str | None:
    """The type of the mount that the root lies on: the longest mount point above it, the last of equals."""
    path = root.resolve()
    best: tuple[int, str | None] = (-1, None)
    for point, kind in _mounted():
        if path.is_relative_to(point) and len(point) >= best[0]:
            best = (len(point), kind)
    return best[1]


def _mounted() -> list[tuple[str, str]]:
    """The mount points, each with the type of its file system."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    halves = [line.split(" - ", 1) for line in lines]
    return [(before.split()[4].replace("\\040", " "), after.split()[0]) for before, after in halves]


def clock(root: Path) -> Finding:
    now = time.time()
    if now < _BUILT_AT:
        return Finding(FAIL, "clock", f"says {time.strftime('%Y-%m-%d', time.gmtime(now))}", "set the clock")
    newest = max(entry.stat().st_mtime for entry in [root, *root.iterdir()])
    if newest > now + 60:
        words = f"files in {root} are {int(newest - now)} s from the future"
        return Finding(WARN, "clock", words, "set the clock: retries and archives go by it")
    return Finding(OK, "clock", "plausible")
