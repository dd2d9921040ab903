"""Drives a tmux server by the command line: looks at panes, types into them, starts and ends them.

Panes are addressed by id only, because ids are never given twice. Text is typed as literal characters and never becomes
part of a command line. Paste buffers are not used, because they differ between versions. If a pane is in a mode (copy
mode, a chooser), the call that types leaves the mode first, or the mode would take the keys.

Fails with the conditions of ``panes``. A call that is cancelled or takes too long leaves no child behind; whether the
server has carried it out is then unknown. The output of a call goes to memory files, so that it need not be read while
the call runs, and the end of the call is seen by a pidfd. Asyncio's own subprocesses make pipes, transports and, before
Python 3.12, a thread for each call, which takes a fifth of the time of a call of tmux.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

import anyio

from ackd.core import faults
from ackd.endpoints.tmux.client.panes import (
    AGENT_OPTION,
    FORMAT,
    LIFE_OPTION,
    NoPane,
    NoServer,
    NoTmux,
    Pane,
    TmuxRefused,
    TmuxSilent,
    parse_pane,
)
from ackd.system import process_tree, processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Runs until the real command takes its place. Whatever happens to that, the pane stays and can be asked about it.
_PLACEHOLDER: Final = ("sleep", "60")
_SERVER_ENDS_S: Final = 0.2
_SIZE: Final = ("-x", "160", "-y", "48")
#: Answers of a server that is about to end: without a session it says "no current target".
_NO_SERVER: Final = ("no server running", "error connecting", "server exited", "lost server", "no current target")
_NO_PANE: Final = ("can't find pane", "can't find window", "can't find session")


@dataclass(frozen=True, slots=True)
class Screen:
    """A pane and what it showed at the same moment: rows as they are seen, with wrapped lines not joined."""

    pane: Pane
    text: str


@dataclass(kw_only=True, eq=False)
class Tmux:
    """``socket_name`` (-L) or ``socket_path`` (-S) choose the server; else it is the user's own."""

    socket_name: str | None = None
    socket_path: Path | None = None
    config_file: str | None = None
    program: str = "tmux"
    timeout_s: float = 5.0
    _found: tuple[str, str] | None = field(default=None, init=False)
    _turns: WeakValueDictionary[str, anyio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    def turn(self, pane_id: str) -> anyio.Lock:
        """The lock that is held while one caller types into a pane; others wait."""
        return self._turns.setdefault(pane_id, anyio.Lock())

    # --- looking
    async def panes(self) -> list[Pane]:
        """All panes of the server; none when there is no server."""
        try:
            out = await self.run("list-panes", "-a", "-F", FORMAT)
        except NoServer:
            return []
        return [parse_pane(line) for line in out.splitlines() if line]

    async def look(self, pane_id: str, *, rows_back: int = 0) -> Screen:
        """The pane and what it shows, in one call, with ``rows_back`` rows of what has scrolled away."""
        capture = ("capture-pane", "-p", "-S", str(-rows_back), "-t", pane_id)
        out = await self.run_all(("display-message", "-p", "-t", pane_id, FORMAT), capture)
        line, _, text = out.partition(b"\n")
        pane = parse_pane(line)
        if pane.pane_id != pane_id:
            raise NoPane(pane_id)
        return Screen(pane, text.decode(errors="replace"))

    # --- typing
    async def type_text(self, pane_id: str, text: str) -> None:
        """Type the text literally, character for character, with nothing after it: Enter is a key event of its own."""
        if not text.isprintable():
            raise ValueError(f"not typed, for it has control characters: {text!r}")
        await self._keys(pane_id, "-l", "--", text)

    async def press(self, pane_id: str, *names: str) -> None:
        """Press keys by tmux's names (``Enter``, ``Escape``, ``C-c``)."""
        await self._keys(pane_id, "--", *names)

    async def press_again(self, pane_id: str, name: str, times: int) -> None:
        await self._keys(pane_id, "-N", str(times), "--", name)

    async def send_bytes(self, pane_id: str, data: bytes) -> None:
        """Send raw bytes, for what no key name stands for everywhere, such as a bare CR."""
        await self._keys(pane_id, "-H", "--", *(f"{byte:02x}" for byte in data))

    async def _keys(self, pane_id: str, *words: str) -> None:
        await self.run_all(("copy-mode", "-q", "-t", pane_id), ("send-keys", "-t", pane_id, *words))

    # --- starting and ending
    async def start(
        self, *, session: str, window: str, command: str, cwd: Path, env: Mapping[str, str], agent: str, life: str
    ) -> Pane:
        """Start a pane that runs ``command`` (a shell's command line, of the config) in a window of its own.

        The pane stays after the command has ended, dead, so that its exit status and last words can be read.
        """
        pane_id = await self._new_window(session, window, cwd)
        settings = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        try:
            await self.set_option(pane_id, "remain-on-exit", "on")
            await self.mark(pane_id, agent)
            await self.set_option(pane_id, LIFE_OPTION, life)
            await self.run("respawn-pane", "-k", "-t", pane_id, "-c", str(cwd), *settings, command)
            return (await self.look(pane_id)).pane
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.kill(pane_id)
            raise

    async def _new_window(self, session: str, window: str, cwd: Path) -> str:
        place = ("-d", "-P", "-F", "#{pane_id}", "-n", window, "-c", str(cwd))
        in_session = ("new-window", *place, "-t", f"={session}:", *_PLACEHOLDER)
        first = ("new-session", *place, "-s", session, *_SIZE, *_PLACEHOLDER)
        for command in (in_session, first):
            with contextlib.suppress(NoServer, NoPane, TmuxRefused):
                return (await self.run(*command)).decode().strip()
        # Either the last server was just ending, or another caller has just made the session.
        await anyio.sleep(_SERVER_ENDS_S)
        try:
            return (await self.run(*in_session)).decode().strip()
        except (NoServer, NoPane):
            return (await self.run(*first)).decode().strip()

    async def mark(self, pane_id: str, agent: str) -> None:
        """Mark a pane as an agent's, for us and the next daemon: programs change titles, and targets move."""
        await self.set_option(pane_id, AGENT_OPTION, agent)

    async def set_option(self, pane_id: str, name: str, value: str) -> None:
        await self.run("set-option", "-p", "-t", pane_id, name, value)

    async def kill(self, pane_id: str) -> None:
        """Kill the pane; one that is gone already is as good."""
        with contextlib.suppress(NoPane, NoServer):
            await self.run("kill-pane", "-t", pane_id)

    # --- one call
    async def run(self, *words: str) -> bytes:
        return await self.run_all(words)

    async def run_all(self, *commands: Sequence[str]) -> bytes:
        """Run tmux commands one after the other, in one call; those after one that fails are not run."""
        words = [word for command in commands for word in (";", *map(_argument, command))][1:]
        # -u: without a UTF-8 locale, as under systemd, every box and arrow would be read back as "_".
        try:
            done = await call([self._path(), "-u", *self._server, *words], self.timeout_s)
        except TimeoutError:
            raise TmuxSilent(words[0], self.timeout_s) from None
        except OSError as error:
            self._found = None  # search PATH again next time: the program may have moved
            if faults.is_nobodys(error):
                raise
            raise NoTmux(self.program, os.strerror(error.errno or 0)) from error
        if done.exit != 0:
            raise _condition(words[0], done.err.decode(errors="replace").strip())
        return done.out

    def _path(self) -> str:
        """The program, looked for in PATH once and not for every call: a keystroke waits for it."""
        if self._found is None or self._found[0] != self.program:
            self._found = self.program, shutil.which(self.program) or self.program
        return self._found[1]

    @property
    def _server(self) -> list[str]:
        config = ["-f", self.config_file] if self.config_file is not None else []
        if self.socket_path is not None:
            return [*config, "-S", str(self.socket_path)]
        return [*config, "-L", self.socket_name] if self.socket_name is not None else config


def server_called(socket: str) -> Tmux:
    """The server that a config names: by a path if there is a slash in it, else by a name; empty: the user's own."""
    if not socket:
        return Tmux()
    return Tmux(socket_path=Path(socket)) if "/" in socket else Tmux(socket_name=socket)


def _argument(word: str) -> str:
    """Escape a word for tmux, which ends a command at a word's last semicolon, wherever it came from."""
    return word[:-1] + "\\;" if word.endswith(";") else word


def _condition(command: str, said: str) -> Exception:
    if said.startswith(_NO_SERVER):
        return NoServer(said)
    if said.startswith(_NO_PANE):
        return NoPane(said.partition(": ")[2] or said)
    return TmuxRefused(command, said or "it failed without a word")


# --- one call of a program --------------------------------------------------------------------------------------------
class CallResult(NamedTuple):
    exit: int
    out: bytes
    err: bytes


async def call(command: Sequence[str], timeout_s: float) -> CallResult:
    with _memory("stdout") as out, _memory("stderr") as err:
        pid = _spawn(command, out, err)
        await _end_of(pid, timeout_s)
        return CallResult(_reap(pid), _content(out), _content(err))


def _spawn(command: Sequence[str], out: int, err: int) -> int:
    """Start the program with signals as a shell would have them: Python ignores SIGPIPE, and a child inherits that. A
    server that this starts outlives us, and keeps what it inherits."""
    _keep_to_ourselves()
    outputs = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    signals = [signal.SIGPIPE, signal.SIGXFSZ]
    actions = [nothing, *outputs]
    return os.posix_spawnp(command[0], list(command), os.environ, file_actions=actions, setsigdef=signals)


@functools.cache
def _keep_to_ourselves() -> None:
    """Make sure, once, that descriptors of ours are not inherited."""
    processes.keep_to_ourselves()


def _reap(pid: int) -> int:
    """The exit status of a child that is dead, or about to be."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


async def _end_of(pid: int, timeout_s: float) -> None:
    """Wait until the child is dead, but do not reap it. If it is late or we are cancelled, nothing of it is left."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)  # our child, not reaped yet, so the pid cannot belong to another process
        _reap(pid)
        raise
    try:
        with anyio.fail_after(timeout_s):
            await process_tree.died(pidfd)
    except BaseException:
        with anyio.CancelScope(shield=True):
            process_tree.send(pidfd, signal.SIGKILL)
            await process_tree.died(pidfd)
        _reap(pid)
        raise
    finally:
        os.close(pidfd)


@contextlib.contextmanager
def _memory(name: str) -> Iterator[int]:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
