"""Recovery at a start, from the directories, the journal and the runs together."""

from __future__ import annotations

import contextlib
import os
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.core.delivery import State
from ackd.core.effects import ClaimMessage, RecordFact
from ackd.core.engine import Engine
from ackd.core.events import AgentJoined, Outcome
from ackd.core.message import Folder, Place, ReceiptKind
from ackd.core.policy import UNLIMITED, AgentPolicy, EnginePolicy
from ackd.core.ports import Services
from ackd.core.signals import MessageMet
from ackd.core.words import MessageEnd
from ackd.endpoints.making import FoundRun
from ackd.formats import ignite
from ackd.runtime.intake.intake import Intake
from ackd.runtime.pump import EVENTS_A_TURN, Pump
from ackd.runtime.receipts.agent_requests import AgentRequests, NoSupervision
from ackd.runtime.receipts.dead_letters import DeadLetters
from ackd.runtime.receipts.receipts import CheckpointReceipts, Receipts
from ackd.runtime.recovery.backlog import A_FEW, Backlog
from ackd.runtime.recovery.missing import MissingMessages
from ackd.runtime.recovery.recovery import Recovery
from ackd.storage import maildrop
from ackd.storage.checkpoints import CheckpointFiles
from ackd.storage.journal import Journal, PutAway, TakenIn, twin_digest
from ackd.storage.paused import Pauses
from ackd.storage.session_log import SessionLog
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from tests.acceptance.teams import mime
from tests.live_config import live_config
from tests.nobody import nobodys_directory
from tests.runtime.intake_fixture import NotedReceipts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ackd.core.effects import Effect
    from ackd.core.fact import Fact
    from ackd.core.message import Message

INBOX = AgentPolicy(max_in_flight=UNLIMITED, reminds=True)
EXEC = AgentPolicy(volatile=True, max_in_flight=UNLIMITED)


