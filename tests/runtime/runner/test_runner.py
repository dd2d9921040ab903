"""Effects on a real spool: what they do, and the events that answer them."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.core import effects, events
from ackd.core.errors import BadMessage
from ackd.core.fact import Fact
from ackd.core.message import Draft, Folder, Place, Priority, ReceiptFile
from ackd.core.ports import Services
from ackd.core.words import MessageEnd
from ackd.endpoints.inbox.endpoint import InboxEndpoint
from ackd.formats import ignite
from ackd.runtime.runner import runner as effect_runner
from ackd.runtime.runner.moves import WRITTEN_OVER
from ackd.runtime.runner.runner import EffectRunner
from ackd.storage.journal import Journal
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from tests.acceptance.teams import mime
from tests.faults.mounts import mounted, needs_root
from tests.runtime.counting_flusher import CountingFlusher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ackd.core.effects import NudgeAgent, TellAgent
    from ackd.core.events import Event
    from ackd.core.message import Message

ACKED = (("X-IGNITE-Status", "acked"),)
RETRYING = (("X-IGNITE-Status", "retrying"),)
TOMB = (("X-IGNITE-Error-Reason", "why"), ("X-IGNITE-Recipient", "leader"))


class Slow:
    """An endpoint that answers when the test lets it."""

    def __init__(self) -> None:
        self.go = anyio.Event()

    async def tell(self, order: TellAgent) -> events.Told:
        await self.go.wait()
        return events.Told(order.key, "slow")

    async def nudge(self, order: NudgeAgent) -> events.Told:
        return events.Told(order.key, "nudged")

    async def stop(self, drain_s: float) -> None:
        pass


class RunnerSetup:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.spool.ensure_layout()
        for box in ("leader", "slow"):
            self.spool.ensure_box(box)
        self.journal = Journal.open(root / "state/journal.ndjson")
        self.flushes, self.slow = CountingFlusher(), Slow()
        self.posted: list[Event] = []
        self.facts: list[tuple[str, dict[str, object]]] = []
        self.rung: list[str] = []
        self.runner: EffectRunner

    def look(self, place: Place) -> events.Arrived:
        file = self.spool.read(place)
        return events.Arrived(ignite.decode(file.data, place.box), place, file.mtime, stamp=file.stamp)

    def look_in_doubt(self, place: Place) -> events.Arrived | events.Unreadable:
        try:
            return self.look(place)
        except BadMessage as bad:
            return events.Unreadable(place, bad.code, str(bad))

    # --- Roster
    def endpoint(self, agent: str) -> Any:
        return self.slow if agent == "slow" else InboxEndpoint()

    def inhabited(self, agent: str) -> None:
        return None

    async def replace(self, agent: str) -> None:
        raise AssertionError(agent)

    def box(self, agent: str) -> str:
        return agent

    def forget_run(self, agent: str, key: int) -> None:
        pass

    def let_go(self, agent: str, key: int, message_id: str) -> None:
        pass

    # --- for the tests
    def put(self, folder: Folder = Folder.PROCESSED, name: str = "m.mime", box: str = "leader", **words: str) -> Place:
        place = Place(box, folder, name)
        self.spool.path(place).write_bytes(mime(to=box, **words))
        return place

    def message(self, place: Place) -> Message:
        return ignite.decode(self.spool.read(place).data, place.box)

    def status(self, place: Place) -> str | None:
        return dict(ignite.headers(self.spool.read(place).data)).get("X-IGNITE-Status")

    def said(self, type_: str) -> list[dict[str, object]]:
        return [data for name, data in self.facts if name == type_]

    async def carry_out(self, *asked: effects.Effect) -> None:
        self.runner.carry_out(list(asked))
        self.runner.claim_gathered()
        self.runner.flush_gathered()
        with anyio.fail_after(60):
            await self.runner.settled(lambda: True)

    async def answers(self, count: int) -> list[Event]:
        """Wait for this many answers, because a copy is made beside the lanes."""
        with anyio.fail_after(60):
            while len(self.posted) < count:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        return self.posted

    def temps(self) -> list[Path]:
        return list(self.root.rglob(".ackd-*"))


@contextlib.asynccontextmanager
async def bench_in(root: Path) -> AsyncIterator[RunnerSetup]:
    setup = RunnerSetup(root)
    async with anyio.create_task_group() as tasks:
        setup.runner = EffectRunner(
            spool=setup.spool,
            flusher=setup.flushes,
            services=Services(clock=SystemClock(), post=setup.posted.append, record=setup.facts.append, tasks=tasks),
            journal=setup.journal,
            wake=lambda: None,
            team=setup,
            ring=lambda message_id, _data: setup.rung.append(message_id),
            look=setup.look_in_doubt,
        )
        yield setup
        setup.slow.go.set()
        await setup.runner.settled(lambda: True)
        tasks.cancel_scope.cancel()
    setup.journal.close()


async def test_what_is_not_wanted_any_more_when_its_turn_comes_is_not_told(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(box="slow")
        setup.slow.go.set()
        setup.runner.is_wanted = lambda order: order.attempt == 2
        for attempt in (1, 2):
            await setup.carry_out(effects.TellAgent("slow", 1, setup.message(place), place, attempt=attempt))
        assert len(setup.posted) == 1


# --- claiming ---------------------------------------------------------------------------------------------------------
async def test_a_claim_that_moves_another_file_than_was_meant_is_two_messages(tmp_path: Path) -> None:
    """A sender that always writes to the same name was quicker than the move, and the hint came too late."""
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE, message_id="first@x")
        first = setup.look(place)
        other = setup.put(Folder.QUEUE, name="new", message_id="second@x")
        setup.spool.path(other).rename(setup.spool.path(place))
        await setup.carry_out(effects.ClaimMessage("leader", 1, first.message, place, first.stamp))
        lost, found = setup.posted
        assert lost == events.MoveLost(1, WRITTEN_OVER)
        assert isinstance(found, events.Arrived)
        assert (found.message.message_id, found.place.folder) == ("second@x", Folder.PROCESSED)


@needs_root
async def test_a_claim_to_another_mount_looks_at_what_it_has_copied(tmp_path: Path) -> None:
    """The copy begins a while after the look, and takes whatever bears the name by then. What is the same is claimed,
    though it is another file."""
    async with bench_in(tmp_path) as setup:
        with mounted(tmp_path / "queue/leader/processed"):
            place = setup.put(Folder.QUEUE, message_id="first@x")
            first = setup.look(place)
            setup.put(Folder.QUEUE, message_id="second@x")
            await setup.carry_out(effects.ClaimMessage("leader", 1, first.message, place, first.stamp))
            lost, found = await setup.answers(2)
            assert lost == events.MoveLost(1, WRITTEN_OVER)
            assert isinstance(found, events.Arrived)
            assert (found.message.message_id, found.place.folder) == ("second@x", Folder.PROCESSED)
            same = setup.look(setup.put(Folder.QUEUE, name="same.mime"))
            await setup.carry_out(effects.ClaimMessage("leader", 2, same.message, same.place, same.stamp))
            assert (await setup.answers(3))[2:] == [events.Claimed(2, Place("leader", Folder.PROCESSED, "same.mime"))]


async def test_what_was_only_touched_is_claimed(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE)
        met = setup.look(place)
        os.utime(setup.spool.path(place), (1, 1))
        await setup.carry_out(effects.ClaimMessage("leader", 1, met.message, place, met.stamp))
        assert [type(event) for event in setup.posted] == [events.Claimed]


@pytest.mark.parametrize("words", [{"message_id": "second@x"}, {"message_id": "first@x", "body": "other"}])
async def test_what_was_put_in_place_of_one_that_ends_unclaimed_does_not_end_with_it(
    tmp_path: Path, words: dict[str, str]
) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE, message_id="first@x")
        first = setup.message(place)
        for other in (mime(to="leader", **words), b""):  # the second is still being written in place
            setup.spool.path(place).write_bytes(other)
            await setup.carry_out(effects.ArchiveMessage("leader", 1, first, place, duplicate=True))
            await setup.carry_out(effects.BuryMessage("leader", 1, first, place, TOMB))
            assert setup.posted == [events.MoveLost(1, WRITTEN_OVER)] * 2
            assert setup.spool.path(place).read_bytes() == other
            setup.posted.clear()


async def test_what_takes_its_place_while_its_headers_are_flushed_is_not_buried(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE, message_id="first@x")
        first, second = setup.message(place), mime(to="leader", message_id="second@x")
        setup.flushes.meanwhile = lambda: setup.spool.path(place).write_bytes(second)
        await setup.carry_out(effects.BuryMessage("leader", 1, first, place, TOMB))
        assert setup.posted == [events.MoveLost(1, WRITTEN_OVER)]
        assert setup.spool.path(place).read_bytes() == second
        assert setup.temps() == []


async def test_a_claim_is_in_the_journal_before_the_file_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE)
        message, written = setup.message(place), []
        move = setup.spool.move

        def watched(*args: Any, **words: Any) -> Place:
            written.append((tmp_path / "state/journal.ndjson").read_text())
            return move(*args, **words)

        monkeypatch.setattr(setup.spool, "move", watched)
        await setup.carry_out(effects.ClaimMessage("leader", 1, message, place))
        assert message.message_id in written[0]
        assert setup.posted == [events.Claimed(1, Place("leader", Folder.PROCESSED, "m.mime"))]
        with anyio.fail_after(60):
            while not setup.flushes.flushed:  # noqa: ASYNC110
                await anyio.sleep(0.005)  # until we have flushed what its writer did not


async def test_a_claim_of_what_is_gone(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE)
        message = setup.message(place)
        setup.spool.path(place).unlink()
        await setup.carry_out(effects.ClaimMessage("leader", 1, message, place))
        assert setup.posted == [events.MoveLost(1)]


async def test_a_claim_that_the_disk_refuses_changes_nothing(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE)
        processed = tmp_path / "queue/leader/processed"
        processed.rmdir()
        processed.write_text("in the way")
        await setup.carry_out(effects.ClaimMessage("leader", 1, setup.message(place), place))
        assert [type(event) for event in setup.posted] == [events.SpoolFailed]
        assert setup.spool.exists(place)


async def test_a_claim_that_the_journal_refuses_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.QUEUE)

        def full() -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(setup.journal, "flush", full)
        await setup.carry_out(effects.ClaimMessage("leader", 1, setup.message(place), place))
        assert setup.posted == [events.SpoolFailed(1, "No space left on device")]
        assert setup.spool.exists(place)
        await setup.carry_out(effects.ArchiveMessage("leader", 1, setup.message(place), place))  # completed meanwhile
        assert setup.posted[1:] == [events.SpoolFailed(1, "No space left on device")]
        assert setup.spool.exists(place)  # archived now, a crash would leave it without any line
        monkeypatch.undo()


async def test_the_journal_knows_the_name_that_a_claim_was_given_and_writes_nothing_more_for_others(
    tmp_path: Path,
) -> None:
    async with bench_in(tmp_path) as setup:
        for name, taken in (("m.mime", False), ("m.mime", True)):
            place = setup.put(Folder.QUEUE, name, message_id=f"{taken}.1.a@x")
            message = setup.message(place)
            await setup.carry_out(effects.ClaimMessage("leader", int(taken), message, place))
            claimed = setup.posted[-1]
            assert isinstance(claimed, events.Claimed)
            before = (tmp_path / "state/journal.ndjson").read_bytes()
            await setup.carry_out(effects.TellAgent("leader", int(taken), message, claimed.place, 1))
            after = (tmp_path / "state/journal.ndjson").read_bytes()
            assert (after != before) is taken
        held = setup.journal.load(SystemClock().now().wall, 3600).in_flight.values()
        assert [entry.name for entry in held] == ["m.mime", "m-1.mime"]


# --- statuses ---------------------------------------------------------------------------------------------------------
async def test_what_its_agent_deletes_while_it_is_rewritten_is_not_brought_back(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        setup.flushes.meanwhile = setup.spool.path(place).unlink
        await setup.carry_out(effects.WriteStatus("leader", 1, place, ACKED))
        assert not setup.spool.exists(place)
        assert setup.temps() == []
        assert setup.facts == []


@pytest.mark.parametrize("content", [b"rubbish", b"", mime() + b"x" * 200_000])
async def test_what_its_agent_has_written_over_is_left_alone(tmp_path: Path, content: bytes) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        setup.spool.path(place).write_bytes(content)
        await setup.carry_out(effects.WriteStatus("leader", 1, place, ACKED))
        assert setup.spool.path(place).read_bytes() == content
        assert len(setup.said("io_error")) == 1


async def test_a_flush_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        setup.flushes.error = OSError(5, "Input/output error")
        await setup.carry_out(effects.WriteStatus("leader", 1, place, ACKED))
        assert setup.status(place) is None
        assert setup.temps() == []
        assert setup.said("io_error")[0]["error"] == "Input/output error"


async def test_a_receipt_stays_while_the_disk_refuses_what_it_says(tmp_path: Path) -> None:
    """After a crash meanwhile it is found and heard again. Other receipts, and those of other messages, are removed as
    ever."""
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        for name in ("defer_1.json", "ack_0.json"):
            (tmp_path / "receipts" / name).write_text("{}")
        retry = effects.WriteStatus(
            "leader", 1, place, RETRYING, ends_run=True, because_of=(ReceiptFile("defer_1.json"),)
        )
        drops = [effects.DropReceipt("leader", name) for name in ("ack_0.json", "defer_1.json")]
        setup.flushes.error = OSError(28, "No space left on device")
        await setup.carry_out(retry, *drops)
        await setup.carry_out(drops[1])  # a scan has found it again, and so it is dropped again
        assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["defer_1.json"]
        setup.flushes.error = None
        await setup.carry_out(effects.WriteStatus("leader", 2, setup.put(name="b.mime"), ACKED))
        assert list((tmp_path / "receipts").iterdir())
        await setup.carry_out(effects.WriteStatus("leader", 1, place, ACKED))
        assert list((tmp_path / "receipts").iterdir()) == []


async def test_what_a_kept_receipt_says_is_written_when_it_is_met_again(tmp_path: Path) -> None:
    """The message may keep its state for hours: no other status would come, and the receipt would be heard again and
    again."""
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        (tmp_path / "receipts/ack_0.json").write_text("{}")
        status = effects.WriteStatus("leader", 1, place, ACKED, because_of=(ReceiptFile("ack_0.json"),))
        setup.flushes.error = OSError(5, "Input/output error")
        drop = effects.DropReceipt("leader", "ack_0.json")
        await setup.carry_out(status, drop)
        assert len(setup.said("io_error")) == 1
        await setup.carry_out(drop)
        setup.flushes.error = None
        assert list((tmp_path / "receipts").iterdir())
        await setup.carry_out(drop)
        assert setup.status(place) == "acked"
        assert list((tmp_path / "receipts").iterdir()) == []


async def test_a_receipt_that_was_kept_goes_with_the_end_of_its_message(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        (tmp_path / "receipts/ack_0.json").write_text("{}")
        setup.flushes.error = OSError(5, "Input/output error")
        status = effects.WriteStatus("leader", 1, place, ACKED, because_of=(ReceiptFile("ack_0.json"),))
        await setup.carry_out(status, effects.DropReceipt("leader", "ack_0.json"))
        assert list((tmp_path / "receipts").iterdir())
        await setup.carry_out(effects.ForgetMessage("leader", 1, setup.message(place), place, MessageEnd.COMPLETED))
        assert list((tmp_path / "receipts").iterdir()) == []


async def test_a_receipt_that_two_messages_need_goes_with_the_last_of_them(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        places = [setup.put(name=f"m{n}.mime") for n in range(2)]
        (tmp_path / "receipts/ack_0.json").write_text("{}")
        setup.flushes.error = OSError(5, "Input/output error")
        because = (ReceiptFile("ack_0.json"),)
        statuses = [
            effects.WriteStatus("leader", n, place, ACKED, because_of=because) for n, place in enumerate(places)
        ]
        await setup.carry_out(*statuses, effects.DropReceipt("leader", "ack_0.json"))
        for n, place in enumerate(places):
            assert list((tmp_path / "receipts").iterdir()), "the other has not ended"
            await setup.carry_out(effects.ForgetMessage("leader", n, setup.message(place), place, MessageEnd.COMPLETED))
        assert list((tmp_path / "receipts").iterdir()) == []


async def test_statuses_of_several_messages_in_a_row_share_the_flush(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        places = [setup.put(name=f"m{n}.mime") for n in range(20)]
        await setup.carry_out(*(effects.WriteStatus("leader", n, place, ACKED) for n, place in enumerate(places)))
        assert {setup.status(place) for place in places} == {"acked"}
        assert setup.flushes.together >= 10


async def test_a_message_whose_archiving_waits_is_given_no_status(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        first, second = setup.put(name="a.mime"), setup.put(name="b.mime")
        await setup.carry_out(
            effects.WriteStatus("leader", 1, first, ACKED),
            effects.RecordFact(Fact("between", {}), lane="leader"),
            effects.WriteStatus("leader", 2, second, ACKED),
            effects.ArchiveMessage("leader", 2, setup.message(second), second),
        )
        assert len(setup.flushes.flushed) == 1
        (moved,) = setup.posted
        assert isinstance(moved, events.Moved)
        assert setup.status(moved.place) is None


# --- lanes ------------------------------------------------------------------------------------------------------------
async def test_a_slow_agent_delays_its_own_lane_and_nobody_elses(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        slow, quick = setup.put(box="slow"), setup.put()
        tell = effects.TellAgent("slow", 1, setup.message(slow), slow, 1)
        other = effects.TellAgent("leader", 2, setup.message(quick), quick, 1)
        behind = effects.RecordFact(Fact("behind", {}), lane="slow")
        setup.runner.carry_out([tell, behind, other, effects.RecordFact(Fact("free", {}))])
        with anyio.fail_after(60):
            while not setup.posted:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        assert [event.key for event in setup.posted if isinstance(event, events.Told)] == [2]
        assert [name for name, _ in setup.facts] == ["free"]
        setup.slow.go.set()
        await setup.runner.settled(lambda: True)
        assert [name for name, _ in setup.facts] == ["free", "behind"]


async def test_what_was_done_on_a_rung_is_written_down(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put(box="slow")
        await setup.carry_out(effects.NudgeAgent("slow", 1, setup.message(place), place, 2))
        (said,) = setup.said("nudged")
        assert (said["rung"], said["done"]) == (2, "nudged")
        other = setup.put()
        await setup.carry_out(effects.NudgeAgent("leader", 2, setup.message(other), other, 1))
        assert setup.said("nudged")[1]["done"] == "not done: an inbox has no ladder"


# --- dying ------------------------------------------------------------------------------------------------------------
async def test_a_burial(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        await setup.carry_out(effects.BuryMessage("leader", 1, setup.message(place), place, TOMB))
        (moved,) = setup.posted
        assert isinstance(moved, events.Moved)
        assert moved.place.folder is Folder.DEAD
        assert b"X-IGNITE-Error-Reason: why" in setup.spool.path(moved.place).read_bytes()


async def test_what_cannot_be_buried_as_a_message_is_quarantined(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        message = setup.message(place)
        setup.spool.path(place).write_bytes(b"rubbish")
        await setup.carry_out(effects.BuryMessage("leader", 1, message, place, TOMB))
        kept, lost = setup.posted
        assert isinstance(kept, events.Quarantined)
        assert isinstance(lost, events.MoveLost)
        assert lost.why.startswith("overwritten with what is no message")
        assert (tmp_path / "queue/corrupt" / kept.kept_as).read_bytes() == b"rubbish"


async def test_a_revived_message_has_a_clean_slate(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        extra = "X-IGNITE-Error-Reason: why\nX-IGNITE-Retry-Count: 3\nX-IGNITE-Recipient: leader\n"
        place = setup.put(Folder.DEAD, extra=extra)
        await setup.carry_out(effects.ReviveMessage("leader", 1, setup.message(place), place))
        (moved,) = setup.posted
        assert isinstance(moved, events.Moved)
        assert moved.place.folder is Folder.QUEUE
        assert setup.spool.path(moved.place).read_bytes() == mime(to="leader", extra="X-IGNITE-Recipient: leader\n")


async def test_a_letter_that_is_cleaned_and_not_moved_says_for_whom_it_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the two leaves it so, and the next requeue must not give it to another of its recipients."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with bench_in(tmp_path) as setup:
        place = setup.put(Folder.DEAD, extra="X-IGNITE-Error-Reason: why\nX-IGNITE-Recipient: leader\n")
        monkeypatch.setattr(Spool, "move", refuse)
        await setup.carry_out(effects.ReviveMessage("leader", 1, setup.message(place), place))
        kept = setup.spool.path(place).read_bytes()
        assert b"Error-Reason" not in kept
        assert b"X-IGNITE-Recipient: leader\n" in kept


async def test_a_file_that_is_gone_is_not_quarantined(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        await setup.carry_out(
            effects.QuarantineFile("leader", Place("leader", Folder.QUEUE, "gone.mime"), "empty", "why")
        )
        assert setup.posted == []
        assert list((tmp_path / "queue/corrupt").iterdir()) == []


# --- our own messages -------------------------------------------------------------------------------------------------
def draft(to: str = "leader", kind: str = "escalation") -> Draft:
    return Draft("1.0.abc@ignite.local", "queue_monitor", to, kind, Priority.CRITICAL, {"summary": "x"})


async def test_a_message_of_ours_is_durable_before_what_follows(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        await setup.carry_out(
            effects.SendMessage("leader", draft()), effects.RecordFact(Fact("after", {}), lane="leader")
        )
        (path,) = (tmp_path / "queue/leader").glob("*.mime")
        assert b"<1.0.abc@ignite.local>" in path.read_bytes()
        assert setup.flushes.flushed[-2:] == [f"{path.parent}/", f"{path.parent.parent}/"]
        assert setup.said("after")


async def test_a_message_of_ours_is_tried_until_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effect_runner, "SEND_AGAIN_S", 0.01)
    async with bench_in(tmp_path) as setup:
        setup.flushes.error = OSError(28, "No space left on device")
        setup.runner.carry_out(
            [effects.SendMessage("slow", draft()), effects.RecordFact(Fact("after", {}), lane="slow")]
        )
        with anyio.fail_after(60):
            while len(setup.said("io_error")) < 3:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        assert not setup.said("after")
        assert setup.temps() == []
        setup.flushes.error = None
        await setup.runner.settled(lambda: True)
        assert setup.said("after")
        assert len(list((tmp_path / "queue/leader").glob("*.mime"))) == 1


@pytest.mark.parametrize("kind", ["escalation", "dead_letter"])
async def test_what_its_reader_has_no_box_for_goes_to_a_person_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(effect_runner, "SEND_AGAIN_S", 0.01)
    async with bench_in(tmp_path) as setup:
        (tmp_path / "queue/lead").symlink_to(tmp_path)
        await setup.carry_out(
            effects.SendMessage("leader", draft("lead", kind)), effects.RecordFact(Fact("after", {}), lane="leader")
        )
        (path,) = (tmp_path / "queue/user").glob("*.mime")
        found = ignite.decode(path.read_bytes(), "user")
        assert (found.message_id, found.type) == ("1.0.abc@ignite.local", kind)
        assert "it was for lead, and could not be put into queue/lead: Not a directory" in path.read_text()
        assert len(setup.said("io_error")) == effect_runner.SEND_TRIES
        assert [fact["agent"] for fact in setup.said("message_warning")] == ["lead"]
        assert len(setup.rung) == (kind == "escalation")
        assert setup.said("after")


async def test_what_nobody_can_be_told_is_written_down_and_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the notification command still runs, because it needs no queue."""
    monkeypatch.setattr(effect_runner, "SEND_AGAIN_S", 0.01)
    async with bench_in(tmp_path) as setup:
        for name in ("lead", "user"):
            (tmp_path / "queue" / name).symlink_to(tmp_path)
        await setup.carry_out(
            effects.SendMessage("leader", draft("lead")), effects.RecordFact(Fact("after", {}), lane="leader")
        )
        first, last = setup.said("message_warning")
        assert (first["agent"], last["agent"]) == ("lead", "user")
        assert isinstance(last["body"], dict)
        assert last["body"]["summary"] == "x"
        assert setup.rung == ["1.0.abc@ignite.local"]
        assert setup.said("after")


