from __future__ import annotations

import datetime as dt
import errno
import os
import stat
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from ackd.core.errors import BadMessage, BadName
from ackd.core.message import RESERVED_NAMES, Folder, Place
from ackd.formats import ignite
from ackd.storage.spool import Spool
from ackd.storage.spool.spool import OWN_HEADERS_BYTES
from ackd.system.syscalls import ASIDE, identity_of

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import WhichFile

AT = "2026-11-16T01:02:03Z"
TODAY = "20261116"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(tmp_path / "root", max_message_bytes=1000, durable=True)
    made.ensure_layout()
    made.ensure_box("leader")
    return made


def put(spool: Spool, name: str = "task_1.mime", data: bytes = b"x", folder: Folder = Folder.QUEUE) -> Place:
    place = Place("leader", folder, name)
    spool.path(place).write_bytes(data)
    os.utime(spool.path(place), (5, 7))
    return place


def as_read(path: Path) -> WhichFile:
    return (*identity_of(str(path)), hash(path.read_bytes()))


def names(spool: Spool, folder: Folder) -> list[str]:
    """Everything in that directory of leader's, including hidden files."""
    directory = spool.path(Place("leader", folder, "x")).parent
    return sorted(p.name for p in directory.iterdir() if p.name != "processed")


# --- layout -----------------------------------------------------------------------------------------------------------
def test_the_layout_is_the_documented_one_and_private(tmp_path: Path, spool: Spool) -> None:
    root = tmp_path / "root"
    found = {str(p.relative_to(root)) for p in root.rglob("*")}
    assert found == {
        "queue", "queue/dead_letter", "queue/corrupt", "queue/leader", "queue/leader/processed", "receipts", "archive",
        "logs", "state", "state/runs", "state/gateways", "run",
    }  # fmt: skip
    assert {p.stat().st_mode & 0o777 for p in [root, *root.rglob("*")]} == {0o700}
    spool.ensure_layout()


@pytest.mark.parametrize("name", ["dead_letter", "corrupt", "processed", "../etc", ".x", "", "a/b"])
def test_a_name_no_agent_can_have_gets_no_box(spool: Spool, name: str) -> None:
    with pytest.raises(BadName):
        spool.ensure_box(name)
    with pytest.raises(BadName):
        spool.prepare_drop(name, "m.mime", b"")


def test_every_place_has_its_path(tmp_path: Path, spool: Spool) -> None:
    root = tmp_path / "root"
    expected = {
        Folder.QUEUE: ("m.mime", root / "queue/leader/m.mime"),
        Folder.PROCESSED: ("m.mime", root / "queue/leader/processed/m.mime"),
        Folder.DEAD: ("m.mime", root / "queue/dead_letter/m.mime"),
        Folder.CORRUPT: ("m.mime", root / "queue/corrupt/m.mime"),
        Folder.ARCHIVE: ("20261116/m.mime", root / "archive/20261116/leader/m.mime"),
    }
    assert expected.keys() == set(Folder)
    for folder, (name, path) in expected.items():
        assert spool.path(Place("leader", folder, name)) == path


