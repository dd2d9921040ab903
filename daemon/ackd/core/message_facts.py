"""The facts about messages: their life, the work that they are, and who was told of trouble with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.fact import CYAN, DIM, DIM_CYAN, GREEN, RED, YELLOW, declared_in, fact

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.fact import Shown

#: The evidence that a message was read through `ackd read`, as its receipt names it, and as people are told it.
_SEEN: Final = "ackd seen"
SEEN_BY_READING: Final = "read through `ackd read`"


def evidence(said: str) -> str:
    """Say what showed that a message was seen. A receipt names its kind, but the person typed another command."""
    return said.removesuffix(_SEEN) + SEEN_BY_READING if said in (_SEEN, f"seen: {_SEEN}") else said


# --- the life of a message --------------------------------------------------------------------------------------------
def _queued(of: Shown) -> str:
    more = (
        of("task_id", ", task {}")
        + of.id("in_reply_to", ", in reply to {}")
        + of.id("part_of", ", part of {}")
        + of("expires", ", expires {}")
        + of("deadline", ", due {}")
        + of.mark("recovered", ", found at start")
    )
    return f"from {of['from']}: {of['message_type']}, {of['priority']}{more}"


@fact("queued", "+", CYAN, _queued, routine=True)
def message_queued(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    from_: str,
    message_type: str,
    file: str,
    priority: str | None = None,
    thread_id: str | None = None,
    in_reply_to: str | None = None,
    task_id: str | None = None,
    part_of: str | None = None,
    root: str | None = None,
    notify: bool | None = None,
    expires: str | None = None,
    deadline: str | None = None,
    recovered: bool | None = None,
) -> None:
    """A message was met in its agent's queue for the first time, or by the first look of a new daemon."""


@fact("claimed", "·", DIM, lambda of: f"taken up{of('file', ': {}')}", routine=True)
def message_claimed(*, message_id: str, agent: str, pool: str | None = None, file: str) -> None:
    """The message's file was moved to processed/: it is about to be told."""


@fact("told", "→", CYAN, lambda of: f"attempt {of['attempt']}, proof: {of['proof']}", routine=True)
def message_told(*, message_id: str, agent: str, pool: str | None = None, attempt: int, proof: str) -> None:
    """The agent was told of the message; ``proof`` says how that is known."""


@fact("seen", "→", CYAN, lambda of: evidence(of["evidence"]), routine=True)
def message_seen(*, message_id: str, agent: str, pool: str | None = None, evidence: str) -> None:
    """Something shows that the agent took the message up."""


@fact("acked", "✓", GREEN, lambda of: f"by {of['by']}", routine=True)
def message_acked(*, message_id: str, agent: str, pool: str | None = None, by: str) -> None:
    """The agent acknowledged the message."""


def _completed(of: Shown) -> str:
    late = of.mark("late", ", late") + of.mark("recovered", ", while the daemon was away")
    return f"by {evidence(of['by'])}{of.time('seconds', ', after {}')}{late}"


@fact("completed", "✓", GREEN, _completed, routine=True, counts="completed")
def message_completed(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    by: str,
    seconds: float | None = None,
    file: str | None = None,
    late: bool | None = None,
    recovered: bool | None = None,
) -> None:
    """The message is dealt with. ``late``: after it had been given up."""


def _retry(of: Shown) -> str:
    """The count and the time come first: the reason may be long, and the end of a line is what is cut."""
    count = f"{of['retry_count']} of {of['retry_limit']}" if of.data.get("counted", True) else "not counted"
    return f"{count}{of.time('delay_s', ', again in {}')}: {of['reason']}"


@fact("retry", "↻", YELLOW, _retry)
def message_retry(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    reason: str,
    counted: bool,
    retry_count: int,
    retry_limit: int,
    delay_s: float,
    next_retry_after: str | None = None,
) -> None:
    """The message will be told again after ``delay_s``. ``counted``: the failure counts against ``retry_limit``."""


def _dead(of: Shown) -> str:
    retries = of.data.get("retry_count")
    tried = (
        f", after {retries} {'retry' if retries == 1 else 'retries'}" if isinstance(retries, int) and retries else ""
    )
    return f"{of['reason']}{tried}{of.mark('recovered', ', found at start')}"


