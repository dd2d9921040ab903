"""Decides what becomes of a story when something happens: values in, a story and orders out.

A message is judged by its sender and generation first, and by the story's state second. The order of what is to be done
is fixed: the state comes first, as the story that is returned; then the next worker, the ACK, the shutdown. Workers are
started and mail is sent elsewhere (the executor). Cannot fail: an event that makes no sense changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ackd.coordination.pipeline.rules.record import BROKEN, REPORTED, Doubt, Result, Story, Try, clipped
from ackd.coordination.pipeline.rules.stage_words import (
    Erred,
    Judged,
    Planned,
    Reviewed,
    ReviewVerdict,
    Worked,
    agents_of,
    detail_of,
    result_of,
    score_of,
)
from ackd.coordination.pipeline.rules.story import TURNS, StoryHappening, StoryState, can, stage_of, step
from ackd.core.values import value
from ackd.core.words import Word

if TYPE_CHECKING:
    from ackd.coordination.pipeline.rules.budgets import Budgets
    from ackd.coordination.pipeline.rules.stage_words import Report, StandsAt

H, S = StoryHappening, StoryState
_GARBLED_KEPT: Final = 15
#: The most characters that are quoted of a text that was not understood.
_QUOTED_CHARS: Final = 300


# --- orders -----------------------------------------------------------------------------------------------------------
@value
class Spawn:
    """Start a worker for the current try, and send it its one Execute."""

    generation: int


@value
class AskWorker:
    generation: int


@value
class Ack:
    """Acknowledge a message to its sender, who may not be the story's worker any more."""

    generation: int
    to: str
    message_id: str


@value
class Dismiss:
    """Let a worker leave.

    ``at_once``: it hangs, and must be gone before another begins. Otherwise it may take its ACK.
    """

    generation: int
    at_once: bool = False


@value
class Escalate:
    reason: str


Order: TypeAlias = Spawn | AskWorker | Ack | Dismiss | Escalate


class Treatment(Word):
    """The treatment of a message."""

    PROCESSED = "processed"
    DUPLICATE = "duplicate"  # acknowledged again
    LATE = "late"  # from an old worker: acknowledged, not processed
    STRANGER = "stranger"  # no worker of this story
    GARBLED = "garbled"
    NOTED = "noted"


@value
class StoryDecision:
    story: Story
    orders: tuple[Order, ...] = ()
    heard: Treatment = Treatment.NOTED


@value
class Source:
    """The origin of a message: ``stage`` by the sender's name; ``generation`` None if the message does not name it."""

    sender: str
    stage: int
    message_id: str
    generation: int | None = None


# --- turns ------------------------------------------------------------------------------------------------------------
def turn(story: Story, now: float) -> StoryDecision:
    """Begin a story, or let it go on at its stage."""
    begun = _moved(story, TURNS[story.stage], now)
    return StoryDecision(begun, (Spawn(begun.generation),))


def executed(story: Story, generation: int) -> Story:
    one = story.of(generation)
    return story.with_try(one._replace(executed=True)) if one is not None else story


def acked(story: Story, generation: int, now: float) -> Story:
    one = story.of(generation)
    return story.with_try(one._replace(acked_at=one.acked_at or now)) if one is not None else story


def told_of(story: Story) -> Story:
    return story._replace(escalated=story.pauses)


def written_down(story: Story) -> Story:
    return story._replace(logged=story.moves) if story.logged != story.moves else story


def settled(story: Story, generation: int) -> Story:
    one = story.of(generation)
    return story.with_try(one._replace(settled=True)) if one is not None else story


