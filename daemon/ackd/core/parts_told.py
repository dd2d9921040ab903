"""Keeps the families of parts (parts.py), and tells each holder once when all parts that it sent have ended.

A holder that shares out is told when no part is open any more and it is not just at work on the message: then it may
be sending more of them. What has ended is kept in the journal until it was told, so that a crash forgets none of it;
parts that are still open are met again by every start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.core import parts
from ackd.core.availability import QUIET
from ackd.core.delivery import IN_DEAD_LETTER, State
from ackd.core.effects import NoteParts, RecordFact, SendMessage
from ackd.core.idleness import Doing
from ackd.core.message import MONITOR, identity
from ackd.core.message_facts import parts_ended
from ackd.core.parts import PartAct, PartEnd, PartEvent, PartsNotice, Sharing
from ackd.core.timers import TimerKind
from ackd.core.words import MessageEnd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackd.core.message import Message
    from ackd.core.state import Delivery, EngineState

#: A holder that has sent one part may be sending the next: it is told when no part was open for this long.
SETTLE_S: Final = 1.0

#: The parent's id, and the identity of the agent that sent the parts.
FamilyName: TypeAlias = tuple[str, str]

_ENDS: Final = {
    State.COMPLETED: MessageEnd.COMPLETED,
    State.DEAD: MessageEnd.DEAD,
    State.CANCELLED: MessageEnd.DEAD,
    State.WITHDRAWN: MessageEnd.WITHDRAWN,
}
_IN_HAND: Final = frozenset({State.CLAIMING, State.PROCESSING, State.DELIVERED, State.ACKED})


@dataclass(slots=True)
class Family:
    parent: str
    holder: str
    sharing: Sharing = Sharing.NONE
    open: set[int] = field(default_factory=set)
    ended: dict[tuple[str, str], PartEnd] = field(default_factory=dict)
    thread_id: str | None = None
    moved_at: float = 0.0  # monotonic: a part came or ended


@dataclass(slots=True)
class Families:
    _by_name: dict[FamilyName, Family] = field(default_factory=dict)
    #: Notices from before a restart of which it is not known whether they were written.
    unsure: list[PartsNotice] = field(default_factory=list)

    def of(self, parent: str, holder: str) -> Family | None:
        return self._by_name.get((parent, identity(holder)))

    def at(self, parent: str, holder: str) -> Family:
        return self._by_name.setdefault((parent, identity(holder)), Family(parent, holder))

    def forget(self, family: Family) -> None:
        self._by_name.pop((family.parent, identity(family.holder)), None)

    def all(self) -> list[Family]:
        return list(self._by_name.values())

    def restore(self, ended: Iterable[PartEnd], unsure: Iterable[PartsNotice]) -> None:
        """Take over what the journal knows from before a restart."""
        for one in ended:
            self.at(one.parent, one.holder).ended[one.key] = one
        self.unsure = list(unsure)


# --- what happens to parts --------------------------------------------------------------------------------------------
def came(state: EngineState, delivery: Delivery) -> None:
    """Note a part that is open: it came, was met again by a start, or was requeued."""
    message = delivery.message
    holder = _holder(state, message)
    if holder is None or message.part_of is None or delivery.duplicate:
        return
    family = state.families.at(message.part_of, holder)
    family.open.add(delivery.key)
    family.ended.pop((message.message_id, delivery.addressee), None)
    family.thread_id = message.thread_id or family.thread_id
    family.moved_at = state.now.mono
    _take(state, family, PartEvent.CAME)


def ended(state: EngineState, delivery: Delivery) -> PartEnd | None:
    """Note the end of a part. Returns what the journal must keep of it until its holder is told, if it will be."""
    message = delivery.message
    family = state.families.of(message.part_of, message.sender) if message.part_of is not None else None
    if family is None or delivery.key not in family.open:
        return None
    family.open.discard(delivery.key)
    family.moved_at = state.now.mono
    end = PartEnd(
        family.parent,
        family.holder,
        message.message_id,
        delivery.addressee,
        message.type,
        _ENDS[delivery.state],
        state.now.wall,
        delivery.reason if delivery.state in IN_DEAD_LETTER else "",
    )
    kept = end if is_told_of(state, message.notify, delivery.addressee) else None
    _note_end(state, family, end, is_kept=kept is not None)
    return kept


def ended_unnoticed(state: EngineState, end: PartEnd, *, notify: bool | None) -> None:
    """Note the end of a part of which a start has found out."""
    holder = state.agent_called(end.holder)
    if holder is None or not is_told_of(state, notify, end.agent):
        return
    family = state.families.at(end.parent, holder)
    _note_end(state, family, end, is_kept=True)


def _note_end(state: EngineState, family: Family, end: PartEnd, *, is_kept: bool) -> None:
    if is_kept:
        family.ended[end.key] = end
    if family.open:
        if family.sharing is Sharing.OPEN:
            _take(state, family, PartEvent.ENDED)
    elif family.ended:
        _take(state, family, PartEvent.LAST_ENDED)
    else:
        state.families.forget(family)  # nobody wants to be told


def is_told_of(state: EngineState, notify: bool | None, agent: str) -> bool:
    """Return whether the sender of a part is to be told when all have ended: the message says so, or else the table of
    whom it went to."""
    if notify is not None:
        return notify
    to = state.agents.get(agent)
    return to is not None and to.policy.notify_when_done


def are_open(state: EngineState, parent: Delivery) -> bool:
    """Return whether the holder of this message waits for parts of it."""
    return any(family.open for family in _families_of(state, parent))


def moved_at(state: EngineState, parent: Delivery) -> float:
    return max((family.moved_at for family in _families_of(state, parent)), default=0.0)


def _families_of(state: EngineState, parent: Delivery) -> list[Family]:
    """Return the families of a message: of its holder, and of those who had it for its pool before."""
    names = dict.fromkeys((parent.agent, *parent.had_by))
    found = (state.families.of(parent.message.message_id, name) for name in names)
    return [family for family in found if family is not None]


def _holder(state: EngineState, message: Message) -> str | None:
    """Return the agent that sent the part; None if it is no agent here, or ackd itself."""
    return state.agent_called(message.sender) if message.sender != MONITOR else None


# --- telling ----------------------------------------------------------------------------------------------------------
def recovered(state: EngineState) -> None:
    """Go on after a start, once everything on disk was met: write again what may not have been written, and look at
    the families of which no part is open."""
    unsure, state.families.unsure = state.families.unsure, []
    for notice in unsure:
        holder = state.agent_called(notice.holder)
        if holder is not None:
            _write(state, holder, notice)
    for family in state.families.all():
        if family.ended and not family.open:
            _take(state, family, PartEvent.LAST_ENDED)


def look(state: EngineState, owner: str) -> None:
    """Tell the holder, if nothing is open any more and it is not at work: the family's timer is due."""
    parent, _, holder = owner.rpartition("\n")
    family = state.families.of(parent, holder)
    if family is None or family.open:
        return
    at_work = state.recovering or state.reading or _is_at_work(state, family)
    _take(state, family, PartEvent.AT_WORK if at_work else PartEvent.FREE)