class Start:
    """Everything that recovery needs, and the events, facts and effects that follow. Effects are kept, not carried
    out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SystemClock()
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.spool.ensure_layout()
        self.journal = Journal.open(root / "state/journal.ndjson")
        self.engine = Engine(EnginePolicy(), random.Random(1))
        self.effects: list[Effect] = []
        self.facts: list[tuple[str, dict[str, object]]] = []
        self.adopted: list[tuple[str, int | None]] = []
        self.speaking: list[int | None] = []
        self.pump = Pump(self.engine, self.clock, self.effects.extend, lambda: None, lambda: None)
        self.recovery: Recovery
        self.missing: MissingMessages
        for name, policy in (("user", INBOX), ("leader", INBOX), ("runner", EXEC)):
            self.spool.ensure_box(name)
            self.pump.post(AgentJoined(name, policy, "inbox" if policy.reminds else "exec"))
        self.pump.turn()

    def put(self, name: str, folder: Folder = Folder.PROCESSED, box: str = "leader", **words: str) -> Place:
        """Write a message with an old time, so that it has settled."""
        place = Place(box, folder, name)
        self.spool.path(place).write_bytes(mime(to=box, **words))
        os.utime(self.spool.path(place), (time.time() - 100,) * 2)
        return place

    def message(self, place: Place) -> Message:
        return ignite.decode(self.spool.read(place).data, place.box)

    def held(self, place: Place, crashes: int = 0) -> TakenIn:
        message = self.message(place)
        entry = TakenIn(
            message.recipient, message.message_id, place.box, place.name, message.digest, message.sender,
            message.type, crashes, self.clock.now().wall,
        )  # fmt: skip
        self.journal.take_in(entry)
        return entry

    def let_go(self, entry: TakenIn) -> PutAway:
        return PutAway(entry.agent, entry.message_id, entry.name, MessageEnd.WITHDRAWN, entry.digest, entry.at)

    def twin_of(self, entry: TakenIn, digest: str) -> TakenIn:
        return replace(entry, digest=digest)

    def run_of(self, place: Place, outcome: Outcome | None = None, *, alive: bool = False) -> FoundRun:
        message = self.message(place)
        path = self.root / "state/runs" / place.name
        path.mkdir()
        return FoundRun(
            message.recipient, message.message_id, place.name, place.box, message.digest, 1, path, alive, outcome,
            "exit 0", self.clock.now().wall, 600.0,
        )  # fmt: skip

    def adopt(self, agent: str, key: int | None, run: FoundRun, *, speaks_for: int | None) -> None:
        self.adopted.append((agent, key))
        self.speaking.append(speaks_for)

    async def recover(self, *runs: FoundRun) -> None:
        await self.recovery.recover(self.journal.load(self.clock.now().wall, 3600), list(runs))
        await self.recovery.read_backlog()
        while not self.pump.idle():
            self.pump.turn()

    def said(self, type_: str) -> list[dict[str, object]]:
        return [data for name, data in self.facts if name == type_]

    def states(self, agent: str) -> list[State]:
        return [delivery.state for delivery in self.engine.state.deliveries if delivery.agent == agent]


@contextlib.asynccontextmanager
async def start_in(root: Path) -> AsyncIterator[Start]:
    start = Start(root)

    def record(fact: Fact) -> None:
        type_, data = fact
        start.facts.append((type_, data))

    async with anyio.create_task_group() as tasks:
        agents = start.engine.state.agents
        called = {name: name for name in agents}.get
        deliveries, spool, config = start.engine.state.deliveries, start.spool, live_config(settle_s=0.05)
        services = Services(clock=start.clock, post=start.pump.post, record=record, tasks=tasks)
        receipts = Receipts(
            spool=spool,
            deliveries=deliveries,
            services=services,
            config=config,
            called=called,
            dead_letters=DeadLetters(
                spool=spool, deliveries=deliveries, called=called, post=start.pump.post, config=config
            ),
            dead_letter_requests=NotedReceipts([]),
            reload_requests=NotedReceipts([]),
            agent_requests=AgentRequests(
                spool=spool,
                deliveries=deliveries,
                services=services,
                called=called,
                pauses=Pauses(root / "state"),
                supervisor=NoSupervision(),
                shown=start.pump.heard,
            ),
            snapshots=NotedReceipts([]),
            checkpoints=CheckpointReceipts(
                spool=spool, kept=CheckpointFiles(root / "state" / "checkpoints"), services=services
            ),
        )
        intake = Intake(
            spool=spool,
            deliveries=deliveries,
            services=services,
            config=config,
            agent_of=lambda box: box,
            receipts=receipts,
            alarm=lambda: None,
        )
        start.missing = MissingMessages(
            spool=spool,
            engine=start.engine,
            services=services,
            journal=start.journal,
            logs_dir=root / "logs",
            own_log=root / "logs/session-99991231-235959.ndjson",
            box=lambda agent: agent,
        )
        start.recovery = Recovery(
            spool=spool,
            engine=start.engine,
            pump=start.pump,
            intake=intake,
            journal=start.journal,
            services=services,
            adopt=start.adopt,
            missing=start.missing,
            backlog=Backlog(spool),
        )
        yield start
        tasks.cancel_scope.cancel()
    start.journal.close()


# --- files and journal ------------------------------------------------------------------------------------------------
async def test_deleted_while_we_were_away_is_completed_by_its_agent(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        start.held(place)
        start.spool.path(place).unlink()
        await start.recover()
        (fact,) = start.said("message_completed")
        assert fact["recovered"] is True
        assert start.journal.load(start.clock.now().wall, 3600).in_flight == {}


async def test_a_directory_that_was_replaced_completes_nothing(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        start.held(place)
        start.spool.path(place).unlink()
        start.missing.lost_boxes = frozenset({"leader"})
        await start.recover()
        assert not start.said("message_completed")
        assert len(start.said("message_withdrawn")) == 1


async def test_claimed_in_the_journal_and_still_in_the_queue_is_not_taken_for_done(tmp_path: Path) -> None:
    """The daemon crashed between the journal's entry and the move, and the file was written this very moment."""
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        start.held(place)
        os.utime(start.spool.path(place))
        await start.recover()
        assert not start.said("message_completed")
        with anyio.fail_after(60):
            while not start.states("leader"):
                await anyio.sleep(0.01)
                start.pump.turn()
        assert not [one for one in start.engine.state.deliveries if one.duplicate]


async def test_the_first_of_a_backlog_can_be_told_before_the_rest_is_read(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        for number in range(3 * A_FEW):
            start.put(f"{number}.mime", Folder.QUEUE, message_id=f"1.{number}.a@x")
        await start.recovery.recover(start.journal.load(start.clock.now().wall, 3600), [])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start.recovery.read_backlog)
            await anyio.lowlevel.checkpoint()
            assert start.recovery.backlog.count("leader") == 2 * A_FEW
        start.pump.turn()
        assert len(start.states("leader")) == 3 * A_FEW