# --- words of workers -------------------------------------------------------------------------------------------------
def reported(story: Story, report: Report, of: Source, now: float, budgets: Budgets) -> StoryDecision:
    """Judge a report: by its sender and generation first, and by the state only if the sender is current."""
    one = spoken_for(story, of)
    if one is None:
        return StoryDecision(story, heard=Treatment.STRANGER)
    ack = Ack(one.generation, of.sender, of.message_id)
    known = next((tried for tried in story.tries if tried.report_id == of.message_id), None)
    if known is not None or (one is not story.current and one.result in REPORTED):
        return StoryDecision(story, (ack,), Treatment.DUPLICATE)
    if one is not story.current:
        return StoryDecision(story, (ack,), Treatment.LATE)
    if (report.story, report.stage) != (story.story_id, one.stage):
        return garbled(story, of, f"it speaks of stage {report.stage} of {report.story}", now)
    closed = _closed(story, one, Result(result_of(report)), now, clipped(detail_of(report)))
    told = closed.tries[-1]._replace(score=_score(report), report_id=of.message_id, agents=clipped(agents_of(report)))
    closed = closed.with_try(told)
    moved, first = _after(closed, report, now, budgets)
    return StoryDecision(moved, (*first, ack, Dismiss(one.generation)), Treatment.PROCESSED)


def garbled(story: Story, of: Source, problem: str, now: float, text: str = "") -> StoryDecision:
    """Ask once about a text that is not understood.

    If the answer is not clear either, a person is told the ``text``.
    """
    one = spoken_for(story, of)
    if one is None:
        return StoryDecision(story, heard=Treatment.STRANGER)
    if one is not story.current:
        return StoryDecision(story, heard=Treatment.LATE)
    if of.message_id in one.garbled:  # a daemon read it before, and died
        return StoryDecision(
            story, (AskWorker(one.generation),) if one.doubt is Doubt.GARBLED else (), Treatment.GARBLED
        )
    noted = one._replace(garbled=(*one.garbled[-_GARBLED_KEPT:], of.message_id), unclear=_quoted(text))
    if one.doubt is Doubt.GARBLED:
        return _unclear(story, noted, f"{of.sender} was not understood twice: {problem}", now)
    return StoryDecision(_asked(story, noted, Doubt.GARBLED, now), (AskWorker(one.generation),), Treatment.GARBLED)


def status_heard(story: Story, said: StandsAt, of: Source, now: float) -> StoryDecision:
    """Take a clear answer to a status check, which settles every doubt. One about another stage is not clear."""
    one = spoken_for(story, of)
    if one is None:
        return StoryDecision(story, heard=Treatment.STRANGER)
    if one is not story.current:
        return StoryDecision(story, heard=Treatment.LATE)
    if (said.story, said.stage) != (story.story_id, one.stage):
        return garbled(story, of, f"it speaks of stage {said.stage} of {said.story}", now)
    return StoryDecision(_trusted(story, one), heard=Treatment.PROCESSED)


# --- signs, and their absence -----------------------------------------------------------------------------------------
def doubted(story: Story, generation: int, doubt: Doubt, now: float) -> StoryDecision:
    """Ask a worker that is quiet, or says that it waits for its ACK. Only one status check is open at a time."""
    one = story.current
    if one is None or one.generation != generation or one.doubt is not None:
        return StoryDecision(story)
    return StoryDecision(_asked(story, one, doubt, now), (AskWorker(generation),))


def lived(story: Story, generation: int) -> StoryDecision:
    """Note a sign of life. It settles the doubt whether the worker lives, and no other."""
    one = story.current
    if one is None or one.generation != generation or one.doubt not in (Doubt.QUIET, Doubt.HELD):
        return StoryDecision(story)
    return StoryDecision(_trusted(story, one))


def unanswered(story: Story, generation: int, now: float, budgets: Budgets) -> StoryDecision:
    """End a worker that did not answer the status check in time."""
    one = story.current
    if one is None or one.generation != generation or one.doubt is None:
        return StoryDecision(story)
    if one.doubt is Doubt.GARBLED:
        return _unclear(story, one, "it was not understood, and did not answer the status check", now)
    return broke(story, generation, Result.SILENT, "it did not answer the status check", now, budgets)


def broke(story: Story, generation: int, how: Result, why: str, now: float, budgets: Budgets) -> StoryDecision:
    """End a try whose worker is gone, or hangs, without a report. ``how``: CRASHED, SILENT or LOST."""
    one = story.current
    if one is None or one.generation != generation:
        return StoryDecision(story)
    if one.doubt is Doubt.GARBLED and how is Result.CRASHED:
        return _unclear(story, one, f"it was not understood, and ended: {why}", now)
    closed = _closed(story, one, how, now, why)
    limit = budgets.losses if how is Result.LOST else budgets.respawns
    kinds = frozenset({how}) if how is Result.LOST else BROKEN
    moved, orders = _again(closed, kinds, limit, why, now)
    return StoryDecision(moved, (Dismiss(generation, at_once=True), *orders))


