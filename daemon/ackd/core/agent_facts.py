"""The facts about agents and what lives behind them: how they are treated, children, workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.fact import BLUE, DIM, GREEN, YELLOW, Tally, fact

if TYPE_CHECKING:
    from ackd.core.fact import Shown


@fact("agent", "■", BLUE, lambda of: f"{of['state']}{of('reason', ': {}')}{of('until', ', until {}')}", of_agent=True)
def agent_state(*, agent: str, state: str, reason: str | None = None, until: str | None = None) -> None:
    """The agent can be given work now, or no longer (available, busy, parked, paused, down)."""


@fact("endpoint", "■", BLUE, lambda of: f"{of['endpoint']} from now on{of('before', ', before: {}')}", of_agent=True)
def endpoint_replaced(*, agent: str, before: str, endpoint: str) -> None:
    """The config has another endpoint for the agent, and the old one had nothing in hand any more. An agent that is no
    longer in the config is an inbox from here on."""


@fact("screen", "·", DIM, lambda of: f"its screen says: {of['doing']}")
def agent_shows(*, agent: str, doing: str) -> None:
    """The agent's screen shows that it does something else than before."""


@fact("liveness", "·", DIM, lambda of: f"{of['liveness']}{of('before', ', before: {}')}")
def liveness(*, agent: str, liveness: str, before: str | None = None) -> None:
    """An agent that holds work is now believed to be alive, or no longer."""


# --- waking -----------------------------------------------------------------------------------------------------------
def _nudge(of: Shown) -> str:
    return "woken by hand, with the first rung" if of("by") else f"silent: rung {of['rung']} of its ladder"


@fact("nudge", "!", YELLOW, _nudge, tally=Tally("nudges", "woken once", "woken {} times"))
def nudge(*, message_id: str, agent: str, pool: str | None = None, rung: int, by: str | None = None) -> None:
    """The agent is silent: a rung of its ladder is due. ``by``: a person asked for it."""


#: The beginning of ``done`` in the lines ``nudged`` and ``probed``, where nothing came of it.
NOT_DONE: Final = "not done: "


@fact("nudge", "!", YELLOW, lambda of: f"{of('rung', 'rung {}: ')}{of['done']}")
def nudged(
    *,
    agent: str,
    done: str,
    rung: int | None = None,
    message_id: str | None = None,
    task_id: str | None = None,
) -> None:
    """A rung of the ladder was tried; ``done`` says what came of it."""


@fact(
    "check",
    "?",
    YELLOW,
    lambda of: f"quiet{of.time('quiet_s', ' for {}')}: “{of['text']}”",
    tally=Tally("status_checks", "checked on once", "checked on {} times"),
)
def probe(*, message_id: str, agent: str, pool: str | None = None, text: str, quiet_s: float | None = None) -> None:
    """The agent holds work and shows no sign of life: a status check is due."""


@fact("check", "?", YELLOW, lambda of: f"{of['done']}")
def probed(*, message_id: str, agent: str, done: str) -> None:
    """A status check was tried; ``done`` says what came of it."""


def _idle_reminder(of: Shown) -> str:
    done = of("proof") or f"could not be typed, {of['not_done']}"
    return f"idle at its prompt, reminder {of['number']}: {done}"


@fact("reminder", "?", YELLOW, _idle_reminder, tally=Tally("reminders", "reminded once", "reminded {} times"))
def idle_reminder(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    number: int,
    proof: str | None = None,
    not_done: str | None = None,
) -> None:
    """The agent is idle with work in hand and was reminded of it, or could not be (``not_done``)."""


# --- requests of people -----------------------------------------------------------------------------------------------
@fact("request", "■", BLUE, lambda of: f"{of['request']}{of('by', ', asked for by {}')}: {of['answer']}", of_agent=True)
def agent_request(
    *,
    agent: str,
    request: str,
    answer: str,
    by: str | None = None,
    receipt: str | None = None,
    refused: bool | None = None,
) -> None:
    """A person asked for something to be done with an agent; ``answer`` says what came of it."""


