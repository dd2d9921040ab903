"""Exec agents: one command per message, each run under a shim that outlives us.

Owns ``state/runs/``: a directory per run, the shim's text, the watch over each run until nothing of it is left, and
what a finished run says. Refuses to know what becomes of the message: it answers ``Told`` and later posts ``RunEnded``;
a run's directory stays until ``forget``, so that a crash before the outcome is committed loses nothing.

A run lives exactly as long as the flock on its ``lock`` is held, because only its shim holds it: no pid is believed
after a crash, and a shim that has not yet written a byte counts as alive. Everything a run starts carries ``ACKD_RUN``;
what is left of it at the end, in the group or not, is ended too. A command that means to leave something behind starts
it with ``env -u ACKD_RUN setsid …``.

Fails by answering: a program that is not there is ``EndpointAway``, anything else that stops a run from starting is
``NotTold``. A cancelled watch (``abandon``, a crash) leaves the run alone, to be adopted by the next daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import select
import shutil
import signal
import stat
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from ackd.core.events import EndpointAway, NotTold, Outcome, RunEnded, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio.abc import TaskGroup

    from ackd.core.effects import NudgeAgent, TellAgent
    from ackd.core.message import Place
    from ackd.ports import Post

SHELL: Final = "/bin/sh"

#: Called as: run directory, working directory, umask, command… with 0 the lock, 1 the output and 2 the message, which
#: the shim cannot write to: what a shell has to say of its own ("Terminated") is not the command's output.
#:
#: Builtins only: a fork of the shim's own (``mv``) could be killed by the signal that ends its command, and the status
#: with it. So ``status`` is one write of one line, and a line without its newline is no status. The command's name has
#: a slash, so no builtin can take its place. Until the trap is set a TERM ends the shim itself, and nothing was run;
#: afterwards it outlives the signal to write the status, while its command starts with the default action (an ignored
#: signal would be inherited).
SHIM: Final = """\
umask 077
IFS= read -r ackd_boot </proc/sys/kernel/random/boot_id
IFS= read -r ackd_stat </proc/$$/stat
printf '%s\\n%s\\n' "$ackd_boot" "$ackd_stat" >"$1/started"
cd "$2" || exit 126
ackd_run=$1
ackd_umask=$3
shift 3
trap : TERM INT HUP
(umask "$ackd_umask"; exec "$@" <&2 2>&1)
ackd_code=$?
printf '%s\\n' "$ackd_code" >"$ackd_run/status"
exit "$ackd_code"
"""

_DEFAULT_SIGNALS: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_ADOPT_WAIT_S: Final = 2.0
_LOCK_POLL_S: Final = 0.25
_KILLED_WAIT_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.25
_DETAIL_CHARS: Final = 500
_TAIL_BYTES: Final = 4096
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_HEADER_END: Final = re.compile(rb"\r?\n\r?\n")
_CODES: Final = {0: Outcome.DONE, 75: Outcome.DEFERRED, 65: Outcome.REFUSED}
_NOT_RUN: Final = frozenset({126, 127})


# --- what is found after a crash --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run directory as another daemon left it.

    ``outcome`` is None while it is alive, and when it is dead without a word: unknown, to be offered again.
    """

    agent: str
    message_id: str
    name: str
    box: str
    digest: str
    attempt: int
    path: Path
    alive: bool
    outcome: Outcome | None
    detail: str
    started_at: float
    timeout_s: float


def scan_runs(runs_dir: Path) -> list[FoundRun]:
    """Every run there is. A directory without a readable spec, held by no living run, never ran: it is removed."""
    found = []
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        run = _found(path)
        if run is not None:
            found.append(run)
        elif not lock_held(path):
            shutil.rmtree(path, ignore_errors=True)
    return found


def discard_run(found: FoundRun) -> None:
    """Remove a finished run whose message is nobody's any more."""
    shutil.rmtree(found.path, ignore_errors=True)


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


def _found(path: Path) -> FoundRun | None:
    try:
        spec = json.loads((path / "spec.json").read_bytes())
        # The lock is asked first: a run that ends in between has then written its status.
        alive = lock_held(path)
        outcome, detail = (None, "running") if alive else _verdict(path, _read_status(path))
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
    except (OSError, ValueError, KeyError, TypeError):
        return None


# --- what a run wrote -------------------------------------------------------------------------------------------------
def _verdict(path: Path, code: int | None) -> tuple[Outcome | None, str]:
    """What a run that is over came to. Ended by us counts before its exit code, which is then only TERM's echo."""
    with contextlib.suppress(OSError, ValueError):
        word, _, why = (path / "cause").read_text().rstrip("\n").partition(" ")
        return Outcome(word), why
    if code is None:
        return None, "killed"
    return _CODES.get(code, Outcome.FAILED), _exit_detail(path, code)


