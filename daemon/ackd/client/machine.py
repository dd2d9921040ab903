"""Findings of a check about the machine: limits of inotify, the clock and who keeps it, Python and the kernel, units.

Each function answers one question with a ``Finding``, reads what the kernel tells, and changes nothing.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd import __version__
from ackd.client.findings import OK, WARN, Finding
from ackd.storage import session_log
from ackd.system import ntp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config.site import Site

INOTIFY: Final = Path("/proc/sys/fs/inotify")
_PROC: Final = Path("/proc")
#: A queue of fewer notifications overflows in any burst of mail; each overflow costs a scan of everything.
_FEW_EVENTS: Final = 1024
_LAST_BYTES: Final = 65_536
#: A clock may differ so much from the one that wrote a log line, and still be the same clock.
_SLACK_S: Final = 60.0
#: Directories of units, for one user and for all.
UNIT_DIRECTORIES: Final = ("~/.config/systemd/user", "/etc/systemd/user", "/etc/systemd/system")


def machine() -> Finding:
    """Say what ackd runs on, for whoever reads a report."""
    words = f"ackd {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}"
    return Finding(OK, "machine", words)


# --- inotify ----------------------------------------------------------------------------------------------------------
def watches(agents: int) -> Finding:
    """Count the watches that are needed: two for each agent, and one each for queue/ and receipts/."""
    needed = 2 * agents + 2
    allowed = _limit("max_user_watches")
    if allowed is None:
        return Finding(WARN, "inotify", "not available here: queues will be polled", "nothing to do, only slower")
    if needed > allowed:
        words = f"{needed} watches needed, {allowed} allowed for all your programs: queues will be polled"
        return Finding(WARN, "inotify", words, _sysctl("max_user_watches", max(65_536, 4 * needed)))
    return Finding(OK, "inotify", f"{needed} of {allowed} watches needed")


def inotify_room(*, running: bool) -> Iterator[Finding]:
    """Warn if there is no inotify instance left for a daemon (one that runs has its own), or too short a queue."""
    allowed, used = _limit("max_user_instances"), _instances()
    if allowed is not None and not running and used >= allowed:
        words = f"{used} of {allowed} instances are in use by your programs, and a daemon needs one: it would poll"
        yield Finding(WARN, "inotify", words, _sysctl("max_user_instances", 2 * allowed + 128))
    events = _limit("max_queued_events")
    if events is not None and events < _FEW_EVENTS:
        words = f"the kernel keeps {events} notifications for a program: a burst of mail overflows that"
        yield Finding(WARN, "inotify", words, _sysctl("max_queued_events", 16_384))


def _limit(name: str) -> int | None:
    try:
        return int((INOTIFY / name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _sysctl(name: str, value: int) -> str:
    return f"sysctl fs.inotify.{name}={value}"


def _instances() -> int:
    """Count the inotify instances of this user's programs, as far as we may look at them."""
    count = 0
    for process in _PROC.glob("[0-9]*"):
        try:
            if process.stat().st_uid != os.geteuid():
                continue
            for fd in (process / "fd").iterdir():
                count += str(fd.readlink()) == "anon_inode:inotify"
        except OSError:  # gone, or not ours to look at
            continue
    return count


# --- the clock --------------------------------------------------------------------------------------------------------
def clock_and_log(site: Site) -> Finding | None:
    """Compare the clock with the newest line of the log: retries, deadlines and archives go by it."""
    files = session_log.session_files(site.logs)
    written = _last_time(files[-1]) if files else None
    if written is None or written <= time.time() + _SLACK_S:
        return None
    ahead = int(written - time.time())
    words = f"the newest line of {files[-1].name} is {ahead} s from the future"
    return Finding(WARN, "clock", words, "set the clock (timedatectl): retries, deadlines and archives go by it")


def _last_time(log: Path) -> float | None:
    """Return the time of the last whole line of a log; None if none can be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            at = datetime.fromisoformat(str(json.loads(line)["timestamp"]))
        except (ValueError, KeyError, TypeError):
            continue
        return at.timestamp() if at.tzinfo is not None else None
    return None


def kept_time() -> Finding | None:
    """Say if nobody keeps the clock: no fault by itself. None where the kernel does not tell, as in a container."""
    if ntp.is_synchronised() is not False:
        return None
    words = "nothing keeps it in time: it may be set by a jump some day, and times of files are then doubtful"
    return Finding(OK, "clock", words, "timedatectl set-ntp true, unless something else sets it")


# --- units ------------------------------------------------------------------------------------------------------------
def units(directories: tuple[str, ...] = UNIT_DIRECTORIES) -> Iterator[Finding]:
    """Compare the units that start ackd with this installation."""
    ours = shutil.which("ackd")
    for directory in map(Path, map(os.path.expanduser, directories)):
        for unit in sorted(directory.glob("ackd*.service")) if os.path.isdir(directory) else ():  # noqa: PTH112
            program = _program_of(unit)
            if program is None:
                continue
            if program.startswith("/") and not os.path.exists(program):  # noqa: PTH110
                words = f"{unit} starts {program}, which is not there"
                mend = f"correct ExecStart in it, then systemctl daemon-reload; or rm {unit}"
                yield Finding(WARN, "unit", words, mend)
            elif ours and program.startswith("/") and os.path.realpath(program) != os.path.realpath(ours):
                words = f"{unit} starts {program}, and the ackd that you run here is {ours}"
                yield Finding(WARN, "unit", words, "correct ExecStart in it, if that is not meant")
            else:
                yield Finding(OK, "unit", f"{unit} starts {program}")


def _program_of(unit: Path) -> str | None:
    """Return the program that the unit starts; None if it cannot be read or names none."""
    try:
        lines = unit.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, equals, value = line.partition("=")
        if key.strip() == "ExecStart" and equals and value.strip():
            try:
                return shlex.split(value)[0].lstrip("-@:+!")
            except (ValueError, IndexError):
                return None
    return None
