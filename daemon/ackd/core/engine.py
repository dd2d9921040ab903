"""Routes each event to its machine and returns what is to be done.

``handle(event, now) -> effects`` is the whole interface, with ``next_deadline`` saying when ``Ticked`` is wanted.
Pure: no clock, disk, chance or logging of its own; time comes with each event, chance with the constructor. An answer
about a message that has ended meanwhile is dropped; an event that cannot happen raises ``ImpossibleEvent``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from ackd.core import arrivals, calling, clocks, endings, events, facts, idling, lives, passing, receipts, trouble
from ackd.core.acts import IN_HAND, UNDER_WAY, apply, fail, hinder, write_status
from ackd.core.availability import AgentHappening, AgentState
from ackd.core.book import Agent
from ackd.core.delivery import Happening, State, step
from ackd.core.desk import Desk
from ackd.core.message import Folder

if TYPE_CHECKING:
    import random

    from ackd.core.book import Delivery
    from ackd.core.effects import Effect, TellAgent
    from ackd.core.events import Event, Now
    from ackd.core.policy import EnginePolicy

H, S = Happening, State
_AVAILABLE: Final = AgentState.AVAILABLE
_DRAINED, _FILLED = AgentHappening.DRAINED, AgentHappening.FILLED
_CLAIMED, _MOVED = Happening.CLAIMED, Happening.MOVED

#: Answers to a telling: each names the attempt that it belongs to.
_OF_A_TELLING: Final = (events.Told, events.NotTold, events.EndpointAway, events.Hindered)

#: Ends of a run that say nothing of whether it had begun.
_TAKEN_BACK: Final = frozenset({events.Outcome.STOPPED, events.Outcome.HINDERED})

#: Offers made by one event; the rest follow at once, so that a full inbox does not hold up everybody else.
OFFERS_AT_ONCE: Final = 64

_AboutAgent: TypeAlias = events.AgentJoined | events.AgentPaused | events.AgentResumed | events.SignOfLife
_Answer: TypeAlias = (
    events.MoveLost
    | events.SpoolFailed
    | events.Told
    | events.NotTold
    | events.EndpointAway
    | events.Hindered
    | events.Seen
    | events.RunEnded
)


class Engine:
    def __init__(self, policy: EnginePolicy, rng: random.Random) -> None:
        self.desk = Desk(policy, rng)

    def handle(self, event: Event, now: Now) -> list[Effect]:
        desk = self.desk
        desk.now, desk.tray = now, []
        self._route(event)
        touched = desk.touched
        while touched and not desk.recovering:
            agent = desk.book.agents[next(iter(touched))]
            if agent.state is _AVAILABLE and not agent.line.waiting and agent.has_room:
                del touched[agent.name]  # nearly always: nothing waits, and nothing changes
            else:
                self._offer(agent)
        return desk.tray

    def is_wanted(self, order: TellAgent) -> bool:
        """Whether the message is still to be told, or has been given up, ended or told again since."""
        delivery = self.desk.book.get(order.key)
        return delivery is not None and delivery.state in IN_HAND and delivery.tells == order.attempt

    def next_deadline(self) -> float | None:
        """Monotonic time at which ``Ticked`` should come; None: nothing is waited for."""
        return self.desk.alarms.next()

    def _route(self, event: Event) -> None:
        match event:
            case events.Arrived():
                arrivals.arrived(self.desk, event)
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
                | events.Seen()
            ):
                delivery = self.desk.book.get(event.key)
                if delivery is not None:  # else it ended meanwhile: the answer is late
                    self._answered(delivery, event)
            case events.ReceiptCame(receipt):
                receipts.heard(self.desk, receipt)
            case events.Ticked(until):
                for kind, of in self.desk.alarms.due(self.desk.now.mono if until is None else until):
                    clocks.rang(self.desk, kind, of)
            case events.Unreadable():
                arrivals.refused(self.desk, event)
            case events.Quarantined():
                arrivals.quarantined(self.desk, event)
            case events.Vanished():
                arrivals.vanished(self.desk, event)
            case events.SpoolLost():
                arrivals.spool_lost(self.desk, event)
            case events.LetterPurged(message_id, agent):
                endings.purged(self.desk, message_id, agent)
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
                lives.happened(self.desk, event)
            case events.TroubleSeen(kind, subject, text, cure, agent, to):
                trouble.tell(self.desk, kind, subject, text, cure, agent=agent, to=to)
            case events.RecoveryEnded(reading):
                arrivals.recovered(self.desk, reading=reading)
            case events.FaultEnded():
                calling.relieve(self.desk)
            case events.StopRequested():
                self._stop_offering()
            case _:
                assert_never(event)

    def _stop_offering(self) -> None:
        """What was told a moment ago outlives us: its header must say so, or it would be told again."""
        self.desk.stopping = True
        idling.write_all(self.desk)
        for delivery in self.desk.book:
            if ("status", delivery.key) in self.desk.alarms:
                self.desk.hush(delivery.key, "status")
                write_status(self.desk, delivery, "delivered")

    # --- agents ---------------------------------------------------------------------------------------------------
    def _agent(self, event: _AboutAgent) -> None:
        desk = self.desk
        match event:
            case events.AgentJoined(name, policy, endpoint):
                known = desk.book.agents.get(name)
                if known is None:
                    desk.book.agents[name] = Agent(name, policy, endpoint)
                    desk.name_agent(name)
                else:
                    known.policy, known.endpoint = policy, endpoint
            case events.AgentPaused(name):
                calling.change(desk, desk.book.agents[name], AgentHappening.PAUSED, "by hand")
            case events.AgentResumed(name):
                calling.resume(desk, desk.book.agents[name])
            case events.SignOfLife(name):
                calling.lived(desk, desk.book.agents[name])
            case _:
                assert_never(event)
        desk.touch(event.agent)

    def _offer(self, agent: Agent) -> None:
        """Fill the agent's window from its line."""
        desk, offered = self.desk, 0
        if agent.state is not _AVAILABLE or not agent.has_room:
            calling.change(desk, agent, _DRAINED if agent.has_room else _FILLED)
        while agent.state is _AVAILABLE and agent.has_room and agent.line.waiting and not desk.stopping:
            if offered == OFFERS_AT_ONCE:
                desk.alarm("offer", agent.name, 0)
                break
            key = agent.line.pop()
            delivery = desk.book.get(key) if key is not None else None
            if delivery is not None:
                if delivery.idled.beside:
                    delivery.idled = replace(delivery.idled, beside=False)
                apply(desk, delivery, H.OFFERED)
                offered += 1
        if not agent.has_room:
            calling.change(desk, agent, _FILLED)
            passing.offer(desk, agent)
        desk.touched.pop(agent.name, None)

    # --- answers ----------------------------------------------------------------------------------------------------
    def _moved(self, event: events.Claimed | events.Moved) -> None:
        delivery = self.desk.book.get(event.key)
        if delivery is None:
            return
        happening = _CLAIMED if isinstance(event, events.Claimed) else _MOVED
        step(delivery.state, happening)  # refused before the place is believed
        delivery.swept = ""
        self.desk.book.relocate(delivery, event.place)
        apply(self.desk, delivery, happening)

    def _answered(self, delivery: Delivery, event: _Answer) -> None:
        if _is_late(delivery, event):
            return
        desk = self.desk
        match event:
            case events.Told(proof=proof, seen=seen):
                self._told(delivery, proof, seen=seen)
            case events.RunEnded():
                self._run_ended(delivery, event)
            case events.MoveLost(why=why):
                swept = (delivery.swept or why) if delivery.state in UNDER_WAY else ""
                unclaimed = delivery.state is S.BURYING and delivery.place.folder is Folder.QUEUE
                apply(desk, delivery, H.SPOOL_LOST if swept or unclaimed else H.LOST, swept)
                if delivery.state is S.DEAD and desk.book.get(delivery.key) is not None:
                    endings.put_back(desk, delivery)  # the letter was removed before it could be dug up
            case events.SpoolFailed(error=error):
                step(delivery.state, H.DISK_FAILED)
                desk.fact("io_error", what="move", error=error, **facts.about(delivery))
                apply(desk, delivery, H.DISK_FAILED, error)
            case events.NotTold(reason=reason):
                fail(desk, delivery, H.NOT_TOLD, reason)
            case events.EndpointAway(reason=reason, why=absence, until=until):
                if delivery.state is S.PROCESSING:
                    calling.go_away(desk, desk.book.agents[delivery.agent], reason, absence, until)
                apply(desk, delivery, H.AWAY, reason)
            case events.Hindered(reason=reason):
                self._hindered(delivery, reason)
            case events.Seen(evidence=evidence):
                apply(desk, delivery, H.SEEN, evidence)
            case _:
                assert_never(event)

    def _told(self, delivery: Delivery, proof: str, *, seen: bool) -> None:
        apply(self.desk, delivery, H.TOLD, proof)
        if seen and delivery.state in IN_HAND:  # also by a nudge: it woke
            apply(self.desk, delivery, H.SEEN, proof)

    def _hindered(self, delivery: Delivery, reason: str) -> None:
        self.desk.fact("io_error", what="tell", error=reason, **facts.about(delivery))
        hinder(self.desk, delivery, reason)

    def _run_ended(self, delivery: Delivery, event: events.RunEnded) -> None:
        """What the run says counts for the attempt it belongs to, and only while its agent has not said otherwise:
        a script that defers and then exits 0 has deferred."""
        current = event.attempt in (0, delivery.tells)
        if not current or delivery.state not in IN_HAND:
            return
        if event.told:
            self._told(delivery, event.told, seen=True)
        elif delivery.state is S.PROCESSING and event.outcome not in _TAKEN_BACK:
            apply(self.desk, delivery, H.TOLD, "its run is over")  # quicker than the answer to the telling
        match event.outcome:
            case events.Outcome.DONE:
                apply(self.desk, delivery, H.DONE, event.detail)
            case events.Outcome.REFUSED:
                apply(self.desk, delivery, H.REFUSED, event.detail)
            case events.Outcome.STOPPED:
                apply(self.desk, delivery, H.STOPPED, event.detail)
            case events.Outcome.HINDERED:
                self._hindered(delivery, event.detail)
            case events.Outcome.FAILED | events.Outcome.DEFERRED:
                fail(self.desk, delivery, H.FAILED, event.detail)
            case _:
                assert_never(event.outcome)


def _is_late(delivery: Delivery, event: _Answer) -> bool:
    """Whether it answers an earlier telling, whose time was up: the message has been told again since."""
    if not isinstance(event, _OF_A_TELLING):
        return False
    return event.attempt not in (0, delivery.tells)
