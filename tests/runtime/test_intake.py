"""Intake over a real spool: what it makes of hints, and of what it finds itself."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.core import events
from ackd.core.errors import BadName
from ackd.core.message import Folder, Place
from ackd.dialects import ignite
from ackd.ports import BoxAppeared, BoxGone, FileGone, FileReady, HintsLost
from ackd.runtime import departures
from tests.acceptance.teams import mime
from tests.nobody import nobodys_directory
from tests.runtime.desks import SETTLE_S, desk_in

if TYPE_CHECKING:
    from pathlib import Path


# --- arrivals ---------------------------------------------------------------------------------------------------------
async def test_a_closed_file_is_read_at_once(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.put()
        desk.intake.hint(FileReady(place, closed=True))
        (arrived,) = desk.of(events.Arrived)
        assert arrived.place == place
        assert arrived.message.recipient == "leader"
        assert arrived.standing is None


async def test_a_file_that_a_scan_met_is_read_once_it_has_settled(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.put()
        path = desk.spool.path(place)
        os.utime(path, (time.time() - 60,) * 2)
        with path.open("ab"):
            desk.intake.hint(FileReady(place, closed=False))
            await anyio.sleep(4 * SETTLE_S)
            assert desk.posted == []
        await desk.until(lambda: desk.of(events.Arrived))
        assert len(desk.posted) == 1


async def test_hints_for_one_file_are_one_arrival_once_the_engine_knows_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.put()
        desk.waiting(place)
        for closed in (True, False, True):
            desk.intake.hint(FileReady(place, closed=closed))
        await anyio.sleep(3 * SETTLE_S)
        assert desk.posted == []


@pytest.mark.parametrize("name", ["notes.yaml", "m.mime.tmp", "README"])
async def test_what_is_not_named_like_a_message_is_left_alone(tmp_path: Path, name: str) -> None:
    async with desk_in(tmp_path) as desk:
        desk.intake.hint(FileReady(desk.put(name), closed=True))
        assert desk.posted == []


async def test_no_message_is_unreadable_with_its_code(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.intake.hint(FileReady(desk.put(data=b""), closed=True))
        os.mkfifo(desk.spool.path(Place("leader", Folder.QUEUE, "fifo.mime")))
        desk.intake.hint(FileReady(Place("leader", Folder.QUEUE, "fifo.mime"), closed=False))
        await desk.until(lambda: len(desk.posted) == 2)
        assert {event.code for event in desk.of(events.Unreadable)} == {"empty", "not_regular"}


async def test_what_its_writer_closes_and_goes_on_with_is_read_when_it_has_settled(tmp_path: Path) -> None:
    """``cat head >x.mime; cat body >>x.mime``: closed twice, and no message before the second time."""
    head, blank, body = mime().partition(b"\n\n")
    async with desk_in(tmp_path) as desk:
        place = desk.put(data=head + b"\n")
        desk.intake.hint(FileReady(place, closed=True))
        assert desk.posted == []
        with desk.spool.path(place).open("ab") as file:
            file.write(blank[1:] + body)
        desk.intake.hint(FileReady(place, closed=True))
        await desk.until(lambda: desk.posted)
        await anyio.sleep(2 * SETTLE_S)
        (arrived,) = desk.posted
        assert isinstance(arrived, events.Arrived)
        assert arrived.message.digest == ignite.decode(mime(), "leader").digest


async def test_what_is_no_message_once_it_has_settled_is_none(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        new, old = desk.put(data=b"half"), desk.put("old.mime", data=b"half")
        os.utime(desk.spool.path(old), (1, 1))
        for place in (new, old):
            desk.intake.hint(FileReady(place, closed=True))
        assert [event.place for event in desk.of(events.Unreadable)] == [old]
        await desk.until(lambda: len(desk.posted) == 2)
        assert desk.of(events.Unreadable)[1].place == new


async def test_a_waiting_message_that_is_half_written_over_is_gone_at_once(tmp_path: Path) -> None:
    """So that what lies there is not claimed in its place meanwhile."""
    async with desk_in(tmp_path) as desk:
        place = desk.put()
        desk.waiting(place)
        desk.put(data=b"half")
        desk.intake.hint(FileReady(place, closed=True))
        assert desk.posted == [events.Vanished(place)]
        desk.handle(desk.posted[0])
        desk.put(data=mime(message_id="2.2.b@x"))
        await desk.until(lambda: desk.of(events.Arrived))
        assert desk.of(events.Unreadable) == []


async def test_what_a_sender_brought_and_we_may_not_read_is_put_away_once_it_has_settled() -> None:
    """As what root's `cp` left there; given away within that time, it is read."""
    with nobodys_directory() as root:
        async with desk_in(root) as desk:
            places = [desk.put("closed.mime"), desk.put("given.mime", mime(message_id="2.2.b@x"))]
            for place in places:
                desk.spool.path(place).chmod(0)
                desk.intake.hint(FileReady(place, closed=True))
            assert desk.posted == []
            desk.spool.path(places[1]).chmod(0o600)
            await desk.until(lambda: len(desk.posted) == 2)
            assert [event.place for event in desk.of(events.Arrived)] == [places[1]]
            (refused,) = desk.of(events.Unreadable)
            assert (refused.place, refused.code) == (places[0], "not_allowed")
            assert f"it is user {os.geteuid()}'s, mode 0000" in refused.detail
            desk.spool.quarantine(refused.place, refused.code, refused.detail, "now")
            assert desk.said("io_error") == []