def _exit_detail(path: Path, code: int) -> str:
    by_signal = ""
    with contextlib.suppress(ValueError):
        by_signal = f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    tail = _output_tail(path)
    return f"exit {code}{by_signal}: {tail}"[:_DETAIL_CHARS] if code and tail else f"exit {code}{by_signal}"


def _killed_detail(exited: int | None) -> str:
    return f"killed by {signal.Signals(-exited).name}" if exited is not None and exited < 0 else "killed"


def _read_status(path: Path) -> int | None:
    """The exit status, or None until its line is whole."""
    try:
        text = (path / "status").read_text()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(r"[0-9]{1,3}\n", text) else None


def _output_tail(path: Path) -> str:
    """The last lines a run printed, as one harmless line."""
    try:
        with (path / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [" ".join(_printable(line).split()) for line in _ESCAPES.sub("", text).splitlines()]
    return " | ".join([line for line in lines if line][-3:])[-_DETAIL_CHARS + 20 :]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


@dataclass(frozen=True, slots=True)
class _Leader:
    """The shim, as it wrote itself down: a pid alone could be anyone's by now."""

    pid: int
    start_ticks: int


def _read_leader(path: Path) -> _Leader | None:
    try:
        boot, line, end = (path / "started").read_text().split("\n")
        if end or boot != Path("/proc/sys/kernel/random/boot_id").read_text().strip():
            return None
        return _parse_stat(line)
    except (OSError, ValueError, IndexError):
        return None


def _parse_stat(line: str) -> _Leader:
    """Of a /proc/PID/stat line: the name in brackets may hold anything, so fields are counted from its end."""
    return _Leader(int(line.split(" ", 1)[0]), int(line.rpartition(")")[2].split()[19]))


# --- what a run is given ----------------------------------------------------------------------------------------------
def _write(path: Path, content: bytes) -> None:
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(content)


def _open_apart(path: Path, flags: int, fds: contextlib.ExitStack) -> int:
    """Open above the numbers the shim is given, so that setting one up never overwrites another (``ackd run <&-``)."""
    low = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(low)
    fds.callback(os.close, fd)
    return fd


def _left_open_for_us() -> list[int]:
    """Descriptors of whoever started us (``flock FILE ackd run``): a run that outlives us must not keep them."""
    with os.scandir("/proc/self/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    return [fd for fd in numbers if fd > 2 and _is_inheritable(fd)]


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the directory we have just read
        return False


def _open_message(path: Path, fds: contextlib.ExitStack) -> int:
    fd = _open_apart(path, os.O_RDONLY | os.O_NONBLOCK, fds)  # not to hang on what turned into a FIFO
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    os.set_blocking(fd, True)
    return fd


def _spec(order: TellAgent, run: _Run, agent: str) -> bytes:
    spec = {
        "message_id": run.message_id,
        "agent": agent,
        "box": order.place.box,
        "name": order.place.name,
        "digest": order.message.digest,
        "attempt": order.attempt,
        "started_at": run.started_at,
        "timeout_s": run.timeout_s,
    }
    return json.dumps(spec, indent=1).encode()


def _body(message: int) -> bytes:
    """What follows the first blank line; read by position, for the command's stdin shares the offset."""
    content = os.pread(message, os.fstat(message).st_size, 0)
    end = _HEADER_END.search(content)
    return content[end.end() :] if end else b""


def _own_umask() -> str:
    """The command's files are its own business: they get the mask we were started with, not that of the run's files.

    Read from /proc, because asking the kernel by umask(2) means changing it, for every thread.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return line.partition(":")[2].strip()
    return "0077"  # a kernel before 4.7


def _interpreter(program: str) -> str | None:
    """What a script's first line names. A shell calls the script itself "not found" when only that is missing."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return None  # may be run, may not be read
    words = line[2:].split()
    return os.fsdecode(words[0]) if line.startswith(b"#!") and words else None


# --- what belongs to a run --------------------------------------------------------------------------------------------
def _belongings(run_id: str, session: int | None) -> dict[int, int]:
    """The pid and a pidfd of each living process of the run, whichever group or session it fled to.

    Looked at again once the pidfd holds it: a pid that was recycled in between fails the second look.
    """
    mark = f"\0ACKD_RUN={run_id}\0".encode()
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    fds: dict[int, int] = {}
    for pid in pids:
        if not _belongs(pid, mark, session):
            continue
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            if _belongs(pid, mark, session) and not _is_readable(fd):
                fds[pid] = fd
            else:
                os.close(fd)
    return fds


def _belongs(pid: int, mark: bytes, session: int | None) -> bool:
    try:
        if session is not None and os.getsid(pid) == session:
            return True
        return mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or another user's
        return False


def _term(left: dict[int, int], termed: set[int]) -> None:
    """Once each: a second TERM means "at once" to many. CONT lets a stopped process meet its TERM."""
    for pid in left.keys() - termed:
        _send(left[pid], signal.SIGTERM)
        _send(left[pid], signal.SIGCONT)
    termed |= left.keys()


def _send(pidfd: int, which: signal.Signals) -> None:
    with contextlib.suppress(OSError):  # it is gone, or has become another user
        signal.pidfd_send_signal(pidfd, which)


def _close(left: dict[int, int]) -> None:
    for fd in left.values():
        os.close(fd)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


async def _readable(fd: int) -> None:
    """Wait for a pidfd, which is readable from the moment its process is dead."""
    loop = asyncio.get_running_loop()
    dead = asyncio.Event()
    loop.add_reader(fd, dead.set)
    try:
        await dead.wait()
    finally:
        loop.remove_reader(fd)


# --- the endpoint -----------------------------------------------------------------------------------------------------
class _NoProgramError(Exception):
    """There is nothing to run; the text says what is missing. Answered as EndpointAway."""


@dataclass(slots=True, eq=False)
class _Run:
    """One run under watch. ``pid`` is safe to signal as a group while ``ours``: our zombie keeps the number."""

    key: int
    message_id: str
    path: Path
    timeout_s: float
    started_at: float
    attempt: int = 0
    pid: int | None = None
    pidfd: int | None = None
    ours: bool = False
    cause: tuple[Outcome, str] | None = None
    since: float = field(default_factory=time.monotonic)
    patience: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    watch: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)

    async def gone(self) -> None:
        """Wait until the shim is dead."""
        if self.pidfd is not None:
            await _readable(self.pidfd)
        while self.pidfd is None and lock_held(self.path):  # noqa: ASYNC110 - no event tells of a released flock
            await anyio.sleep(_LOCK_POLL_S)

    def is_gone(self) -> bool:
        return _is_readable(self.pidfd) if self.pidfd is not None else not lock_held(self.path)

    def hold(self, leader: _Leader) -> None:
        """Take hold of an adopted shim, if the process of that pid is still the one that wrote it down."""
        try:
            fd = os.pidfd_open(leader.pid)
            if _parse_stat(Path(f"/proc/{leader.pid}/stat").read_text()) == leader:
                self.pid, self.pidfd = leader.pid, fd
            else:
                os.close(fd)
        except (OSError, ValueError, IndexError):
            return

    def blame(self, outcome: Outcome, why: str) -> None:
        """Write down that we are about to end it, unless its command has already come to its own end."""
        if self.cause is None and _read_status(self.path) is None:
            self.cause = (outcome, why)
            with contextlib.suppress(OSError):  # a full disk: after a crash its exit status is then all there is
                _write(self.path / "cause", f"{outcome.value} {why}\n".encode())

    def time_left_s(self, leader: _Leader | None) -> float:
        """Of an adopted run: by its process's age, which no wall clock can falsify; else by the spec, within reason."""
        age = time.time() - self.started_at
        if leader is not None:
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - leader.start_ticks / os.sysconf("SC_CLK_TCK")
        return min(max(self.timeout_s - age, 0.0), self.timeout_s)

    def kill(self, left: dict[int, int]) -> None:
        """Each, and the group at once where its number is surely its own: a tree may fork faster than we walk."""
        if self.ours and self.pid is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        for fd in left.values():
            _send(fd, signal.SIGKILL)

    def reap(self) -> int | None:
        """The shim's exit, negative for a signal; None if it was not ours to reap."""
        if not self.ours or self.pid is None:
            return None
        with contextlib.suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return None

    def close(self) -> None:
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


@dataclass(kw_only=True, eq=False)
class ExecEndpoint:
    """Runs ``command`` once per message. ``tasks`` carries one watching task per run and must outlive the endpoint."""

    agent: str
    command: list[str]
    cwd: Path
    env: Mapping[str, str]
    runs_dir: Path
    resolve: Callable[[Place], Path]
    post: Post
    record: Callable[[str, dict[str, object]], None]
    tasks: TaskGroup
    extra_env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600
    stop_timeout_s: float = 10
    _running: dict[int, _Run] = field(default_factory=dict, init=False)
    _ended: dict[int, Path] = field(default_factory=dict, init=False)
    _stopping: bool = field(default=False, init=False)
    _walkers: anyio.CapacityLimiter = field(default_factory=partial(anyio.CapacityLimiter, 4), init=False)

    # --- the port
    async def tell(self, order: TellAgent) -> Told | NotTold | EndpointAway:
        if self._stopping:
            return EndpointAway(order.key, "ackd is stopping")
        if not await self._is_free(order.key):
            return NotTold(order.key, "its last run has not ended")
        self.forget(order.key)  # told again: what came before was committed
        try:
            run = self._start(order)
        except _NoProgramError as away:
            return EndpointAway(order.key, str(away))
        except (OSError, ValueError) as error:
            return NotTold(order.key, f"could not start {self.command[0]}: {error}")
        self.record("child_started", {"agent": self.agent, "message_id": run.message_id, "pid": run.pid})
        run.patience.deadline = anyio.current_time() + run.timeout_s
        self._watch_over(run)
        return Told(order.key, f"exec pid {run.pid}", seen=True)

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        return NotTold(order.key, "exec agents have no ladder")

    async def stop(self, drain_s: float) -> None:
        """After the drain what still runs is ended. What even KILL cannot end is left to adoption."""
        self._stopping = True
        with anyio.move_on_after(drain_s):
            await self._all_over()
        for run in self._running.values():
            run.blame(Outcome.STOPPED, "ackd was stopped")
            run.patience.cancel()
        with anyio.move_on_after(self.stop_timeout_s + 2 * _KILLED_WAIT_S):
            await self._all_over()
        self.abandon()

    # --- beyond the port
    def abandon(self) -> None:
        """Watch no more, at once; what runs goes on, and the next daemon adopts it."""
        self._stopping = True
        for run in self._running.values():
            run.watch.cancel()

    def adopt(self, key: int, found: FoundRun) -> None:
        """Watch a living run of a daemon that is gone; RunEnded follows. One that is over waits for ``forget``."""
        if not found.alive:
            self._ended[key] = found.path
            return
        run = _Run(key, found.message_id, found.path, found.timeout_s, found.started_at)
        self._watch_over(run)

    def forget(self, key: int) -> None:
        """The outcome is committed: the run's directory may go."""
        path = self._ended.pop(key, None)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)

    # --- starting
    async def _is_free(self, key: int) -> bool:
        """A command that says ``defer`` may be told again before it has come to its exit: wait for that a while."""
        with anyio.move_on_after(self.stop_timeout_s):
            while key in self._running:
                await self._running[key].over.wait()
        return key not in self._running

    def _start(self, order: TellAgent) -> _Run:
        program = self._program()
        self.runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.runs_dir.absolute() / f"{self.agent}--{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        run = _Run(order.key, order.message.message_id, path, self.timeout_s, time.time(), order.attempt, ours=True)
        try:
            with contextlib.ExitStack() as fds:
                message = _open_message(self.resolve(order.place), fds)
                _write(path / "spec.json", _spec(order, run, self.agent))
                _write(path / "body", _body(message))
                run.pid = self._spawn(program, order, path, message, fds)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        with contextlib.suppress(OSError):  # out of descriptors: the lock is polled instead
            run.pidfd = os.pidfd_open(run.pid)
        return run

    def _spawn(self, program: str, order: TellAgent, path: Path, message: int, fds: contextlib.ExitStack) -> int:
        """posix_spawn rather than Popen: it can number the descriptors, and keeps no child that we abandon."""
        lock = _open_apart(path / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, fds)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        output = _open_apart(path / "output", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, fds)
        return os.posix_spawn(
            SHELL,
            [
                *("sh", "-c", SHIM, "ackd-run"),
                *(str(path), str(self.cwd.absolute()), _own_umask()),
                *(program, *self.command[1:]),
            ],
            self._environment(order, path),
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((lock, output, message))),
                *((os.POSIX_SPAWN_CLOSE, fd) for fd in _left_open_for_us()),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,  # one ignored by us could be neither trapped nor reset by the shim
        )

    def _environment(self, order: TellAgent, path: Path) -> dict[str, str]:
        message = order.message
        return {
            **os.environ,
            **self.env,
            **self.extra_env,
            "ACKD_MESSAGE": str(self.resolve(order.place).absolute()),
            "ACKD_MESSAGE_ID": message.message_id,
            "ACKD_AGENT": self.agent,
            "ACKD_FROM": message.sender,
            "ACKD_TYPE": message.type,
            "ACKD_BODY": str(path / "body"),
            "ACKD_RUN": path.name,
        }

    def _program(self) -> str:
        """The program's absolute path, as the child would find it. Raises _NoProgramError."""
        if not self.cwd.is_dir():
            raise _NoProgramError(f"no working directory {self.cwd}")
        name = self.command[0]
        search = self.env.get("PATH", os.environ.get("PATH", os.defpath))
        named = shutil.which(self.cwd.absolute() / name) if "/" in name else shutil.which(name, path=search)
        if named is None:
            raise _NoProgramError(f"no program {name}" + ("" if "/" in name else " in PATH"))
        interpreter = _interpreter(named)
        if interpreter and not os.access(self.cwd / interpreter, os.X_OK):
            raise _NoProgramError(f"no interpreter {interpreter} for {name}")
        return os.path.abspath(named)  # noqa: PTH100 - resolve() would follow links, and some programs live by their name

    # --- watching
    def _watch_over(self, run: _Run) -> None:
        self._running[run.key] = run
        self.tasks.start_soon(self._watch, run, name=f"exec {run.path.name}")

    async def _watch(self, run: _Run) -> None:
        try:
            with run.watch:
                await self._see_through(run)
        finally:
            run.close()
            del self._running[run.key]
            run.over.set()
        if not run.watch.cancelled_caught:
            self._report(run)

    async def _see_through(self, run: _Run) -> None:
        if not run.ours:
            await self._identify(run)
        with run.patience:
            await run.gone()
        if not run.is_gone():
            run.blame(Outcome.FAILED, f"timed out after {run.timeout_s:g} s")
        await self._clear_away(run)
        await run.gone()

    async def _identify(self, run: _Run) -> None:
        """Find an adopted run's shim. A shim we cannot name is still watched, by its lock."""
        leader = _read_leader(run.path)
        with anyio.move_on_after(_ADOPT_WAIT_S):
            while leader is None and lock_held(run.path):
                await anyio.sleep(0.02)
                leader = _read_leader(run.path)
        if leader is not None:
            run.hold(leader)
        run.patience.deadline = anyio.current_time() + run.time_left_s(leader)
        facts = {"agent": self.agent, "message_id": run.message_id, "pid": run.pid, "adopted": True}
        self.record("child_started", {name: fact for name, fact in facts.items() if fact is not None})

    async def _clear_away(self, run: _Run) -> None:
        """End all that is left of the run: nothing, mostly. Looks again and again, for what is forked meanwhile.

        Gives up on what no KILL ends (a dead network mount).
        """
        kill_at = anyio.current_time() + self.stop_timeout_s
        termed: set[int] = set()
        while left := await self._left_of(run):
            try:
                if anyio.current_time() >= kill_at:
                    run.kill(left)
                else:
                    _term(left, termed)
                with anyio.CancelScope(deadline=anyio.current_time() + _LOOK_AGAIN_S):
                    for fd in left.values():
                        await _readable(fd)
            finally:
                _close(left)
            if anyio.current_time() > kill_at + _KILLED_WAIT_S:
                return

    async def _left_of(self, run: _Run) -> dict[int, int]:
        session = run.pid if run.ours or not run.is_gone() else None
        return await anyio.to_thread.run_sync(_belongings, run.path.name, session, limiter=self._walkers)

    def _report(self, run: _Run) -> None:
        """Reap the shim and say what came of the run. Its own status counts before its exit, which is only a copy."""
        exited = run.reap()
        status = _read_status(run.path)
        code = exited if status is None and exited is not None and exited >= 0 else status
        outcome, detail = run.cause or _verdict(run.path, code)
        if outcome is None:
            outcome, detail = Outcome.FAILED, _killed_detail(exited)
        if code in _NOT_RUN and run.cause is None and (missing := self._what_is_missing()):
            outcome, detail = Outcome.STOPPED, missing  # offered again, uncounted, and then found away
        facts: dict[str, object] = {"agent": self.agent, "message_id": run.message_id, "pid": run.pid, "exit": code}
        facts |= {"outcome": outcome.value, "seconds": round(time.monotonic() - run.since, 3)}
        self.record("child_ended", {name: fact for name, fact in facts.items() if fact is not None})
        self._ended[run.key] = run.path
        self.post(RunEnded(run.key, outcome, detail, run.attempt))

    def _what_is_missing(self) -> str | None:
        """Asked after 126 and 127, which may be the shell's word or the command's own."""
        try:
            self._program()
        except _NoProgramError as missing:
            return str(missing)
        return None

    async def _all_over(self) -> None:
        for run in list(self._running.values()):
            await run.over.wait()