@pytest.mark.parametrize("folder", list(Folder))
@pytest.mark.parametrize(("box", "name"), [("leader", "../x"), ("leader", ".x"), ("leader", "20261116/../x")])
def test_no_place_leads_out_of_its_directory(spool: Spool, folder: Folder, box: str, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        spool.path(Place(box, folder, name))


def test_only_real_directories_with_an_agents_name_are_boxes(tmp_path: Path, spool: Spool) -> None:
    queue = tmp_path / "root" / "queue"
    (queue / "worker-1").mkdir()
    (queue / "link").symlink_to("leader")
    (queue / "file").touch()
    (queue / ".hidden").mkdir()
    (queue / "not a name").mkdir()
    assert spool.boxes() == {name: (queue / name).stat().st_ino for name in ("leader", "worker-1")}


def test_a_box_that_was_deleted_and_made_again_has_other_inodes(tmp_path: Path, spool: Spool) -> None:
    before = spool.births("leader")
    assert before is not None
    os.rename(tmp_path / "root/queue/leader", tmp_path / "gone")  # noqa: PTH104
    assert spool.births("leader") is None
    spool.ensure_box("leader")
    assert spool.births("leader") not in (None, before)


def test_a_processed_that_is_a_link_is_no_box(tmp_path: Path, spool: Spool) -> None:
    (tmp_path / "root/queue/evil").mkdir()
    (tmp_path / "root/queue/evil/processed").symlink_to(tmp_path)
    assert spool.births("evil") is None
    with pytest.raises(NotADirectoryError):
        spool.ensure_box("evil")


def test_a_scan_meets_all_kinds_in_queue_and_processed_but_no_hidden_ones(spool: Spool) -> None:
    put(spool, "a.mime")
    put(spool, "b.mime", folder=Folder.PROCESSED)
    directory = spool.path(Place("leader", Folder.QUEUE, "x")).parent
    (directory / ".writing").touch()
    os.mkfifo(directory / "fifo.mime")
    (directory / "dir.mime").mkdir()
    places = {place for place, _ in spool.scan("leader")}
    assert places == {
        Place("leader", Folder.QUEUE, "a.mime"),
        Place("leader", Folder.QUEUE, "fifo.mime"),
        Place("leader", Folder.QUEUE, "dir.mime"),
        Place("leader", Folder.PROCESSED, "b.mime"),
    }


def test_a_box_that_cannot_be_scanned_is_not_an_empty_one(tmp_path: Path, spool: Spool) -> None:
    with pytest.raises(FileNotFoundError):
        list(spool.scan("nobody"))
    (tmp_path / "root/queue/foreign").mkdir()
    assert list(spool.scan("foreign")) == []


# --- reading ----------------------------------------------------------------------------------------------------------
def test_a_message_is_read_and_its_limit_held_but_for_headers_of_ours(spool: Spool) -> None:
    assert spool.read(put(spool, data=b"hello")).data == b"hello"
    whole = spool.read(put(spool, data=b"x" * (1000 + OWN_HEADERS_BYTES)))
    assert len(whole.data) == 1000 + OWN_HEADERS_BYTES
    assert spool.is_large(whole)
    with pytest.raises(BadMessage, match="1000 are allowed"):
        spool.read(put(spool, data=b"x" * (1001 + OWN_HEADERS_BYTES)))
    assert OWN_HEADERS_BYTES == ignite.RESERVED_BYTES


def test_what_is_new_fits_up_to_the_limit(spool: Spool) -> None:
    spool.must_fit(1000)
    with pytest.raises(BadMessage, match="1001 bytes, and 1000 are allowed"):
        spool.must_fit(1001)


def test_a_file_mentions_an_id_in_its_header_block_only(spool: Spool) -> None:
    place = put(spool, data=b"Message-ID: <1.1.a@x>\n\nnot <2.2.b@x>\n")
    assert spool.mentions(place, "1.1.a@x")
    assert not spool.mentions(place, "2.2.b@x")
    assert not spool.mentions(Place("leader", Folder.QUEUE, "gone.mime"), "1.1.a@x")


def test_the_heads_of_a_box_under_a_kind_of_name(spool: Spool) -> None:
    place = put(spool, data=b"Message-ID: <1.1.a@x>\n\nbody\n")
    spool.path(Place(place.box, Folder.QUEUE, f"{place.name}-link")).symlink_to("nowhere")
    assert list(spool.heads(place.box, place.name[:3])) == [b"Message-ID: <1.1.a@x>\n\n"]
    assert list(spool.heads(place.box, "other_")) == []
    assert list(spool.heads("nobody", place.name[:3])) == []


def test_a_file_settles(spool: Spool) -> None:
    place = put(spool)
    assert spool.settled(place, 100, 1)
    assert not spool.settled(place, 7.5, 1)


# --- moves ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("folder", [Folder.PROCESSED, Folder.DEAD, Folder.ARCHIVE])
def test_a_move_returns_where_it_went(spool: Spool, folder: Folder) -> None:
    moved = spool.move(put(spool), folder, date=TODAY)
    assert moved.folder is folder
    assert spool.read(moved).data == b"x"
    assert names(spool, Folder.QUEUE) == []


def test_a_clash_gets_a_number_and_nothing_is_overwritten(spool: Spool) -> None:
    for n in range(3):
        spool.move(put(spool, data=str(n).encode()), Folder.ARCHIVE, date=TODAY)
    kept = {n: spool.path(Place("leader", Folder.ARCHIVE, f"{TODAY}/task_1{n}.mime")) for n in ("", "-1", "-2")}
    assert [path.read_bytes() for path in kept.values()] == [b"0", b"1", b"2"]


def test_a_move_out_of_the_archive_drops_the_day(spool: Spool) -> None:
    archived = spool.move(put(spool), Folder.ARCHIVE, date=TODAY)
    assert spool.move(archived, Folder.QUEUE) == Place("leader", Folder.QUEUE, "task_1.mime")


def test_a_file_that_its_agent_removed_cannot_be_moved(spool: Spool) -> None:
    place = put(spool)
    spool.path(place).unlink()
    with pytest.raises(FileNotFoundError):
        spool.move(place, Folder.ARCHIVE, date=TODAY)
    assert list(spool.namesakes(Place("leader", Folder.ARCHIVE, f"{TODAY}/task_1.mime"))) == []


def test_processed_swept_away_by_git_clean_is_made_again(spool: Spool) -> None:
    place = put(spool)
    spool.path(Place("leader", Folder.PROCESSED, "x")).parent.rmdir()
    assert spool.read(spool.move(place, Folder.PROCESSED)).data == b"x"


def test_a_move_may_change_the_box(spool: Spool) -> None:
    spool.ensure_box("worker")
    assert spool.move(put(spool), Folder.QUEUE, box="worker") == Place("worker", Folder.QUEUE, "task_1.mime")


# --- rewrites ---------------------------------------------------------------------------------------------------------
def test_a_rewrite_keeps_mtime_and_mode_and_leaves_nothing_else(spool: Spool) -> None:
    place = put(spool, folder=Folder.PROCESSED)
    spool.path(place).chmod(0o640)
    spool.commit_rewrite(spool.prepare_rewrite(place, b"new content"))
    status = spool.path(place).stat()
    assert (spool.read(place).data, status.st_mtime, status.st_mode & 0o777) == (b"new content", 7, 0o640)
    assert names(spool, Folder.PROCESSED) == ["task_1.mime"]


def test_an_agent_deleting_its_file_while_we_rewrite_it_has_the_last_word(spool: Spool) -> None:
    place = put(spool, folder=Folder.PROCESSED)
    prepared = spool.prepare_rewrite(place, b"new")
    spool.path(place).unlink()
    with pytest.raises(FileNotFoundError):
        spool.commit_rewrite(prepared)
    assert names(spool, Folder.PROCESSED) == []


def test_an_agent_that_rewrites_its_own_file_is_not_overwritten(spool: Spool) -> None:
    place = put(spool, folder=Folder.PROCESSED)
    prepared = spool.prepare_rewrite(place, b"ours")
    spool.path(place).write_bytes(b"theirs")
    with pytest.raises(OSError, match="changed") as refused:
        spool.commit_rewrite(prepared)
    assert refused.value.errno == errno.ESTALE
    assert spool.read(place).data == b"theirs"
    assert names(spool, Folder.PROCESSED) == ["task_1.mime"]


def test_a_rewrite_of_what_was_read_refuses_what_came_since(spool: Spool) -> None:
    place = put(spool, folder=Folder.PROCESSED)
    read = spool.read(place)
    spool.prepare_rewrite(place, b"fine", of=read)
    spool.path(place).write_bytes(b"theirs")
    with pytest.raises(OSError, match="changed"):
        spool.prepare_rewrite(place, b"ours", of=read)


def test_abandoning_leaves_no_trace(spool: Spool) -> None:
    prepared = spool.prepare_rewrite(put(spool), b"new")
    spool.abandon(prepared)
    spool.abandon(prepared)
    spool.abandon(spool.prepare_drop("leader", "n.mime", b"x"))
    assert names(spool, Folder.QUEUE) == ["task_1.mime"]


# --- drops ------------------------------------------------------------------------------------------------------------
def test_a_drop_is_invisible_until_it_is_committed(spool: Spool) -> None:
    prepared = spool.prepare_drop("user", "escalation_1.mime", b"x")
    assert list(spool.scan("user")) == []
    place = spool.commit_drop(prepared)
    assert [found for found, _ in spool.scan("user")] == [place]
    assert spool.path(place).stat().st_mode & 0o777 == 0o600


def test_two_drops_of_one_name_are_two_files(spool: Spool) -> None:
    places = [spool.commit_drop(spool.prepare_drop("user", "escalation_1.mime", data)) for data in (b"a", b"b")]
    assert [spool.read(place).data for place in places] == [b"a", b"b"]


def test_a_drop_into_a_box_that_vanished_meanwhile_still_arrives_or_says_so(tmp_path: Path, spool: Spool) -> None:
    prepared = spool.prepare_drop("user", "escalation_1.mime", b"x")
    (tmp_path / "root/queue/user").rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        spool.commit_drop(prepared)


def dead_letters(spool: Spool) -> list[tuple[str, bytes | None]]:
    return [(name, spool.dead_letters.head(name)) for name in spool.dead_letters.files()]


# --- burying and digging up -------------------------------------------------------------------------------------------
def test_two_agents_letters_of_one_name_are_both_kept(spool: Spool) -> None:
    spool.ensure_box("worker")
    spool.move(put(spool, data=b"leader's"), Folder.DEAD)
    worker = spool.move(put(spool, data=b"worker's"), Folder.QUEUE, box="worker")
    assert spool.move(worker, Folder.DEAD).name == "task_1-1.mime"
    assert dict(dead_letters(spool)) == {"task_1.mime": b"leader's", "task_1-1.mime": b"worker's"}


def test_dead_letters_are_listed_by_their_header_block_only(spool: Spool) -> None:
    dead = spool.move(put(spool, data=b"A: 1\n\nbody"), Folder.DEAD)
    os.mkfifo(spool.path(dead).with_name("fifo"))
    assert dead_letters(spool) == [("task_1.mime", b"A: 1\n\n")]


def test_directories_of_foreign_writers_are_closed_to_others(spool: Spool, tmp_path: Path) -> None:
    box = tmp_path / "root/queue/foreign"
    box.mkdir(mode=0o755)
    spool.ensure_box("foreign")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (box, box / "processed")] == [0o700, 0o700]


