"""What it means that a file came, or went.

A new file is a message for one agent, and may say something beyond itself: an answer, progress, a review's result, one
more turn of a loop. A file met at a start is one of ours from before. Refuses to know how files are found or read
(runtime/intake.py, runtime/recovery.py).

After a start nothing is offered until files and receipts from before have been met: a message that its agent finished
while we were away must not be told again because its receipt is read a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import calling, cures, facts, holding, passing, trouble
from ackd.core.acts import apply, is_enough, line_up, sweep, watch_silence
from ackd.core.dedup import FRESH, Repeated, SameIdOtherContent
from ackd.core.delivery import SHOWN, Happening, State
from ackd.core.desk import Answer
from ackd.core.effects import QuarantineFile, RecordFact
from ackd.core.errors import ImpossibleEvent
from ackd.core.escalations import derived_id
from ackd.core.message import MONITOR, Folder, Standing, Status
from ackd.core.words import REPORT_TYPES

if TYPE_CHECKING:
    from ackd.core import events
    from ackd.core.book import Delivery
    from ackd.core.desk import About, Desk
    from ackd.core.message import Place

H, S = Happening, State

#: Which move of our own brings a file there.
_MOVES_TO: Final = {Folder.PROCESSED: S.CLAIMING, Folder.QUEUE: S.REVIVING}
_BEFORE_US: Final = "from before ackd first served this root"
#: Recovery is over when we are told so (RecoveryEnded), or nothing from before has been met for this long.
HEAR_OUT_S: Final = 0.25


def arrived(desk: Desk, event: events.Arrived) -> None:
    message, place = event.message, event.place
    if message.recipient not in desk.book.agents:
        raise ImpossibleEvent("engine", f"nobody called {message.recipient}", f"arrival of {place}")
    same = desk.book.of_id(message.message_id, message.recipient)
    if desk.book.at(place) is not None or (same and _is_our_own_move(same, event)):
        return  # a hint that came twice, or before the answer to the move it tells of
    arrived_at = min(event.arrived_at, desk.now.wall)
    delivery = desk.book.open(message, place, arrived_at, met_at=desk.now.wall, stamp=event.stamp)
    delivery.recovered, delivery.is_answer = event.recovered, passing.is_answer(desk, delivery)
    if place.folder is Folder.DEAD:  # looked up because someone asked for it
        desk.book.set_state(delivery, S.DEAD)
        delivery.late = True
        return
    if event.recovered and not desk.reading:
        hear_out(desk)
    desk.put(facts.queued(delivery, recovered=event.recovered))
    if _is_repeat(desk, delivery, same):
        return
    if event.warning:
        desk.put(RecordFact("message_warning", facts.about(delivery, warning=event.warning)))
    _heard(desk, delivery, recovered=event.recovered)
    if place.folder is Folder.PROCESSED:
        _resume(desk, delivery, event)
    elif not holding.keeps(desk, delivery):
        line_up(desk, delivery)
    if desk.reading:
        settle_answers(desk, about=(message.message_id, delivery.agent))


def _is_our_own_move(same: list[Delivery], event: events.Arrived) -> bool:
    """Under its name, or another that was free. If it is somebody's copy after all, a scan meets it again."""
    moving, message, name = _MOVES_TO.get(event.place.folder), event.message, event.place.name
    return any(d.state is moving and (d.place.name == name or d.message.digest == message.digest) for d in same)


def _is_repeat(desk: Desk, delivery: Delivery, others: list[Delivery]) -> bool:
    """Same id, recipient and content: put away unworked. Same id, other content: served, with a warning."""
    message = delivery.message
    verdict = desk.completed.verdict(message.message_id, delivery.agent, message.digest, desk.steady)
    if not others and verdict is FRESH:
        return False  # nearly always
    # One that is dying or dead is no reason not to try: its sender sent it once more.
    open_ones = [d for d in others if d.state not in (S.BURYING, S.DEAD) and not d.duplicate]
    twin = next((d for d in open_ones if d.message.digest == message.digest), None)
    if twin is not None or isinstance(verdict, Repeated):
        delivery.duplicate = True
        apply(desk, delivery, H.DONE, SHOWN[twin.state] if twin else "completed")
        return True
    copied = any(d.message.digest != message.digest for d in others)
    if copied or isinstance(verdict, SameIdOtherContent):
        warning = "another message has the same Message-ID and other content; both are delivered"
        desk.put(RecordFact("message_warning", facts.about(delivery, warning=warning)))
    return False


