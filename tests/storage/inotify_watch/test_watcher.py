"""The watcher waits for events, and shows that it lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from ackd.storage.inotify_watch import InotifyWatcher, tree
from tests.storage.inotify_watch.bench import hint
from tests.storage.listening import DEADLINE_S, listening_to

if TYPE_CHECKING:
    from collections.abc import Sized
    from pathlib import Path


async def test_inotifywait_t_returns_after_idle_and_the_watcher_exits(
    watcher: InotifyWatcher, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[Ensemble inbox_watcher] Ours goes on beating, and listening, through any number of idle time-outs."""
    monkeypatch.setattr(tree, "HEARTBEAT_S", 0.005)
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


async def test_it_says_when_it_has_told_all_that_came_together(root: Path, leader: Path) -> None:
    told: list[int] = []
    hints: list[Sized] = []
    watcher = InotifyWatcher(root / "queue", root / "receipts", through=lambda: told.append(sum(map(len, hints))))
    async with listening_to(watcher) as heard:
        hints.append(heard)
        for number in range(3):
            (leader / f"{number}.mime").write_text("x")
        await heard.of(*(hint(f"{number}.mime", closed=True) for number in range(3)))
        await anyio.lowlevel.checkpoint()
        assert told[-1] == 3


async def test_what_it_began_is_through_also_when_a_turn_fails(
    root: Path, leader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a caller that holds something back during a turn would hold it for ever."""
    calls: list[str] = []
    watcher = InotifyWatcher(
        root / "queue",
        root / "receipts",
        begins=lambda: calls.append("begins"),
        through=lambda: calls.append("through"),
    )

    def fail(_tree: tree.Tree) -> bool:
        raise RuntimeError("a bug")

    monkeypatch.setattr(tree.Tree, "turn", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        await watcher.run(lambda _hint: None, lambda: None)
    assert calls == ["begins", "through"]