def test_a_dead_letter_is_purged_and_a_queue_is_not(spool: Spool) -> None:
    spool.move(put(spool), Folder.DEAD)
    spool.purge(Folder.DEAD, "task_1.mime")
    (spool.path(Place("", Folder.DEAD, "directory")) / "inner").mkdir(parents=True)
    spool.purge(Folder.DEAD, "directory")
    assert dead_letters(spool) == []
    with pytest.raises(FileNotFoundError):
        spool.purge(Folder.DEAD, "../leader/x")
    with pytest.raises(ValueError, match="not purged"):
        spool.purge(Folder.QUEUE, "x")


# --- quarantine -------------------------------------------------------------------------------------------------------
def test_links_fifos_and_directories_are_put_away_unopened(tmp_path: Path, spool: Spool) -> None:
    (tmp_path / "precious").write_text("x")
    place = put(spool, "link.mime")
    spool.path(place).unlink()
    spool.path(place).symlink_to(tmp_path / "precious")
    os.mkfifo(spool.path(Place("leader", Folder.QUEUE, "fifo.mime")))
    spool.path(Place("leader", Folder.QUEUE, "dir.mime")).mkdir()
    for name in ("link.mime", "fifo.mime", "dir.mime"):
        assert spool.quarantine(Place("leader", Folder.QUEUE, name), "not_regular", "it is none", AT) == name
    assert {name for name, _ in spool.quarantined()} == {"link.mime", "fifo.mime", "dir.mime"}
    assert names(spool, Folder.QUEUE) == []
    assert (tmp_path / "precious").read_text() == "x"


