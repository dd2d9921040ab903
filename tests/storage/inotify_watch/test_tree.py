"""Events of directories, and the hints that they lead to. The rest, which every watcher must notice, is in
test_watch_conformance.py.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from ackd.core.message import Folder, Place
from ackd.core.ports import BoxAppeared, BoxGone, FileGone, FileReady, HintsLost, ReceiptReady
from ackd.storage.inotify_watch import InotifyWatcher, tree
from tests.faults.mounts import mounted, needs_root
from tests.storage.inotify_watch.bench import can_overflow, hint, overflow
from tests.storage.listening import listening_to

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_create_and_modify_both_notify_two_nudges_for_one_write(watcher: InotifyWatcher, leader: Path) -> None:
    """[Ensemble] One write is one hint, however many pieces it is written in; two writes are two."""
    async with listening_to(watcher) as heard:
        for name in ("a.mime", "b.mime", "a.mime"):
            with (leader / name).open("w") as file:
                for piece in range(5):
                    file.write(f"{piece}\n")
                    file.flush()
        (leader / "end.mime").write_text("x")
        await heard.of(hint("end.mime", closed=True))
        assert heard == [hint(name, closed=True) for name in ("a.mime", "b.mime", "a.mime", "end.mime")]


async def test_a_file_is_not_reported_while_its_writer_writes(
    watcher: InotifyWatcher, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "CLOSE_GRACE_S", 600.0)
    async with listening_to(watcher) as heard:
        with (leader / "slow.mime").open("w") as file:
            file.write("half")
            file.flush()
            (leader / "quick.mime").write_text("x")
            await heard.of(hint("quick.mime", closed=True))
            assert heard == [hint("quick.mime", closed=True)]
        await heard.of(hint("slow.mime", closed=True))
        assert len(heard) == 2


async def test_a_writer_that_takes_long_is_reported_as_unsettled_once_and_then_as_closed(
    watcher: InotifyWatcher, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "CLOSE_GRACE_S", 0.01)
    async with listening_to(watcher) as heard:
        with (leader / "slow.mime").open("w") as file:
            file.write("half")
            await heard.of(hint("slow.mime", closed=False))
        await heard.of(hint("slow.mime", closed=True))
        assert heard == [hint("slow.mime", closed=False), hint("slow.mime", closed=True)]


async def test_a_file_deleted_before_it_was_closed_is_never_ready(watcher: InotifyWatcher, leader: Path) -> None:
    async with listening_to(watcher) as heard:
        with (leader / "brief.mime").open("w") as file:
            (leader / "brief.mime").unlink()
            file.write("to nobody")
        (leader / "end.mime").write_text("x")
        await heard.of(hint("end.mime", closed=True))
        assert not [said for said in heard if isinstance(said, FileReady) and said.place.name == "brief.mime"]


async def test_renamed_in_is_closed_and_linked_in_is_not_known_to_be(watcher: InotifyWatcher, leader: Path) -> None:
    async with listening_to(watcher) as heard:
        (leader / ".draft").write_text("x")
        os.link(leader / ".draft", leader / "linked.mime")
        (leader / ".draft").rename(leader / "renamed.mime")
        await heard.of(hint("linked.mime", closed=False), hint("renamed.mime", closed=True))
        assert len(heard) == 2


async def test_a_move_of_our_own_is_no_news_and_whatever_else_happens_under_its_name_is(
    watcher: InotifyWatcher, leader: Path
) -> None:
    queued, claimed = Place("leader", Folder.QUEUE, "a.mime"), Place("leader", Folder.PROCESSED, "a.mime")
    processed = leader / "processed"
    processed.mkdir(exist_ok=True)
    (leader / "a.mime").write_text("x")
    async with listening_to(watcher) as heard:
        (leader / "a.mime").rename(processed / "a.mime")
        watcher.own_move(queued, claimed)
        (leader / "b.mime").write_text("x")
        await heard.of(hint("b.mime", closed=True))
        assert heard == [hint("b.mime", closed=True)]

        (leader / ".c").write_text("x")
        (leader / ".c").rename(leader / "a.mime")  # another message of that name, before our claim of it …
        (leader / "a.mime").rename(leader / ".c")
        (leader / ".c").rename(leader / "a.mime")
        (processed / "a.mime").unlink()
        (leader / "a.mime").rename(processed / "a.mime")
        watcher.own_move(queued, claimed)
        (leader / ".d").write_text("x")
        (leader / ".d").rename(leader / "a.mime")  # … and one after it, all of it before anything is read
        await heard.until(lambda: len(heard) >= 6)
        ready, gone = hint("a.mime", closed=True), FileGone(queued)
        assert heard[1:] == [ready, ready, FileGone(claimed), gone, ready]


async def test_a_move_of_our_own_that_nobody_hears_of_hides_nothing_later(
    watcher: InotifyWatcher, leader: Path
) -> None:
    queued = Place("leader", Folder.QUEUE, "a.mime")
    (leader / "a.mime").write_text("x")
    async with listening_to(watcher) as heard:
        watcher.own_move(queued, Place("leader", Folder.ARCHIVE, "20261116/a.mime"))
        (leader / "b.mime").write_text("x")
        await heard.of(hint("b.mime", closed=True))
        (leader / "a.mime").rename(leader / ".away")
        await heard.gone(queued)
        assert list(heard).count(FileGone(queued)) == 1


async def test_a_directory_further_up_that_is_renamed_is_noticed_by_the_heartbeat(
    watcher: InotifyWatcher, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "HEARTBEAT_S", 0.01)
    async with listening_to(watcher) as heard:
        root.parent.rename(root.parent.with_name("renamed"))
        await heard.of(BoxGone("leader"), BoxGone("coder"))


@needs_root
async def test_what_is_mounted_over_a_box_is_noticed_by_the_heartbeat_and_watched(
    watcher: InotifyWatcher, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount causes no event. There are more boxes than a heartbeat looks at, and each has its turn all the same."""
    monkeypatch.setattr(tree, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(tree, "_BOXES_A_BEAT", 1)
    async with listening_to(watcher) as heard:
        with mounted(leader):
            await heard.of(BoxGone("leader"), BoxAppeared("leader"))
            (leader / "a.mime").write_text("x")
            await heard.of(hint("a.mime", closed=True))
            (leader / "a.mime").unlink()


@can_overflow
async def test_in_q_overflow_ignored_nine_hours_of_outage(watcher: InotifyWatcher, root: Path, leader: Path) -> None:
    """[Lobster #1518] Directories that came and went unheard during an overflow are noticed, and watched."""
    async with listening_to(watcher) as heard:
        overflow(leader)
        (root / "queue" / "tester").mkdir()
        (root / "queue" / "tester" / "early.mime").write_text("x")
        shutil.rmtree(root / "queue" / "coder")
        shutil.rmtree(root / "receipts")
        (root / "receipts").mkdir()
        (leader / "processed").rename(root / "aside")
        await heard.of(HintsLost(), BoxAppeared("tester"), BoxGone("coder"), BoxGone("leader"), BoxAppeared("leader"))
        await heard.of(hint("early.mime", closed=False, box="tester"))
        (root / "queue" / "tester" / "late.mime").write_text("x")
        (root / "receipts" / "late.json").write_text("{}")
        await heard.of(hint("late.mime", closed=True, box="tester"), ReceiptReady("late.json"))