def _is_at_work(state: EngineState, family: Family) -> bool:
    """Return whether the holder may be sending more parts: it works on the message, as far as that shows. Nobody sees
    what the reader of an inbox does; a command or a child works on what fills its window."""
    parent = state.deliveries.addressed(family.parent, family.holder)
    if parent is None and (given_back := state.deliveries.given_back(family.parent, family.holder)) is not None:
        if state.agents[given_back.agent].pool is not None:
            return True  # nobody has it just now: whoever is given it next is told
        parent = given_back
    agent = state.agents.get(parent.agent if parent is not None else family.holder)
    if agent is None or parent is None or parent.state not in _IN_HAND or agent.state not in QUIET:
        return False
    if agent.policy.shows:
        return agent.doing is Doing.BUSY
    return not agent.policy.reminds and not agent.has_room


def _take(state: EngineState, family: Family, happened: PartEvent) -> None:
    family.sharing, act = parts.step(family.sharing, happened)
    if act is PartAct.AWAIT:
        state.start_timer(TimerKind.PARTS, f"{family.parent}\n{family.holder}", SETTLE_S)
    elif act is PartAct.TELL:
        _tell(state, family)


def _tell(state: EngineState, family: Family) -> None:
    state.families.forget(family)
    if family.ended:
        notice = parts.notice_of(family.parent, family.holder, family.ended.values(), family.thread_id)
        given_back = state.deliveries.given_back(family.parent, family.holder)
        _write(state, family.holder if given_back is None else given_back.agent, notice)


def _write(state: EngineState, holder: str, notice: PartsNotice) -> None:
    """Write the notice: the journal is told what it says first, and then that it is on disk."""
    state.emit(NoteParts(holder, notice, is_written=False))
    state.emit(SendMessage(holder, parts.draft(notice)))
    counts = {end.value: number for end, number in parts.counted(notice.parts).items()}
    fact = parts_ended(
        message_id=notice.parent, agent=holder, notice_id=notice.notice_id, parts=len(notice.parts), ends=counts
    )
    state.emit(RecordFact(fact, lane=holder))
    state.emit(NoteParts(holder, notice, is_written=True))
