"""What tmux says of its panes, read into values, and which pane a person means.

Owns the format that panes are listed in. Titles, names of sessions and of programs are anyone's words (a program sets
its own title), so each travels behind its length in bytes, as tmux counts it, and no separator can be forged. Targets
are matched here and not by tmux: asked for a pane that is not there, tmux answers with one that is (3.3a: team:0.7
becomes team:0.0). Fails with ``NoPane`` and ``AmbiguousPane``; a line that cannot be read is a ``TmuxRefused``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.adapters.tmux.conditions import AmbiguousPane, NoPane, TmuxRefused

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
#: Last, and without its control characters: a program may have a line break in its name, and forge a line after it.
_COMMAND: Final = "#{s/[^ -~]/_/:pane_current_command}"
FORMAT: Final = " ".join(
    [f"#{{{name}}}," for name in _NUMBERS] + [f"#{{n:{name}}}:#{{{name}}}" for name in _WORDS] + [_COMMAND]
)


@dataclass(frozen=True, slots=True)
class Pane:
    """``command``: what runs in its foreground. ``synchronized``: keys go to its neighbours, too.

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
    """One line of ``FORMAT``. An empty id, tmux's answer about a pane that is not there, is ``NoPane``."""
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
