"""Things that every ``ports.Watcher`` must notice, tested with all of them.

A watcher only gives hints, so the tests ask that each thing is said at least once, and that what must never be said
is not: for the latter something else is written afterwards, and nothing may have been heard by the time it is.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.core.message import RESERVED_NAMES, Folder, Place
from ackd.core.ports import BoxAppeared, BoxGone, FileReady, ReceiptReady, WatchFailed
from ackd.storage.inotify_watch import InotifyWatcher, tree
from ackd.storage.polling_watch import PollingWatcher
from tests.storage.listening import DEADLINE_S, BeatingWatcher, Heard, listening_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Spool:
    """A root with two boxes, ``leader`` and ``coder``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.queue = root / "queue"
        self.receipts = root / "receipts"
        self.make()

    def make(self) -> None:
        self.receipts.mkdir(parents=True)
        for box in ("leader", "coder"):
            self.make_box(box)

    def make_box(self, box: str) -> Path:
        (self.queue / box / "processed").mkdir(parents=True)
        return self.queue / box


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "root")


def _polling(queue_dir: Path, receipts_dir: Path) -> BeatingWatcher:
    return PollingWatcher(queue_dir, receipts_dir, interval_s=0.02)


@pytest.fixture(params=[InotifyWatcher, _polling], ids=["inotify", "polling"])
def make_watcher(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path, Path], BeatingWatcher]:
    # The heartbeat would make good for a missed event before a test gives up: here events must do.
    monkeypatch.setattr(tree, "HEARTBEAT_S", 600.0)
    made: Callable[[Path, Path], BeatingWatcher] = request.param
    return made


@pytest.fixture
def watcher(make_watcher: Callable[[Path, Path], BeatingWatcher], spool: Spool) -> BeatingWatcher:
    return make_watcher(spool.queue, spool.receipts)


def waiting(name: str, box: str = "leader") -> Place:
    return Place(box, Folder.QUEUE, name)


def claimed(name: str, box: str = "leader") -> Place:
    return Place(box, Folder.PROCESSED, name)


async def test_a_directory_that_is_reserved_is_no_box(spool: Spool, make_watcher: object) -> None:
    reserved = RESERVED_NAMES | {"tasks", "reports"}
    watcher: BeatingWatcher = InotifyWatcher(spool.queue, spool.receipts, reserved)
    if make_watcher is _polling:
        watcher = PollingWatcher(spool.queue, spool.receipts, 0.02, reserved)
    (spool.queue / "tasks").mkdir()
    async with listening_to(watcher) as heard:
        (spool.queue / "tasks/a.mime").write_text("x")
        (spool.queue / "reports").mkdir()
        (spool.queue / "leader/a.mime").write_text("x")
        await heard.ready(waiting("a.mime"))
        assert heard.ready_places() == {waiting("a.mime")}
        assert not [hint for hint in heard if hint in (BoxAppeared("tasks"), BoxAppeared("reports"))]


