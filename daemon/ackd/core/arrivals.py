"""Files that came, and files that went.

A new file is a message for one agent, and may mean more: an answer, progress, the result of a review, one more turn of
a loop. A file that is met at a start was ours before. How files are found and read is up to the runtime (intake,
recovery/).

After a start nothing is offered until files and receipts from before have been met: a message that its agent finished
while the daemon was away must not be told again because its receipt is read a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core import agent_rules, alerts, delivery_facts, due_times, holding, message_facts, parts_told, passing
from ackd.core.dedup import FRESH, Repeated, SameIdOtherContent
from ackd.core.delivery import SHOWN, Happening, State, Uptake
from ackd.core.effects import QuarantineFile
from ackd.core.errors import ImpossibleEvent
from ackd.core.escalations import Cause, derived_id
from ackd.core.message import MONITOR, Folder, Standing, Status
from ackd.core.message_facts import message_rejected, message_warning
from ackd.core.state import Answer
from ackd.core.timers import ENGINE, TimerKind
from ackd.core.transitions import (
    apply,
    hand_back,
    is_enough,
    line_up,
    sweep,
    tell_to_let_go,
    wait,
    watch_silence,
)
from ackd.core.words import REPORT_TYPES, Rejection

if TYPE_CHECKING:
    from ackd.core import events
    from ackd.core.message import Place
    from ackd.core.state import About, Delivery, EngineState

H, S = Happening, State

#: The state in which the engine itself is moving a file to this folder.
_MOVES_TO: Final = {Folder.PROCESSED: (S.CLAIMING,), Folder.QUEUE: (S.REVIVING, S.RETURNING)}
#: States of a message that nobody will complete: its sender has sent it once more.
_ON_THEIR_WAY_OUT: Final = (S.BURYING, S.DEAD, S.CANCELLED)
_BEFORE_US: Final = "from before ackd first served this root"
#: Recovery is over when ``RecoveryEnded`` comes, or when nothing from before has been met for this long.
HEAR_OUT_S: Final = 0.25

_REQUEUE: Final = "`ackd dead list` shows it, `ackd dead requeue FILE` puts it back once the cause is mended"
_WITH_SEND: Final = "Write it with `ackd send` or `ackd message build`, which get this right; or mend the copy"

#: Advice about a file that is no message, by the reason; any other reason has the advice that always helps.
_CURES: Final[dict[str, str]] = {
    Rejection.UNKNOWN_TYPE: "Send it again with a type that ackd knows; or name this one in extra_types of ackd.toml, "
    'or set unknown_types = "deliver" there, and start ackd anew',
    Rejection.UNKNOWN_PRIORITY: "Send it again with X-IGNITE-Priority: critical, high, normal or low",
    Rejection.TOO_LARGE: "Send what is in it in parts, or as a path; or raise max_message_bytes in ackd.toml",
    Rejection.NOT_ALLOWED: "Make it readable for the user that ackd runs as (chmod, chown), and send it again",
    Rejection.NOT_REGULAR: "Write a regular file: links, FIFOs, devices and directories are never opened",
    Rejection.EMPTY: "Write it under another name and rename it: whoever wrote it stopped before its first byte",
    Rejection.NO_BLANK_LINE: "Write it whole, with a blank line between headers and body; best under another name, "
    "then rename",
    Rejection.NOT_UTF8: "Send it again as UTF-8; `ackd message build` replaces what is not",
    Rejection.MISSING_HEADER: _WITH_SEND,
}


def arrived(state: EngineState, event: events.Arrived) -> None:
    message, place = event.message, event.place
    if message.recipient not in state.agents:
        raise ImpossibleEvent("engine", f"nobody called {message.recipient}", f"arrival of {place}")
    same = state.deliveries.of_id(message.message_id, message.recipient)
    if state.deliveries.at(place) is not None or (same and _is_our_own_move(same, event)):
        return  # a hint that came twice, or before the answer to the move it tells of
    arrived_at = min(event.arrived_at, state.now.wall)
    delivery = state.deliveries.open(message, place, arrived_at, met_at=state.now.wall, stamp=event.stamp)
    delivery.recovered, delivery.is_answer = event.recovered, passing.is_answer(state, delivery)
    if place.folder is Folder.DEAD:  # looked up because someone asked for it
        was_cancelled = event.standing is not None and event.standing.cancelled
        delivery.had_by = event.standing.had_by if event.standing is not None else ()
        state.deliveries.set_state(delivery, S.CANCELLED if was_cancelled else S.DEAD)
        return
    delivery.due = due_times.due_times(message, event.arrived_at, state.now)
    if event.recovered and not state.reading:
        hear_out(state)
    state.emit(delivery_facts.queued(delivery, recovered=event.recovered, logged=_is_old_news(state, event)))
    if _is_repeat(state, delivery, state.deliveries.sent_to(message.message_id, delivery.addressee)):
        return
    doubts = (event.warning, message.doubts) if not event.recovered else (event.warning,)
    for warning in filter(None, doubts):
        state.record(message_warning(**delivery_facts.about(delivery), warning=warning))
    parts_told.came(state, delivery)
    _heard(state, delivery, recovered=event.recovered)
    if place.folder is Folder.PROCESSED:
        _resume(state, delivery, event)
    elif not holding.keeps(state, delivery):
        if event.standing is not None:
            _go_on_in_pool(state, delivery, event.standing)
        wait(state, delivery)
    if delivery.due is not None and state.deliveries.get(delivery.key) is not None:
        state.timed.add(delivery.key)
        due_times.watch(state, delivery)
    if state.reading:
        settle_answers(state, about=(message.message_id, delivery.agent))


def _is_old_news(state: EngineState, event: events.Arrived) -> bool:
    """Return whether the log has the message already, and it only goes on waiting to be read. An inbox may hold
    hundreds of such messages, and a line about each of them at each start would look like new mail."""
    told = event.standing is not None and event.standing.status in (Status.DELIVERED, Status.ACKED)
    return event.logged and told and state.agents[event.message.recipient].policy.reminds


def _is_our_own_move(same: list[Delivery], event: events.Arrived) -> bool:
    """Return whether the file may be one that the engine is just moving there, under its name or another that was free.

    If it is a copy that somebody dropped, the hint is passed over and the next scan meets it.
    """
    moving, message, name = _MOVES_TO.get(event.place.folder, ()), event.message, event.place.name
    return any(d.state in moving and (d.place.name == name or d.message.digest == message.digest) for d in same)


def _is_repeat(state: EngineState, delivery: Delivery, others: list[Delivery]) -> bool:
    """Archive a message of the same id, recipient and content untold. Deliver one of the same id and other content,
    with a warning."""
    message, others = delivery.message, [one for one in others if one is not delivery]
    verdict = state.completed.verdict(message.message_id, delivery.addressee, message.digest, state.steady_wall)
    if not others and verdict is FRESH:
        return False  # nearly always
    # A twin that is dying or dead does not count: the sender has sent it once more.
    open_ones = [d for d in others if d.state not in _ON_THEIR_WAY_OUT and not d.duplicate]
    twin = next((d for d in open_ones if d.message.digest == message.digest), None)
    if twin is not None or isinstance(verdict, Repeated):
        apply(state, delivery, H.SENT_TWICE, SHOWN[twin.state] if twin else "completed")
        return True
    copied = any(d.message.digest != message.digest for d in others)
    if copied or isinstance(verdict, SameIdOtherContent):
        warning = "another message has the same Message-ID and other content; both are delivered"
        state.record(message_warning(**delivery_facts.about(delivery), warning=warning))
    return False


# --- what a message means for others ----------------------------------------------------------------------------------
def _heard(state: EngineState, delivery: Delivery, *, recovered: bool) -> None:
    message, claimed = delivery.message, delivery.place.folder is Folder.PROCESSED
    sender = state.agent_called(message.sender)
    report = message.type in REPORT_TYPES
    if sender is not None and message.in_reply_to is not None and (report or not (recovered and claimed)):
        _take_answer(state, (message.in_reply_to, sender), Answer(report=report, old=recovered))
    if not (recovered and claimed):  # else the session before has written it down
        _write_down(state, delivery, recovered=recovered)
    if recovered:
        return
    if state.answers:
        settle_answers(state)
    if sender is not None and message.sender != MONITOR:
        agent_rules.sign_of_life(state, state.agents[sender])
        holding.count(state, delivery, sender)


def _write_down(state: EngineState, delivery: Delivery, *, recovered: bool) -> None:
    if delivery.message.progress is not None:
        state.emit(delivery_facts.progress(delivery.message, delivery.message.progress, recovered=recovered))
    if delivery.message.type == "evaluation_result":
        state.emit(delivery_facts.review_result(delivery, recovered=recovered))


def _take_answer(state: EngineState, about: About, answer: Answer) -> None:
    """Keep the answer until its question is met. Of several answers the strongest counts."""
    known = state.answers.get(about)
    if known is not None:
        answer = Answer(report=known.report or answer.report, old=known.old and answer.old)
    state.answers[about] = answer


def settle_answers(state: EngineState, about: About | None = None) -> None:
    """Acknowledge what was answered, or complete it if the answer is a report. ``about``: only this message."""
    if state.recovering:
        return  # the question may not have been met yet
    for each in list(state.answers) if about is None else [about]:
        asked, answer = state.deliveries.addressed(*each), state.answers.get(each)
        if asked is None and answer is not None and answer.report:
            asked = state.deliveries.given_back(*each)
        if answer is None or (asked is None and state.reading):
            continue
        del state.answers[each]
        if asked is None:
            continue
        if answer.report:
            apply(state, asked, H.DONE, "a report in reply")
        elif not answer.old or asked.state is S.DELIVERED:
            apply(state, asked, H.ACKED, "a reply")


# --- from before ------------------------------------------------------------------------------------------------------
def hear_out(state: EngineState) -> None:
    state.recovering = True
    state.start_timer(TimerKind.RECOVERY, ENGINE, HEAR_OUT_S)


def recovered(state: EngineState, *, reading: bool = False) -> None:
    state.recovering, state.reading = False, reading
    state.timers.cancel(TimerKind.RECOVERY, ENGINE)
    if not reading:
        holding.forget_absent(state)
        parts_told.recovered(state)
    alerts.start_summary_timer(state)
    settle_answers(state)
    going_back, state.to_hand_back = state.to_hand_back, []
    for key, why, wait_s in going_back:
        held = state.deliveries.get(key)
        if held is not None and held.state is S.RETRYING:
            hand_back(state, held, why, delay_s=wait_s)
    waiting, state.to_call_off = state.to_call_off, []
    for key in waiting:
        cancelled = state.deliveries.get(key)
        if cancelled is not None and cancelled.state is S.CANCELLING:
            tell_to_let_go(state, cancelled)


def _resume(state: EngineState, delivery: Delivery, event: events.Arrived) -> None:
    """Take up a file in processed/: our own from before a restart, or dropped there by someone, and then served like
    any other.

    Only the scan at a start believes the status in its header: whoever drops a file there with a status has copied an
    old file.
    """
    policy = state.agents[delivery.agent].policy
    standing = event.standing if event.recovered and event.standing is not None else Standing()
    delivery.retries, delivery.crashes = standing.retry_count, event.crashes
    delivery.tells = standing.retry_count  # the next telling is the attempt that it would have been
    delivery.had_by = standing.had_by if delivery.message.pool else ()
    state.deliveries.set_state(delivery, S.RETRYING)
    if event.crashes > policy.crash_limit:
        apply(state, delivery, H.EXHAUSTED, f"poison: ackd itself died {event.crashes} times with it in hand")
    elif standing.status is Status.COMPLETED:
        apply(state, delivery, H.DONE, f"X-IGNITE-Status: completed, {_BEFORE_US}")
    elif standing.status is Status.ERROR:
        why = standing.error or "no reason was given"
        apply(state, delivery, H.REFUSED, f"X-IGNITE-Status: error, {_BEFORE_US}: {why}")
    elif _belongs_in_pool(state, delivery, standing, run_alive=event.run_alive):
        due_in_s = (standing.next_retry_at or 0) - state.now.wall
        _hand_back_when_met(state, delivery, standing, min(max(0.0, due_in_s), policy.backoff_cap_s))
    elif event.run_alive or (standing.status in (Status.DELIVERED, Status.ACKED) and not policy.volatile):
        _carry_on(state, delivery, standing, run_alive=event.run_alive)
    elif standing.status is Status.RETRYING:
        wait_s = (standing.next_retry_at or 0) - state.now.wall
        state.start_timer(TimerKind.RETRY, delivery.key, min(max(0.0, wait_s), policy.backoff_cap_s))
    else:
        line_up(state, delivery)


def _belongs_in_pool(state: EngineState, delivery: Delivery, standing: Standing, *, run_alive: bool) -> bool:
    """Return whether a file that lies in a processed/ goes to the queue of its pool: its holder waited to tell it
    again, or is no member any more and does not work on it; or it lies in the processed/ of the pool itself, where
    nobody works on it."""
    agent = state.agents[delivery.agent]
    if agent.pool is not None:
        return True
    if not delivery.message.pool or run_alive:
        return False
    pool = state.pools.get(delivery.message.pool)
    if pool is not None and agent.name in pool.members:
        return standing.status is Status.RETRYING
    outlived_us = not agent.policy.volatile and not agent.policy.reminds
    return not (outlived_us and standing.status in (Status.DELIVERED, Status.ACKED))


def _hand_back_when_met(state: EngineState, delivery: Delivery, standing: Standing, wait_s: float) -> None:
    why = standing.error or "it was to be told again"
    if state.recovering:
        state.to_hand_back.append((delivery.key, why, wait_s))
        line_up(state, delivery)  # offered to nobody until then
    else:
        hand_back(state, delivery, why, delay_s=wait_s)


def _go_on_in_pool(state: EngineState, delivery: Delivery, standing: Standing) -> None:
    """Go on counting the failures of a message that its holder gave back before the restart."""
    policy = state.agents[delivery.agent].policy
    delivery.retries = delivery.tells = standing.retry_count
    delivery.had_by = standing.had_by
    wait_s = (standing.next_retry_at or 0) - state.now.wall
    delivery.not_before = state.now.mono + min(max(0.0, wait_s), policy.backoff_cap_s)


def _carry_on(state: EngineState, delivery: Delivery, standing: Standing, *, run_alive: bool) -> None:
    """Go on waiting for a message that was told before the restart: its time counts from the telling."""
    policy = state.agents[delivery.agent].policy
    waited_s = max(0.0, state.now.wall - standing.processed_at) if standing.processed_at is not None else 0.0
    delivery.tells, delivery.told = delivery.retries + 1, True
    delivery.uptake = Uptake.SEEN if run_alive or standing.seen else Uptake.UNSEEN
    delivery.assigned = not policy.reminds or standing.status is Status.ACKED
    delivery.told_at = delivery.first_told_at = state.now.mono - waited_s
    delivery.taken_at = state.now.mono  # whatever its agent did meanwhile, it owes its next sign of life from now on
    delivery.clock_from = state.now.mono
    if policy.shows:  # else a person wrote that header
        delivery.idled, delivery.written_s = standing.idled, standing.idled.idle_s
    delivery.told_wall = standing.processed_at if standing.processed_at is not None else delivery.arrived_at
    if standing.status is Status.ACKED:
        delivery.uptake = Uptake.STARTED
        state.deliveries.set_state(delivery, S.ACKED)
        state.start_timer(TimerKind.TASK, delivery.key, max(0.0, policy.task_timeout_s - waited_s))
    else:
        state.deliveries.set_state(delivery, S.DELIVERED)
        watch_silence(state, delivery, waited_s)
    if not delivery.seen:
        return
    agent = state.agents[delivery.agent]
    if is_enough(agent, delivery):
        apply(state, delivery, H.ENOUGH, "seen before the restart")
    else:
        agent_rules.watch_liveness(state, agent)


# --- gone -------------------------------------------------------------------------------------------------------------
def vanished(state: EngineState, event: events.Vanished) -> None:
    gone = state.deliveries.at(event.place)
    if gone is None:
        return
    if event.moved_to is not None:
        sweep(state, gone, f"moved by hand to {event.moved_to}")
    else:
        apply(state, gone, H.VANISHED)


def refused(state: EngineState, event: events.Unreadable) -> None:
    """Tell somebody of a file that is no message, then quarantine it. After a crash in between the file is still there,
    and is told of by the same message."""
    place, code, detail, sender = event.place, event.code, event.detail, event.sender
    _tell_of_refusal(state, place, code, detail, sender)
    state.emit(QuarantineFile(place.box, place, code, detail, sender))


def _tell_of_refusal(state: EngineState, place: Place, code: str, detail: str, sender: str | None) -> None:
    """Notify the sender, if the file names one and it is one of our agents. Never about mail of our own, or notices
    would lead to more."""
    if sender == MONITOR:
        return
    text = (
        f"1 file for {place.box}, {place}, is no message that ackd can deliver: {detail}. It was not "
        f"delivered, and is kept in queue/{Folder.CORRUPT.value}/"
    )
    agent = state.agent_called(place.box) or place.box
    alerts.notify(state, "quarantine", str(place), text, cure(code), agent=agent, to=sender, lane=place.box)


def cure(code: str) -> str:
    """Return the advice that a notice of quarantine ends with."""
    return f"{_CURES.get(code, _WITH_SEND)}. {_REQUEUE}"


def quarantined(state: EngineState, event: events.Quarantined) -> None:
    _tell_of_refusal(state, event.place, event.code, event.detail, event.sender)  # nothing, if it was told of before
    place, code, detail = event.place, event.code, event.detail
    state.totals.rejected += 1
    state.record(message_rejected(file=str(place), agent=place.box, code=code, reason=detail, kept_as=event.kept_as))
    known = state.deliveries.at(place)
    if known is not None:  # it was readable once, and someone wrote over it
        sweep(state, known, f"overwritten with what is no message ({code}): quarantined as {event.kept_as}")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def spool_lost(state: EngineState, event: events.SpoolLost) -> None:
    gone = [d for place in event.places if (d := state.deliveries.at(place)) is not None]
    names = [str(place) for place in event.places]
    state.record(message_facts.spool_lost(agent=event.box, files=names))
    for delivery in gone:
        sweep(state, delivery, "spool_lost: its directory was removed or replaced")
    agent = state.agent_called(event.box)
    if agent is not None and names:
        alerts.escalate(
            state,
            agent,
            Cause.SPOOL_LOST,
            derived_id("spool_lost", event.box, int(state.now.wall)),
            f"queue/{event.box} of {agent} was removed or replaced, and with it {_files(len(names))}, first of all "
            f"{names[0]}",
            "Find out what removed it (git clean?). `ackd tail --type spool_lost` lists the files",
        )