def cannot_start(story: Story, generation: int, why: str, now: float) -> StoryDecision:
    one = story.current
    if one is None or one.generation != generation:
        return StoryDecision(story)
    closed = _closed(story, one, Result.UNSTARTED, now, why)
    reason = f"the worker of stage {one.stage} cannot be started: {why}"
    return _paused(closed, H.UNSTARTABLE, reason, now, (Dismiss(generation, at_once=True),))


# --- by hand ----------------------------------------------------------------------------------------------------------
def held(story: Story, by: str, now: float) -> StoryDecision:
    """Pause a story by hand. The decision's story is the same object if it cannot be paused."""
    if not can(story.state, H.HELD) or story.state is S.PAUSED:
        return StoryDecision(story)
    return _stood_down(story, H.HELD, f"paused by {by}", now)


def dropped(story: Story, by: str, now: float) -> StoryDecision:
    if not can(story.state, H.DROPPED) or story.state is S.CANCELLED:
        return StoryDecision(story)
    decision = _stood_down(story, H.DROPPED, f"cancelled by {by}", now)
    return replace(decision, story=decision.story._replace(ended_at=now))


def resumed(story: Story, now: float) -> StoryDecision:
    """Resume a paused story, with fresh budgets because a person has looked at it."""
    if not can(story.state, H.RESUMED):
        return StoryDecision(story)
    return StoryDecision(_moved(story, H.RESUMED, now)._replace(fresh_from=len(story.tries), reason=""))


def orphaned(story: Story, of: str, now: float) -> StoryDecision:
    if not can(story.state, H.ORPHANED):
        return StoryDecision(story)
    return _paused(story, H.ORPHANED, f"{of}, which it comes after, was cancelled", now)


# --- senders ----------------------------------------------------------------------------------------------------------
def spoken_for(story: Story, of: Source) -> Try | None:
    """Return the try that a message comes from. Without a generation: the newest of the sender's stage."""
    if of.generation is not None and 0 < of.generation <= story.earlier:
        return bygone(of.generation, of.stage)
    if of.generation is not None:
        one = story.of(of.generation)
        return one if one is not None and one.stage == of.stage else None
    return next((one for one in reversed(story.tries) if one.stage == of.stage), None)


def bygone(generation: int, stage: int) -> Try:
    """Return a try of an earlier life of the story, whose record is gone. All its messages are late."""
    return Try(generation, stage, 0.0, executed=True, ended_at=0.0, result=Result.LOST, settled=True)


# --- steps ------------------------------------------------------------------------------------------------------------
def _moved(story: Story, happening: StoryHappening, now: float) -> Story:
    """Return the story in its next state, with a fresh try if that is a stage."""
    state, _act = step(story.state, happening)
    stage = stage_of(state)
    at = story.stage if stage is None else stage
    moved = story._replace(state=state, since=now, stage=at, moves=story.moves + 1)
    if stage is None:
        return moved._replace(ended_at=now) if state is S.DONE else moved
    return moved._replace(tries=(*moved.tries, Try(moved.generation + 1, stage, now)), reason="")


def _closed(story: Story, one: Try, result: Result, now: float, detail: str) -> Story:
    return story.with_try(one._replace(ended_at=now, result=result, detail=clipped(detail), doubt=None))


def _asked(story: Story, one: Try, doubt: Doubt, now: float) -> Story:
    return story.with_try(one._replace(doubt=doubt, asked_at=now, asks=one.asks + 1))


def _trusted(story: Story, one: Try) -> Story:
    return story.with_try(one._replace(doubt=None))


def _after(story: Story, report: Report, now: float, budgets: Budgets) -> tuple[Story, tuple[Order, ...]]:
    match report:
        case Planned() | Worked() | Judged(go=True):
            return _on(story, H.PASSED, now)
        case Reviewed(verdict=verdict) if verdict is not ReviewVerdict.FAIL:
            return _on(story, H.PASSED, now)
        case Judged():
            return _again(story, frozenset({Result.NO_GO}), budgets.no_go, "NO-GO: " + report.reason, now)
        case Reviewed():
            return _back(story, report.issues, now, budgets)
        case Erred():
            return _again(story, BROKEN, budgets.respawns, "ERROR: " + report.details, now)
        case _:
            assert_never(report)


