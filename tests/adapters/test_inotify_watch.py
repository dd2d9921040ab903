"""What only inotify can do or suffer; the rest is in test_watch_conformance.py."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.adapters import inotify_watch
from ackd.adapters.inotify_watch import InotifyWatcher
from ackd.core.message import Folder, Place
from ackd.ports import BoxAppeared, BoxGone, FileReady, Hint, HintsLost, ReceiptReady, WatchFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

DEADLINE_S = 20.0
MAX_QUEUED_EVENTS = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


class Heard(list[Hint]):
    def __init__(self) -> None:
        super().__init__()
        self._more = anyio.Event()

    def post(self, hint: Hint) -> None:
        self.append(hint)
        self._more.set()

    async def until(self, happened: Callable[[], bool]) -> None:
        with anyio.move_on_after(DEADLINE_S):
            while not happened():
                self._more = anyio.Event()
                await self._more.wait()
        assert happened(), f"not heard; the last that was: {self[-20:]}"

    async def of(self, *expected: Hint) -> None:
        await self.until(lambda: set(expected) <= set(self))


@contextlib.asynccontextmanager
async def listening_to(watcher: InotifyWatcher) -> AsyncIterator[Heard]:
    heard = Heard()
    ready = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(watcher.run, heard.post, ready.set)
        with anyio.fail_after(DEADLINE_S):
            await ready.wait()
        yield heard
        group.cancel_scope.cancel()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "root"
    (made / "receipts").mkdir(parents=True)
    for box in ("leader", "coder"):
        (made / "queue" / box / "processed").mkdir(parents=True)
    return made


@pytest.fixture
def leader(root: Path) -> Path:
    return root / "queue" / "leader"


@pytest.fixture
def watcher(root: Path) -> InotifyWatcher:
    return InotifyWatcher(root / "queue", root / "receipts")


def hint(name: str, *, closed: bool, box: str = "leader") -> FileReady:
    return FileReady(Place(box, Folder.QUEUE, name), closed=closed)


# --- what a hint says -------------------------------------------------------------------------------------------------
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
    monkeypatch.setattr(inotify_watch, "CLOSE_GRACE_S", 600.0)
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
    monkeypatch.setattr(inotify_watch, "CLOSE_GRACE_S", 0.01)
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


# --- idle -------------------------------------------------------------------------------------------------------------
async def test_inotifywait_t_returns_after_idle_and_the_watcher_exits(
    watcher: InotifyWatcher, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[Ensemble inbox_watcher] Ours goes on beating, and listening, through any number of idle time-outs."""
    monkeypatch.setattr(inotify_watch, "HEARTBEAT_S", 0.005)
    async with listening_to(watcher) as heard:
        with anyio.fail_after(DEADLINE_S):
            while watcher.beats < 20:
                await anyio.lowlevel.checkpoint()
        assert heard == []
        (leader / "a.mime").write_text("x")
        await heard.of(hint("a.mime", closed=True))


async def test_an_idle_watcher_sleeps(watcher: InotifyWatcher, leader: Path) -> None:
    """Level-triggered readiness that is not cleared, or a deadline in the past, would spin."""
    async with listening_to(watcher) as heard:
        (leader / "a.mime").write_text("x")
        await heard.of(hint("a.mime", closed=True))
        await anyio.sleep(0.05)  # nothing to wait for: it is the absence of turns that is measured
        before = watcher.beats
        await anyio.sleep(0.2)
        assert watcher.beats - before <= 1


async def test_a_directory_further_up_that_is_renamed_is_noticed_by_the_heartbeat(
    watcher: InotifyWatcher, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify_watch, "HEARTBEAT_S", 0.01)
    async with listening_to(watcher) as heard:
        root.parent.rename(root.parent.with_name("renamed"))
        await heard.of(BoxGone("leader"), BoxGone("coder"))


