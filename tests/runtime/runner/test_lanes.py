"""The order of effects. An effect here only notes that it was done, after its gate has opened if it has one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.core.effects import ArchiveMessage, RecordFact, WriteStatus
from ackd.core.fact import Fact
from ackd.core.message import Folder, Message, Place, Priority
from ackd.runtime.runner import lanes
from ackd.runtime.runner.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from ackd.core.effects import Effect

MESSAGE = Message("m@x", "user", "leader", "message", Priority.NORMAL, "digest")


@dataclass
class Work:
    """Does the effects of the tests: statuses are slow, everything else is quick."""

    done: list[str] = field(default_factory=list)
    gates: dict[str, anyio.Event] = field(default_factory=dict)
    lanes: Lanes = field(init=False)

    def do(self, effect: Effect) -> Coroutine[None, None, None] | None:
        if isinstance(effect, WriteStatus):
            return self.slowly([effect])
        self.done.append(effect.type if isinstance(effect, RecordFact) else type(effect).__name__)
        return None

    async def slowly(self, row: list[WriteStatus]) -> None:
        await anyio.lowlevel.checkpoint()
        if row[0].lane in self.gates:
            await self.gates[row[0].lane].wait()
        kept = [effect for effect in row if not self.lanes.archives_soon(effect.key)]
        self.done.append("+".join(f"{effect.key}{effect.headers[0][1]}" for effect in kept))

    async def all(self) -> list[str]:
        with anyio.fail_after(60):
            while self.lanes.busy:
                await anyio.lowlevel.checkpoint()
        return self.done


@asynccontextmanager
async def working() -> AsyncIterator[Work]:
    work = Work()
    async with anyio.create_task_group() as tasks:
        work.lanes = Lanes(work.do, work.slowly, tasks)
        yield work


def status(key: int, word: str = "", lane: str = "leader") -> WriteStatus:
    return WriteStatus(lane, key, Place(lane, Folder.PROCESSED, f"{key}.mime"), (("X-IGNITE-Status", word),))


def fact(word: str, lane: str | None = "leader") -> RecordFact:
    return RecordFact(Fact(word, {}), lane=lane)


def archiving(key: int) -> ArchiveMessage:
    return ArchiveMessage("leader", key, MESSAGE, Place("leader", Folder.PROCESSED, f"{key}.mime"))


async def test_what_is_quick_is_done_at_once_and_leaves_no_lane() -> None:
    async with working() as work:
        work.lanes.carry_out([fact("one"), fact("two", None)])
        assert work.done == ["one", "two"]
        assert not work.lanes.busy


async def test_a_slow_one_holds_up_its_own_lane_and_nobody_elses() -> None:
    async with working() as work:
        work.gates["slow"] = anyio.Event()
        work.lanes.carry_out(
            [status(1, lane="slow"), fact("behind", "slow"), status(2), fact("beside"), fact("free", None)]
        )
        with anyio.fail_after(60):
            while "beside" not in work.done:
                await anyio.lowlevel.checkpoint()
        assert work.done == ["free", "2", "beside"]
        work.gates["slow"].set()
        assert await work.all() == ["free", "2", "beside", "1", "behind"]


async def test_statuses_of_several_messages_in_a_row_are_one_thing() -> None:
    async with working() as work:
        work.lanes.carry_out([status(1), status(2), status(3), fact("between"), status(4), status(5)])
        assert await work.all() == ["1", "2+3", "between", "4+5"]


async def test_statuses_of_one_message_are_written_in_order() -> None:
    async with working() as work:
        work.lanes.carry_out([status(1, word) for word in "abc"])
        assert await work.all() == ["1a", "1b", "1c"]


async def test_a_row_has_an_end() -> None:
    async with working() as work:
        work.lanes.carry_out([status(0), *(status(key) for key in range(1, 2 * lanes.SLICE + 2))])
        assert [len(row.split("+")) for row in await work.all()] == [1, lanes.SLICE, lanes.SLICE, 1]


async def test_it_is_known_what_will_be_archived_until_it_is() -> None:
    async with working() as work:
        work.lanes.carry_out([status(7), archiving(7)])
        assert work.lanes.archives_soon(7)
        assert await work.all() == ["", "ArchiveMessage"]
        assert not work.lanes.archives_soon(7)
        work.lanes.carry_out([archiving(8)])  # done at once, without waiting in the lane
        assert not work.lanes.archives_soon(8)


async def test_a_long_lane_lets_others_breathe() -> None:
    async with working() as work:
        work.lanes.carry_out([status(1), *(fact("one") for _ in range(1000))])
        seen = set()
        with anyio.fail_after(60):
            while work.lanes.busy:
                seen.add(len(work.done))
                await anyio.lowlevel.checkpoint()
        assert len(work.done) == 1001
        assert len(seen) > 1000 / lanes.SLICE / 2


async def test_what_comes_while_a_lane_drains_joins_its_end() -> None:
    async with working() as work:
        work.gates["leader"] = anyio.Event()
        work.lanes.carry_out([status(1), fact("one")])
        work.lanes.carry_out([fact("two")])
        assert work.done == []
        work.gates["leader"].set()
        assert await work.all() == ["1", "one", "two"]


async def test_a_slow_one_that_raises_is_not_hidden() -> None:
    async def broken(_: list[WriteStatus]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with working() as work:
            work.lanes.do_row = broken
            work.lanes.carry_out([status(1), status(2), status(3)])
    assert caught.group_contains(ZeroDivisionError)
