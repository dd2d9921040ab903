"""The directory of one run below ``state/runs/``: its files, and what they tell about a run that is alive or over.

========== ===================================================== =========================================
file       written by                                            holds
========== ===================================================== =========================================
spec.json  the daemon, before the run starts                     everything that a later daemon has to know
body       the daemon, before the run starts                     the body of the message
lock       the shim, which holds its flock as long as it lives   nothing
started    the shim                                              the boot id and its own /proc/…/stat
status     the daemon, overwritten by the shim                   the exit status
output     the command                                           stdout and stderr
cause      the daemon, before it ends a run                      the outcome, and why
========== ===================================================== =========================================

All are 0600. The daemon writes a placeholder for the status before the run starts, and the shim overwrites it: a disk
that is full by then must not cost the result, or the work would be done again.

A run is alive exactly as long as the flock on its ``lock`` is held, because only its shim holds it. No pid is believed
after a crash, and a shim that has not yet written a byte counts as alive.

The command writes ``output`` itself, because it outlives the daemon; so the file is cut by looking at it now and then,
and between two looks a command may exceed the limit. (A pipe would be exact, but needs a process of ours that outlives
the daemon, or the command would die with it.) The beginning is cut: the reason for a failure stands at the end.

Writing and cutting raise OSError. Reading answers None or nothing for what is absent, half written or of another boot,
and in doubt a run is alive.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from ackd.core.events import Outcome
from ackd.endpoints.making import FoundRun
from ackd.storage import file_lock
from ackd.system.processes import boot_id, exit_words, last_lines, parse_stat, signal_name

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.effects import TellAgent
    from ackd.system.processes import Identity

#: The placeholder of a status, of the same length.
NO_STATUS: Final = b"----"


def write_private(path: Path, content: bytes) -> None:
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(content)


def write_spec(path: Path, order: TellAgent, agent: str, started_at: float, timeout_s: float) -> None:
    """Write down everything that a later daemon has to know to adopt the run."""
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
    """Tell whether the run is alive. In doubt it is, for a second run beside it would be worse than waiting.

    A shared lock is asked for, so that two processes that look do not take each other for the run.
    """
    try:
        fd = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error.errno not in {errno.ENOENT, errno.ENOTDIR}
    try:
        return not file_lock.take(fd, shared=True)
    finally:
        os.close(fd)


def read_status(path: Path) -> int | None:
    """The exit status; None until its line is complete."""
    try:
        text = (path / "status").read_text()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(r"[0-9]{1,3}\n", text) else None


def read_leader(path: Path) -> Identity | None:
    """The identity that the shim wrote down: a pid alone could be any process by now. None: not of this boot."""
    try:
        boot, line, end = (path / "started").read_text().split("\n")
        if end or boot != boot_id():
            return None
        return parse_stat(line)
    except (OSError, ValueError, IndexError):
        return None


# --- output -----------------------------------------------------------------------------------------------------------
OUTPUT_LIMIT_BYTES: Final = 8 * 1024 * 1024
#: How much of the end is kept when the output is cut.
KEPT_BYTES: Final = 64 * 1024
OUTPUT_LOOK_EVERY_S: Final = 0.25


def output_is_too_long(path: Path) -> bool:
    try:
        return (path / "output").stat().st_size > OUTPUT_LIMIT_BYTES
    except OSError:
        return False


def output_size(path: Path) -> int:
    try:
        return (path / "output").stat().st_size
    except OSError:
        return 0


def output_end(path: Path, limit_bytes: int = KEPT_BYTES) -> bytes:
    """The end of what the command printed; nothing if that cannot be read."""
    try:
        with (path / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit_bytes))
            return file.read(limit_bytes)
    except OSError:
        return b""


def output_piece(path: Path, offset: int, limit_bytes: int) -> tuple[bytes, int]:
    """The output from ``offset`` on, and where that piece ends. Output that was cut meanwhile is skipped."""
    try:
        with (path / "output").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= offset:
                return b"", size
            file.seek(offset)
            data = file.read(limit_bytes)
    except OSError:
        return b"", offset
    return data, offset + len(data)


def cut_output(path: Path) -> int:
    """Remove all but the end of the output, and return how many bytes that was. It may take long: call it in a thread.

    Output that comes in that moment may be lost with the rest. The command appends, so it goes on after what is left.
    """
    fd = os.open(path / "output", os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        end = os.pread(fd, KEPT_BYTES, max(0, size - KEPT_BYTES))
        os.ftruncate(fd, 0)
        os.write(fd, b"[ackd cut %d bytes here]\n" % (size - len(end)) + end)
    finally:
        os.close(fd)
    return size - len(end)


# --- the outcome of a run that is over --------------------------------------------------------------------------------
#: Exit codes of a shell whose program cannot be run. A command may use them too, so the program is looked for.
NOT_RUN: Final = frozenset({126, 127})

_CODES: Final = {0: Outcome.DONE, 75: Outcome.DEFERRED, 65: Outcome.REFUSED}
_DETAIL_CHARS: Final = 500
_TAIL_BYTES: Final = 4096


def verdict(path: Path, code: int | None) -> tuple[Outcome | None, str]:
    """The outcome of a run that is over, and why, in one harmless line. None: it left neither a status nor a cause.

    If the daemon ended the run, its ``cause`` counts and not the exit code, which only reflects the TERM.
    """
    with contextlib.suppress(OSError, ValueError):
        word, _, why = (path / "cause").read_text().rstrip("\n").partition(" ")
        return Outcome(word), why
    if code is None:
        return None, "killed"
    return _CODES.get(code, Outcome.FAILED), _exit_detail(path, code)


def _exit_detail(path: Path, code: int) -> str:
    tail = last_lines(output_end(path, _TAIL_BYTES), _DETAIL_CHARS - 20)
    return f"{exit_words(code)}: {tail}"[:_DETAIL_CHARS] if code and tail else exit_words(code)


def killed_detail(exited: int | None) -> str:
    if exited is None or exited >= 0:
        return "killed"
    return f"killed by {signal_name(-exited) or f'signal {-exited}'}"


# --- runs that a daemon before this one left --------------------------------------------------------------------------
def scan_runs(runs_dir: Path) -> list[FoundRun]:
    """Every run in the directory. One without a readable spec that no living run holds never ran, and is removed.

    Processes are not touched: a living run is only named, for the endpoint to adopt.
    """
    found = []
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        run = _found(path)
        if run is not None:
            found.append(run)
        elif not lock_held(path):
            shutil.rmtree(path, ignore_errors=True)
    return found


def _found(path: Path) -> FoundRun | None:
    try:
        spec = json.loads((path / "spec.json").read_bytes())
        # The lock is tested first: a run that ends in between has then written its status.
        alive = lock_held(path)
        outcome, detail = (None, "running") if alive else verdict(path, read_status(path))
        return FoundRun(
            agent=str(spec["agent"]),
            message_id=str(spec["message_id"]),
            name=str(spec["name"]),
            box=str(spec["box"]),
            digest=str(spec["digest"]),
            attempt=int(spec["attempt"]),
            path=path,
            alive=alive,
            outcome=outcome,
            detail=detail,
            started_at=float(spec["started_at"]),
            timeout_s=float(spec["timeout_s"]),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