@fact("dead", "✗", RED, _dead, loud=True)
def message_dead(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    reason: str,
    from_: str | None = None,
    retry_count: int | None = None,
    file: str | None = None,
    end: str | None = None,
    recovered: bool | None = None,
) -> None:
    """The message was given up and moved to dead_letter/. ``end``: ``cancelled`` (a late completion changes nothing) or
    ``expired``."""


@fact("withdrawn", "-", YELLOW, lambda of: of["reason"], counts="withdrawn")
def message_withdrawn(
    *, message_id: str, agent: str, pool: str | None = None, reason: str, recovered: bool | None = None
) -> None:
    """The message's file was removed, moved or replaced by hand before it was told; or it was cancelled by then, and
    lies in the archive."""


def _cancel(of: Shown) -> str:
    reason = f"{of.id('of', ' with {}')}{of('reason', ': {}')}"
    return f"cancelled by {of['by']}{reason} (it is {of['state']})"


@fact("cancel", "✗", YELLOW, _cancel)
def message_cancel(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    by: str,
    state: str,
    reason: str | None = None,
    of: str | None = None,
) -> None:
    """The message was cancelled, by its sender or a person. What came of that is a line of its own. ``of``: the message
    from which it came, and with which it was cancelled."""


@fact("let go", "·", CYAN, lambda of: f"its agent has let go of it: {of['how']}")
def message_let_go(*, message_id: str, agent: str, pool: str | None = None, how: str) -> None:
    """The agent that had a cancelled message was told so, or its work on it was ended."""


@fact("late", "!", YELLOW, lambda of: f"completed by {evidence(of['by'])} after it was cancelled: it stays cancelled")
def message_late(*, message_id: str, agent: str, pool: str | None = None, by: str) -> None:
    """A completion came after the message was cancelled. It changes nothing."""


@fact("deadline", "!", YELLOW, lambda of: f"due at {of['deadline']}: its agent is reminded {of['how']}")
def deadline_near(*, message_id: str, agent: str, pool: str | None = None, deadline: str, how: str) -> None:
    """Most of the time until the message's deadline is over, and its agent has not completed it."""


def _deadline_passed(of: Shown) -> str:
    then = ", and is cancelled" if of["then"] == "cancel" else ""
    return f"not completed by {of['deadline']}: it is {of['state']}{then}"


@fact("deadline", "▲", RED, _deadline_passed)
def deadline_passed(
    *, message_id: str, agent: str, pool: str | None = None, deadline: str, state: str, then: str
) -> None:
    """The message's deadline is past, and it is not completed. ``then``: ``tell`` or ``cancel`` (on_deadline)."""


@fact(
    "rejected", "✗", RED, lambda of: f"{of['file']}: {of['reason']} [{of['code']}], kept as {of['kept_as']}", loud=True
)
def message_rejected(
    *,
    file: str,
    code: str,
    reason: str,
    kept_as: str,
    agent: str | None = None,
    recovered: bool | None = None,
) -> None:
    """A file that is no message was moved to corrupt/, byte for byte."""


@fact(
    "duplicate",
    "=",
    YELLOW,
    lambda of: f"came again while {of['of_state']}: not processed twice",
    counts="duplicates",
)
def message_duplicate(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    of_state: str | None = None,
    file: str | None = None,
    recovered: bool | None = None,
) -> None:
    """The same message came again within dedup_window_s: it is archived, not told."""


def _requeued(of: Shown) -> str:
    return f"back in the queue{of('file', ': {}')}{of('kept_as', ', out of quarantine ({})')}"


@fact("returned", "↩", YELLOW, lambda of: f"back in the queue of {of['pool']}: {of['reason']}")
def message_handed_back(*, message_id: str, agent: str, pool: str, reason: str, file: str) -> None:
    """A member of a pool did not complete the message: it lies in the pool's queue again, for another one."""


@fact("requeued", "+", CYAN, _requeued)
def message_requeued(
    *, agent: str, pool: str | None = None, file: str, message_id: str | None = None, kept_as: str | None = None
) -> None:
    """A person put a dead letter or a quarantined file back into its queue."""


@fact("purged", "-", YELLOW, lambda of: f"removed for good by a person{of('file', ': {}')}")
def message_purged(*, file: str, message_id: str | None = None, agent: str | None = None) -> None:
    """A person removed a dead letter or a quarantined file for good."""


