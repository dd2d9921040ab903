"""The directory of one run below ``state/runs/``: who writes which file in it, and how each is read.

spec.json and body: ours, before it starts · lock: held by the shim for as long as the run lives · started, status: the
shim's · output: the command's · cause: ours, before we end a run. All are 0600. The place for the status is taken by us
before it starts, and written over: a disk that is full by then must not cost the result, and the work be done again.

A run lives exactly as long as the flock on its ``lock`` is held, because only its shim holds it: no pid is believed
after a crash, and a shim that has not yet written a byte counts as alive.

Refuses to know what a status means (verdict). Fails: writing raises OSError; reading answers None for what is absent,
half written or of another boot, and in doubt a run lives.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ackd.processes import boot_id, parse_stat

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.effects import TellAgent
    from ackd.processes import Identity


#: As long as a status, and none.
NO_STATUS: Final = b"----"


def write_private(path: Path, content: bytes) -> None:
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(content)


def write_spec(path: Path, order: TellAgent, agent: str, started_at: float, timeout_s: float) -> None:
    """What a later daemon has to know to take the run over."""
    spec = {
        "message_id": order.message.message_id,
        "agent": agent,
        "box": order.place.box,
        "name": order.place.name,
        "digest": order.message.digest,
        "attempt": order.attempt,
        "started_at": started_at,
        "timeout_s": timeout_s,
    }
    write_private(path / "spec.json", json.dumps(spec, indent=1).encode())


def lock_held(path: Path) -> bool:
    """Whether the run lives; in doubt it does, for a second run beside it would be worse than waiting.

    A shared lock is asked for, so that two who look do not take each other for the run.
    """
    try:
        fd = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error.errno not in {errno.ENOENT, errno.ENOTDIR}
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_status(path: Path) -> int | None:
    """The exit status, or None until its line is whole."""
    try:
        text = (path / "status").read_text()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(r"[0-9]{1,3}\n", text) else None


def read_leader(path: Path) -> Identity | None:
    """The shim, as it wrote itself down: a pid alone could be anyone's by now."""
    try:
        boot, line, end = (path / "started").read_text().split("\n")
        if end or boot != boot_id():
            return None
        return parse_stat(line)
    except (OSError, ValueError, IndexError):
        return None