async def test_in_flight_and_in_the_archive_is_completed(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        start.held(place)
        today = time.strftime("%Y%m%d", time.gmtime())
        start.spool.move(place, Folder.ARCHIVE, date=today)
        await start.recover()
        assert start.said("message_completed")[0]["by"] == "found in the archive"
        assert [fact for fact, _ in start.facts if fact.startswith("message_")] == [
            "message_queued",
            "message_completed",
        ]


async def test_a_copy_that_comes_while_we_recover_is_known_for_one(tmp_path: Path) -> None:
    """The daemon crashed after archiving, and before it told the journal. Then somebody writes the same message
    again."""
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        start.held(place)
        start.spool.move(place, Folder.ARCHIVE, date=time.strftime("%Y%m%d", time.gmtime()))
        handle_posted = start.recovery._handle_posted

        async def written_meanwhile() -> None:
            again = Place("leader", Folder.QUEUE, "again.mime")
            if not start.spool.exists(again):
                start.recovery.intake.came(start.put("again.mime", Folder.QUEUE), closed=True)
            await handle_posted()

        start.recovery._handle_posted = written_meanwhile  # type: ignore[method-assign]
        await start.recover()
        assert not start.engine.state.agents["leader"].line.waiting
        assert [type(effect) for effect in start.effects if isinstance(effect, ClaimMessage)] == []


@pytest.mark.parametrize("box", ["leader", "user"])
async def test_what_comes_while_we_recover_waits_for_what_is_in_hand(tmp_path: Path, box: str) -> None:
    """Whichever queue is read first, an answer finds its question, and of two copies the one in hand is the older."""
    async with start_in(tmp_path) as start:
        asked, copied = start.put("q.mime", box=box), start.put("c.mime", box=box, message_id="2.2.b@x")
        for place in (asked, copied):
            start.held(place)
        coming = [
            start.put("copy.mime", Folder.QUEUE, box, message_id="2.2.b@x"),
            start.put(
                "report.mime", Folder.QUEUE, "runner", message_id="3.3.c@x", sender=box, kind="task_completed",
                extra=f"In-Reply-To: <{start.message(asked).message_id}>\n",
            ),
        ]  # fmt: skip
        start.recovery.intake.hold()
        for place in coming:
            start.recovery.intake.came(place, closed=True)
        await start.recover()
        found = {one.place.name: one for one in start.engine.state.deliveries}
        assert found["q.mime"].state is State.FINISHING
        assert (found["c.mime"].duplicate, found["copy.mime"].duplicate) == (False, True)


async def test_what_has_the_id_and_name_of_a_completed_message_and_says_something_else_is_not_completed(
    tmp_path: Path,
) -> None:
    async with start_in(tmp_path) as start:
        done = start.put("m.mime", message_id="1.1.a@x")
        start.spool.move(done, Folder.ARCHIVE, date=time.strftime("%Y%m%d", time.gmtime()))
        start.held(start.put("m.mime", Folder.QUEUE, message_id="1.1.a@x", body="content: other\n"))
        await start.recover()
        assert not start.said("message_completed")
        (delivery,) = start.engine.state.deliveries
        assert (delivery.state, delivery.duplicate) == (State.QUEUED, False)


async def test_all_receipts_are_heard_before_any_clock_rings(tmp_path: Path) -> None:
    """This holds however many there are, although a turn takes a bounded number of them."""
    async with start_in(tmp_path) as start:
        extra = "X-IGNITE-Status: acked\nX-IGNITE-Processed-At: 2020-01-01T00:00:00Z\n"
        for n in range(2 * EVENTS_A_TURN):
            start.held(start.put(f"m{n}.mime", message_id=f"{n}.1.a@x", extra=extra))
            maildrop.drop_receipt(tmp_path / "receipts", ReceiptKind.DONE, f"{n}.1.a@x", "leader")
        await start.recover()
        assert set(start.states("leader")) == {State.FINISHING}
        facts = {effect.type for effect in start.effects if isinstance(effect, RecordFact)}
        assert "message_overdue" not in facts


async def test_dead_for_one_recipient_is_not_dead_for_another(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        start.put("dead.mime", Folder.DEAD, "user", extra="X-IGNITE-Recipient: user\nX-IGNITE-Error-Reason: why\n")
        mine, theirs = start.put("m.mime"), start.put("n.mime", box="user")
        for place in (mine, theirs):
            start.held(place)
            start.spool.path(place).unlink()
        await start.recover()
        assert [fact["agent"] for fact in start.said("message_completed")] == ["leader"]
        (dead,) = start.said("message_dead")
        assert (dead["agent"], dead["reason"]) == ("user", "why")


async def test_what_the_log_has_told_is_not_told_again(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        start.held(place)
        message = start.message(place)
        log = SessionLog.open(tmp_path / "logs", started_at=time.time())
        about: dict[str, object] = {"message_id": message.message_id, "agent": "leader"}
        log.record("message_completed", about, start.clock.now().wall)
        log.close()
        start.spool.path(place).unlink()
        await start.recover()
        assert start.facts == []


async def test_rubbish_among_the_dead_letters_does_not_stop_us(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        (tmp_path / "queue/dead_letter/rubbish.mime").write_bytes(b"\xff\x00")
        (tmp_path / "queue/dead_letter/link.mime").symlink_to("nowhere")
        place = start.put("m.mime")
        start.held(place)
        start.spool.path(place).unlink()
        await start.recover()
        assert start.said("message_completed")


async def test_one_queue_that_cannot_be_served_does_not_stop_us(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        (tmp_path / "queue/aaa").mkdir()
        (tmp_path / "queue/aaa/processed").write_text("a file")
        (tmp_path / "queue/aaa/m.mime").write_bytes(mime())
        start.put("m.mime", Folder.QUEUE)
        counts = start.recovery.count(start.journal.load(0, 0), [])
        assert counts["queued"] == 1
        await start.recover()
        assert len(start.states("leader")) == 1
        assert [fact["what"] for fact in start.said("io_error")] == ["queue/aaa"]


async def test_what_is_kept_where_nobody_may_look_does_not_stop_us() -> None:
    with nobodys_directory() as root:
        async with start_in(root) as start:
            start.put("m.mime", Folder.QUEUE)
            for name in ("dead_letter", "corrupt"):
                (root / "queue" / name).chmod(0)
            await start.recover()
            assert len(start.states("leader")) == 1
            assert [fact["what"] for fact in start.said("io_error")] == ["list queue/dead_letter", "list queue/corrupt"]
            for name in ("dead_letter", "corrupt"):
                (root / "queue" / name).chmod(0o700)


# --- moves that were not finished -------------------------------------------------------------------------------------
def linked(start: Start, place: Place, folder: Folder, name: str) -> Path:
    """Make one file with two names, as a kill between link and unlink leaves it on a file system without renameat2."""
    day = time.strftime("%Y%m%d/", time.gmtime()) if folder is Folder.ARCHIVE else ""
    path = start.spool.path(Place(place.box, folder, f"{day}{name}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    os.link(start.spool.path(place), path)
    return path


@pytest.mark.parametrize("name", ["m.mime", "m-1.mime"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Folder.QUEUE, Folder.PROCESSED),
        (Folder.QUEUE, Folder.DEAD),
        (Folder.PROCESSED, Folder.DEAD),
        (Folder.PROCESSED, Folder.ARCHIVE),
    ],
)
async def test_of_one_file_that_has_two_names_the_former_is_removed(
    tmp_path: Path, source: Folder, target: Folder, name: str
) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", source, extra="X-IGNITE-Recipient: leader\nX-IGNITE-Error-Reason: why\n")
        start.held(place)
        path = linked(start, place, target, name)
        if name != "m.mime":
            (path.parent / "m.mime").write_bytes(mime(message_id="2.2.b@x"))
            os.utime(path.parent / "m.mime", (time.time() - 100,) * 2)
        await start.recover()
        assert not start.spool.exists(place)
        assert path.stat().st_nlink == 1
        mine = [one for one in start.engine.state.deliveries if one.message.message_id != "2.2.b@x"]
        assert [one.place.name for one in mine] == ([name] if target is Folder.PROCESSED else [])
        assert not [one for one in mine if one.duplicate]
        ends = {Folder.PROCESSED: [], Folder.DEAD: ["message_dead"], Folder.ARCHIVE: ["message_completed"]}
        assert [fact for fact, _ in start.facts if fact in ("message_dead", "message_completed")] == ends[target]


async def test_a_duplicate_that_was_half_put_away_completes_nothing(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        held = start.held(start.put("m.mime"))
        copy = start.put("m.mime", Folder.QUEUE)
        start.journal.take_in(start.twin_of(held, twin_digest(held.digest, copy.name)))
        linked(start, copy, Folder.ARCHIVE, "m.mime")
        await start.recover()
        assert not start.spool.exists(copy)
        assert [(one.place.folder, one.duplicate) for one in start.engine.state.deliveries] == [
            (Folder.PROCESSED, False)
        ]
        assert start.said("message_completed") == []


async def test_a_second_name_that_the_journal_knows_nothing_of_is_somebody_elses(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        linked(start, place, Folder.ARCHIVE, "m.mime")
        held = start.put("n.mime", message_id="2.2.b@x")
        start.held(held)
        os.link(start.spool.path(held), tmp_path / "kept")
        await start.recover()
        assert start.spool.exists(place)
        assert start.spool.exists(held)


async def test_one_name_that_is_reached_by_two_paths_is_not_removed(tmp_path: Path) -> None:
    """The box's processed/ is a link to the dead letters, and somebody keeps a second link to one of them."""
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.DEAD)
        entry = start.held(place)
        os.link(start.spool.path(place), tmp_path / "kept")
        (tmp_path / "queue/leader/processed").rmdir()
        (tmp_path / "queue/leader/processed").symlink_to(tmp_path / "queue/dead_letter")
        assert start.spool.exists(Place("leader", Folder.PROCESSED, entry.name))
        await start.recover()
        assert start.spool.exists(place)


# --- crashes ----------------------------------------------------------------------------------------------------------
async def test_a_crash_with_the_message_in_hand_is_counted_and_written_down(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        start.held(start.put("m.mime", box="runner"), crashes=2)
        await start.recover()
        (delivery,) = start.engine.state.deliveries
        assert delivery.crashes == 3
        (entry,) = start.journal.load(start.clock.now().wall, 3600).in_flight.values()
        assert entry.crashes == 3


async def test_a_clean_stop_counts_no_crash(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        start.held(start.put("m.mime", box="runner"), crashes=2)
        start.journal.stop()
        await start.recover()
        (delivery,) = start.engine.state.deliveries
        assert delivery.crashes == 2


# --- written over -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("data", [b"rubbish", mime(message_id="2.2.b@x")], ids=["no message", "another message"])
async def test_a_file_in_hand_that_was_written_over_is_withdrawn_and_never_completed(
    tmp_path: Path, data: bytes
) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", message_id="1.1.a@x")
        start.held(place)
        start.spool.path(place).write_bytes(data)
        await start.recover()
        (fact,) = start.said("message_withdrawn")
        assert fact["message_id"] == "1.1.a@x"
        assert "overwritten with" in str(fact["reason"])
        held = start.journal.load(start.clock.now().wall, 3600).in_flight
        assert "1.1.a@x" not in {entry.message_id for entry in held.values()}
        start.spool.path(place).unlink()  # quarantined, or finished and archived
        await start.recover()
        assert not [fact for fact in start.said("message_completed") if fact["message_id"] == "1.1.a@x"]


async def test_a_file_in_hand_whose_content_was_changed_is_the_same_message_and_goes_on(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", message_id="1.1.a@x")
        old = start.held(place)
        start.put("m.mime", message_id="1.1.a@x", body="content: other\n")
        await start.recover()
        assert not start.said("message_withdrawn")
        assert start.states("leader") == [State.PROCESSING]
        assert old.key not in start.journal.load(start.clock.now().wall, 3600).in_flight


# --- runs -------------------------------------------------------------------------------------------------------------
async def test_runs_find_their_messages_however_many_there_are(tmp_path: Path) -> None:
    """There are more than a few turns of the pump take. (The results of those met last were once thrown away.)"""
    async with start_in(tmp_path) as start:
        count = 2 * EVENTS_A_TURN + 60
        places = [start.put(f"m{n:04}.mime", box="runner", message_id=f"{n}.1.a@x") for n in range(count)]
        runs = [start.run_of(place, Outcome.DONE if n else None, alive=not n) for n, place in enumerate(places)]
        await start.recover(*runs)
        alive, *done = (start.engine.state.deliveries.of_id(run.message_id, "runner")[0] for run in runs)
        assert {one.state for one in done} == {State.FINISHING}
        assert alive.state is State.DELIVERED
        assert sorted(start.adopted) == sorted(("runner", one.key) for one in (alive, *done))
        assert all(run.path.exists() for run in runs)  # until the outcome is committed


async def test_runs_of_nobody_are_handed_over_without_a_key(tmp_path: Path) -> None:
    """This holds for living and ended runs: processes that they started may go on, and must be watched."""
    async with start_in(tmp_path) as start:
        ended, living = start.put("a.mime", box="runner"), start.put("b.mime", box="runner", message_id="2.2.b@x")
        runs = [start.run_of(ended, Outcome.DONE), start.run_of(living, alive=True)]
        for place in (ended, living):
            start.spool.path(place).unlink()
        await start.recover(*runs)
        assert start.adopted == [("runner", None), ("runner", None)]


async def test_a_living_run_whose_word_was_heard_is_adopted_and_says_nothing_more(tmp_path: Path) -> None:
    """The run has deferred and not ended yet. It is adopted under the message's key, so that no retry starts beside
    it."""
    async with start_in(tmp_path) as start:
        due = ignite.iso_seconds(start.clock.now().wall + 100)
        extra = f"X-IGNITE-Status: retrying\nX-IGNITE-Retry-Count: 1\nX-IGNITE-Next-Retry-After: {due}\n"
        place = start.put("a.mime", box="runner", extra=extra)
        await start.recover(start.run_of(place, alive=True))
        (delivery,) = start.engine.state.deliveries
        assert delivery.state is State.RETRYING
        assert start.adopted == [("runner", delivery.key)]
        assert start.speaking == [None]


async def test_a_living_run_speaks_for_the_attempt_that_it_is(tmp_path: Path) -> None:
    """The run may say ``defer`` and go on: its exit is not the end of the retry."""
    async with start_in(tmp_path) as start:
        extra = "X-IGNITE-Status: delivered\nX-IGNITE-Retry-Count: 2\n"
        await start.recover(start.run_of(start.put("a.mime", box="runner", extra=extra), alive=True))
        (delivery,) = start.engine.state.deliveries
        assert start.speaking == [delivery.tells] == [3]


async def test_a_run_does_not_speak_for_a_message_that_was_put_back_into_the_queue(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        await start.recover(start.run_of(start.put("a.mime", Folder.QUEUE, "runner"), alive=True))
        assert start.speaking == [None]


@pytest.mark.parametrize("outcome", [Outcome.DONE, None], ids=["over", "alive"])
async def test_a_run_whose_message_cannot_be_read_is_taken_up_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome | None
) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("a.mime", box="runner", extra="X-IGNITE-Status: delivered\n")
        run, entry = start.run_of(place, outcome, alive=outcome is None), start.held(place)
        with monkeypatch.context() as sick:
            for look in ("read", "head"):
                sick.setattr(start.spool, look, _refused)
            await start.recover(run)
        assert start.adopted == []
        assert start.recovery.unread_ids == {entry.message_id}
        await start.recovery.intake.scan()
        with anyio.fail_after(60):
            while not start.engine.state.deliveries:
                await anyio.sleep(0.01)
                start.pump.turn()
        start.recovery.was_met(MessageMet(entry.message_id, "runner"))
        start.pump.turn()
        (delivery,) = start.engine.state.deliveries
        assert start.adopted == [("runner", delivery.key)]
        assert delivery.state is (State.FINISHING if outcome is not None else State.DELIVERED)
        assert delivery.crashes == 0


def _refused(_place: Place) -> bytes:
    raise OSError(5, "Input/output error")


async def test_what_a_hint_was_quicker_to_tell_of_is_not_met_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message may be completed before its second arrival is decided, and would then count as its own duplicate."""
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        await start.recovery.recover(start.journal.load(start.clock.now().wall, 3600), [])
        start.pump.post(start.recovery.intake.look(place))
        start.pump.turn()
        posted: list[object] = []
        monkeypatch.setattr(start.pump, "post", posted.append)
        await start.recovery.read_backlog()
        assert [type(event).__name__ for event in posted] == ["RecoveryEnded"]
