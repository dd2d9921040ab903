"""Watches of the kernel, and the directory that each stands for. The rest, which every watcher must notice, is in
test_watch_conformance.py.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from ackd.core.ports import BoxAppeared, BoxGone, WatchFailed
from ackd.storage.inotify_watch import InotifyWatcher, tree, watches
from tests.storage.inotify_watch.bench import can_overflow, hint, overflow
from tests.storage.listening import Heard, listening_to

if TYPE_CHECKING:
    from pathlib import Path


def swap(one: Path, other: Path) -> None:
    spare = one.parent.parent / "spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


@can_overflow
async def test_boxes_that_swapped_names_in_an_overflow_are_told_apart(
    watcher: InotifyWatcher, root: Path, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "HEARTBEAT_S", 600.0)
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
    from ackd.storage.inotify_watch import InotifyWatcher

    root, limit, value = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    Path("/proc/sys/user", limit).write_text(value)

    def ready():
        print("ready")
        for box in range(4):
            (root / "queue" / f"new{box}").mkdir()

    def post(hint):
        print(type(hint).__name__, getattr(hint, "reason", ""))

    async def main():
        with anyio.fail_after(60):
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

    monkeypatch.setattr(watches, "INotify", refuse)
    heard = Heard()
    await watcher.run(heard.post, lambda: pytest.fail("it is not ready"))
    (failed,) = heard
    assert isinstance(failed, WatchFailed)
    assert reason in failed.reason