def test_a_quarantined_file_goes_back_to_its_queue_under_its_name(spool: Spool) -> None:
    spool.quarantine(put(spool, data=b"1"), "empty", "", AT)
    kept = spool.quarantine(put(spool, data=b"2", folder=Folder.PROCESSED), "empty", "", AT)
    assert kept == "task_1-1.mime"
    assert spool.requeue_corrupt(kept) == Place("leader", Folder.QUEUE, "task_1.mime")
    assert spool.read(Place("leader", Folder.QUEUE, "task_1.mime")).data == b"2"
    assert [name for name, _ in spool.quarantined()] == ["task_1.mime"]


def test_a_quarantined_file_whose_reason_was_read_goes_where_its_reader_says(spool: Spool) -> None:
    kept = spool.quarantine(put(spool, data=b"1"), "empty", "", AT)
    assert spool.requeue_corrupt(kept, "worker", "../x") == Place("worker", Folder.QUEUE, kept)
    kept = spool.quarantine(put(spool, data=b"2"), "empty", "", AT)
    with pytest.raises(BadName):
        spool.requeue_corrupt(kept, "../x", "task_2.mime")
    assert spool.requeue_corrupt(kept, "worker", "task_2.mime") == Place("worker", Folder.QUEUE, "task_2.mime")


