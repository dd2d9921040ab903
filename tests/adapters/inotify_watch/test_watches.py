"""Which directory a watch stands for; what every watcher must notice is in test_watch_conformance.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters.inotify_watch import InotifyWatcher, tree
from ackd.ports import BoxAppeared, BoxGone
from tests.adapters.inotify_watch.bench import can_overflow, hint, overflow
from tests.adapters.listening import listening_to

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
