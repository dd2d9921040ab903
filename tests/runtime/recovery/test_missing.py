"""Lines that a crash swallowed: they follow from the journal, the logs of earlier sessions, and the files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ackd.core.message import Folder, Place
from ackd.storage.journal import twin_digest
from ackd.storage.session_log import SessionLog
from tests.nobody import nobodys_directory
from tests.runtime.recovery.test_recovery import start_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.recovery.test_recovery import Start

TODAY = time.strftime("%Y%m%d", time.gmtime())


def session(root: Path, *lines: tuple[str, dict[str, object]], seconds_ago: float = 60) -> None:
    log = SessionLog.open(root / "logs", started_at=time.time() - seconds_ago)
    for type_, data in lines:
        log.record(type_, data, time.time() - seconds_ago)
    log.close()


def told(start: Start, place: Place, *types: str) -> list[tuple[str, dict[str, object]]]:
    """Return log lines of these types about the message that lies at ``place``."""
    about: dict[str, object] = {"message_id": start.message(place).message_id, "agent": place.box, "file": str(place)}
    return [(type_, about) for type_ in types]


async def after(start: Start, *lines: tuple[str, dict[str, object]]) -> list[tuple[str, dict[str, object]]]:
    """Return the facts that are recorded after a session that wrote these lines and died."""
    session(start.root, ("session_start", {}), *lines)
    session(start.root, seconds_ago=0)  # this session's own log, which is never read
    await start.recover()
    await start.missing.fill_in()
    return [(type_, data) for type_, data in start.facts if data.get("recovered")]


async def test_a_second_copy_finds_its_twin_completed_though_the_journal_never_heard(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        twin = start.put("m.mime")
        start.held(twin)
        start.spool.move(twin, Folder.ARCHIVE, date=TODAY)
        start.put("copy.mime", Folder.QUEUE)
        await start.recover()
        assert [one.duplicate for one in start.engine.state.deliveries] == [True]
        assert len(start.said("message_completed")) == 1
        assert start.journal.load(time.time(), 3600).in_flight == {}


async def test_the_latest_of_many_that_were_archived_under_one_name_is_found_completed(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        for _ in range(20):
            start.spool.move(start.put("m.mime", message_id="earlier"), Folder.ARCHIVE, date=TODAY)
        last = start.put("m.mime")
        start.held(last)
        archived = start.spool.move(last, Folder.ARCHIVE, date=TODAY)
        start.put("copy.mime", Folder.QUEUE)
        await start.recover()
        assert [one.duplicate for one in start.engine.state.deliveries] == [True]
        assert [line.get("file") for line in start.said("message_completed")] == [str(archived)]


async def test_a_dead_letter_that_was_to_be_completed_late_is_not_told_of_as_dead_again(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        entry = replace(start.held(place), late=True)
        start.journal.take_in(entry)
        start.spool.move(place, Folder.DEAD)
        await start.recover()
        assert start.said("message_dead") == []
        assert start.journal.load(time.time(), 3600).in_flight == {}


async def test_the_line_of_a_duplicate_does_not_stand_for_its_twins_end(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        entry = start.held(place)
        start.spool.move(place, Folder.ARCHIVE, date=TODAY)
        about: dict[str, object] = {"message_id": entry.message_id, "agent": entry.agent}
        session(tmp_path, ("session_start", {}), ("message_duplicate", about), seconds_ago=-1)
        await start.recover()
        assert len(start.said("message_completed")) == 1


@pytest.mark.parametrize(("end", "untold"), [("message_dead", 1), ("message_completed", 0)])
async def test_what_was_done_as_it_was_buried_and_lies_in_the_archive_is_completed(
    tmp_path: Path, end: str, untold: int
) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        entry = start.held(place)
        start.spool.move(place, Folder.ARCHIVE, date=TODAY)
        about: dict[str, object] = {"message_id": entry.message_id, "agent": entry.agent}
        session(tmp_path, ("session_start", {}), (end, about), seconds_ago=-1)
        await start.recover()
        assert len(start.said("message_completed")) == untold


async def test_a_message_in_hand_is_no_second_copy_of_a_duplicate_in_the_archive(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        start.held(start.put("m.mime"))
        copy = start.put("m.mime", Folder.QUEUE)
        start.spool.move(copy, Folder.ARCHIVE, date=TODAY)
        await start.recover()
        assert [one.duplicate for one in start.engine.state.deliveries] == [False]


async def test_a_duplicate_that_was_put_away_is_told_of(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        copy = start.put("copy.mime", Folder.QUEUE)
        message = start.message(copy)
        entry = start.held(copy)
        start.journal.let_go(start.let_go(entry))
        start.journal.take_in(start.twin_of(entry, twin_digest(message.digest, copy.name)))
        start.spool.move(copy, Folder.ARCHIVE, date=TODAY)
        await start.recover()
        (fact,) = start.said("message_duplicate")
        assert fact["file"] == f"archive/{TODAY}/leader/copy.mime"
        assert start.journal.load(time.time(), 3600).in_flight == {}


@pytest.mark.parametrize(
    ("last_word", "end"), [("message_queued", "message_withdrawn"), ("message_claimed", "message_completed")]
)
async def test_what_the_log_began_to_tell_of_and_is_nowhere_gets_its_end(
    tmp_path: Path, last_word: str, end: str
) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        lines = told(start, place, "message_queued", last_word)
        start.spool.path(place).unlink()
        ((type_, data),) = await after(start, *lines)
        assert (type_, data["message_id"]) == (end, lines[0][1]["message_id"])


async def test_what_lies_in_the_archive_was_completed(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        lines = told(start, place, "message_queued")
        start.spool.move(place, Folder.ARCHIVE, date=TODAY)
        assert [type_ for type_, _ in await after(start, *lines)] == ["message_completed"]


async def test_what_is_there_or_has_its_end_is_not_spoken_of(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        there, ended = start.put("m.mime", Folder.QUEUE), start.put("n.mime", Folder.QUEUE, message_id="2.2.b@x")
        lines = [*told(start, there, "message_queued"), *told(start, ended, "message_queued", "message_withdrawn")]
        start.spool.path(ended).unlink()
        assert await after(start, *lines) == []


async def test_what_was_removed_from_a_queue_while_nobody_served_is_withdrawn(tmp_path: Path) -> None:
    """The same holds after a session that stopped cleanly: it could not know of the removal."""
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        lines = told(start, place, "message_queued")
        start.spool.path(place).unlink()
        start.spool.quarantine(start.put("bad.mime", Folder.QUEUE), "not_utf8", "byte 1", "2026-11-16T01:02:03Z")
        ((fact, words),) = await after(start, *lines, ("session_end", {}))
        assert (fact, words["reason"]) == ("message_withdrawn", "file deleted from the queue while ackd was away")


async def test_sessions_before_one_that_ended_by_itself_are_not_asked(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", Folder.QUEUE)
        session(tmp_path, ("session_start", {}), *told(start, place, "message_queued"), seconds_ago=100)
        start.spool.path(place).unlink()
        assert await after(start, ("session_end", {})) == []


async def test_neither_a_log_nor_a_reason_that_cannot_be_read_stops_us(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        start.spool.quarantine(start.put("bad.mime", Folder.QUEUE), "not_utf8", "byte 1", "whenever")
        assert await after(start) == []
        start.missing.logs_dir = tmp_path / "queue/corrupt/bad.mime"
        await start.missing.fill_in()


async def test_what_was_quarantined_as_we_died_is_told_of_once(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for name in ("bad.mime", "known.mime"):
            start.spool.quarantine(start.put(name, Folder.QUEUE), "not_utf8", "byte 1", at)
        (tmp_path / "receipts/ack.json").write_text("{")
        start.spool.quarantine_receipt("ack.json", "bad_receipt", "not JSON", at)
        said = await after(start, ("message_rejected", {"kept_as": "known.mime"}))
        found = {str(data["kept_as"]): data for _, data in said}
        assert found.keys() == {"bad.mime", "ack.json"}
        assert (found["bad.mime"]["file"], found["bad.mime"]["agent"]) == ("queue/leader/bad.mime", "leader")
        assert found["ack.json"]["file"] == "receipts/ack.json"


# --- is the file the message ------------------------------------------------------------------------------------------
DIED = "X-IGNITE-Recipient: leader\nX-IGNITE-Error-Reason: why\nX-IGNITE-Error-At: {}\n"


def iso(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))


async def test_a_dead_letter_is_not_completed_because_another_had_its_name_in_the_archive(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        other = start.put("m.mime", message_id="1.1.a@x")
        start.spool.move(other, Folder.ARCHIVE, date=TODAY)
        place = start.put("m.mime", message_id="2.2.b@x", extra=DIED.format(iso(0)))
        start.held(place)
        start.spool.move(place, Folder.DEAD)
        await start.recover()
        assert [fact["message_id"] for fact in start.said("message_dead")] == ["2.2.b@x"]
        assert start.said("message_completed") == []


@pytest.mark.parametrize(("died_s_ago", "end"), [(100, "message_completed"), (-1, "message_dead")])
async def test_of_what_lies_in_the_archive_and_among_the_dead_the_later_end_counts(
    tmp_path: Path, died_s_ago: float, end: str
) -> None:
    """The message was sent once more after its death, or after its completion."""
    async with start_in(tmp_path) as start:
        start.spool.move(start.put("m.mime", extra=DIED.format(iso(died_s_ago))), Folder.DEAD)
        place = start.put("m.mime")
        start.held(place)
        start.spool.move(place, Folder.ARCHIVE, date=TODAY)
        await start.recover()
        ends = [fact for fact, _ in start.facts if fact in ("message_completed", "message_dead")]
        assert ends == [end]


@pytest.mark.parametrize("folder", [Folder.ARCHIVE, Folder.DEAD])
async def test_what_ended_is_told_though_the_next_message_lies_under_its_name(tmp_path: Path, folder: Folder) -> None:
    """The sender always writes to the same name, and wrote once more while no daemon ran."""
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", message_id="1.1.a@x", extra=DIED.format(iso(0)))
        start.held(place)
        start.spool.move(place, folder, date=TODAY)
        start.put("m.mime", Folder.QUEUE, message_id="2.2.b@x")
        await start.recover()
        end = "message_completed" if folder is Folder.ARCHIVE else "message_dead"
        assert [fact["message_id"] for fact in start.said(end)] == ["1.1.a@x"]
        assert start.journal.load(time.time(), 3600).in_flight == {}
        start.recovery.intake.came(start.put("again.mime", Folder.QUEUE, message_id="1.1.a@x"), closed=True)
        start.pump.turn()
        again = start.engine.state.deliveries.of_id("1.1.a@x", "leader")
        assert [one.duplicate for one in again] == [folder is Folder.ARCHIVE]


async def test_what_is_nowhere_is_not_completed_while_another_lies_under_its_name(tmp_path: Path) -> None:
    """The message may have been written over before it was claimed: nobody can tell."""
    async with start_in(tmp_path) as start:
        start.held(start.put("m.mime", Folder.QUEUE, message_id="1.1.a@x"))
        start.put("m.mime", Folder.QUEUE, message_id="2.2.b@x")
        await start.recover()
        assert start.said("message_completed") == []


async def test_what_was_written_over_in_the_queue_while_nobody_served_is_withdrawn(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        lines = told(start, start.put("m.mime", Folder.QUEUE, message_id="1.1.a@x"), "message_queued")
        start.put("m.mime", Folder.QUEUE, message_id="2.2.b@x")
        await after(start, *lines)
        assert [fact["message_id"] for fact in start.said("message_withdrawn")] == ["1.1.a@x"]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00", "9" * 5000, "never"])
async def test_whatever_a_dead_letter_says_of_itself_we_start(tmp_path: Path, at: str) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime", extra=DIED.format(at) + f"X-IGNITE-Retry-Count: {'9' * 5000}\n")
        start.held(place)
        start.spool.move(place, Folder.DEAD)
        await start.recover()
        assert [fact["retry_count"] for fact in start.said("message_dead")] == [0]


async def test_an_id_without_brackets_and_in_any_spelling_is_known(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        for name, folder in (("m.mime", Folder.ARCHIVE), ("n.mime", Folder.DEAD)):
            place = start.put(name, message_id=f"{name}@x", extra=DIED.format(iso(0)))
            path = start.spool.path(place)
            path.write_bytes(
                path.read_bytes().replace(f"Message-ID: <{name}@x>".encode(), f"message-id: {name}@x".encode())
            )
            start.held(place)
            start.spool.move(place, folder, date=TODAY)
        start.put("again.mime", Folder.QUEUE, message_id="m.mime@x", extra=DIED.format(iso(0)))
        await start.recover()
        assert [fact["message_id"] for fact in start.said("message_completed")] == ["m.mime@x"]
        assert [fact["message_id"] for fact in start.said("message_dead")] == ["n.mime@x"]
        assert [one.duplicate for one in start.engine.state.deliveries] == [True]


async def test_what_lies_in_the_archive_under_its_name_and_cannot_be_read_may_be_it(tmp_path: Path) -> None:
    async with start_in(tmp_path) as start:
        place = start.put("m.mime")
        start.held(place)
        archived = start.spool.move(place, Folder.ARCHIVE, date=TODAY)
        start.spool.path(archived).write_bytes(b"rubbish")
        await start.recover()
        (fact,) = start.said("message_completed")
        assert fact["by"] == "found in the archive"


# --- files that cannot be read ----------------------------------------------------------------------------------------
def logs(root: Path) -> list[Path]:
    return sorted((root / "logs").iterdir())


async def test_a_dead_letter_that_cannot_be_read_is_said_once_and_the_others_are_asked() -> None:
    with nobodys_directory() as root:
        async with start_in(root) as start:
            extra = "X-IGNITE-Recipient: leader\nX-IGNITE-Error-Reason: why\n"
            shut = start.put("a.mime", Folder.DEAD, message_id="1.1.a@x", extra=extra)
            start.spool.path(shut).chmod(0)
            held, met = (
                start.put("m.mime", message_id="2.2.b@x"),
                start.put("n.mime", Folder.QUEUE, message_id="3.3.c@x"),
            )
            lines = told(start, met, "message_queued")
            start.held(held)
            for place in (held, met):
                start.spool.path(place).unlink()
            start.put("b.mime", Folder.DEAD, message_id="2.2.b@x", extra=extra)
            start.put("c.mime", Folder.DEAD, message_id="3.3.c@x", extra=extra)
            await after(start, *lines)
            assert [fact["message_id"] for fact in start.said("message_dead")] == ["2.2.b@x", "3.3.c@x"]
            (error,) = start.said("io_error")
            assert error["what"] == "read queue/dead_letter/a.mime"


async def test_a_log_that_cannot_be_read_is_said_once_and_what_came_after_it_is_told() -> None:
    with nobodys_directory() as root:
        async with start_in(root) as start:
            early, late = start.put("m.mime", Folder.QUEUE), start.put("n.mime", Folder.QUEUE, message_id="2.2.b@x")
            held = start.put("o.mime", message_id="3.3.c@x")
            start.held(held)
            session(root, ("session_start", {}), *told(start, early, "message_queued"), seconds_ago=300)
            session(root, ("session_start", {}), seconds_ago=200)
            logs(root)[1].chmod(0)
            lines = told(start, late, "message_queued")
            for place in (early, late, held):
                start.spool.path(place).unlink()
            await after(start, *lines)
            assert [fact["message_id"] for fact in start.said("message_completed")] == ["3.3.c@x"]
            # the end of the first may be in the log that cannot be read
            assert [fact["message_id"] for fact in start.said("message_withdrawn")] == ["2.2.b@x"]
            (error,) = start.said("io_error")
            assert error["what"] == f"read logs/{logs(root)[1].name}"
