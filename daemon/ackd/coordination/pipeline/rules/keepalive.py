"""Decides whether a stage worker may stop: not before its report is acknowledged, but it is not kept for ever either.

This is the decision of `ackd hook keepalive` (pipeline-lead, "ACK Protocol", "Retry Limits"). After a status check the
report is sent once more. If that is not acknowledged either, the worker may go, and the lead notices its end. The
number of times that the hook says "stay" is limited: an agent that has nothing left to do must not be woken by its own
hook for ever. Cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from ackd.coordination.pipeline.rules.record import REPORTED

if TYPE_CHECKING:
    from ackd.coordination.pipeline.rules.record import Story, Try

#: The most times that "stay" is said in a row for the same reason.
MOST_STAYS: Final = 20
#: The same after the status check, for a worker that was told to send its report again and did not.
MOST_STAYS_ASKED: Final = 3
#: The time to wait for the ACK of the report that was sent again.
RETRY_WAIT_S: Final = 15.0


class Notes(NamedTuple):
    """The notes of a worker's own side. ``reports``: when it sent each (wall); ``stays``: how often it was told to stay
    since its last report; ``stays_asked``: how many of these came after the status check."""

    reports: tuple[float, ...] = ()
    stays: int = 0
    stays_asked: int = 0
    held_since: float | None = None


class Stay(NamedTuple):
    """The worker must go on. ``asked``: a status check has come since the report."""

    reason: str
    asked: bool = False
    stays: Literal[True] = True


class Leave(NamedTuple):
    """The worker may stop. ``done``: its report is acknowledged, so that the done flag may be written."""

    reason: str
    done: bool = False
    stays: Literal[False] = False


KeepaliveDecision: TypeAlias = Stay | Leave


def decide(story: Story | None, generation: int, notes: Notes, now: float) -> KeepaliveDecision:
    one = story.of(generation) if story is not None else None
    if story is None or one is None:
        return Leave("there is no such story here")
    if one.acked_at is not None:
        return Leave(f"Stage {one.stage} for {story.story_id} is acknowledged", done=True)
    if one.ended_at is not None and one.result not in REPORTED:
        ended = one.result.value if one.result is not None else "over"
        return Leave(f"Stage {one.stage} for {story.story_id} is over without it: {ended}")
    if notes.stays >= MOST_STAYS:
        return Leave(f"it was kept {notes.stays} times, and nothing came of it")
    if not notes.reports:
        return Stay(_report_first(story, one))
    return _waiting(story, one, notes, now)


def _report_first(story: Story, one: Try) -> str:
    return (
        f"Stage {one.stage} for {story.story_id} has no report yet. When the stage is finished, or cannot be, run "
        f"`ackd stage report` with its exact text; until then go on."
    )


def _waiting(story: Story, one: Try, notes: Notes, now: float) -> KeepaliveDecision:
    of = f"the report of Stage {one.stage} for {story.story_id}"
    first, last = notes.reports[0], notes.reports[-1]
    if one.asked_at is None or one.asked_at <= first:
        return Stay(f"{of} is not acknowledged yet: wait for `ACK Stage {one.stage} for {story.story_id}`")
    if last <= one.asked_at:
        if notes.stays_asked >= MOST_STAYS_ASKED:
            return Leave(f"a status check came, and {of} was not sent again")
        return Stay(f"a status check came, so {of} may be lost: run `ackd stage report` again, once", asked=True)
    if now - last < RETRY_WAIT_S:
        return Stay(f"{of} was sent again and is not acknowledged yet", asked=True)
    return Leave(f"{of} was sent again after the status check, and is still not acknowledged")