def test_what_has_no_usable_reason_stays_and_says_why(spool: Spool) -> None:
    kept = spool.quarantine(put(spool), "empty", "", AT)
    path = spool.path(Place("", Folder.CORRUPT, kept))
    path.with_name(f"{kept}.reason").write_text(
        '{"queue": "../../etc", "folder": "", "name": "x", "code": "", "detail": "", "at": ""}'
    )
    with pytest.raises(BadName):
        spool.requeue_corrupt(kept)
    path.with_name(f"{kept}.reason").unlink()
    with pytest.raises(BadName):
        spool.requeue_corrupt(kept)
    assert path.exists()
    with pytest.raises(FileNotFoundError):
        spool.requeue_corrupt("nothing")
    spool.purge(Folder.CORRUPT, kept)
    assert list(spool.quarantined()) == []


# --- receipts ---------------------------------------------------------------------------------------------------------
def test_receipts_are_scanned_removed_and_put_away(spool: Spool) -> None:
    for name in ("ack_1.json", "bad.json", ".half"):
        (spool.receipt_path("x").parent / name).write_text("{}")
    assert sorted(entry.name for entry in spool.scan_receipts()) == ["ack_1.json", "bad.json"]
    spool.remove_receipt("ack_1.json")
    spool.remove_receipt("ack_1.json")
    spool.quarantine_receipt("bad.json", "bad_receipt", "no kind", AT)
    assert list(spool.scan_receipts()) == []
    assert [name for name, _ in spool.quarantined()] == ["bad.json"]
    with pytest.raises(BadName):
        spool.requeue_corrupt("bad.json")
    place = put(spool)
    spool.remove_receipt("../queue/leader/task_1.mime")
    assert spool.exists(place)


def test_a_receipt_that_another_was_put_in_place_of_stays(spool: Spool) -> None:
    path = spool.receipt_path("word.json")
    path.write_text("ack")
    heard = as_read(path)
    for other in ("done", "no!"):  # of another size, and of the same
        path.with_name(".new").write_text(other)
        path.with_name(".new").rename(path)
        spool.remove_receipt("word.json", heard)
        assert path.read_text() == other
    path.write_text("yes")  # in place
    os.utime(path, ns=(heard[1], heard[1] + 1))
    spool.remove_receipt("word.json", heard)
    spool.remove_receipt("word.json", as_read(path))
    spool.remove_receipt("word.json", heard)
    assert not path.exists()


def test_a_receipt_whose_time_is_set_after_it_was_read_goes(spool: Spool) -> None:
    """shutil.copy2 and tar set a file's time after they have closed it."""
    path = spool.receipt_path("word.json")
    path.write_text("defer")
    heard = as_read(path)
    os.utime(path, (5, 7))
    spool.remove_receipt("word.json", heard)
    assert not path.exists()


def test_a_receipt_that_has_another_inode_at_each_look_goes(spool: Spool) -> None:
    path = spool.receipt_path("word.json")
    path.write_text("defer")
    inode, *rest = as_read(path)
    spool.remove_receipt("word.json", (inode + 1, *rest))  # type: ignore[arg-type]
    assert not path.exists()