# --- what it says beyond itself ---------------------------------------------------------------------------------------
def _heard(desk: Desk, delivery: Delivery, *, recovered: bool) -> None:
    message, claimed = delivery.message, delivery.place.folder is Folder.PROCESSED
    sender = desk.agent_called(message.sender)
    report = message.type in REPORT_TYPES
    if sender is not None and message.in_reply_to is not None and (report or not (recovered and claimed)):
        _take_answer(desk, (message.in_reply_to, sender), Answer(report=report, old=recovered))
    if not (recovered and claimed):  # else the session before has written it down
        _write_down(desk, delivery, recovered=recovered)
    if recovered:
        return
    if desk.answers:
        settle_answers(desk)
    if sender is not None and message.sender != MONITOR:
        calling.lived(desk, desk.book.agents[sender])
        holding.count(desk, delivery, sender)


def _write_down(desk: Desk, delivery: Delivery, *, recovered: bool) -> None:
    if delivery.message.progress is not None:
        desk.put(facts.progress(delivery.message, delivery.message.progress, recovered=recovered))
    if delivery.message.type == "evaluation_result":
        desk.put(facts.review_result(delivery, recovered=recovered))


def _take_answer(desk: Desk, about: About, answer: Answer) -> None:
    """Of several the strongest word counts."""
    known = desk.answers.get(about)
    if known is not None:
        answer = Answer(report=known.report or answer.report, old=known.old and answer.old)
    desk.answers[about] = answer


def settle_answers(desk: Desk, about: About | None = None) -> None:
    """What was answered is acknowledged or, by a report, completed. ``about``: that one only."""
    if desk.recovering:
        return  # the question may not have been met yet
    for each in list(desk.answers) if about is None else [about]:
        asked, answer = desk.book.addressed(*each), desk.answers.get(each)
        if answer is None or (asked is None and desk.reading):
            continue
        del desk.answers[each]
        if asked is None:
            continue
        if answer.report:
            apply(desk, asked, H.DONE, "a report in reply")
        elif not answer.old or asked.state is S.DELIVERED:
            apply(desk, asked, H.ACKED, "a reply")


# --- from before ------------------------------------------------------------------------------------------------------
def hear_out(desk: Desk) -> None:
    desk.recovering = True
    desk.alarm("heard out", "", HEAR_OUT_S)


def recovered(desk: Desk, *, reading: bool = False) -> None:
    desk.recovering, desk.reading = False, reading
    desk.hush("", "heard out")
    if not reading:
        holding.forget_absent(desk)
    trouble.wait_for_summary(desk)
    settle_answers(desk)


def _resume(desk: Desk, delivery: Delivery, event: events.Arrived) -> None:
    """A file met in processed/: our own from before a restart, or dropped there by someone (served like any other).

    Only the scan at start believes the header's status: who drops a file there with one copied an old file.
    """
    policy = desk.book.agents[delivery.agent].policy
    standing = event.standing if event.recovered and event.standing is not None else Standing()
    delivery.retries, delivery.crashes = standing.retry_count, event.crashes
    delivery.tells = standing.retry_count  # the next telling is the attempt that it would have been
    desk.book.set_state(delivery, S.RETRYING)
    if event.crashes > policy.crash_limit:
        apply(desk, delivery, H.EXHAUSTED, f"poison: ackd itself died {event.crashes} times with it in hand")
    elif standing.status is Status.COMPLETED:
        apply(desk, delivery, H.DONE, f"X-IGNITE-Status: completed, {_BEFORE_US}")
    elif standing.status is Status.ERROR:
        why = standing.error or "no reason was given"
        apply(desk, delivery, H.REFUSED, f"X-IGNITE-Status: error, {_BEFORE_US}: {why}")
    elif event.run_alive or (standing.status in (Status.DELIVERED, Status.ACKED) and not policy.volatile):
        _carry_on(desk, delivery, standing, run_alive=event.run_alive)
    elif standing.status is Status.RETRYING:
        wait_s = (standing.next_retry_at or 0) - desk.now.wall
        desk.alarm("retry", delivery.key, min(max(0.0, wait_s), policy.backoff_cap_s))
    else:
        line_up(desk, delivery)