async def test_what_is_in_hand_and_closed_to_us_stays_where_it_is() -> None:
    with nobodys_directory() as root:
        async with desk_in(root) as desk:
            place = desk.put(folder=Folder.PROCESSED)
            desk.spool.path(place).chmod(0)
            desk.intake.hint(FileReady(place, closed=True))
            assert desk.posted == []
            assert desk.said("io_error")


def of_size(size: int, extra: str = "") -> bytes:
    head = mime(body="", extra=extra)
    return head + b"x" * (size - len(head))


async def test_what_is_new_is_held_to_the_limit_to_the_byte(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        assert isinstance(desk.intake.look(desk.put(data=of_size(100_000))), events.Arrived)
        refused = desk.intake.look(desk.put(data=of_size(100_001)))
        assert isinstance(refused, events.Unreadable)
        assert refused.code == "too_large"


async def test_our_own_headers_do_not_make_a_message_too_large(tmp_path: Path) -> None:
    """In hand it has them; and where it was dug up, or moved back by hand."""
    ours = "X-IGNITE-Status: delivered\nX-IGNITE-Seen: yes\nX-IGNITE-Recipient: leader\n"
    data = of_size(100_000 + len(ours), ours)
    async with desk_in(tmp_path) as desk:
        for folder in (Folder.PROCESSED, Folder.QUEUE):
            assert isinstance(desk.intake.look(desk.put(data=data, folder=folder)), events.Arrived)
        assert isinstance(desk.intake.look(desk.put(data=data + b"x")), events.Unreadable)


async def test_a_file_that_is_gone_before_it_is_read_is_nothing(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        gone = Place("leader", Folder.QUEUE, "gone.mime")
        desk.intake.hint(FileReady(gone, closed=True))
        desk.intake.hint(FileReady(gone, closed=False))
        await anyio.sleep(2 * SETTLE_S)
        assert desk.posted == []
        assert desk.facts == []


async def test_a_waiting_file_that_holds_another_message_now_is_that_message(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.put()
        desk.waiting(place)
        desk.put(data=mime(message_id="2.2.b@x"))
        desk.intake.hint(FileReady(place, closed=True))
        vanished, arrived = desk.posted
        assert vanished == events.Vanished(place)
        assert isinstance(arrived, events.Arrived)
        assert arrived.message.message_id == "2.2.b@x"


async def test_a_renamed_file_is_the_same_message(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        old = desk.put("a.mime")
        desk.waiting(old)
        new = Place("leader", Folder.QUEUE, "b.mime")
        desk.spool.path(old).rename(desk.spool.path(new))
        desk.intake.hint(FileReady(new, closed=True))
        vanished, arrived = desk.posted
        assert vanished == events.Vanished(old, moved_to=new)
        assert isinstance(arrived, events.Arrived)


async def test_a_second_copy_of_a_message_is_no_rename(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.waiting(desk.put("a.mime"))
        desk.intake.hint(FileReady(desk.put("b.mime"), closed=True))
        assert [type(event) for event in desk.posted] == [events.Arrived]


async def test_our_own_claim_is_not_read_a_second_time(tmp_path: Path) -> None:
    """The watcher tells of the move before the engine has heard of it."""
    async with desk_in(tmp_path) as desk:
        event = desk.intake.look(desk.put())
        desk.handle(event)  # claimed at once: its agent is available
        moved = desk.spool.move(event.place, Folder.PROCESSED)
        desk.intake.hint(FileGone(event.place))
        desk.intake.hint(FileReady(moved, closed=True))
        await anyio.sleep(3 * SETTLE_S)
        assert desk.posted == []


async def test_what_may_be_a_copy_and_cannot_be_read_is_said_and_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that waits in the queue and lies in processed/, too: half a move to another mount, or somebody's own."""

    def unreadable(place: Place, to: Place) -> bool:
        raise PermissionError(13, "Permission denied", str(to))

    async with desk_in(tmp_path) as desk:
        desk.waiting(desk.put("a.mime"))
        monkeypatch.setattr(desk.spool, "was_copied", unreadable)
        there = Place("leader", Folder.PROCESSED, "a.mime")
        desk.spool.path(there).write_bytes(mime())
        desk.intake.hint(FileReady(there, closed=True))
        assert desk.posted == []
        assert desk.said("io_error")


# --- departures -------------------------------------------------------------------------------------------------------
async def test_a_deletion_is_proven_before_it_is_believed(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.told()
        path = desk.spool.path(place)
        path.rename(tmp_path / "away")
        desk.intake.hint(FileGone(place))
        (tmp_path / "away").rename(path)
        await anyio.sleep(3 * SETTLE_S)
        assert desk.posted == []
        path.unlink()
        desk.intake.hint(FileGone(place))
        assert desk.posted == []
        await desk.until(lambda: desk.posted)
        assert desk.posted == [events.Vanished(place)]


async def test_moved_by_hand_between_processed_and_queue_is_no_completion(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.told()
        back = Place("leader", Folder.QUEUE, place.name)
        desk.spool.path(place).rename(desk.spool.path(back))
        desk.intake.hint(FileGone(place))
        await desk.until(lambda: desk.of(events.Arrived))
        assert events.Vanished(place, moved_to=back) in desk.posted
        assert events.Vanished(place) not in desk.posted


async def test_absence_is_counted_from_the_last_time_it_was_there(tmp_path: Path) -> None:
    """Our own rewriting of its header is told as if it went: what follows a moment later is another matter."""
    async with desk_in(tmp_path) as desk:
        desk.intake.departures.settle_s = 1.0
        place = desk.told()
        desk.intake.hint(FileGone(place))
        assert desk.intake.departures._leaving == {}
        away = tmp_path / "away"
        for _ in range(5):
            desk.spool.path(place).rename(away)
            desk.intake.hint(FileGone(place))
            await anyio.sleep(0.25)
            away.rename(desk.spool.path(place))
        desk.spool.path(place).rename(away)
        desk.intake.hint(FileGone(place))
        await anyio.sleep(0.25)
        assert desk.posted == []
        await desk.until(lambda: desk.posted)


async def test_a_directory_that_is_emptied_slowly_and_then_goes_completes_nothing(tmp_path: Path) -> None:
    """``rm -rf`` of a large queue: its first files are gone for longer than they may take to settle."""
    async with desk_in(tmp_path) as desk:
        desk.intake.departures.settle_s = 1.0
        places = [desk.told(f"{n}.mime", mime(message_id=f"{n}.1.a@x")) for n in range(8)]
        for place in places:
            desk.spool.path(place).unlink()
            desk.intake.hint(FileGone(place))
            await anyio.sleep(0.2)
        assert desk.posted == []
        shutil.rmtree(tmp_path / "queue/leader")
        desk.intake.hint(BoxGone("leader"))
        await desk.until(lambda: desk.of(events.SpoolLost))
        await anyio.sleep(2 * SETTLE_S)
        assert desk.posted == [events.SpoolLost("leader", tuple(places))]


async def test_files_that_leave_one_after_the_other_are_judged_when_none_has_left_for_a_while(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        places = [desk.told(f"{n}.mime", mime(message_id=f"{n}.1.a@x")) for n in range(200)]
        for place in places:
            desk.spool.path(place).unlink()
            desk.intake.hint(FileGone(place))
        await desk.until(lambda: len(desk.posted) == 200)
        assert desk.posted == [events.Vanished(place) for place in places]
        assert desk.intake.departures._leaving == {}


async def test_an_agent_that_never_pauses_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departures, "IN_ONE_GO_S", 3 * SETTLE_S)
    async with desk_in(tmp_path) as desk:
        places = [desk.told(f"{n}.mime", mime(message_id=f"{n}.1.a@x")) for n in range(20)]
        for place in places:
            desk.spool.path(place).unlink()
            desk.intake.hint(FileGone(place))
            await anyio.sleep(SETTLE_S / 2)
        assert len(desk.posted) >= 10
        await desk.until(lambda: len(desk.posted) == 20)
        assert desk.posted == [events.Vanished(place) for place in places]


@pytest.mark.parametrize("made_again", [True, False])
async def test_a_directory_that_went_completes_nothing(tmp_path: Path, made_again: bool) -> None:
    """Also when its successor is met before we mourn it; the files are told of before their directory."""
    async with desk_in(tmp_path) as desk:
        place = desk.told()
        shutil.rmtree(tmp_path / "queue/leader")
        desk.intake.hint(FileGone(place))
        desk.intake.hint(BoxGone("leader"))
        if made_again:
            (tmp_path / "queue/leader/processed").mkdir(parents=True)
            desk.intake.hint(BoxAppeared("leader"))
        await desk.until(lambda: desk.of(events.SpoolLost))
        await anyio.sleep(2 * SETTLE_S)
        assert desk.posted == [events.SpoolLost("leader", (place,))]
        assert (tmp_path / "queue/leader/processed").is_dir()


async def test_a_directory_that_went_unheard_is_found_by_the_scan(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.told()
        shutil.rmtree(tmp_path / "queue/leader")
        (tmp_path / "queue/leader/processed").mkdir(parents=True)
        await desk.intake.scan()
        await desk.until(lambda: desk.posted)
        assert desk.posted == [events.SpoolLost("leader", (place,))]


async def test_moved_away_and_back_is_no_loss(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.told()
        (tmp_path / "queue/leader").rename(tmp_path / "away")
        desk.intake.hint(BoxGone("leader"))
        (tmp_path / "away").rename(tmp_path / "queue/leader")
        desk.intake.hint(BoxAppeared("leader"))
        await anyio.sleep(3 * SETTLE_S)
        assert desk.posted == []


async def test_the_whole_root_removed_is_made_again(tmp_path: Path) -> None:
    async with desk_in(tmp_path / "root") as desk:
        shutil.rmtree(tmp_path / "root")
        await desk.intake.scan()
        assert desk.alarms == ["a box is gone"]  # at once: the lock may be gone, too
        await desk.until(lambda: (tmp_path / "root/receipts").is_dir() and desk.of(events.SpoolLost))
        assert (tmp_path / "root/queue/leader/processed").is_dir()


# --- boxes that cannot be served ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["file", "link"])
async def test_a_box_without_a_processed_of_its_own_is_said_once_and_tried_again(tmp_path: Path, kind: str) -> None:
    async with desk_in(tmp_path / "root") as desk:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        box = tmp_path / "root/queue/odd"
        box.mkdir()
        processed = box / "processed"
        processed.write_text("x") if kind == "file" else processed.symlink_to(elsewhere)
        (box / "m.mime").write_bytes(mime())
        os.utime(box / "m.mime", (1, 1))
        desk.intake.hint(BoxAppeared("odd"))
        desk.intake.hint(FileReady(Place("odd", Folder.QUEUE, "m.mime"), closed=True))
        await desk.intake.scan()
        await desk.intake.scan()
        assert desk.posted == []
        assert [fact["what"] for fact in desk.said("io_error")] == ["queue/odd"]
        processed.unlink()
        await desk.intake.scan()
        await desk.until(lambda: desk.of(events.Arrived))


async def test_one_box_that_cannot_be_listed_does_not_hide_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        desk.spool.ensure_box("zeta")
        place = Place("zeta", Folder.QUEUE, "m.mime")
        desk.spool.path(place).write_bytes(mime())
        os.utime(desk.spool.path(place), (1, 1))
        real = desk.spool.scan

        def scan(box: str) -> Any:
            if box == "leader":
                raise PermissionError(13, "Permission denied")
            return real(box)

        monkeypatch.setattr(desk.spool, "scan", scan)
        await desk.intake.scan()
        await desk.until(lambda: desk.of(events.Arrived))
        assert desk.said("io_error")


async def test_what_cannot_be_looked_at_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chmod that was meant for the files: nothing below can be seen, and all of it is there."""
    async with desk_in(tmp_path) as desk:
        place = desk.put()
        desk.waiting(place)

        def lstat(path: str) -> os.stat_result:
            raise PermissionError(13, "Permission denied", path)

        with monkeypatch.context() as patched:
            patched.setattr("ackd.adapters.spool.spool.os.lstat", lstat)
            assert not desk.spool.is_gone(place)
            await desk.intake._scan_missing()
            await anyio.sleep(3 * SETTLE_S)
        assert desk.of(events.Vanished) == []
        desk.spool.path(place).unlink()
        assert desk.spool.is_gone(place)


async def test_one_box_that_cannot_be_seen_is_not_lost_and_does_not_hide_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mount whose server is gone answers."""
    async with desk_in(tmp_path) as desk:
        desk.waiting(desk.put())
        desk.spool.ensure_box("zeta")
        place = Place("zeta", Folder.QUEUE, "m.mime")
        desk.spool.path(place).write_bytes(mime())
        os.utime(desk.spool.path(place), (1, 1))
        real = desk.spool.births

        def births(box: str) -> Any:
            if box == "leader":
                raise OSError(107, "Transport endpoint is not connected")
            return real(box)

        monkeypatch.setattr(desk.spool, "births", births)
        desk.intake.lose_box("leader")
        await desk.intake.scan()
        await desk.until(lambda: desk.of(events.Arrived))
        await anyio.sleep(3 * SETTLE_S)
        assert desk.of(events.SpoolLost) == []
        assert desk.said("io_error")


async def test_what_is_in_hand_is_recoverys_while_a_start_reads_it(tmp_path: Path) -> None:
    """An overflow, or a watch that cannot be had: the scan runs beside recovery, and knows nothing of retries."""
    async with desk_in(tmp_path) as desk:
        place = Place("leader", Folder.PROCESSED, "m.mime")
        desk.spool.path(place).write_bytes(mime())
        desk.intake.hold()
        desk.intake.hint(FileReady(place, closed=True))
        assert desk.posted == []
        desk.intake.owe([place], lambda event: replace(event, run_alive=True))
        await desk.intake.release()
        (event,) = desk.of(events.Arrived)
        assert event.recovered
        assert event.run_alive


# --- the scan -----------------------------------------------------------------------------------------------------------
async def test_the_scan_finds_what_no_hint_told_of(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        gone = desk.told()
        desk.spool.path(gone).unlink()
        new = desk.put("new.mime", mime(message_id="2.2.b@x"))
        (tmp_path / "queue/late/processed").mkdir(parents=True)
        desk.intake.hint(HintsLost())
        await desk.until(lambda: len(desk.posted) == 2)
        assert {event.place for event in desk.of(events.Arrived, events.Vanished)} == {gone, new}
        assert "late" in desk.intake.boxes
        assert desk.said("watch_overflow") == [{}]


async def test_overflow_upon_overflow_is_one_line_and_one_scan_after_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        scans, whole = [], desk.intake.scan

        async def scan() -> None:
            scans.append("begun")
            await whole()

        monkeypatch.setattr(desk.intake, "scan", scan)
        for _ in range(50):
            desk.intake.hint(HintsLost())
        await desk.until(lambda: desk.intake._owed_scans == 0)
        assert len(scans) == 2
        desk.intake.hint(HintsLost())  # the storm goes on
        await desk.until(lambda: len(scans) == 3)
        assert desk.said("watch_overflow") == [{}]


async def test_the_scan_survives_directories_that_are_missing(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        (tmp_path / "receipts").rmdir()
        await desk.intake.scan()
        assert [fact["what"] for fact in desk.said("io_error")] == ["list receipts"]


async def test_strangers_are_said_once(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        (tmp_path / "queue/processed").mkdir()
        (tmp_path / "queue/lost.mime").write_bytes(mime())
        (tmp_path / "queue/leader/notes.yaml").touch()
        os.utime(tmp_path / "queue/leader/notes.yaml", (1, 1))
        (tmp_path / "queue/leader/fresh.yaml").touch()
        await desk.intake.scan()
        await desk.intake.scan()
        assert sorted(str(fact["file"]) for fact in desk.said("stray_file")) == [
            "queue/leader/notes.yaml",
            "queue/lost.mime",
            "queue/processed",
        ]


async def test_a_name_that_cannot_be_an_agents_makes_no_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk_in(tmp_path) as desk:
        with pytest.raises(BadName):
            desk.spool.ensure_box("dead_letter")
        assert not desk.intake.meet_box("dead_letter")
        assert "dead_letter" not in desk.intake.boxes