def test_what_is_no_file_is_not_removed_in_a_receipts_place(spool: Spool) -> None:
    path = spool.receipt_path("word.json")
    path.write_text("defer")
    heard = as_read(path)
    path.rename(path.with_name("elsewhere.json"))
    path.symlink_to("elsewhere.json")
    spool.remove_receipt("word.json", heard)
    assert path.is_symlink()


# --- archive and sweeping ---------------------------------------------------------------------------------------------
def test_what_a_name_was_given_to_is_found_by_it(spool: Spool) -> None:
    archived = [spool.move(put(spool), Folder.ARCHIVE, date="20261115") for _ in range(3)]
    assert [place.name for place in archived] == [f"20261115/task_1{tail}.mime" for tail in ("", "-1", "-2")]
    assert list(spool.namesakes(archived[0])) == archived
    assert list(spool.namesakes(Place("leader", Folder.ARCHIVE, "20261116/task_1.mime"))) == []


def test_what_was_given_a_name_by_chance_is_found_by_the_one_it_had(spool: Spool) -> None:
    archived = [spool.move(put(spool), Folder.ARCHIVE, date="20261115") for _ in range(30)]
    spool.move(put(spool, name="task_1-x.mime"), Folder.ARCHIVE, date="20261115")
    spool.path(archived[0]).with_name(".task_1-0123456789abcdef.mime").touch()
    found = list(spool.namesakes(archived[0]))
    assert found[:17] == archived[:17]
    assert len(found) == 30
    assert set(found) == set(archived)


def test_a_directory_is_not_listed_while_a_name_in_a_row_is_free(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    archived = [spool.move(put(spool), Folder.ARCHIVE, date="20261115") for _ in range(16)]
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("listed"))
    assert list(spool.namesakes(archived[0])) == archived


def test_only_old_days_are_swept_and_no_link_is_followed(tmp_path: Path, spool: Spool) -> None:
    archive = tmp_path / "root/archive"
    for name in ("20261001", "20261016", "20261017", "20261116", "99999999", "notes", "2026100"):
        (archive / name / "leader").mkdir(parents=True)
        (archive / name / "leader" / "m.mime").touch()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").touch()
    (archive / "20260101").symlink_to(tmp_path / "precious")
    (archive / "20261001" / "link").symlink_to(tmp_path / "precious")
    long_ago(archive)
    old = spool.archive_old(30, dt.date(2026, 11, 16))
    assert old == ["20261001", "20261016"]
    for day in old:
        spool.archive_remove(day)
    assert {p.name for p in archive.iterdir()} == {"20261017", "20261116", "99999999", "notes", "2026100", "20260101"}
    assert (tmp_path / "precious" / "x").exists()


def long_ago(archive: Path, at: float = 1e9) -> None:
    for path in [*archive.glob("*/*"), *archive.iterdir()]:
        os.utime(path, (at, at), follow_symlinks=False)


@pytest.mark.parametrize("touched", ["20261001", "20261001/leader"])
def test_a_day_in_which_something_was_put_lately_is_not_old_whatever_its_name(
    tmp_path: Path, spool: Spool, touched: str
) -> None:
    archive = tmp_path / "root/archive"
    (archive / "20261001/leader").mkdir(parents=True)
    (archive / "20261001/worker").mkdir()
    (archive / "20261002").mkdir()
    long_ago(archive)
    lately = dt.datetime(2026, 10, 17, tzinfo=dt.UTC).timestamp()
    os.utime(archive / touched, (lately, lately))
    assert spool.archive_old(30, dt.date(2026, 11, 16)) == ["20261002"]
    assert spool.archive_old(30, dt.date(2026, 11, 17)) == ["20261001", "20261002"]


def test_a_day_that_is_ours_is_kept_and_bears_the_time_that_it_is(tmp_path: Path, spool: Spool) -> None:
    archive, today = tmp_path / "root/archive", dt.datetime.now(dt.UTC).date()
    for day in ("19691231", "19700101", "19700102", "19700103"):
        (archive / day / "leader").mkdir(parents=True)
    long_ago(archive, 86_400)
    ours = (dt.date(1970, 1, 1), dt.date(1970, 1, 2))
    assert spool.archive_old(30, today, ours) == ["19691231", "19700103"]
    assert spool.archive_old(30, today) == ["19691231", "19700103"], "also for the next daemon"
    assert spool.archive_old(30, today + dt.timedelta(days=31)) == ["19691231", "19700101", "19700102", "19700103"]