def _carry_on(desk: Desk, delivery: Delivery, standing: Standing, *, run_alive: bool) -> None:
    """It was told before the restart: its clock runs on from then."""
    policy = desk.book.agents[delivery.agent].policy
    waited_s = max(0.0, desk.now.wall - standing.processed_at) if standing.processed_at is not None else 0.0
    delivery.tells, delivery.told, delivery.seen = delivery.retries + 1, True, run_alive or standing.seen
    delivery.assigned = not policy.reminds or standing.status is Status.ACKED
    delivery.told_at = delivery.first_told_at = desk.now.mono - waited_s
    delivery.taken_at = desk.now.mono  # whatever it did while nobody looked, it owes its next sign from now on
    delivery.clock_from = delivery.moved_at = desk.now.mono
    if policy.shows:  # else a hand wrote it
        delivery.idled, delivery.written_s = standing.idled, standing.idled.idle_s
    delivery.told_wall = standing.processed_at if standing.processed_at is not None else delivery.arrived_at
    if standing.status is Status.ACKED:
        delivery.seen = delivery.started = True
        desk.book.set_state(delivery, S.ACKED)
        desk.alarm("task", delivery.key, max(0.0, policy.task_timeout_s - waited_s))
    else:
        desk.book.set_state(delivery, S.DELIVERED)
        watch_silence(desk, delivery, waited_s)
    if not delivery.seen:
        return
    agent = desk.book.agents[delivery.agent]
    if is_enough(agent, delivery):
        apply(desk, delivery, H.ENOUGH, "seen before the restart")
    else:
        calling.watch(desk, agent)


# --- gone -------------------------------------------------------------------------------------------------------------
def vanished(desk: Desk, event: events.Vanished) -> None:
    gone = desk.book.at(event.place)
    if gone is None:
        return
    if event.moved_to is not None:
        sweep(desk, gone, f"moved by hand to {event.moved_to}")
    else:
        apply(desk, gone, H.VANISHED)


def refused(desk: Desk, event: events.Unreadable) -> None:
    """Somebody hears of it first: after a crash in between it lies there still, and is told of by the same message."""
    place, code, detail, sender = event.place, event.code, event.detail, event.sender
    _tell_of_refusal(desk, place, code, detail, sender)
    desk.put(QuarantineFile(place.box, place, code, detail, sender))


def _tell_of_refusal(desk: Desk, place: Place, code: str, detail: str, sender: str | None) -> None:
    """Whoever sent it, if it says so and is one of us; never about mail of our own, or notices would breed."""
    if sender == MONITOR:
        return
    text = (
        f"1 file for {place.box}, {place}, is no message that ackd can deliver: {detail}. 1 of 1 (100%) was not "
        f"delivered, and is kept in queue/{Folder.CORRUPT.value}/"
    )
    agent = desk.agent_called(place.box) or place.box
    trouble.tell(desk, "quarantine", str(place), text, cures.of(code), agent=agent, to=sender, lane=place.box)


def quarantined(desk: Desk, event: events.Quarantined) -> None:
    _tell_of_refusal(desk, event.place, event.code, event.detail, event.sender)  # nothing, if it was told of before
    place, code, detail = event.place, event.code, event.detail
    desk.totals.rejected += 1
    desk.fact("message_rejected", file=str(place), agent=place.box, code=code, reason=detail, kept_as=event.kept_as)
    known = desk.book.at(place)
    if known is not None:  # it was readable once, and someone wrote over it
        sweep(desk, known, f"overwritten with what is no message ({code}): quarantined as {event.kept_as}")


def spool_lost(desk: Desk, event: events.SpoolLost) -> None:
    gone = [d for place in event.places if (d := desk.book.at(place)) is not None]
    names = [str(place) for place in event.places]
    desk.fact("spool_lost", agent=event.box, files=names)
    for delivery in gone:
        sweep(desk, delivery, "spool_lost: its directory was removed or replaced")
    agent = desk.agent_called(event.box)
    if agent is not None and names:
        calling.escalate(
            desk,
            agent,
            "spool_lost",
            derived_id("spool_lost", event.box, int(desk.now.wall)),
            f"queue/{event.box} of {agent} was removed or replaced: {len(names)} of its {len(names)} files (100%) went "
            f"with it, first of all {names[0]}",
            "Find out what removed it (git clean?). `ackd tail --type spool_lost` lists the files",
        )