# --- files ------------------------------------------------------------------------------------------------------------
async def test_a_file_written_in_place_is_reported(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        (spool.queue / "leader" / "a.mime").write_text("x")
        await heard.ready(waiting("a.mime"))


async def test_a_file_renamed_in_is_reported_by_its_last_name_only(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        draft = spool.queue / "leader" / ".a.tmp"
        draft.write_text("x")
        draft.rename(spool.queue / "leader" / "a.mime")
        await heard.ready(waiting("a.mime"))
        assert heard.ready_places() == {waiting("a.mime")}


async def test_a_file_that_is_replaced_by_a_rename_is_reported_again(watcher: BeatingWatcher, spool: Spool) -> None:
    path = spool.queue / "leader" / "processed" / "a.mime"
    path.write_text("x")
    async with listening_to(watcher) as heard:
        (path.parent / ".new").write_text("y")
        (path.parent / ".new").rename(path)
        await heard.ready(claimed("a.mime"))


async def test_a_file_that_is_rewritten_in_place_is_reported_again(watcher: BeatingWatcher, spool: Spool) -> None:
    path = spool.queue / "leader" / "a.mime"
    path.write_text("x")
    async with listening_to(watcher) as heard:
        path.write_text("longer")
        await heard.ready(waiting("a.mime"))


async def test_a_file_hard_linked_in_is_reported(watcher: BeatingWatcher, spool: Spool) -> None:
    (spool.root / "draft").write_text("x")
    async with listening_to(watcher) as heard:
        os.link(spool.root / "draft", spool.queue / "leader" / "a.mime")
        await heard.ready(waiting("a.mime"))


async def test_a_file_linked_in_and_unlinked_elsewhere_is_reported(watcher: BeatingWatcher, spool: Spool) -> None:
    """Maildir's way: when anyone looks, there is one link left, and no close ever comes."""
    (spool.root / "draft").write_text("x")
    async with listening_to(watcher) as heard:
        os.link(spool.root / "draft", spool.queue / "leader" / "a.mime")
        (spool.root / "draft").unlink()
        await heard.ready(waiting("a.mime"))


async def test_an_unnamed_file_that_is_given_a_name_is_reported(watcher: BeatingWatcher, spool: Spool) -> None:
    """A file made by O_TMPFILE and linkat is closed before it has a name."""
    leader = spool.queue / "leader"
    async with listening_to(watcher) as heard:
        fd = os.open(leader, os.O_TMPFILE | os.O_WRONLY, 0o600)
        os.write(fd, b"x")
        os.link(f"/proc/self/fd/{fd}", leader / "a.mime", src_dir_fd=fd, follow_symlinks=True)
        os.close(fd)
        await heard.ready(waiting("a.mime"))
        assert heard.ready_places() == {waiting("a.mime")}


async def test_a_deleted_file_is_reported_gone(watcher: BeatingWatcher, spool: Spool) -> None:
    path = spool.queue / "leader" / "a.mime"
    path.write_text("x")
    async with listening_to(watcher) as heard:
        path.unlink()
        await heard.gone(waiting("a.mime"))


async def test_a_claim_is_gone_here_and_ready_there(watcher: BeatingWatcher, spool: Spool) -> None:
    path = spool.queue / "leader" / "a.mime"
    path.write_text("x")
    async with listening_to(watcher) as heard:
        path.rename(spool.queue / "leader" / "processed" / "a.mime")
        await heard.gone(waiting("a.mime"))
        await heard.ready(claimed("a.mime"))


async def test_a_deletion_in_processed_is_reported(watcher: BeatingWatcher, spool: Spool) -> None:
    path = spool.queue / "leader" / "processed" / "a.mime"
    path.write_text("x")
    async with listening_to(watcher) as heard:
        path.unlink()
        await heard.gone(claimed("a.mime"))


async def test_what_was_there_before_is_left_to_the_scan(watcher: BeatingWatcher, spool: Spool) -> None:
    (spool.queue / "leader" / "old.mime").write_text("x")
    (spool.queue / "leader" / "processed" / "old.mime").write_text("x")
    (spool.receipts / "old.json").write_text("{}")
    async with listening_to(watcher) as heard:
        (spool.queue / "leader" / "new.mime").write_text("x")
        await heard.ready(waiting("new.mime"))
        assert heard.ready_places() == {waiting("new.mime")}
        assert not [hint for hint in heard if isinstance(hint, BoxAppeared | BoxGone | ReceiptReady)]


async def test_dot_names_are_ignored(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        for directory in (spool.queue / "leader", spool.queue / "leader" / "processed", spool.receipts):
            (directory / ".hidden").write_text("x")
            (directory / ".hidden").rename(directory / ".still")
            (directory / ".folder").mkdir()
            (directory / ".link").symlink_to("nowhere")
        (spool.queue / "leader" / ".hidden").write_text("x")
        (spool.queue / "leader" / ".hidden").unlink()
        (spool.queue / ".box").mkdir()
        (spool.queue / ".box" / "a.mime").write_text("x")
        (spool.queue / "leader" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime"))
        assert {type(hint) for hint in heard} == {FileReady}
        assert heard.ready_places() == {waiting("end.mime")}


async def test_what_is_no_regular_file_is_reported_too(watcher: BeatingWatcher, spool: Spool) -> None:
    """Such a file must be reported so that it can be quarantined."""
    leader = spool.queue / "leader"
    async with listening_to(watcher) as heard, contextlib.AsyncExitStack() as cleaning:
        (leader / "folder.mime").mkdir()
        (leader / "link.mime").symlink_to("/dev/zero")
        os.mkfifo(leader / "fifo.mime")
        listener = cleaning.enter_context(socket.socket(socket.AF_UNIX))
        with contextlib.chdir(leader):  # the path would be too long for a socket's address
            listener.bind("socket.mime")
        (leader / "processed" / "processed").mkdir()
        for name in ("folder.mime", "link.mime", "fifo.mime", "socket.mime"):
            await heard.ready(waiting(name))
        await heard.ready(claimed("processed"))


async def test_names_without_the_suffix_are_for_the_reader_to_judge(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        (spool.queue / "leader" / "README").write_text("x")
        await heard.ready(waiting("README"))


@pytest.mark.parametrize(
    "raw",
    [
        "gr\u00fc\u00dfe \U0001f41d.mime".encode(),
        b"two words.mime",
        b"line\nbreak.mime",
        b"tab\tand\x01control.mime",
        b"latin-\xfc.mime",
        b"\xff\xfe.mime",
        b"-rf.mime",
        b"x" * 250 + b".mime",
    ],
)
async def test_odd_names_are_reported_as_they_are(watcher: BeatingWatcher, spool: Spool, raw: bytes) -> None:
    async with listening_to(watcher) as heard:
        for directory in (spool.queue / "leader", spool.receipts):
            fd = os.open(os.fsencode(directory) + b"/" + raw, os.O_CREAT | os.O_WRONLY, 0o600)
            os.close(fd)
        await heard.ready(waiting(os.fsdecode(raw)))
        await heard.of(ReceiptReady(os.fsdecode(raw)))
        (spool.queue / "leader" / os.fsdecode(raw)).unlink()
        await heard.gone(waiting(os.fsdecode(raw)))


async def test_a_burst_of_ten_thousand_files_is_reported_to_the_last(watcher: BeatingWatcher, spool: Spool) -> None:
    expected = {waiting(f"{number:05}.mime") for number in range(10_000)}
    async with listening_to(watcher) as heard:
        for place in expected:
            os.close(os.open(spool.queue / "leader" / place.name, os.O_CREAT | os.O_WRONLY, 0o600))
            if place.name.endswith("99.mime"):
                await anyio.lowlevel.checkpoint()
        await heard.until(lambda: len(heard) >= 10_000 and heard.ready_places() == expected)


# --- receipts ---------------------------------------------------------------------------------------------------------
async def test_receipts_are_reported(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        (spool.receipts / "in_place.json").write_text("{}")
        (spool.receipts / ".draft").write_text("{}")
        os.link(spool.receipts / ".draft", spool.receipts / "linked.json")
        (spool.receipts / ".draft").rename(spool.receipts / "renamed.json")
        await heard.of(ReceiptReady("in_place.json"), ReceiptReady("linked.json"), ReceiptReady("renamed.json"))


async def test_receipts_made_again_are_watched_again(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        (spool.receipts / "first.json").write_text("{}")
        await heard.of(ReceiptReady("first.json"))
        shutil.rmtree(spool.receipts)
        spool.receipts.mkdir()
        (spool.receipts / "at_once.json").write_text("{}")
        await heard.of(ReceiptReady("at_once.json"))
        (spool.receipts / "later.json").write_text("{}")
        await heard.of(ReceiptReady("later.json"))


async def test_a_receipt_consumed_is_no_news(watcher: BeatingWatcher, spool: Spool) -> None:
    (spool.receipts / "a.json").write_text("{}")
    async with listening_to(watcher) as heard:
        (spool.receipts / "a.json").unlink()
        (spool.receipts / "b.json").write_text("{}")
        await heard.of(ReceiptReady("b.json"))
        assert set(heard) == {ReceiptReady("b.json")}


# --- boxes that come and go -------------------------------------------------------------------------------------------
async def test_a_new_box_is_reported_and_then_watched(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        box = spool.make_box("tester")
        await heard.of(BoxAppeared("tester"))
        (box / "a.mime").write_text("x")
        (box / "processed" / "b.mime").write_text("x")
        await heard.ready(waiting("a.mime", "tester"))
        await heard.ready(claimed("b.mime", "tester"))


async def test_events_without_a_rescan_orphan_what_arrived_before_the_watch_was_set(
    watcher: BeatingWatcher, spool: Spool
) -> None:
    """[cli-agent-orchestrator #131]"""
    async with listening_to(watcher) as heard:
        box = spool.make_box("tester")
        (box / "a.mime").write_text("x")
        (box / "processed" / "b.mime").write_text("x")
        await heard.of(BoxAppeared("tester"))
        await heard.ready(waiting("a.mime", "tester"))
        await heard.ready(claimed("b.mime", "tester"))
        assert heard.ready_places() == {waiting("a.mime", "tester"), claimed("b.mime", "tester")}


async def test_a_box_moved_in_whole_is_reported_with_its_files(watcher: BeatingWatcher, spool: Spool) -> None:
    ready_made = spool.root / "elsewhere"
    (ready_made / "processed").mkdir(parents=True)
    (ready_made / "a.mime").write_text("x")
    (ready_made / "processed" / "b.mime").write_text("x")
    async with listening_to(watcher) as heard:
        ready_made.rename(spool.queue / "tester")
        await heard.of(BoxAppeared("tester"))
        await heard.ready(waiting("a.mime", "tester"))
        await heard.ready(claimed("b.mime", "tester"))


async def test_a_processed_that_is_made_later_is_watched(watcher: BeatingWatcher, spool: Spool) -> None:
    (spool.queue / "tester").mkdir()
    async with listening_to(watcher) as heard:
        processed = spool.queue / "tester" / "processed"
        processed.mkdir()
        (processed / "at_once.mime").write_text("x")
        await heard.ready(claimed("at_once.mime", "tester"))
        (processed / "later.mime").write_text("x")
        await heard.ready(claimed("later.mime", "tester"))
        (processed / "later.mime").unlink()
        await heard.gone(claimed("later.mime", "tester"))
        assert waiting("processed", "tester") not in heard.ready_places()
        assert BoxGone("tester") not in heard


async def test_a_processed_that_is_lost_is_a_box_lost(watcher: BeatingWatcher, spool: Spool) -> None:
    """Otherwise its files would seem to be deleted by their agent, which would complete them."""
    (spool.queue / "leader" / "a.mime").write_text("x")
    processed = spool.queue / "leader" / "processed"
    async with listening_to(watcher) as heard:
        processed.rename(spool.root / "aside")
        await heard.of(BoxGone("leader"), BoxAppeared("leader"))
        await heard.ready(waiting("a.mime"))
        (spool.root / "aside" / "astray.mime").write_text("x")
        (spool.root / "aside").rename(processed)
        await heard.ready(claimed("astray.mime"))
        (processed / "later.mime").write_text("x")
        await heard.ready(claimed("later.mime"))


async def test_a_box_deleted_is_gone_and_made_again_is_watched_again(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        for round_ in range(3):
            heard.clear()
            shutil.rmtree(spool.queue / "leader")
            await heard.of(BoxGone("leader"))
            box = spool.make_box("leader")
            await heard.of(BoxAppeared("leader"))
            (box / f"{round_}.mime").write_text("x")
            await heard.ready(waiting(f"{round_}.mime"))


async def test_a_box_deleted_and_made_again_at_once_is_both(watcher: BeatingWatcher, spool: Spool) -> None:
    """The new directory often has the old one's inode number, and the loop has seen nothing of it in between."""
    async with listening_to(watcher) as heard:
        shutil.rmtree(spool.queue / "leader")
        box = spool.make_box("leader")
        (box / "a.mime").write_text("x")
        await heard.of(BoxGone("leader"), BoxAppeared("leader"))
        assert heard.index(BoxGone("leader")) < heard.index(BoxAppeared("leader"))
        await heard.ready(waiting("a.mime"))
        (box / "processed" / "b.mime").write_text("x")
        await heard.ready(claimed("b.mime"))


async def test_a_box_moved_away_is_gone_and_what_happens_in_it_is_not_ours(
    watcher: BeatingWatcher, spool: Spool
) -> None:
    away = spool.root / "away"
    async with listening_to(watcher) as heard:
        (spool.queue / "leader").rename(away)
        (away / "astray.mime").write_text("x")
        await heard.of(BoxGone("leader"))
        (away / "processed" / "astray.mime").write_text("x")
        (away / "astray.mime").unlink()
        (spool.queue / "coder" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime", "coder"))
        assert heard.ready_places() == {waiting("end.mime", "coder")}
        away.rename(spool.queue / "leader")
        await heard.of(BoxAppeared("leader"))
        await heard.ready(claimed("astray.mime"))
        (spool.queue / "leader" / "home.mime").write_text("x")
        await heard.ready(waiting("home.mime"))


async def test_a_box_replaced_by_another_directory_is_gone_and_there(watcher: BeatingWatcher, spool: Spool) -> None:
    other = spool.root / "other"
    other.mkdir()
    (other / "a.mime").write_text("x")
    async with listening_to(watcher) as heard:
        (spool.queue / "leader").rename(spool.root / "away")
        other.rename(spool.queue / "leader")
        await heard.of(BoxGone("leader"), BoxAppeared("leader"))
        assert heard.index(BoxGone("leader")) < heard.index(BoxAppeared("leader"))
        await heard.ready(waiting("a.mime"))


async def test_a_box_renamed_to_another_name_speaks_under_it(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        (spool.queue / "leader").rename(spool.queue / "chief")
        await heard.of(BoxGone("leader"), BoxAppeared("chief"))
        (spool.queue / "chief" / "a.mime").write_text("x")
        await heard.ready(waiting("a.mime", "chief"))
        assert heard.ready_places() == {waiting("a.mime", "chief")}


async def test_two_boxes_that_swap_names_are_told_apart(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        (spool.queue / "leader").rename(spool.root / "spare")
        (spool.queue / "coder").rename(spool.queue / "leader")
        (spool.root / "spare").rename(spool.queue / "coder")
        await heard.of(BoxGone("leader"), BoxGone("coder"), BoxAppeared("leader"), BoxAppeared("coder"))
        heard.clear()
        (spool.queue / "leader" / "l.mime").write_text("x")
        (spool.queue / "coder" / "c.mime").write_text("x")
        await heard.ready(waiting("l.mime", "leader"))
        await heard.ready(waiting("c.mime", "coder"))
        assert heard.ready_places() == {waiting("l.mime", "leader"), waiting("c.mime", "coder")}


# --- what is no box ---------------------------------------------------------------------------------------------------
async def test_our_own_directories_and_bad_names_are_ignored(watcher: BeatingWatcher, spool: Spool) -> None:
    (spool.queue / "dead_letter").mkdir()
    async with listening_to(watcher) as heard:
        names = ("corrupt", "processed", "two words", "-dash", "line\nbreak", "x" * 65, os.fsdecode(b"\xff"))
        for name in names:
            (spool.queue / name).mkdir()
        for name in ("dead_letter", *names):
            (spool.queue / name / "a.mime").write_text("x")
        (spool.queue / "leader" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime"))
        assert {type(hint) for hint in heard} == {FileReady}
        assert heard.ready_places() == {waiting("end.mime")}


async def test_a_symlink_or_a_file_is_no_box(watcher: BeatingWatcher, spool: Spool) -> None:
    outside = spool.root / "outside"
    outside.mkdir()
    (spool.queue / "early").symlink_to(outside)
    async with listening_to(watcher) as heard:
        (spool.queue / "late").symlink_to(outside)
        (spool.queue / "file").write_text("x")
        (outside / "a.mime").write_text("x")
        (spool.queue / "leader" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime"))
        assert {type(hint) for hint in heard} == {FileReady}
        assert heard.ready_places() == {waiting("end.mime")}


async def test_a_symlink_named_processed_is_a_file_and_not_followed(watcher: BeatingWatcher, spool: Spool) -> None:
    outside = spool.root / "outside"
    outside.mkdir()
    (spool.queue / "tester").mkdir()
    async with listening_to(watcher) as heard:
        (spool.queue / "tester" / "processed").symlink_to(outside)
        await heard.ready(waiting("processed", "tester"))
        (outside / "a.mime").write_text("x")
        (spool.queue / "tester" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime", "tester"))
        assert claimed("a.mime", "tester") not in heard.ready_places()


# --- the whole spool --------------------------------------------------------------------------------------------------
async def _see_everything_again(heard: Heard, spool: Spool) -> None:
    await heard.of(BoxAppeared("leader"), BoxAppeared("coder"))
    (spool.queue / "leader" / "a.mime").write_text("x")
    (spool.queue / "coder" / "processed" / "b.mime").write_text("x")
    (spool.receipts / "c.json").write_text("{}")
    await heard.ready(waiting("a.mime"))
    await heard.ready(claimed("b.mime", "coder"))
    await heard.of(ReceiptReady("c.json"))
    spool.make_box("newcomer")
    await heard.of(BoxAppeared("newcomer"))


async def test_queue_removed_and_made_again(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        shutil.rmtree(spool.queue)
        await heard.of(BoxGone("leader"), BoxGone("coder"))
        spool.make_box("leader")
        spool.make_box("coder")
        await _see_everything_again(heard, spool)


async def test_queue_removed_while_someone_still_stands_in_it(watcher: BeatingWatcher, spool: Spool) -> None:
    """A directory that is held open is deleted in name only, and the kernel keeps quiet about the rest."""
    held = os.open(spool.queue, os.O_RDONLY)
    try:
        async with listening_to(watcher) as heard:
            shutil.rmtree(spool.queue)
            spool.make_box("leader")
            spool.make_box("coder")
            await heard.of(BoxGone("leader"), BoxGone("coder"))
            await _see_everything_again(heard, spool)
    finally:
        os.close(held)


async def test_the_whole_root_removed_and_made_again(watcher: BeatingWatcher, spool: Spool) -> None:
    """`git clean -fdx` does that."""
    async with listening_to(watcher) as heard:
        shutil.rmtree(spool.root)
        await heard.of(BoxGone("leader"), BoxGone("coder"))
        spool.make()
        await _see_everything_again(heard, spool)


async def test_the_whole_root_replaced_at_once(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        shutil.rmtree(spool.root)
        spool.make()
        await heard.of(BoxGone("leader"), BoxGone("coder"))
        await _see_everything_again(heard, spool)


async def test_queue_moved_away_and_back(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        spool.queue.rename(spool.root / "old")
        await heard.of(BoxGone("leader"), BoxGone("coder"))
        (spool.root / "old" / "leader" / "astray.mime").write_text("x")
        (spool.root / "old").rename(spool.queue)
        await heard.ready(waiting("astray.mime"))
        await _see_everything_again(heard, spool)


async def test_the_root_moved_away_and_made_anew(watcher: BeatingWatcher, spool: Spool) -> None:
    old = spool.root.with_name("old")
    async with listening_to(watcher) as heard:
        spool.root.rename(old)
        await heard.of(BoxGone("leader"), BoxGone("coder"))
        spool.make()
        await _see_everything_again(heard, spool)
        heard.clear()
        (old / "queue" / "leader" / "astray.mime").write_text("x")
        (old / "receipts" / "astray.json").write_text("{}")
        (spool.queue / "leader" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime"))
        assert waiting("astray.mime") not in heard.ready_places()
        assert ReceiptReady("astray.json") not in heard


async def test_a_spool_that_does_not_exist_yet_is_waited_for(watcher: BeatingWatcher, spool: Spool) -> None:
    shutil.rmtree(spool.root)
    async with listening_to(watcher) as heard:
        spool.make()
        await _see_everything_again(heard, spool)


# --- itself -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def nobodys_spool() -> Iterator[Spool]:
    """A spool for the user nobody, outside root's own directories, because permissions do not stop root."""
    as_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as above:
        if as_root:
            os.chown(above, 65534, 65534)
            os.seteuid(65534)
        try:
            yield Spool(Path(above) / "root")
        finally:
            if as_root:
                os.seteuid(0)


async def test_a_box_that_may_not_be_read_does_not_stop_the_others(
    make_watcher: Callable[[Path, Path], BeatingWatcher], nobodys_spool: Spool
) -> None:
    queue = nobodys_spool.queue
    (queue / "coder").chmod(0)
    async with listening_to(make_watcher(queue, nobodys_spool.receipts)) as heard:
        (queue / "tester").mkdir(mode=0)
        (queue / "leader" / "a.mime").write_text("x")
        await heard.ready(waiting("a.mime"))
        for shut in ("coder", "tester"):
            (queue / shut).chmod(0o700)
            (queue / shut / "b.mime").write_text("x")
            await heard.of(BoxAppeared(shut))
            await heard.ready(waiting("b.mime", shut))
        assert not [hint for hint in heard if isinstance(hint, BoxGone | WatchFailed)]


async def test_a_box_that_can_no_longer_be_read_is_not_taken_for_gone(
    make_watcher: Callable[[Path, Path], BeatingWatcher], nobodys_spool: Spool
) -> None:
    queue = nobodys_spool.queue
    (queue / "coder" / "processed" / "a.mime").write_text("x")
    async with listening_to(make_watcher(queue, nobodys_spool.receipts)) as heard:
        (queue / "coder").chmod(0)
        for name in ("first.mime", "second.mime"):  # a whole look lies between them
            (queue / "leader" / name).write_text("x")
            await heard.ready(waiting(name))
        (queue / "coder").chmod(0o700)
        (queue / "coder" / "end.mime").write_text("x")
        await heard.ready(waiting("end.mime", "coder"))
        assert {type(hint) for hint in heard} == {FileReady}
        assert claimed("a.mime", "coder") not in heard.ready_places()


async def test_a_large_box_does_not_hold_up_the_loop(watcher: BeatingWatcher, spool: Spool) -> None:
    large = spool.root / "large"
    large.mkdir()
    for number in range(5_000):
        os.close(os.open(large / f"{number:04}.mime", os.O_CREAT | os.O_WRONLY, 0o600))
    turns = 0
    async with listening_to(watcher) as heard, anyio.create_task_group() as group:

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        group.start_soon(take_turns)
        large.rename(spool.queue / "tester")
        await heard.of(BoxAppeared("tester"))
        before = turns
        await heard.until(lambda: len(heard) > 5_000)
        assert turns - before >= 8
        group.cancel_scope.cancel()


async def test_cancellation_leaves_no_descriptor_and_the_watcher_can_run_again(
    watcher: BeatingWatcher, spool: Spool
) -> None:
    async with listening_to(watcher):
        pass  # the first run makes what the loop and its threads keep
    gc.collect()  # what other tests left behind
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - pathlib would resolve them
    for name in ("a", "b"):
        async with listening_to(watcher) as heard:
            (spool.queue / "leader" / name).write_text("x")
            await heard.ready(waiting(name))
            spool.make_box(f"new-{name}")  # cancelled with a listing perhaps half done
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_beats_only_grow(watcher: BeatingWatcher, spool: Spool) -> None:
    async with listening_to(watcher) as heard:
        last = watcher.beats
        for number in range(3):
            (spool.queue / "leader" / f"{number}.mime").write_text("x")
            await heard.ready(waiting(f"{number}.mime"))
            with anyio.fail_after(DEADLINE_S):
                while watcher.beats == last:
                    await anyio.lowlevel.checkpoint()
            assert watcher.beats > last
            last = watcher.beats