@fact("warning", "!", YELLOW, lambda of: of["warning"])
def message_warning(
    *,
    warning: str,
    message_id: str | None = None,
    agent: str | None = None,
    pool: str | None = None,
    body: str | None = None,
    story: str | None = None,
    stage: int | None = None,
    generation: int | None = None,
) -> None:
    """Something about a message is odd, and it is delivered or kept all the same."""


@fact("overdue", "!", YELLOW, lambda of: f"still no result{of.time('seconds', ' after {}')}")
def message_overdue(*, message_id: str, agent: str, pool: str | None = None, seconds: float) -> None:
    """The agent acknowledged the message and has not finished it within task_timeout_s."""


@fact("copied", "+", CYAN, lambda of: f"{of['of']} names it as well and lay there alone: copied to {of['file']}")
def message_copied(*, message_id: str, agent: str, file: str, of: str) -> None:
    """A message that somebody dropped into one queue names this agent too: it gets a copy."""


@fact("held", "▲", RED, lambda of: f"held in the queue: {of['reason']}{of('release', '; `{}` lets it go')}", loud=True)
def message_held(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    reason: str,
    members: list[str] | None = None,
    rounds: int | None = None,
    release: str | None = None,
) -> None:
    """The message goes around among agents without an end: it waits until a person lets it go."""


@fact("released", "·", CYAN, lambda of: f"held no longer{of('by', ': released by {}')}")
def message_released(*, message_id: str, agent: str, pool: str | None = None, by: str | None = None) -> None:
    """A message that was held goes on."""


@fact(
    "waits",
    "·",
    DIM,
    lambda of: f"its agent waits for {of['waits_for']}" if of("waits_for") else "its agent waits no more",
)
def message_waits(*, message_id: str, agent: str, pool: str | None = None, waits_for: list[str] | None = None) -> None:
    """The agent that holds the message waits for others, or waits no more (without ``waits_for``)."""


@fact("parts", "✓", CYAN, lambda of: f"all {of['parts']} parts have ended, its holder is told: {of.counts('ends')}")
def parts_ended(*, message_id: str, agent: str, notice_id: str, parts: int, ends: dict[str, int]) -> None:
    """All parts that the agent sent for the message have ended, and it is told what came of each. ``ends``: how many
    ended in which way."""


def _progress(of: Shown) -> str:
    return " ".join(f"{key}={of.shown(of.data.get(key))}" for key in ("stage", "percent", "message"))


@fact("progress", "▸", DIM_CYAN, _progress, routine=True)
def progress(
    *,
    agent: str,
    pool: str | None = None,
    from_: str,
    message_id: str,
    stage: str | None = None,
    percent: float | None = None,
    message: str | None = None,
    final: bool | None = None,
    recovered: bool | None = None,
) -> None:
    """An agent says how far it has come; ``from`` says so to ``agent``."""


# --- work and reviews, as the seeds call them -------------------------------------------------------------------------
def _task(done: str) -> Callable[[Shown], str]:
    return lambda of: f"{done}{of('task_id', ' {}')}{of('reason', ': {}')}"


@fact("assign", "·", DIM, lambda of: f"works on {of['message_type']}{of('task_id', ' {}')}", routine=True)
def worker_assign(
    *, message_id: str, agent: str, pool: str | None = None, message_type: str, task_id: str | None = None
) -> None:
    """The agent has been told of work, or has taken it from its inbox."""


@fact("release", "·", DIM, lambda of: f"free again{of('task_id', ' of {}')}{of('reason', ': {}')}", routine=True)
def worker_release(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    message_type: str,
    reason: str | None = None,
    task_id: str | None = None,
) -> None:
    """The agent's work on the message is over."""


@fact("task", "·", CYAN, _task("started"), routine=True)
def task_start(
    *, message_id: str, agent: str, pool: str | None = None, message_type: str, task_id: str | None = None
) -> None:
    """A task was seen or acknowledged by its agent."""


@fact("task", "✓", GREEN, _task("complete"), routine=True)
def task_complete(
    *, message_id: str, agent: str, pool: str | None = None, message_type: str, task_id: str | None = None
) -> None:
    """A task was completed."""


