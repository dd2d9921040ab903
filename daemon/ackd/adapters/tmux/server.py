"""One tmux server, by its command line: look at panes, type into them, start and end them.

Owns the calls and their timeouts. Panes are addressed by id only, for ids are never given twice. Text is typed as
literal characters and is never a command line of anyone's; paste buffers are not used, which differ between versions.
Whatever mode a pane is in (copy mode, a chooser) is left in the same call that types, or the keys would be the mode's.

Refuses to know agents, messages, and what a screen means. Fails with the conditions of ``conditions``. A call that is
cancelled or takes too long leaves no child behind; whether the server has done it is then unknown.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import anyio

from ackd.adapters.tmux.call import call
from ackd.adapters.tmux.conditions import NoPane, NoServer, NoTmux, TmuxRefused, TmuxSilent
from ackd.adapters.tmux.panes import AGENT_OPTION, FORMAT, LIFE_OPTION, Pane, parse_pane
from ackd.core import faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Until the real command takes its place, so that whatever becomes of that, the pane stays to be asked.
_PLACEHOLDER: Final = ("sleep", "60")
_SERVER_ENDS_S: Final = 0.2
_SIZE: Final = ("-x", "160", "-y", "48")
#: Without a session, "no current target", a server is about to end.
_NO_SERVER: Final = ("no server running", "error connecting", "server exited", "lost server", "no current target")
_NO_PANE: Final = ("can't find pane", "can't find window", "can't find session")


@dataclass(frozen=True, slots=True)
class Screen:
    """A pane and what it showed at the same moment, as rows: what the eye sees, lines not joined."""

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
        """Held while one types into a pane: whoever else has something to say there waits."""
        return self._turns.setdefault(pane_id, anyio.Lock())

    # --- looking
    async def panes(self) -> list[Pane]:
        """All there are; none when there is no server."""
        try:
            out = await self.run("list-panes", "-a", "-F", FORMAT)
        except NoServer:
            return []
        return [parse_pane(line) for line in out.splitlines() if line]

    async def look(self, pane_id: str, *, rows_back: int = 0) -> Screen:
        """One call: what the pane is, and what it shows, with so many rows of what has scrolled away."""
        capture = ("capture-pane", "-p", "-S", str(-rows_back), "-t", pane_id)
        out = await self.run_all(("display-message", "-p", "-t", pane_id, FORMAT), capture)
        line, _, text = out.partition(b"\n")
        pane = parse_pane(line)
        if pane.pane_id != pane_id:
            raise NoPane(pane_id)
        return Screen(pane, text.decode(errors="replace"))

    # --- typing
    async def type_text(self, pane_id: str, text: str) -> None:
        """Literally, character for character, with nothing after it: Enter is a key event of its own."""
        if not text.isprintable():
            raise ValueError(f"not typed, for it has control characters: {text!r}")
        await self._keys(pane_id, "-l", "--", text)

    async def press(self, pane_id: str, *names: str) -> None:
        """Keys by tmux's names (``Enter``, ``Escape``, ``C-c``)."""
        await self._keys(pane_id, "--", *names)

    async def press_again(self, pane_id: str, name: str, times: int) -> None:
        await self._keys(pane_id, "-N", str(times), "--", name)

    async def send_bytes(self, pane_id: str, data: bytes) -> None:
        """Raw: what no key name stands for everywhere, such as a bare CR."""
        await self._keys(pane_id, "-H", "--", *(f"{byte:02x}" for byte in data))

    async def _keys(self, pane_id: str, *words: str) -> None:
        await self.run_all(("copy-mode", "-q", "-t", pane_id), ("send-keys", "-t", pane_id, *words))

    # --- starting and ending
    async def start(
        self, *, session: str, window: str, command: str, cwd: Path, env: Mapping[str, str], agent: str, life: str
    ) -> Pane:
        """A new pane that runs ``command`` (a shell's command line, of the config) in a window of its own.

        It stays after the command has ended, dead, so that its exit status and last words can be read.
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
        await anyio.sleep(_SERVER_ENDS_S)  # the last server was just ending, or another has just made the session
        try:
            return (await self.run(*in_session)).decode().strip()
        except (NoServer, NoPane):
            return (await self.run(*first)).decode().strip()

    async def mark(self, pane_id: str, agent: str) -> None:
        """Whose pane it is, for us and the next daemon: programs change titles, and targets move."""
        await self.set_option(pane_id, AGENT_OPTION, agent)

    async def set_option(self, pane_id: str, name: str, value: str) -> None:
        await self.run("set-option", "-p", "-t", pane_id, name, value)

    async def kill(self, pane_id: str) -> None:
        """Gone already is as good."""
        with contextlib.suppress(NoPane, NoServer):
            await self.run("kill-pane", "-t", pane_id)

    # --- one call
    async def run(self, *words: str) -> bytes:
        return await self.run_all(words)

    async def run_all(self, *commands: Sequence[str]) -> bytes:
        """One after the other, in one call; what follows one that fails is not done."""
        words = [word for command in commands for word in (";", *map(_argument, command))][1:]
        # -u: without a UTF-8 locale, as under systemd, every box and arrow would be read back as "_".
        try:
            done = await call([self._path(), "-u", *self._server, *words], self.timeout_s)
        except TimeoutError:
            raise TmuxSilent(words[0], self.timeout_s) from None
        except OSError as error:
            self._found = None  # it may be somewhere else the next time
            if faults.is_nobodys(error):
                raise
            raise NoTmux(self.program, os.strerror(error.errno or 0)) from error
        if done.exit != 0:
            raise _condition(words[0], done.err.decode(errors="replace").strip())
        return done.out

    def _path(self) -> str:
        """Looked for in PATH once, not for every call: a keystroke waits for it."""
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
    """By what a config says: a path if there is a slash in it, else a name; empty: the user's own."""
    if not socket:
        return Tmux()
    return Tmux(socket_path=Path(socket)) if "/" in socket else Tmux(socket_name=socket)


def _argument(word: str) -> str:
    """tmux ends a command at a word's last semicolon, wherever it came from."""
    return word[:-1] + "\\;" if word.endswith(";") else word


def _condition(command: str, said: str) -> Exception:
    if said.startswith(_NO_SERVER):
        return NoServer(said)
    if said.startswith(_NO_PANE):
        return NoPane(said.partition(": ")[2] or said)
    return TmuxRefused(command, said or "it failed without a word")
