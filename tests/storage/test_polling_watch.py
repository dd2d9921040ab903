"""Cases that concern only the polling watcher; the rest is in test_watch_conformance.py."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from ackd.core.message import Folder, Place
from ackd.core.ports import BoxAppeared, BoxGone, FileGone, FileReady
from ackd.storage import polling_watch
from ackd.storage.polling_watch import PollingWatcher
from ackd.system import syscalls
from ackd.system.threads import in_thread
from tests.storage.listening import DEADLINE_S, listening_to

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "receipts").mkdir()
    for box in ("leader", "coder"):
        (tmp_path / "queue" / box / "processed").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def leader(root: Path) -> Path:
    return root / "queue" / "leader"


@pytest.fixture
def watcher(root: Path) -> PollingWatcher:
    return PollingWatcher(root / "queue", root / "receipts", interval_s=0.01)


def move_away(box: Path) -> None:
    box.rename(box.parent.parent / "away")


def place(name: str) -> Place:
    return Place("leader", Folder.QUEUE, name)


async def test_no_file_is_claimed_to_be_closed(watcher: PollingWatcher, leader: Path) -> None:
    async with listening_to(watcher) as heard:
        (leader / ".draft").write_text("x")
        (leader / ".draft").rename(leader / "a.mime")
        await heard.of(FileReady(place("a.mime"), closed=False))
        assert FileReady(place("a.mime"), closed=True) not in heard


async def test_an_unchanged_file_is_reported_once(watcher: PollingWatcher, leader: Path) -> None:
    async with listening_to(watcher) as heard:
        (leader / ".draft").write_text("x")
        (leader / ".draft").rename(leader / "a.mime")
        await heard.of(FileReady(place("a.mime"), closed=False))
        looks = watcher.beats
        with anyio.fail_after(DEADLINE_S):
            while watcher.beats < looks + 3:
                await anyio.lowlevel.checkpoint()
        assert len(heard) == 1


async def test_a_file_that_grows_is_reported_for_as_long_as_it_does(watcher: PollingWatcher, leader: Path) -> None:
    async with listening_to(watcher) as heard:
        with (leader / "a.mime").open("w") as file:
            for size in range(1, 4):
                heard.clear()
                file.write("x" * size)
                file.flush()
                await heard.of(FileReady(place("a.mime"), closed=False))


async def test_a_rewrite_of_the_same_size_is_noticed(watcher: PollingWatcher, leader: Path) -> None:
    (leader / "a.mime").write_text("x")
    os.utime(leader / "a.mime", (1, 1))
    async with listening_to(watcher) as heard:
        (leader / "a.mime").write_text("y")
        await heard.of(FileReady(place("a.mime"), closed=False))


async def test_looks_happen_off_the_loop(watcher: PollingWatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    lookers: set[int] = set()
    take_picture = polling_watch._take_picture

    def noted(
        queue: str, receipts: str, before: polling_watch._Picture, reserved: frozenset[str]
    ) -> polling_watch._Picture:
        lookers.add(threading.get_ident())
        return take_picture(queue, receipts, before, reserved)

    monkeypatch.setattr(polling_watch, "_take_picture", noted)
    async with listening_to(watcher):
        assert lookers
        assert threading.get_ident() not in lookers


async def test_without_a_thread_for_the_first_look_it_is_not_ready_and_looks_again(
    watcher: PollingWatcher, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = 3

    async def short_of_threads(*args: Any, **how: Any) -> Any:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise OSError(errno.EAGAIN, "no thread could be started")
        return await in_thread(*args, **how)

    monkeypatch.setattr(polling_watch, "in_thread", short_of_threads)
    (leader / "before.mime").write_text("x")
    async with listening_to(watcher) as heard:
        assert refusals == 0
        assert watcher.beats >= 3  # it lives, says the watchdog
        (leader / "after.mime").write_text("x")
        await heard.of(FileReady(place("after.mime"), closed=False))
        assert heard.ready_places() == {place("after.mime")}  # the rest is the scan's, as always


async def test_a_look_is_given_up_when_the_watcher_is_cancelled(
    watcher: PollingWatcher, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand boxes on a slow disk must not hold up a stop."""
    looking, go_on, seen = threading.Event(), threading.Event(), []
    see_box = polling_watch._see_box

    def slow(path: str, before: polling_watch._SeenBox | None) -> polling_watch._SeenBox | None:
        seen.append(path)
        looking.set()
        assert go_on.wait(DEADLINE_S)
        return see_box(path, before)

    monkeypatch.setattr(polling_watch, "_see_box", slow)
    async with anyio.create_task_group() as group:
        group.start_soon(watcher.run, lambda _hint: None, lambda: None)
        await anyio.to_thread.run_sync(looking.wait, DEADLINE_S)
        group.cancel_scope.cancel()
        go_on.set()
    assert len(seen) == 1


async def test_without_statx_a_box_that_was_replaced_is_still_told_by_its_inode(
    watcher: PollingWatcher, root: Path, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscalls, "_libc_statx", lambda: None)
    (root / "other").mkdir()
    async with listening_to(watcher) as heard:
        move_away(leader)
        (root / "other").rename(leader)
        await heard.of(BoxGone("leader"), BoxAppeared("leader"))


def test_a_box_swapped_while_it_is_read_counts_as_gone_until_the_next_look(
    root: Path, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise files of the one directory would be missed in the other, and taken for completed."""
    (leader / "a.mime").write_text("x")
    (root / "other").mkdir()
    before = polling_watch._see_box(str(leader), None)
    marks = polling_watch._marks

    def swap_first(directory: str, but_not: str | None = None) -> polling_watch.Marks:
        leader.rename(root / "away")
        (root / "other").rename(leader)
        monkeypatch.setattr(polling_watch, "_marks", marks)
        return marks(directory, but_not)

    monkeypatch.setattr(polling_watch, "_marks", swap_first)
    assert polling_watch._see_box(str(leader), before) is None
    successor = polling_watch._see_box(str(leader), None)
    assert successor is not None
    assert successor.files == {}


async def test_a_lost_box_does_not_report_its_files_as_deleted(watcher: PollingWatcher, leader: Path) -> None:
    (leader / "processed" / "a.mime").write_text("x")
    async with listening_to(watcher) as heard:
        move_away(leader)
        await heard.of(BoxGone("leader"))
        assert not [hint for hint in heard if isinstance(hint, FileGone)]


def test_the_interval_of_the_design_is_the_default(root: Path) -> None:
    assert PollingWatcher(root / "queue", root / "receipts").interval_s == 2.0