# --- children ---------------------------------------------------------------------------------------------------------
def _child_started(of: Shown) -> str:
    if of("adopted"):
        return f"pid {of['pid']} adopted: it outlived the last daemon"
    return f"pid {of['pid']} started{of('generation', ', generation {}')}"


@fact("child", "·", DIM, _child_started, routine=True, of_agent=True)
def child_started(
    *,
    agent: str,
    pid: int | None = None,
    message_id: str | None = None,
    generation: int | None = None,
    adopted: bool | None = None,
) -> None:
    """A command, a child or a pane of an agent was started, or taken over from the last daemon (``adopted``)."""


def _child_ended(of: Shown) -> str:
    if of("why"):
        return f"pid {of['pid']} ended{of.time('seconds', ' after {}')}: {of['why']}"
    code = f", exit {of['exit']}" if "exit" in of.data else ", nobody knows how"
    left = of.data.get("left")
    behind = f"; no KILL ends what it started: pid {', '.join(map(str, left))}" if isinstance(left, list) else ""
    return f"pid {of['pid']} ended{code}{of.time('seconds', ', after {}')}{behind}"


@fact("child", "·", DIM, _child_ended, routine=True, of_agent=True)
def child_ended(
    *,
    agent: str,
    pid: int | None = None,
    message_id: str | None = None,
    exit: int | None = None,  # noqa: A002 - the line's own word
    outcome: str | None = None,
    seconds: float | None = None,
    why: str | None = None,
    output_cut_bytes: int | None = None,
    left: list[int] | None = None,
) -> None:
    """A command, a child or a pane of an agent has ended. ``left``: processes that it started and no KILL ends."""


def _child_restart(of: Shown) -> str:
    count = of.data.get("count")
    deaths = f", after {count} deaths" if isinstance(count, int) and count > 1 else ""
    when = "at once" if of.data.get("in_s") == 0 else of.time("in_s", "in {}") or "in ?"
    return f"started again {when}{deaths}{of('why', ': {}')}"


@fact(
    "restart",
    "↻",
    YELLOW,
    _child_restart,
    of_agent=True,
    tally=Tally("restarts", "restarted once", "restarted {} times"),
)
def child_restart(*, agent: str, in_s: float, why: str | None = None, count: int | None = None) -> None:
    """A child or pane that died, or that a person wants restarted, will be started again after ``in_s``."""


# --- workers ----------------------------------------------------------------------------------------------------------
def _worker_state(of: Shown) -> str:
    refused = of("refused", "; it says {}, which cannot follow: not believed")
    return f"{of['state']}{of.mark('passed', ', passed on the way to what follows; nobody reported it')}{refused}"


@fact("worker", "·", DIM, _worker_state)
def worker_state(
    *, agent: str, state: str, message_id: str | None = None, refused: str | None = None, passed: bool | None = None
) -> None:
    """A worker is in another of its nine states, or claimed one that cannot follow (``refused``). ``passed``: it only
    lies on the way to the state that was reported, which the line after it has."""


@fact("blocked", "!", YELLOW, lambda of: f"cannot go on: {of['reason']}{of('blocker', ', waits for {}')}")
def work_blocked(
    *, message_id: str, agent: str, pool: str | None = None, reason: str, blocker: str | None = None
) -> None:
    """A worker says that it cannot go on."""


def _context_threshold(of: Shown) -> str:
    return f"{of.percent('usage')} of its context used, {of.percent('threshold')} allowed: a fresh one shall go on"


@fact("context", "!", YELLOW, _context_threshold, tally=Tally("full_contexts", "1 full context", "{} full contexts"))
def context_threshold(*, message_id: str, agent: str, pool: str | None = None, usage: float, threshold: float) -> None:
    """An agent's context is full enough that a fresh one shall go on with its work."""


@fact(
    "checkpoint",
    "✓",
    GREEN,
    lambda _: "said where it stands: whoever goes on begins there",
    tally=Tally("checkpoints", "1 checkpoint", "{} checkpoints"),
)
def checkpoint(*, message_id: str, agent: str, pool: str | None = None) -> None:
    """The agent said where its work stands; whoever goes on with it is given that."""