def _on(story: Story, happening: StoryHappening, now: float) -> tuple[Story, tuple[Order, ...]]:
    moved = _moved(story, happening, now)
    return moved, (Spawn(moved.generation),) if moved.current is not None else ()


def _again(story: Story, kinds: frozenset[Result], limit: int, why: str, now: float) -> tuple[Story, tuple[Order, ...]]:
    count = _count(story, kinds, story.stage)
    if count <= limit:
        return _on(story, H.AGAIN, now)
    tries = f"{count} of {limit + 1} tries"
    return _exhausted(story, f"stage {story.stage} failed in {tries}, the last with {why}", now)


def _back(story: Story, issues: str, now: float, budgets: Budgets) -> tuple[Story, tuple[Order, ...]]:
    count = _count(story, frozenset({Result.FAIL}), 3)
    if count <= budgets.returns:
        return _on(story, H.RETURNED, now)
    return _exhausted(story, f"stage 3 said FAIL {count} of {budgets.returns + 1} times, the last with {issues}", now)


def _exhausted(story: Story, reason: str, now: float) -> tuple[Story, tuple[Order, ...]]:
    decision = _paused(story, H.EXHAUSTED, reason, now)
    return decision.story, decision.orders


def _count(story: Story, kinds: frozenset[Result], stage: int) -> int:
    """Count the tries of a stage that ended like this, since a person last resumed the story."""
    counted = story.tries[story.fresh_from :]
    return sum(one.stage == stage and one.result in kinds for one in counted)


def _quoted(text: str) -> str:
    """Put a text on one line, and shorten it if it is long."""
    words = " ".join(text.split())
    return words if len(words) <= _QUOTED_CHARS else f"{words[: _QUOTED_CHARS - 1]}…"


def _unclear(story: Story, one: Try, reason: str, now: float) -> StoryDecision:
    reason = f"{reason}; it said: {one.unclear}" if one.unclear else reason
    closed = _closed(story, one, Result.UNCLEAR, now, reason)
    decision = _paused(closed, H.UNCLEAR, reason, now, (Dismiss(one.generation),))
    return replace(decision, heard=Treatment.GARBLED)


def _stood_down(story: Story, happening: StoryHappening, reason: str, now: float) -> StoryDecision:
    one = story.current
    if one is None:
        return StoryDecision(_moved(story, happening, now)._replace(reason=reason))
    closed = _closed(story, one, Result.STOPPED, now, reason)
    return StoryDecision(_moved(closed, happening, now)._replace(reason=reason), (Dismiss(one.generation),))


def _paused(
    story: Story, happening: StoryHappening, reason: str, now: float, orders: tuple[Order, ...] = ()
) -> StoryDecision:
    reason = clipped(reason)
    paused = _moved(story, happening, now)._replace(reason=reason, pauses=story.pauses + 1)
    return StoryDecision(paused, (Escalate(reason), *orders))


def _score(report: Report) -> str:
    score = score_of(report)
    return f"{score:f}" if score is not None else ""


def next_turns(stories: list[Story], max_parallel: int) -> list[Story]:
    """Return the stories whose turn it is, in the order of their start. Those they come after must be done."""
    done = {story.story_id for story in stories if story.state is S.DONE}
    room = max_parallel - sum(stage_of(story.state) is not None for story in stories)
    ready = [one for one in stories if one.state is S.WAITING and all(before in done for before in one.after)]
    ready.sort(key=lambda story: (story.sequence, story.created_at, story.story_id))
    return ready[: max(0, room)]


def orphans(stories: list[Story]) -> list[tuple[Story, str]]:
    """Return the stories that wait for a cancelled story, and that story."""
    dropped_ones = {story.story_id for story in stories if story.state is S.CANCELLED}
    waiting = [story for story in stories if story.state is S.WAITING]
    found = ((story, next((one for one in story.after if one in dropped_ones), None)) for story in waiting)
    return [(story, one) for story, one in found if one is not None]