async def test_an_escalation_to_a_person_rings(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        await setup.carry_out(
            effects.SendMessage("leader", draft("user")),
            effects.SendMessage("leader", draft("leader")),
            effects.SendMessage("leader", draft("leader"), notify=True),
        )
        assert len(setup.rung) == 2


# --- letting go -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("end", list(MessageEnd))
async def test_letting_go_is_written_down_except_of_a_duplicate(tmp_path: Path, end: MessageEnd) -> None:
    async with bench_in(tmp_path) as setup:
        place = setup.put()
        message = setup.message(place)
        setup.runner.take_in(1, message, place)
        await setup.carry_out(effects.ForgetMessage("leader", 1, message, place, end))
        state = setup.journal.load(SystemClock().now().wall, 3600)
        assert len(state.in_flight) == (1 if end is MessageEnd.DUPLICATE else 0)
        assert [done.end for done in state.completed] == ([MessageEnd.COMPLETED] if end is MessageEnd.COMPLETED else [])


async def test_a_duplicate_that_was_given_another_name_in_the_archive_is_let_go(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        first, copy = setup.put(), setup.put(Folder.QUEUE)
        message = setup.message(copy)
        await setup.carry_out(
            effects.ArchiveMessage("leader", 1, message, first),
            effects.ForgetMessage("leader", 1, message, first, MessageEnd.COMPLETED),
            effects.ArchiveMessage("leader", 2, message, copy, duplicate=True),
        )
        moved = setup.posted[-1]
        assert isinstance(moved, events.Moved)
        assert moved.place.name.endswith("/m-1.mime")
        await setup.carry_out(effects.ForgetMessage("leader", 2, message, moved.place, MessageEnd.DUPLICATE))
        assert setup.journal.load(SystemClock().now().wall, 3600).in_flight == {}


async def test_a_receipt_that_cannot_be_dropped_is_said(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as setup:
        (tmp_path / "receipts/odd.json").mkdir()
        await setup.carry_out(effects.DropReceipt("leader", "odd.json"), effects.DropReceipt("leader", "gone.json"))
        assert len(setup.said("io_error")) == 1