def test_temporary_files_of_crashed_writers_are_swept_and_others_left(spool: Spool) -> None:
    place = put(spool, folder=Folder.PROCESSED)
    dead = subprocess.Popen(["true"])
    dead.wait()
    ours = spool.prepare_rewrite(place, b"x")
    (spool.receipt_path("x").parent / f".ack_1.json.{dead.pid}.0a1b2c3d").touch()
    spool.path(place).with_name(f".ackd-{dead.pid}-{'0' * 16}.tmp").touch()
    keep = spool.path(place).with_name(".gitkeep")
    keep.touch()
    now = time.time()
    assert spool.sweep_temps(60, now) == 0
    assert spool.sweep_temps(60, now + 86_400) == 2, "a clock set ahead takes nothing from a writer who lives"
    assert keep.exists()
    spool.commit_rewrite(ours)
    assert spool.read(place).data == b"x"


def test_what_a_killed_sender_left_is_swept_though_another_process_has_its_number(spool: Spool) -> None:
    """In a container the same few pids are always in use: pid 1 lives for ever."""
    place = put(spool)
    hidden = spool.path(place).with_name(".message_1.mime.1.0a1b2c3d")
    hidden.touch()
    ours = spool.path(place).with_name(f".message_1.mime.{os.getpid()}.0a1b2c3d")
    ours.touch()
    up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert spool.sweep_temps(3600, time.time() + 7200) == 0
    assert spool.sweep_temps(3600, time.time() + up_s + 90_000) == 2
    assert not hidden.exists()
    assert spool.path(place).exists()


def test_what_a_crash_left_aside_is_a_message_unless_it_has_another_name(tmp_path: Path, spool: Spool) -> None:
    """A kill in the middle of a move leaves such a file, if the file system has no renameat2."""
    moved, waiting = put(spool, folder=Folder.PROCESSED), put(spool, name="other.mime")
    spool.path(waiting).with_name(f"{ASIDE}1").hardlink_to(spool.path(moved))
    spool.path(waiting).rename(spool.path(waiting).with_name(f"{ASIDE}2"))
    assert spool.sweep_temps(60, time.time()) == 2
    assert {place for place, _ in spool.scan("leader")} == {moved, Place("leader", Folder.QUEUE, "2.mime")}
    assert list(tmp_path.rglob(".*")) == []


# --- what is nobody's -------------------------------------------------------------------------------------------------
def test_strangers_are_what_is_neither_a_box_nor_ours(tmp_path: Path, spool: Spool) -> None:
    (tmp_path / "root/queue/processed").mkdir()
    (tmp_path / "root/queue/lost.mime").touch()
    (tmp_path / "root/queue/linked").symlink_to("leader")
    (tmp_path / "root/queue/.hidden").touch()
    assert sorted(spool.strangers()) == ["linked", "lost.mime", "processed"]


def test_what_a_gateway_has_in_our_queue_is_neither_a_box_nor_a_stranger(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_message_bytes=4096, durable=False, reserved=RESERVED_NAMES | {"tasks"})
    spool.ensure_layout()
    (tmp_path / "queue/tasks").mkdir()
    (tmp_path / "queue/reports").mkdir()
    assert (list(spool.boxes()), spool.strangers()) == (["reports"], [])


def test_without_the_directory_there_are_no_dead_letters(tmp_path: Path, spool: Spool) -> None:
    (tmp_path / "root/queue/dead_letter").rmdir()
    assert dead_letters(spool) == []


def test_a_receipt_settles_like_any_file(spool: Spool) -> None:
    path = spool.receipt_path("done_1.json")
    path.touch()
    now = time.time()
    assert not spool.receipt_settled("done_1.json", now, 60)
    os.utime(path, (now - 100, now - 100))
    assert spool.receipt_settled("done_1.json", now, 60)
    with path.open("a"):
        assert not spool.receipt_settled("done_1.json", now, 60)
