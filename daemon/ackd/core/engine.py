"""Routes each event to its machine and returns what is to be done.

``handle(event, now) -> effects`` is the whole interface, with ``next_deadline`` saying when ``Ticked`` is wanted.
Pure: no clock, disk, chance or logging of its own; time comes with each event, chance with the constructor. An answer
about a message that has ended meanwhile is dropped; an event that cannot happen raises ``ImpossibleEvent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from ackd.core import calling, events, facts
from ackd.core.acts import apply, ask_for_move, close, fail, gone_silent, line_up, watch_silence, write_status
from ackd.core.availability import AgentHappening, AgentState
from ackd.core.book import Agent
from ackd.core.dedup import Repeated, SameIdOtherContent
from ackd.core.delivery import Happening, State
from ackd.core.desk import Desk
from ackd.core.effects import DropReceipt, NudgeAgent, QuarantineFile, RecordFact, RemindPerson
from ackd.core.escalations import derived_id
from ackd.core.ladder import ClimbDecision, EndDecision, WaitDecision
from ackd.core.ladder import decide as decide_ladder
from ackd.core.message import MONITOR, Folder, ReceiptKind, Standing, Status

if TYPE_CHECKING:
    import random

    from ackd.core.book import Delivery
    from ackd.core.effects import Effect
    from ackd.core.events import Event, Now
    from ackd.core.policy import AgentPolicy, EnginePolicy

H, S = Happening, State

#: Offers made by one event; the rest follow at once, so that a full inbox does not hold up everybody else.
OFFERS_AT_ONCE: Final = 64
#: A reply of one of these types is a report: it completes what it answers. Any other reply acknowledges it.
REPORT_TYPES: Final = frozenset(
    "strategy_response architecture_response task_completed evaluation_result improvement_completed".split()
)
_RECEIPT_HAPPENS: Final = {
    ReceiptKind.SEEN: H.SEEN,
    ReceiptKind.ACK: H.ACKED,
    ReceiptKind.DONE: H.DONE,
    ReceiptKind.REFUSE: H.REFUSED,
    ReceiptKind.DEFER: H.FAILED,
    ReceiptKind.REQUEUE: H.REQUEUED,
}


class Engine:
    def __init__(self, policy: EnginePolicy, rng: random.Random) -> None:
        self.desk = Desk(policy, rng)

    def handle(self, event: Event, now: Now) -> list[Effect]:
        desk = self.desk
        desk.now, desk.tray = now, []
        self._route(event)
        while desk.touched:
            self._offer(desk.book.agents[desk.touched.pop()])
        return desk.tray

    def next_deadline(self) -> float | None:
        """Monotonic time at which ``Ticked`` should come; None: nothing is waited for."""
        return self.desk.alarms.next()

    def _route(self, event: Event) -> None:
        match event:
            case events.Arrived():
                self._arrived(event)
            case events.Claimed() | events.Moved():
                self._moved(event)
            case (
                events.MoveLost()
                | events.SpoolFailed()
                | events.Told()
                | events.NotTold()
                | events.EndpointAway()
                | events.Seen()
                | events.RunEnded()
            ):
                delivery = self.desk.book.get(event.key)
                if delivery is not None:  # else it ended meanwhile: the answer is late
                    self._answered(delivery, event)
            case events.ReceiptCame():
                self._receipt(event)
            case events.Ticked():
                for kind, of in self.desk.alarms.due(self.desk.now.mono):
                    self._due(kind, of)
            case events.Unreadable(place, code, detail):
                self.desk.put(QuarantineFile(place.box, place, code, detail))
            case events.Quarantined(place, kept_as, code, detail):
                self.desk.totals.rejected += 1
                self.desk.fact(
                    "message_rejected", file=str(place), agent=place.box, code=code, reason=detail, kept_as=kept_as
                )
            case events.Vanished(place, moved_to):
                gone = self.desk.book.at(place)
                if gone is not None and moved_to is not None:
                    apply(self.desk, gone, H.SPOOL_LOST, f"moved by hand to {moved_to}")
                elif gone is not None:
                    apply(self.desk, gone, H.VANISHED)
            case events.SpoolLost():
                self._spool_lost(event)
            case events.AgentJoined() | events.AgentPaused() | events.AgentResumed() | events.SignOfLife():
                self._agent(event)
            case events.StopRequested():
                self.desk.stopping = True
            case _:
                assert_never(event)

    # --- agents ---------------------------------------------------------------------------------------------------
    def _agent(self, event: events.AgentJoined | events.AgentPaused | events.AgentResumed | events.SignOfLife) -> None:
        agents = self.desk.book.agents
        if isinstance(event, events.AgentJoined):
            known = agents.get(event.agent)
            if known is None:
                agents[event.agent] = Agent(event.agent, event.policy, event.endpoint)
                self.desk.name_agent(event.agent)
            else:
                known.policy, known.endpoint = event.policy, event.endpoint
            self.desk.touched.add(event.agent)
            return
        agent = agents[event.agent]
        match event:
            case events.AgentPaused():
                calling.change(self.desk, agent, AgentHappening.PAUSED, "by hand")
            case events.AgentResumed():
                calling.change(self.desk, agent, AgentHappening.RESUMED)
            case events.SignOfLife():
                calling.lived(self.desk, agent)
            case _:
                assert_never(event)
        self.desk.touched.add(agent.name)

    def _offer(self, agent: Agent) -> None:
        """Fill the agent's window from its line."""
        desk, offered = self.desk, 0
        calling.change(desk, agent, AgentHappening.DRAINED if agent.has_room else AgentHappening.FILLED)
        while agent.state is AgentState.AVAILABLE and agent.has_room and agent.line and not desk.stopping:
            if offered == OFFERS_AT_ONCE:
                desk.alarm("offer", agent.name, 0)
                break
            key = agent.line.pop()
            delivery = desk.book.get(key) if key is not None else None
            if delivery is not None:
                apply(desk, delivery, H.OFFERED)
                offered += 1
        if not agent.has_room:
            calling.change(desk, agent, AgentHappening.FILLED)
        desk.touched.discard(agent.name)

    # --- files ----------------------------------------------------------------------------------------------------
    def _arrived(self, event: events.Arrived) -> None:
        desk = self.desk
        if desk.book.at(event.place) is not None:
            return  # a hint that came twice
        arrived_at = min(event.arrived_at, desk.now.wall)
        delivery = desk.book.open(event.message, event.place, arrived_at, met_at=desk.now.wall)
        if event.place.folder is Folder.DEAD:  # looked up because someone asked for it
            delivery.state, delivery.late = S.DEAD, True
            return
        desk.put(facts.queued(delivery, recovered=event.recovered))
        if self._is_repeat(delivery):
            return
        if not event.recovered:
            self._heard(delivery)
        if event.place.folder is Folder.PROCESSED:
            self._resume(delivery, event)
        else:
            line_up(desk, delivery)

    def _is_repeat(self, delivery: Delivery) -> bool:
        """Same id, recipient and content: put away unworked. Same id, other content: served, with a warning."""
        desk, message = self.desk, delivery.message
        others = [d for d in desk.book.of_id(message.message_id, delivery.agent) if d is not delivery]
        twin = next((d for d in others if d.message.digest == message.digest and not d.duplicate), None)
        verdict = desk.completed.verdict(message.message_id, delivery.agent, message.digest, desk.now.wall)
        if twin is not None or isinstance(verdict, Repeated):
            delivery.duplicate = True
            apply(desk, delivery, H.DONE, twin.state.value if twin else "completed")
            return True
        if others or isinstance(verdict, SameIdOtherContent):
            warning = "another message has the same Message-ID and other content; both are delivered"
            desk.put(RecordFact("message_warning", facts.about(delivery, warning=warning)))
        return False

    def _heard(self, delivery: Delivery) -> None:
        """What a new message says beyond itself: progress, a review's result, an answer, a loop."""
        desk, message = self.desk, delivery.message
        said = facts.progress(message)
        if said is not None:
            desk.put(said)
        if message.type == "evaluation_result":
            desk.put(facts.work("review_result", delivery, **{"from": message.sender}))
        sender = desk.agent_called(message.sender)
        if sender is None:
            return
        if message.in_reply_to is not None:
            self._answers(sender, message.in_reply_to, report=message.type in REPORT_TYPES)
        about = message.thread_id or message.task_id
        count = desk.loops.saw(about, sender, delivery.agent) if about and message.sender != MONITOR else None
        if about is not None and count is not None:
            self._loop(about, sender, delivery, count)

    def _answers(self, sender: str, answered_id: str, *, report: bool) -> None:
        answered = self.desk.book.addressed(answered_id, sender)
        if answered is None:
            return
        apply(self.desk, answered, H.DONE if report else H.ACKED, "a report in reply" if report else "a reply")

    def _loop(self, about: str, sender: str, delivery: Delivery, count: int) -> None:
        a, b = sorted((sender, delivery.agent))
        self.desk.fact("loop_detected", a=a, b=b, about=about, count=count)
        calling.escalate(
            self.desk,
            delivery.agent,
            f"loop:{about}"[:200],
            derived_id("loop", about, a, b),
            f"{a} and {b} sent {about} back and forth {count} times, {count} of {count} bounces since it began (100%); "
            f"the newest is queue/{delivery.place.box}/{delivery.place.name}:1",
            f"Decide for them: answer one of the two, or pause it. `ackd tail --message {delivery.message.message_id}`",
            delivery,
        )

    def _resume(self, delivery: Delivery, event: events.Arrived) -> None:
        """A file met in processed/: our own from before a restart, or dropped there by someone (served like any other).

        Only the scan at start believes the header's status: who drops a file there with one copied an old file.
        """
        desk, policy = self.desk, desk_policy(self.desk, delivery)
        standing = event.standing if event.recovered and event.standing is not None else Standing()
        delivery.retries, delivery.crashes = standing.retry_count, event.crashes
        desk.book.set_state(delivery, S.RETRYING)
        if event.crashes > policy.crash_limit:
            apply(desk, delivery, H.EXHAUSTED, f"poison: ackd itself died {event.crashes} times with it in hand")
        elif event.run_alive or (standing.status in (Status.DELIVERED, Status.ACKED) and not policy.volatile):
            self._carry_on(delivery, standing, run_alive=event.run_alive)
        elif standing.status is Status.RETRYING:
            wait_s = (standing.next_retry_at or 0) - desk.now.wall
            desk.alarm("retry", delivery.key, min(max(0.0, wait_s), policy.backoff_cap_s))
        else:
            line_up(desk, delivery)

    def _carry_on(self, delivery: Delivery, standing: Standing, *, run_alive: bool) -> None:
        """It was told before the restart: its clock runs on from then."""
        desk, policy = self.desk, desk_policy(self.desk, delivery)
        waited_s = max(0.0, desk.now.wall - standing.processed_at) if standing.processed_at is not None else 0.0
        delivery.tells, delivery.seen, delivery.told_at = 1, run_alive, desk.now.mono - waited_s
        if standing.status is Status.ACKED:
            delivery.seen = delivery.started = True
            desk.book.set_state(delivery, S.ACKED)
            desk.alarm("task", delivery.key, max(0.0, policy.task_timeout_s - waited_s))
        else:
            desk.book.set_state(delivery, S.DELIVERED)
            watch_silence(desk, delivery, waited_s)

    def _spool_lost(self, event: events.SpoolLost) -> None:
        desk = self.desk
        gone = [d for place in event.places if (d := desk.book.at(place)) is not None]
        names = [str(place) for place in event.places]
        desk.fact("spool_lost", agent=event.box, files=names)
        for delivery in gone:
            apply(desk, delivery, H.SPOOL_LOST, "spool_lost: its directory was removed or replaced")
        agent = desk.agent_called(event.box)
        if agent is not None and names:
            calling.escalate(
                desk,
                agent,
                "spool_lost",
                derived_id("spool_lost", event.box, int(desk.now.wall)),
                f"queue/{event.box}:1 was removed or replaced by someone: {len(names)} of its {len(names)} files (100%) "
                f"went with it, for {agent}",
                "Find out what removed it (git clean?). `ackd tail --type spool_lost` lists the files",
            )

    # --- answers and receipts ---------------------------------------------------------------------------------------
    def _moved(self, event: events.Claimed | events.Moved) -> None:
        delivery = self.desk.book.get(event.key)
        if delivery is None:
            return
        self.desk.book.relocate(delivery, event.place)
        apply(self.desk, delivery, H.CLAIMED if isinstance(event, events.Claimed) else H.MOVED)
        if delivery.state is S.DEAD and self.desk.book.get(delivery.key) is delivery:
            close(self.desk, delivery)

    def _answered(
        self,
        delivery: Delivery,
        event: events.MoveLost
        | events.SpoolFailed
        | events.Told
        | events.NotTold
        | events.EndpointAway
        | events.Seen
        | events.RunEnded,
    ) -> None:
        desk = self.desk
        match event:
            case events.MoveLost():
                apply(desk, delivery, H.LOST)
                if delivery.state is S.DEAD:
                    close(desk, delivery)
            case events.SpoolFailed(error=error):
                desk.fact("io_error", what="move", error=error, **facts.about(delivery))
                apply(desk, delivery, H.DISK_FAILED, error)
                if delivery.state is S.DEAD:
                    close(desk, delivery)
            case events.Told(proof=proof, seen=seen):
                if delivery.state is S.PROCESSING and seen:
                    apply(desk, delivery, H.TOLD, proof)
                    apply(desk, delivery, H.SEEN, proof)
                else:
                    apply(desk, delivery, H.TOLD, proof)
            case events.NotTold(reason=reason):
                fail(desk, delivery, H.NOT_TOLD, reason)
            case events.EndpointAway(reason=reason):
                apply(desk, delivery, H.AWAY, reason)
            case events.Seen(evidence=evidence):
                apply(desk, delivery, H.SEEN, evidence)
            case events.RunEnded():
                self._run_ended(delivery, event)
            case _:
                assert_never(event)

    def _run_ended(self, delivery: Delivery, event: events.RunEnded) -> None:
        """What the run says counts for the attempt it belongs to, and only while its agent has not said otherwise:
        a script that defers and then exits 0 has deferred."""
        current = event.attempt in (0, delivery.tells)
        if not current or delivery.state not in (S.PROCESSING, S.DELIVERED, S.ACKED):
            return
        match event.outcome:
            case events.Outcome.DONE:
                apply(self.desk, delivery, H.DONE, event.detail)
            case events.Outcome.REFUSED:
                apply(self.desk, delivery, H.REFUSED, event.detail)
            case events.Outcome.STOPPED:
                apply(self.desk, delivery, H.STOPPED, event.detail)
            case events.Outcome.FAILED | events.Outcome.DEFERRED:
                fail(self.desk, delivery, H.FAILED, event.detail)
            case _:
                assert_never(event.outcome)

    def _receipt(self, event: events.ReceiptCame) -> None:
        desk, receipt = self.desk, event.receipt
        agent = desk.agent_called(receipt.agent) if receipt.agent else None
        delivery = desk.book.addressed(receipt.message_id, agent) if agent else None
        happening = _RECEIPT_HAPPENS.get(receipt.kind)
        if delivery is None or happening is None:
            desk.fact(
                "message_warning",
                message_id=receipt.message_id,
                agent=receipt.agent,
                warning=f"{receipt.kind.value} for a message that is not open here",
            )
            desk.put(DropReceipt(receipt.agent or "", receipt.name))
            return
        self._believe(delivery, event, happening)

    def _believe(self, delivery: Delivery, event: events.ReceiptCame, happening: Happening) -> None:
        desk, receipt = self.desk, event.receipt
        if receipt.name in delivery.receipts:
            return  # a hint that came twice
        delivery.receipts.append(receipt.name)
        said = f"ackd {receipt.kind.value}" + (f": {receipt.reason}" if receipt.reason else "")
        if happening is H.FAILED:
            fail(desk, delivery, happening, said)
        else:
            apply(desk, delivery, happening, said)
        if happening not in (H.SEEN, H.REQUEUED):
            calling.lived(desk, desk.book.agents[delivery.agent])
        if delivery.state is S.DEAD:
            close(desk, delivery)
        elif receipt.name in delivery.receipts and happening in (H.SEEN, H.ACKED, H.FAILED) and delivery.wish is None:
            delivery.receipts.remove(receipt.name)
            desk.put(DropReceipt(delivery.agent, receipt.name))

    # --- time -------------------------------------------------------------------------------------------------------
    def _due(self, kind: str, of: int | str) -> None:
        desk = self.desk
        if isinstance(of, str):
            agent = desk.book.agents[of]
            if kind == "unpark":
                calling.change(desk, agent, AgentHappening.PARK_ENDED)
            desk.touched.add(of)
            return
        delivery = desk.book.get(of)
        if delivery is None:
            return
        match kind:
            case "ack":
                self._silence(delivery)
            case "processing":
                waited = desk_policy(desk, delivery).processing_timeout_s
                fail(desk, delivery, H.NOT_TOLD, f"could not be told within {waited:.0f} s")
            case "task":
                apply(desk, delivery, H.OVERDUE)
            case "retry":
                line_up(desk, delivery)
            case "status":
                write_status(desk, delivery, "delivered")
            case "remind":
                self._remind(delivery)
            case "disk":
                ask_for_move(desk, delivery)
            case _:
                raise AssertionError(kind)

    def _silence(self, delivery: Delivery) -> None:
        desk, agent = self.desk, self.desk.book.agents[delivery.agent]
        policy, told_at = agent.policy, delivery.told_at or desk.now.mono
        decision = decide_ladder(
            agent.ladder, delivery.key, policy.rungs or 0, told_at, agent.last_life, desk.now.mono, policy.ack_timeout_s
        )
        match decision:
            case WaitDecision(until):
                desk.alarms.arm(("ack", delivery.key), until)
            case ClimbDecision(ladder):
                agent.ladder, delivery.told_at = ladder, desk.now.mono
                delivery.remember(desk.now.wall, f"silent for {policy.ack_timeout_s:.0f} s: rung {ladder.rung}")
                desk.alarm("ack", delivery.key, policy.ack_timeout_s)
                desk.put(RecordFact("nudge", facts.about(delivery, rung=ladder.rung)))
                desk.put(NudgeAgent(agent.name, delivery.key, delivery.message, delivery.place, ladder.rung))
            case EndDecision(rungs):
                gone_silent(desk, delivery, (rungs + 1) * policy.ack_timeout_s)
            case _:
                assert_never(decision)

    def _remind(self, delivery: Delivery) -> None:
        """Once per agent until it looks: a hundred unread messages are one reminder."""
        agent = self.desk.book.agents[delivery.agent]
        if agent.reminded:
            return
        agent.reminded = True
        self.desk.fact("reminder", agent=agent.name, message_id=delivery.message.message_id)
        self.desk.put(RemindPerson(agent.name, delivery.key, delivery.message, delivery.place))


def desk_policy(desk: Desk, delivery: Delivery) -> AgentPolicy:
    return desk.book.agents[delivery.agent].policy
