"""Real processes in a real pane: all of them end, whichever session they fled to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.endpoints.tmux.client import LIFE_VARIABLE, Leader, PaneProcesses
from tests.strays import UNTIL_GO
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.endpoints.tmux.client import Pane, Tmux


async def lives(tmux: Tmux, tmp_path: Path, script: str) -> tuple[Pane, PaneProcesses]:
    life = tmp_path.name
    pane = await tmux.start(
        session="team", window="w", command=script, cwd=tmp_path, env={LIFE_VARIABLE: life}, agent="w", life=life
    )
    return pane, PaneProcesses(life, Leader(pane.pid))


async def heard(leader: Leader | None) -> None:
    assert leader is not None
    await leader.ended()


async def test_the_end_of_a_pane_is_heard(tmux: Tmux, tmp_path: Path) -> None:
    pane, pane_processes = await lives(tmux, tmp_path, UNTIL_GO)
    async with anyio.create_task_group() as group:
        group.start_soon(heard, pane_processes.leader)
        (tmp_path / "go").touch()
    assert pane_processes.living() == []
    await heard(pane_processes.leader)  # of one that is gone: at once
    gone = Leader(pane.pid)
    await gone.ended()
    assert gone.session() is None


@pytest.mark.parametrize(
    "script",
    [
        "touch up; exec sleep 100",
        "trap '' TERM HUP; touch up; while :; do sleep 0.1; done",
        "setsid sleep 100 & touch up; exec sleep 100",
        "touch up; kill -STOP $$; sleep 100",
        "trap '' HUP; sleep 100 & env -i sleep 100 & touch up; wait",
    ],
    ids=["plain", "ignores TERM", "fled its session", "stopped", "of which one has no environment"],
)
async def test_nothing_of_it_is_left(tmux: Tmux, tmp_path: Path, script: str) -> None:
    _, pane_processes = await lives(tmux, tmp_path, script)
    await until((tmp_path / "up").exists)
    assert pane_processes.living()
    with anyio.fail_after(60):
        await pane_processes.end(0.3)
    assert pane_processes.living() == []


async def test_other_lives_are_left_alone(tmux: Tmux, tmp_path: Path) -> None:
    _, pane_processes = await lives(tmux, tmp_path, "touch up; exec sleep 100")
    await until((tmp_path / "up").exists)
    await PaneProcesses(tmp_path.name + "x").end(0)
    assert pane_processes.living()
