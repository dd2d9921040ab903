"""Intake over a real spool: the events that follow from hints and from scans."""

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
from ackd.core.ports import BoxAppeared, BoxGone, FileGone, FileReady, HintsLost
from ackd.formats import ignite
from ackd.runtime.intake import departures
from tests.acceptance.teams import mime
from tests.live_config import live_config
from tests.nobody import nobodys_directory
from tests.runtime.intake_fixture import SETTLE_S, intake_in

if TYPE_CHECKING:
    from pathlib import Path


# --- arrivals ---------------------------------------------------------------------------------------------------------
async def test_a_closed_file_is_read_at_once(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.put()
        setup.intake.hint(FileReady(place, closed=True))
        (arrived,) = setup.of(events.Arrived)
        assert arrived.place == place
        assert arrived.message.recipient == "leader"
        assert arrived.standing is None


async def test_a_file_that_a_scan_met_is_read_once_it_has_settled(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.put()
        path = setup.spool.path(place)
        os.utime(path, (time.time() - 60,) * 2)
        with path.open("ab"):
            setup.intake.hint(FileReady(place, closed=False))
            await anyio.sleep(4 * SETTLE_S)
            assert setup.posted == []
        await setup.until(lambda: setup.of(events.Arrived))
        assert len(setup.posted) == 1


async def test_hints_for_one_file_are_one_arrival_once_the_engine_knows_it(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.put()
        setup.waiting(place)
        for closed in (True, False, True):
            setup.intake.hint(FileReady(place, closed=closed))
        await anyio.sleep(3 * SETTLE_S)
        assert setup.posted == []


@pytest.mark.parametrize("name", ["notes.yaml", "m.mime.tmp", "README"])
async def test_what_is_not_named_like_a_message_is_left_alone(tmp_path: Path, name: str) -> None:
    async with intake_in(tmp_path) as setup:
        setup.intake.hint(FileReady(setup.put(name), closed=True))
        assert setup.posted == []


async def test_no_message_is_unreadable_with_its_code(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.intake.hint(FileReady(setup.put(data=b""), closed=True))
        os.mkfifo(setup.spool.path(Place("leader", Folder.QUEUE, "fifo.mime")))
        setup.intake.hint(FileReady(Place("leader", Folder.QUEUE, "fifo.mime"), closed=False))
        await setup.until(lambda: len(setup.posted) == 2)
        assert {event.code for event in setup.of(events.Unreadable)} == {"empty", "not_regular"}


async def test_what_its_writer_closes_and_goes_on_with_is_read_when_it_has_settled(tmp_path: Path) -> None:
    """``cat head >x.mime; cat body >>x.mime``: the file is closed twice, and is no message before the second time."""
    head, blank, body = mime().partition(b"\n\n")
    async with intake_in(tmp_path) as setup:
        place = setup.put(data=head + b"\n")
        setup.intake.hint(FileReady(place, closed=True))
        assert setup.posted == []
        with setup.spool.path(place).open("ab") as file:
            file.write(blank[1:] + body)
        setup.intake.hint(FileReady(place, closed=True))
        await setup.until(lambda: setup.posted)
        await anyio.sleep(2 * SETTLE_S)
        (arrived,) = setup.posted
        assert isinstance(arrived, events.Arrived)
        assert arrived.message.digest == ignite.decode(mime(), "leader").digest


async def test_what_is_no_message_once_it_has_settled_is_none(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        new, old = setup.put(data=b"half"), setup.put("old.mime", data=b"half")
        os.utime(setup.spool.path(old), (1, 1))
        for place in (new, old):
            setup.intake.hint(FileReady(place, closed=True))
        assert [event.place for event in setup.of(events.Unreadable)] == [old]
        await setup.until(lambda: len(setup.posted) == 2)
        assert setup.of(events.Unreadable)[1].place == new


async def test_a_waiting_message_that_is_half_written_over_is_gone_at_once(tmp_path: Path) -> None:
    """The half-written file must not be claimed in its place meanwhile."""
    async with intake_in(tmp_path) as setup:
        place = setup.put()
        setup.waiting(place)
        setup.put(data=b"half")
        setup.intake.hint(FileReady(place, closed=True))
        assert setup.posted == [events.Vanished(place)]
        setup.handle(setup.posted[0])
        setup.put(data=mime(message_id="2.2.b@x"))
        await setup.until(lambda: setup.of(events.Arrived))
        assert setup.of(events.Unreadable) == []


async def test_what_a_sender_brought_and_we_may_not_read_is_put_away_once_it_has_settled() -> None:
    """Like a file that root's `cp` left there. If it is made readable within that time, it is read."""
    with nobodys_directory() as root:
        async with intake_in(root) as setup:
            places = [setup.put("closed.mime"), setup.put("given.mime", mime(message_id="2.2.b@x"))]
            for place in places:
                setup.spool.path(place).chmod(0)
                setup.intake.hint(FileReady(place, closed=True))
            assert setup.posted == []
            setup.spool.path(places[1]).chmod(0o600)
            await setup.until(lambda: len(setup.posted) == 2)
            assert [event.place for event in setup.of(events.Arrived)] == [places[1]]
            (refused,) = setup.of(events.Unreadable)
            assert (refused.place, refused.code) == (places[0], "not_allowed")
            assert f"it is user {os.geteuid()}'s, mode 0000" in refused.detail
            setup.spool.quarantine(refused.place, refused.code, refused.detail, "now")
            assert setup.said("io_error") == []


async def test_what_is_in_hand_and_closed_to_us_stays_where_it_is() -> None:
    with nobodys_directory() as root:
        async with intake_in(root) as setup:
            place = setup.put(folder=Folder.PROCESSED)
            setup.spool.path(place).chmod(0)
            setup.intake.hint(FileReady(place, closed=True))
            assert setup.posted == []
            assert setup.said("io_error")


def of_size(size: int, extra: str = "") -> bytes:
    head = mime(body="", extra=extra)
    return head + b"x" * (size - len(head))


async def test_what_is_new_is_held_to_the_limit_to_the_byte(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        assert isinstance(setup.intake.look(setup.put(data=of_size(100_000))), events.Arrived)
        refused = setup.intake.look(setup.put(data=of_size(100_001)))
        assert isinstance(refused, events.Unreadable)
        assert refused.code == "too_large"


async def test_our_own_headers_do_not_make_a_message_too_large(tmp_path: Path) -> None:
    """A message in hand has our headers, and so has one that was requeued, or moved back by hand."""
    ours = "X-IGNITE-Status: delivered\nX-IGNITE-Seen: yes\nX-IGNITE-Recipient: leader\n"
    data = of_size(100_000 + len(ours), ours)
    async with intake_in(tmp_path) as setup:
        for folder in (Folder.PROCESSED, Folder.QUEUE):
            assert isinstance(setup.intake.look(setup.put(data=data, folder=folder)), events.Arrived)
        assert isinstance(setup.intake.look(setup.put(data=data + b"x")), events.Unreadable)


async def test_a_file_that_is_gone_before_it_is_read_is_nothing(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        gone = Place("leader", Folder.QUEUE, "gone.mime")
        setup.intake.hint(FileReady(gone, closed=True))
        setup.intake.hint(FileReady(gone, closed=False))
        await anyio.sleep(2 * SETTLE_S)
        assert setup.posted == []
        assert setup.facts == []


async def test_a_waiting_file_that_holds_another_message_now_is_that_message(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.put()
        setup.waiting(place)
        setup.put(data=mime(message_id="2.2.b@x"))
        setup.intake.hint(FileReady(place, closed=True))
        vanished, arrived = setup.posted
        assert vanished == events.Vanished(place)
        assert isinstance(arrived, events.Arrived)
        assert arrived.message.message_id == "2.2.b@x"


async def test_a_renamed_file_is_the_same_message(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        old = setup.put("a.mime")
        setup.waiting(old)
        new = Place("leader", Folder.QUEUE, "b.mime")
        setup.spool.path(old).rename(setup.spool.path(new))
        setup.intake.hint(FileReady(new, closed=True))
        vanished, arrived = setup.posted
        assert vanished == events.Vanished(old, moved_to=new)
        assert isinstance(arrived, events.Arrived)


async def test_a_second_copy_of_a_message_is_no_rename(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.waiting(setup.put("a.mime"))
        setup.intake.hint(FileReady(setup.put("b.mime"), closed=True))
        assert [type(event) for event in setup.posted] == [events.Arrived]


async def test_our_own_claim_is_not_read_a_second_time(tmp_path: Path) -> None:
    """The watcher reports the move before the engine has heard of it."""
    async with intake_in(tmp_path) as setup:
        event = setup.intake.look(setup.put())
        setup.handle(event)  # claimed at once: its agent is available
        moved = setup.spool.move(event.place, Folder.PROCESSED)
        setup.intake.hint(FileGone(event.place))
        setup.intake.hint(FileReady(moved, closed=True))
        await anyio.sleep(3 * SETTLE_S)
        assert setup.posted == []


async def test_what_may_be_a_copy_and_cannot_be_read_is_said_and_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name waits in the queue and lies in processed/: half a move to another mount, or somebody's own file."""

    def unreadable(place: Place, to: Place) -> bool:
        raise PermissionError(13, "Permission denied", str(to))

    async with intake_in(tmp_path) as setup:
        setup.waiting(setup.put("a.mime"))
        monkeypatch.setattr(setup.spool, "was_copied", unreadable)
        there = Place("leader", Folder.PROCESSED, "a.mime")
        setup.spool.path(there).write_bytes(mime())
        setup.intake.hint(FileReady(there, closed=True))
        assert setup.posted == []
        assert setup.said("io_error")


# --- departures -------------------------------------------------------------------------------------------------------
async def test_a_deletion_is_proven_before_it_is_believed(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.told()
        path = setup.spool.path(place)
        path.rename(tmp_path / "away")
        setup.intake.hint(FileGone(place))
        (tmp_path / "away").rename(path)
        await anyio.sleep(3 * SETTLE_S)
        assert setup.posted == []
        path.unlink()
        setup.intake.hint(FileGone(place))
        assert setup.posted == []
        await setup.until(lambda: setup.posted)
        assert setup.posted == [events.Vanished(place)]


async def test_moved_by_hand_between_processed_and_queue_is_no_completion(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.told()
        back = Place("leader", Folder.QUEUE, place.name)
        setup.spool.path(place).rename(setup.spool.path(back))
        setup.intake.hint(FileGone(place))
        await setup.until(lambda: setup.of(events.Arrived))
        assert events.Vanished(place, moved_to=back) in setup.posted
        assert events.Vanished(place) not in setup.posted


async def test_absence_is_counted_from_the_last_time_it_was_there(tmp_path: Path) -> None:
    """Our own rewriting of the header looks like a deletion. A real deletion a moment later is counted on its own."""
    async with intake_in(tmp_path) as setup:
        setup.intake.departures.config = live_config(settle_s=1)
        place = setup.told()
        setup.intake.hint(FileGone(place))
        assert setup.intake.departures._leaving == {}
        away = tmp_path / "away"
        for _ in range(5):
            setup.spool.path(place).rename(away)
            setup.intake.hint(FileGone(place))
            await anyio.sleep(0.25)
            away.rename(setup.spool.path(place))
        setup.spool.path(place).rename(away)
        setup.intake.hint(FileGone(place))
        await anyio.sleep(0.25)
        assert setup.posted == []
        await setup.until(lambda: setup.posted)


async def test_a_directory_that_is_emptied_slowly_and_then_goes_completes_nothing(tmp_path: Path) -> None:
    """During ``rm -rf`` of a large queue its first files are gone for longer than ``settle_s``."""
    async with intake_in(tmp_path) as setup:
        setup.intake.departures.config = live_config(settle_s=1)
        places = [setup.told(f"{n}.mime", mime(message_id=f"{n}.1.a@x")) for n in range(8)]
        for place in places:
            setup.spool.path(place).unlink()
            setup.intake.hint(FileGone(place))
            await anyio.sleep(0.2)
        assert setup.posted == []
        shutil.rmtree(tmp_path / "queue/leader")
        setup.intake.hint(BoxGone("leader"))
        await setup.until(lambda: setup.of(events.SpoolLost))
        await anyio.sleep(2 * SETTLE_S)
        assert setup.posted == [events.SpoolLost("leader", tuple(places))]


async def test_files_that_leave_one_after_the_other_are_judged_when_none_has_left_for_a_while(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        places = [setup.told(f"{n}.mime", mime(message_id=f"{n}.1.a@x")) for n in range(200)]
        for place in places:
            setup.spool.path(place).unlink()
            setup.intake.hint(FileGone(place))
        await setup.until(lambda: len(setup.posted) == 200)
        assert setup.posted == [events.Vanished(place) for place in places]
        assert setup.intake.departures._leaving == {}


async def test_an_agent_that_never_pauses_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departures, "IN_ONE_GO_S", 3 * SETTLE_S)
    async with intake_in(tmp_path) as setup:
        places = [setup.told(f"{n}.mime", mime(message_id=f"{n}.1.a@x")) for n in range(20)]
        for place in places:
            setup.spool.path(place).unlink()
            setup.intake.hint(FileGone(place))
            await anyio.sleep(SETTLE_S / 2)
        assert len(setup.posted) >= 10
        await setup.until(lambda: len(setup.posted) == 20)
        assert setup.posted == [events.Vanished(place) for place in places]


@pytest.mark.parametrize("made_again", [True, False])
async def test_a_directory_that_went_completes_nothing(tmp_path: Path, made_again: bool) -> None:
    """This holds also when a new directory is met before the loss of the old one is confirmed. Files are reported before
    their directory."""
    async with intake_in(tmp_path) as setup:
        place = setup.told()
        shutil.rmtree(tmp_path / "queue/leader")
        setup.intake.hint(FileGone(place))
        setup.intake.hint(BoxGone("leader"))
        if made_again:
            (tmp_path / "queue/leader/processed").mkdir(parents=True)
            setup.intake.hint(BoxAppeared("leader"))
        await setup.until(lambda: setup.of(events.SpoolLost))
        await anyio.sleep(2 * SETTLE_S)
        assert setup.posted == [events.SpoolLost("leader", (place,))]
        assert (tmp_path / "queue/leader/processed").is_dir()


async def test_a_directory_that_went_unheard_is_found_by_the_scan(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.told()
        shutil.rmtree(tmp_path / "queue/leader")
        (tmp_path / "queue/leader/processed").mkdir(parents=True)
        await setup.intake.scan()
        await setup.until(lambda: setup.posted)
        assert setup.posted == [events.SpoolLost("leader", (place,))]


async def test_moved_away_and_back_is_no_loss(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.told()
        (tmp_path / "queue/leader").rename(tmp_path / "away")
        setup.intake.hint(BoxGone("leader"))
        (tmp_path / "away").rename(tmp_path / "queue/leader")
        setup.intake.hint(BoxAppeared("leader"))
        await anyio.sleep(3 * SETTLE_S)
        assert setup.posted == []


async def test_the_whole_root_removed_is_made_again(tmp_path: Path) -> None:
    async with intake_in(tmp_path / "root") as setup:
        shutil.rmtree(tmp_path / "root")
        await setup.intake.scan()
        assert setup.alarms == ["a box is gone"]  # called at once, because the lock may be gone, too
        await setup.until(lambda: (tmp_path / "root/receipts").is_dir() and setup.of(events.SpoolLost))
        assert (tmp_path / "root/queue/leader/processed").is_dir()


# --- boxes that cannot be served --------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["file", "link"])
async def test_a_box_without_a_processed_of_its_own_is_said_once_and_tried_again(tmp_path: Path, kind: str) -> None:
    async with intake_in(tmp_path / "root") as setup:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        box = tmp_path / "root/queue/odd"
        box.mkdir()
        processed = box / "processed"
        processed.write_text("x") if kind == "file" else processed.symlink_to(elsewhere)
        (box / "m.mime").write_bytes(mime())
        os.utime(box / "m.mime", (1, 1))
        setup.intake.hint(BoxAppeared("odd"))
        setup.intake.hint(FileReady(Place("odd", Folder.QUEUE, "m.mime"), closed=True))
        await setup.intake.scan()
        await setup.intake.scan()
        assert setup.posted == []
        assert [fact["what"] for fact in setup.said("io_error")] == ["queue/odd"]
        processed.unlink()
        await setup.intake.scan()
        await setup.until(lambda: setup.of(events.Arrived))


async def test_one_box_that_cannot_be_listed_does_not_hide_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        setup.spool.ensure_box("zeta")
        place = Place("zeta", Folder.QUEUE, "m.mime")
        setup.spool.path(place).write_bytes(mime())
        os.utime(setup.spool.path(place), (1, 1))
        real = setup.spool.scan

        def scan(box: str) -> Any:
            if box == "leader":
                raise PermissionError(13, "Permission denied")
            return real(box)

        monkeypatch.setattr(setup.spool, "scan", scan)
        await setup.intake.scan()
        await setup.until(lambda: setup.of(events.Arrived))
        assert setup.said("io_error")


async def test_what_cannot_be_looked_at_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a chmod that was meant for the files nothing below can be seen, and all of it is still there."""
    async with intake_in(tmp_path) as setup:
        place = setup.put()
        setup.waiting(place)

        def lstat(path: str) -> os.stat_result:
            raise PermissionError(13, "Permission denied", path)

        with monkeypatch.context() as patched:
            patched.setattr("ackd.storage.spool.spool.os.lstat", lstat)
            assert not setup.spool.is_gone(place)
            await setup.intake._scan_missing()
            await anyio.sleep(3 * SETTLE_S)
        assert setup.of(events.Vanished) == []
        setup.spool.path(place).unlink()
        assert setup.spool.is_gone(place)


async def test_one_box_that_cannot_be_seen_is_not_lost_and_does_not_hide_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the one of a mount whose server is gone."""
    async with intake_in(tmp_path) as setup:
        setup.waiting(setup.put())
        setup.spool.ensure_box("zeta")
        place = Place("zeta", Folder.QUEUE, "m.mime")
        setup.spool.path(place).write_bytes(mime())
        os.utime(setup.spool.path(place), (1, 1))
        real = setup.spool.births

        def births(box: str) -> Any:
            if box == "leader":
                raise OSError(107, "Transport endpoint is not connected")
            return real(box)

        monkeypatch.setattr(setup.spool, "births", births)
        setup.intake.lose_box("leader")
        await setup.intake.scan()
        await setup.until(lambda: setup.of(events.Arrived))
        await anyio.sleep(3 * SETTLE_S)
        assert setup.of(events.SpoolLost) == []
        assert setup.said("io_error")


async def test_what_is_in_hand_is_recoverys_while_a_start_reads_it(tmp_path: Path) -> None:
    """After an overflow, or without inotify, a scan runs beside recovery, and knows nothing of retries."""
    async with intake_in(tmp_path) as setup:
        place = Place("leader", Folder.PROCESSED, "m.mime")
        setup.spool.path(place).write_bytes(mime())
        setup.intake.hold()
        setup.intake.hint(FileReady(place, closed=True))
        assert setup.posted == []
        setup.intake.owe([place], lambda event: replace(event, run_alive=True))
        await setup.intake.release()
        (event,) = setup.of(events.Arrived)
        assert event.recovered
        assert event.run_alive


# --- the scan ---------------------------------------------------------------------------------------------------------
async def test_the_scan_finds_what_no_hint_told_of(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        gone = setup.told()
        setup.spool.path(gone).unlink()
        new = setup.put("new.mime", mime(message_id="2.2.b@x"))
        (tmp_path / "queue/late/processed").mkdir(parents=True)
        setup.intake.hint(HintsLost())
        await setup.until(lambda: len(setup.posted) == 2)
        assert {event.place for event in setup.of(events.Arrived, events.Vanished)} == {gone, new}
        assert "late" in setup.intake.boxes
        assert setup.said("watch_overflow") == [{}]


async def test_overflow_upon_overflow_is_one_line_and_one_scan_after_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        scans, whole = [], setup.intake.scan

        async def scan() -> None:
            scans.append("begun")
            await whole()

        monkeypatch.setattr(setup.intake, "scan", scan)
        for _ in range(50):
            setup.intake.hint(HintsLost())
        await setup.until(lambda: setup.intake._owed_scans == 0)
        assert len(scans) == 2
        setup.intake.hint(HintsLost())  # the storm goes on
        await setup.until(lambda: len(scans) == 3)
        assert setup.said("watch_overflow") == [{}]


async def test_the_scan_survives_directories_that_are_missing(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        (tmp_path / "receipts").rmdir()
        await setup.intake.scan()
        assert [fact["what"] for fact in setup.said("io_error")] == ["list receipts"]


async def test_strangers_are_said_once(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        (tmp_path / "queue/processed").mkdir()
        (tmp_path / "queue/lost.mime").write_bytes(mime())
        (tmp_path / "queue/leader/notes.yaml").touch()
        os.utime(tmp_path / "queue/leader/notes.yaml", (1, 1))
        (tmp_path / "queue/leader/fresh.yaml").touch()
        await setup.intake.scan()
        await setup.intake.scan()
        assert sorted(str(fact["file"]) for fact in setup.said("stray_file")) == [
            "queue/leader/notes.yaml",
            "queue/lost.mime",
            "queue/processed",
        ]


async def test_a_name_that_cannot_be_an_agents_makes_no_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with intake_in(tmp_path) as setup:
        with pytest.raises(BadName):
            setup.spool.ensure_box("dead_letter")
        assert not setup.intake.meet_box("dead_letter")
        assert "dead_letter" not in setup.intake.boxes