@fact("task", "✗", RED, _task("failed"), loud=True)
def task_failed(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    message_type: str,
    reason: str | None = None,
    task_id: str | None = None,
) -> None:
    """A task was refused or given up."""


@fact("review", "·", CYAN, _task("review asked for"), routine=True)
def review_start(
    *, message_id: str, agent: str, pool: str | None = None, message_type: str, task_id: str | None = None
) -> None:
    """An agent was told to review something."""


@fact(
    "review",
    "✓",
    GREEN,
    lambda of: f"review{of('from', ' from {}')}{of('task_id', ' of {}')}{of('result', ': {}')}",
    routine=True,
)
def review_result(
    *,
    message_id: str,
    agent: str,
    pool: str | None = None,
    from_: str,
    result: str | None = None,
    task_id: str | None = None,
    recovered: bool | None = None,
) -> None:
    """A review's result has come."""


# --- somebody is told -------------------------------------------------------------------------------------------------
def _cases(of: Shown, words: str) -> str:
    counted = of.data.get("counted")
    return f", {counted} {words}" if isinstance(counted, int) and counted > 1 else ""


@fact("escalation", "▲", RED, lambda of: f"{of['cause']}: told {of['to']}{_cases(of, 'cases by now')}", loud=True)
def escalation(
    *,
    cause: str,
    to: str,
    escalation_id: str | None = None,
    counted: int | None = None,
    agent: str | None = None,
    message_id: str | None = None,
    task_id: str | None = None,
    story: str | None = None,
    stage: int | None = None,
    pane: str | None = None,
    phases: int | None = None,
) -> None:
    """Somebody was told of what ackd cannot mend. ``counted``: how many cases this escalation stands for by now."""


def _escalation_closed(of: Shown) -> str:
    who = of("why", ": {}") if of.data.get("how") == "over" else of("by", " by {}")
    return f"closed{of('cause', ': {}')}{_cases(of, 'cases')}{of('how', ', {}')}{who}"


@fact("escalation", "✓", GREEN, _escalation_closed)
def escalation_closed(
    *,
    agent: str,
    cause: str,
    by: str,
    how: str,
    escalation_id: str | None = None,
    why: str | None = None,
    counted: int | None = None,
) -> None:
    """An escalation was answered, or its cause is over."""


def _loop(of: Shown) -> str:
    members = of.data.get("members")
    names = ", ".join(map(of.shown, members)) if isinstance(members, list) else "?"
    return f"{names} passed {of['about']} around {of['rounds']} times"


@fact("loop", "▲", RED, _loop, loud=True)
def loop_detected(*, members: list[str], about: str, rounds: int) -> None:
    """Agents send one thing around among themselves."""


def _notice(of: Shown) -> str:
    told = "held back for the summary of the hour, for" if of("held") else "told"
    return f"{of['cause']}: {told} {of['to']}{of('summary', ': {}')}"


@fact("notice", "!", YELLOW, _notice)
def notice(
    *,
    cause: str,
    to: str,
    summary: str | None = None,
    about: str | None = None,
    agent: str | None = None,
    notice_id: str | None = None,
    held: bool | None = None,
) -> None:
    """Somebody was told of trouble that is no escalation, or will be by the summary of the hour (``held``)."""


@fact("reminder", "!", YELLOW, lambda _: "waits unread: reminded")
def reminder(*, message_id: str, agent: str) -> None:
    """Mail in an inbox has waited for remind_after_s: on_escalation was run."""


@fact("stray", "!", YELLOW, lambda of: f"left where it lies: {of['file']}: {of['reason']}", loud=True)
def stray_file(*, file: str, reason: str, agent: str | None = None, track: str | None = None) -> None:
    """A file lies in a queue, or in another protocol's directory, that is no message."""


def _spool_lost(of: Shown) -> str:
    files = of.data.get("files")
    number = len(files) if isinstance(files, list) else "?"
    return f"its queue directory was removed, and {number} files with it{of('files', ': {}')}"


@fact("lost", "▲", RED, _spool_lost, loud=True)
def spool_lost(*, agent: str, files: list[str]) -> None:
    """An agent's queue directory was removed or replaced, and open messages with it."""


#: The total in state/totals.json that each line of this type adds one to.
COUNTED: Final = {row.type: row.counts for row in declared_in(globals()) if row.counts is not None}