# --- overflow ---------------------------------------------------------------------------------------------------------
def overflow(leader: Path) -> None:
    """Fill the kernel's queue while the loop is kept from reading it. (No need to touch the system's limit.)"""
    (leader / "a").write_text("x")
    for _ in range(MAX_QUEUED_EVENTS // 4 + 1):  # two events for each rename
        (leader / "a").rename(leader / "b")
        (leader / "b").rename(leader / "a")


def swap(one: Path, other: Path) -> None:
    spare = one.parent.parent / "spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


can_overflow = pytest.mark.skipif(MAX_QUEUED_EVENTS > 200_000, reason="the queue is too long to fill in a test")


@can_overflow
async def test_in_q_overflow_ignored_nine_hours_of_outage(watcher: InotifyWatcher, root: Path, leader: Path) -> None:
    """[Lobster #1518] What came and went unheard is found out, and watched."""
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


@can_overflow
async def test_boxes_that_swapped_names_in_an_overflow_are_told_apart(
    watcher: InotifyWatcher, root: Path, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify_watch, "HEARTBEAT_S", 600.0)
    coder = root / "queue" / "coder"
    async with listening_to(watcher) as heard:
        overflow(leader)
        swap(leader, coder)
        await heard.of(BoxGone("leader"), BoxGone("coder"), BoxAppeared("leader"), BoxAppeared("coder"))
        (leader / "l.mime").write_text("x")
        (coder / "c.mime").write_text("x")
        await heard.of(hint("l.mime", closed=True), hint("c.mime", closed=True, box="coder"))


# --- limits -----------------------------------------------------------------------------------------------------------
def _can_have_its_own_limits() -> bool:
    """A user namespace has its own inotify limits, so that nobody else's are touched."""
    command = ["unshare", "--user", "--map-root-user", "test", "-w", "/proc/sys/user/max_inotify_watches"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0  # noqa: PLW1510


_LIMITED = textwrap.dedent("""
    import sys
    from pathlib import Path
    import anyio
    from ackd.adapters.inotify_watch import InotifyWatcher

    root, limit, value = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    Path("/proc/sys/user", limit).write_text(value)

    def ready():
        print("ready")
        for box in range(4):
            (root / "queue" / f"new{box}").mkdir()

    def post(hint):
        print(type(hint).__name__, getattr(hint, "reason", ""))

    async def main():
        with anyio.fail_after(20):
            await InotifyWatcher(root / "queue", root / "receipts").run(post, ready)
        print("returned")

    anyio.run(main)
""")


def _run_limited(root: Path, limit: str, value: int) -> list[str]:
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-W", "error", "-c", _LIMITED]
    done = subprocess.run([*command, str(root), limit, str(value)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


needs_namespaces = pytest.mark.skipif(not _can_have_its_own_limits(), reason="no user namespaces here")


@needs_namespaces
def test_no_watch_left_at_the_start_says_which_limit_to_raise(root: Path) -> None:
    failed, returned = _run_limited(root, "max_inotify_watches", 4)
    assert failed.startswith("WatchFailed no inotify watch is left")
    assert "fs.inotify.max_user_watches" in failed
    assert returned == "returned"


@needs_namespaces
def test_no_watch_left_for_a_new_box_ends_the_watcher_too(root: Path) -> None:
    said = _run_limited(root, "max_inotify_watches", 3 + 2 * 2 + 1)  # the three on top, two boxes, and one more
    assert said[:2] == ["ready", "BoxAppeared "]
    assert said[-2].startswith("WatchFailed no inotify watch is left")
    assert said[-1] == "returned"


@needs_namespaces
def test_no_instance_left_says_which_limit_to_raise(root: Path) -> None:
    failed, returned = _run_limited(root, "max_inotify_instances", 0)
    assert failed.startswith("WatchFailed no inotify instance is left")
    assert "fs.inotify.max_user_instances" in failed
    assert returned == "returned"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EMFILE, "fs.inotify.max_user_instances"),
        (errno.ENFILE, "fs.file-max"),
        (errno.ENOSYS, "this kernel has no inotify"),
        (errno.EPERM, "Operation not permitted"),
    ],
)
async def test_without_an_instance_it_fails_before_it_is_ready(
    watcher: InotifyWatcher, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    def refuse(*, nonblocking: bool) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(inotify_watch, "INotify", refuse)
    heard = Heard()
    await watcher.run(heard.post, lambda: pytest.fail("it is not ready"))
    (failed,) = heard
    assert isinstance(failed, WatchFailed)
    assert reason in failed.reason
