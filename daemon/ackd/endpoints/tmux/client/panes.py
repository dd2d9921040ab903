"""The panes that tmux lists, read into values; which of them a person means; and what can go wrong with a tmux server.

    TmuxFault
    ├── NoTmux           the program is not installed, or cannot be run
    ├── NoServer         nothing listens on that socket
    ├── NoPane           no pane of that id, target or title
    ├── AmbiguousPane    several panes fit, and none is guessed at
    ├── TmuxSilent       the server did not answer in time
    └── TmuxRefused      anything else it said no to, in its own words

A machine that refuses us a child (no processes, no descriptors) is plain ``OSError``: it says nothing about tmux.

Titles, names of sessions and of programs are anyone's words (a program sets its own title), so in the format that panes
are listed in each travels behind its length in bytes, as tmux counts it, and no separator can be forged. Targets are
matched here and not by tmux: asked for a pane that is not there, tmux answers with one that is (3.3a: team:0.7 becomes
team:0.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.core.errors import AckdError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Pane options of ours: whose pane it is, and which life we began in it. They outlive us, and tell the next daemon.
AGENT_OPTION: Final = "@ackd_agent"
LIFE_OPTION: Final = "@ackd_life"

_NUMBERS: Final = (
    "pane_id",
    "pane_pid",
    "pane_dead",
    "pane_dead_status",
    "pane_in_mode",
    "pane_synchronized",
    "pane_input_off",
    "pane_width",
    "pane_height",
    "history_size",
    "window_activity",
    "window_index",
    "pane_index",
)
_WORDS: Final = ("session_name", "window_name", "pane_title", AGENT_OPTION, LIFE_OPTION)
#: This field comes last, and without its control characters: a program may have a line break in its name, and would
#: forge a line with it.
_COMMAND: Final = "#{s/[^ -~]/_/:pane_current_command}"
FORMAT: Final = " ".join(
    [f"#{{{name}}}," for name in _NUMBERS] + [f"#{{n:{name}}}:#{{{name}}}" for name in _WORDS] + [_COMMAND]
)


@dataclass(frozen=True, slots=True)
class Pane:
    """A pane. ``command``: the program in its foreground. ``synchronized``: keys go to its neighbours, too.

    ``dead_status`` may be None for ever: tmux 3.3a now and then misses the exit of a child (its zombie stays), though
    it knows that the pane is dead.
    """

    pane_id: str
    pid: int
    dead: bool
    dead_status: int | None
    in_mode: bool
    synchronized: bool
    input_off: bool
    width: int
    height: int
    history: int
    activity: int
    window_index: int
    pane_index: int
    session: str
    window: str
    title: str
    command: str
    agent: str
    life: str

    @property
    def target(self) -> str:
        return f"{self.session}:{self.window_index}.{self.pane_index}"


def parse_pane(line: bytes) -> Pane:
    """Read one line of ``FORMAT``. An empty id, tmux's answer about a pane that is not there, is ``NoPane``."""
    try:
        *numbers, rest = line.split(b", ", len(_NUMBERS))
        pane_id, *values = [number.decode() for number in numbers]
        if not pane_id:
            raise NoPane("there")
        pid, dead, status, mode, together, off, *sizes = values
        width, height, history, activity, window_index, pane_index = map(int, sizes)
        session, window, title, agent, life, command = _words(rest)
        return Pane(
            pane_id=pane_id,
            pid=int(pid or 0),
            dead=_flag(dead),
            dead_status=int(status) if status else None,
            in_mode=_flag(mode),
            synchronized=_flag(together),
            input_off=_flag(off),
            width=width,
            height=height,
            history=history,
            activity=activity,
            window_index=window_index,
            pane_index=pane_index,
            session=session,
            window=window,
            title=title,
            command=command,
            agent=agent,
            life=life,
        )
    except ValueError as error:
        raise TmuxRefused("list-panes", f"a line that cannot be read: {line[:200]!r}") from error


def _flag(text: str) -> bool:
    return text not in {"", "0"}


def _words(rest: bytes) -> Iterable[str]:
    for _ in _WORDS:
        length, _, rest = rest.partition(b":")
        size = int(length)
        yield rest[:size].decode(errors="replace")
        if rest[size : size + 1] != b" ":
            raise ValueError(rest)
        rest = rest[size + 1 :]
    yield rest.decode(errors="replace")


def with_target(panes: Iterable[Pane], target: str) -> Pane:
    """The pane at ``%7``, ``session:window.pane`` (window by number or name), or the only one of what is less exact."""
    return _only([pane for pane in panes if _is_at(pane, target)], target)


def _is_at(pane: Pane, target: str) -> bool:
    if target.startswith("%"):
        return pane.pane_id == target
    session, _, inner = target.removeprefix("=").partition(":")
    if session != pane.session:
        return False
    windows = {str(pane.window_index), pane.window}
    return not inner or inner in windows or any(inner == f"{window}.{pane.pane_index}" for window in windows)


def with_title(panes: Iterable[Pane], title: str) -> Pane:
    return _only([pane for pane in panes if pane.title == title], f"titled {title!r}")


def _only(found: list[Pane], wanted: str) -> Pane:
    alive = [pane for pane in found if not pane.dead] or found
    if not alive:
        raise NoPane(wanted)
    if len(alive) > 1:
        raise AmbiguousPane(wanted, tuple(pane.pane_id for pane in alive))
    return alive[0]


# --- conditions -------------------------------------------------------------------------------------------------------
class TmuxFault(AckdError):  # noqa: N818 - the tree names the condition
    """Root of the conditions above. Its text is for people."""


class NoTmux(TmuxFault):
    def __init__(self, program: str, why: str) -> None:
        super().__init__(program, why)
        self.program = program
        self.why = why

    def __str__(self) -> str:
        return f"cannot run {self.program}: {self.why}"


class NoServer(TmuxFault):
    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    def __str__(self) -> str:
        return f"no tmux server: {self.said}"


class NoPane(TmuxFault):
    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted

    def __str__(self) -> str:
        return f"no pane {self.wanted}"


class AmbiguousPane(TmuxFault):
    def __init__(self, wanted: str, ids: tuple[str, ...]) -> None:
        super().__init__(wanted, ids)
        self.wanted = wanted
        self.ids = ids

    def __str__(self) -> str:
        return f"{self.wanted} fits {len(self.ids)} panes: {', '.join(self.ids[:5])}"


class TmuxSilent(TmuxFault):
    def __init__(self, command: str, timeout_s: float) -> None:
        super().__init__(command, timeout_s)
        self.command = command
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"tmux {self.command} did not answer within {self.timeout_s:g} s"


class TmuxRefused(TmuxFault):
    def __init__(self, command: str, said: str) -> None:
        super().__init__(command, said)
        self.command = command
        self.said = said

    def __str__(self) -> str:
        return f"tmux {self.command}: {self.said}"
