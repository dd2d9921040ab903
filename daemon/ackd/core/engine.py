"""The engine: takes one event and returns the effects that follow from it.

``handle(event, now)`` is the whole interface; ``next_deadline`` says when ``Ticked`` is wanted. The engine has no
clock, disk, chance or log of its own: time comes with each event, chance with the constructor. An answer about a
message that has ended meanwhile is dropped. An event that cannot happen raises ``ImpossibleEvent``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ackd.core import (
    agent_changes,
    agent_events,
    agent_rules,
    alerts,
    arrivals,
    deadlines,
    delivery_facts,
    endings,
    events,
    parts_told,
    passing,
    pool_offers,
    receipts,
    screen_rules,
    timeouts,
)
from ackd.core.availability import AgentHappening, AgentState
from ackd.core.daemon_facts import io_error
from ackd.core.delivery import Happening, State, step
from ackd.core.message import Folder, Status
from ackd.core.state import EngineState
from ackd.core.timers import TimerKind
from ackd.core.transitions import IN_HAND, UNDER_WAY, apply, fail, hinder, write_status

if TYPE_CHECKING:
    import random

    from ackd.core.effects import Effect, TellAgent
    from ackd.core.events import Event, Now
    from ackd.core.policy import EnginePolicy
    from ackd.core.state import Agent, Delivery

H, S = Happening, State
_AVAILABLE: Final = AgentState.AVAILABLE
_DRAINED, _FILLED = AgentHappening.DRAINED, AgentHappening.FILLED
_CLAIMED, _MOVED = Happening.CLAIMED, Happening.MOVED

#: Answers to a telling: each names the attempt that it belongs to.
_OF_A_TELLING: Final = (events.Told, events.NotTold, events.EndpointAway, events.Hindered, events.LetGo)

#: Outcomes that do not show that the run had begun.
_TAKEN_BACK: Final = frozenset({events.Outcome.STOPPED, events.Outcome.HINDERED})

#: How many offers one event may lead to. The rest follow by a timer, so that a full inbox does not hold up the others.
OFFERS_AT_ONCE: Final = 64

_AboutAgent: TypeAlias = events.AgentJoined | events.AgentPaused | events.AgentResumed | events.SignOfLife
_Answer: TypeAlias = (
    events.MoveLost
    | events.SpoolFailed
    | events.Told
    | events.NotTold
    | events.EndpointAway
    | events.Hindered
    | events.LetGo
    | events.Seen
    | events.RunEnded
)


class Engine:
    def __init__(self, policy: EnginePolicy, rng: random.Random) -> None:
        self.state = EngineState(policy, rng)

    def handle(self, event: Event, now: Now) -> list[Effect]:
        state = self.state
        state.now, state.effects = now, []
        self._route(event)
        touched = state.to_offer
        while touched and not state.recovering:
            agent = state.agents[next(iter(touched))]
            if agent.becomes is not None:
                agent_changes.replace_if_free(state, agent)
            if agent.pool is not None:
                del touched[agent.name]
                pool_offers.offer(state, agent, OFFERS_AT_ONCE)
                continue
            if agent.state is _AVAILABLE and not agent.line.waiting and agent.has_room:
                del touched[agent.name]  # nearly always: nothing waits, and nothing changes
            else:
                self._offer(agent)
            if agent.pools:
                pool_offers.note_member(state, agent)
        return state.effects

    def is_wanted(self, order: TellAgent) -> bool:
        """Return whether the message is still to be told, and has not been given up, ended or told again since."""
        delivery = self.state.deliveries.get(order.key)
        return delivery is not None and delivery.state in IN_HAND and delivery.tells == order.attempt

    def next_deadline(self) -> float | None:
        """Return the monotonic time at which ``Ticked`` should come; None if no timer runs."""
        return self.state.timers.next()

    def _route(self, event: Event) -> None:
        match event:
            case events.Arrived():
                arrivals.arrived(self.state, event)
            case events.Claimed() | events.Moved():
                self._moved(event)
            case (
                events.Told()
                | events.RunEnded()
                | events.MoveLost()
                | events.SpoolFailed()
                | events.NotTold()
                | events.EndpointAway()
                | events.Hindered()
                | events.LetGo()
                | events.Seen()
            ):
                delivery = self.state.deliveries.get(event.key)
                if delivery is not None:  # else it ended meanwhile: the answer is late
                    self._answered(delivery, event)
            case events.ReceiptCame(receipt):
                receipts.heard(self.state, receipt)
            case events.Ticked(until):
                for kind, owner in self.state.timers.due(self.state.now.mono if until is None else until):
                    timeouts.timer_due(self.state, kind, owner)
            case events.Unreadable():
                arrivals.refused(self.state, event)
            case events.Quarantined():
                arrivals.quarantined(self.state, event)
            case events.Vanished():
                arrivals.vanished(self.state, event)
            case events.SpoolLost():
                arrivals.spool_lost(self.state, event)
            case events.PartEnded(end, notify):
                parts_told.ended_unnoticed(self.state, end, notify=notify)
            case events.LetterPurged(message_id, agent):
                endings.purged(self.state, message_id, agent)
            case events.AgentJoined() | events.AgentPaused() | events.AgentResumed() | events.SignOfLife():
                self._agent(event)
            case (
                events.AgentStarted()
                | events.AgentDied()
                | events.AgentStuck()
                | events.AgentReady()
                | events.AgentShowed()
                | events.AgentWaits()
                | events.Reminded()
                | events.NotProbed()
                | events.WorkerSaid()
                | events.WorkBlocked()
                | events.CheckpointCame()
                | events.NudgeAsked()
            ):
                agent_events.happened(self.state, event)
            case events.TroubleSeen(kind, subject, text, cure, agent, to):
                alerts.notify(self.state, kind, subject, text, cure, agent=agent, to=to)
            case events.RecoveryEnded(reading):
                arrivals.recovered(self.state, reading=reading)
            case events.FaultEnded():
                agent_rules.fault_ended(self.state)
            case events.TeamChanged(policy):
                agent_changes.team_changed(self.state, policy)
            case events.RoomLow():
                self.state.no_room = True
            case events.RoomBack():
                self.state.no_room = False
                for name in self.state.agents:
                    self.state.offer_later(name)
            case events.StopRequested():
                self._stop_offering()
            case _:
                assert_never(event)

    def _stop_offering(self) -> None:
        """Offer nothing more, and write the headers that are due soon.

        A message that was told a moment ago outlives the daemon: its header must say so, or it would be told again.
        """
        self.state.stopping = True
        screen_rules.write_all(self.state)
        for delivery in self.state.deliveries:
            if (TimerKind.STATUS, delivery.key) in self.state.timers:
                self.state.timers.cancel(TimerKind.STATUS, delivery.key)
                write_status(self.state, delivery, Status.DELIVERED)

    # --- agents ---------------------------------------------------------------------------------------------------
    def _agent(self, event: _AboutAgent) -> None:
        state = self.state
        match event:
            case events.AgentJoined():
                agent_changes.joined(state, event)
            case events.AgentPaused(name, reason):
                agent_rules.change_state(state, state.agents[name], AgentHappening.PAUSED, reason)
            case events.AgentResumed(name):
                agent_rules.resume(state, state.agents[name])
            case events.SignOfLife(name):
                agent_rules.sign_of_life(state, state.agents[name])
            case _:
                assert_never(event)
        state.offer_later(event.agent)

    def _offer(self, agent: Agent) -> None:
        """Fill the agent's window from its line."""
        state, offered = self.state, 0
        if agent.state is not _AVAILABLE or not agent.has_room:
            agent_rules.change_state(state, agent, _DRAINED if agent.has_room else _FILLED)
        while agent.state is _AVAILABLE and agent.has_room and agent.line.waiting and state.takes_up:
            if offered == OFFERS_AT_ONCE:
                state.start_timer(TimerKind.OFFER, agent.name, 0)
                break
            key = agent.line.pop()
            delivery = state.deliveries.get(key) if key is not None else None
            if delivery is not None and not deadlines.expire_instead(state, delivery, agent.name):
                if delivery.idled.beside:
                    delivery.idled = replace(delivery.idled, beside=False)
                apply(state, delivery, H.OFFERED)
                offered += 1
        if not agent.has_room:
            agent_rules.change_state(state, agent, _FILLED)
            passing.offer(state, agent)
        state.to_offer.pop(agent.name, None)

    # --- answers ----------------------------------------------------------------------------------------------------
    def _moved(self, event: events.Claimed | events.Moved) -> None:
        delivery = self.state.deliveries.get(event.key)
        if delivery is None:
            return
        happening = _CLAIMED if isinstance(event, events.Claimed) else _MOVED
        step(delivery.state, happening)  # refused before the place is believed
        delivery.lost_reason = ""
        self.state.deliveries.relocate(delivery, event.place)
        apply(self.state, delivery, happening)

    def _answered(self, delivery: Delivery, event: _Answer) -> None:
        if _is_late(delivery, event):
            return
        state = self.state
        match event:
            case events.Told(proof=proof, seen=seen):
                self._told(delivery, proof, seen=seen)
            case events.RunEnded():
                self._run_ended(delivery, event)
            case events.MoveLost(why=why):
                lost_reason = (delivery.lost_reason or why) if delivery.state in UNDER_WAY else ""
                unclaimed = delivery.state is S.BURYING and delivery.place.folder is Folder.QUEUE
                apply(state, delivery, H.SPOOL_LOST if lost_reason or unclaimed else H.LOST, lost_reason)
                if delivery.state is S.DEAD and state.deliveries.get(delivery.key) is not None:
                    endings.put_back(state, delivery)  # the dead letter was removed before it could be requeued
            case events.SpoolFailed(error=error):
                step(delivery.state, H.DISK_FAILED)
                state.record(io_error(what="move", error=error, **delivery_facts.about(delivery)))
                apply(state, delivery, H.DISK_FAILED, error)
            case events.NotTold(reason=reason):
                fail(state, delivery, H.NOT_TOLD, reason)
            case events.EndpointAway(reason=reason, why=absence, until=until):
                if delivery.state is S.PROCESSING:
                    agent_rules.went_away(state, state.agents[delivery.agent], reason, absence, until)
                apply(state, delivery, H.AWAY, reason)
            case events.Hindered(reason=reason):
                self._hindered(delivery, reason)
            case events.LetGo(how=how):
                apply(state, delivery, H.LET_GO, how)
            case events.Seen(evidence=evidence):
                apply(state, delivery, H.SEEN, evidence)
            case _:
                assert_never(event)

    def _told(self, delivery: Delivery, proof: str, *, seen: bool) -> None:
        apply(self.state, delivery, H.TOLD, proof)
        if seen and delivery.state in IN_HAND:  # also by a nudge: it woke
            apply(self.state, delivery, H.SEEN, proof)

    def _hindered(self, delivery: Delivery, reason: str) -> None:
        self.state.record(io_error(what="tell", error=reason, **delivery_facts.about(delivery)))
        hinder(self.state, delivery, reason)

    def _run_ended(self, delivery: Delivery, event: events.RunEnded) -> None:
        """Apply what a run says, if it is the run of the current attempt and its agent has not said otherwise.

        A script that defers and then exits 0 has deferred.
        """
        current = event.attempt in (0, delivery.tells)
        if current and delivery.state is S.CANCELLING:
            self._called_off(delivery, event)
        if not current or delivery.state not in IN_HAND:
            return
        if event.told:
            self._told(delivery, event.told, seen=True)
        elif delivery.state is S.PROCESSING and event.outcome not in _TAKEN_BACK:
            apply(self.state, delivery, H.TOLD, "its run is over")  # quicker than the answer to the telling
        match event.outcome:
            case events.Outcome.DONE:
                apply(self.state, delivery, H.DONE, event.detail)
            case events.Outcome.REFUSED:
                apply(self.state, delivery, H.REFUSED, event.detail)
            case events.Outcome.STOPPED:
                apply(self.state, delivery, H.STOPPED, event.detail)
            case events.Outcome.HINDERED:
                self._hindered(delivery, event.detail)
            case events.Outcome.FAILED | events.Outcome.DEFERRED:
                fail(self.state, delivery, H.FAILED, event.detail)
            case _:
                assert_never(event.outcome)

    def _called_off(self, delivery: Delivery, event: events.RunEnded) -> None:
        """Apply the end of a run whose message is being cancelled: it was completed before, or it is let go of."""
        if event.told:
            apply(self.state, delivery, H.TOLD, event.told)
        if event.outcome is events.Outcome.DONE:
            apply(self.state, delivery, H.DONE, event.detail)
        else:
            apply(self.state, delivery, H.LET_GO, event.detail)


def _is_late(delivery: Delivery, event: _Answer) -> bool:
    """Return whether this answers an earlier telling that timed out: the message has been told again since."""
    if not isinstance(event, _OF_A_TELLING):
        return False
    return event.attempt not in (0, delivery.tells)
