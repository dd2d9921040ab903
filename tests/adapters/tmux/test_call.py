"""One call of a program: what it says, and that nothing of it is left however it ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.adapters.tmux.call import call
from tests.adapters.child.nursery import assert_no_child_left, descriptors, note_others
from tests.living import is_gone
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _others() -> None:
    note_others()


async def test_its_exit_status_and_both_outputs_are_told_apart() -> None:
    done = await call(["sh", "-c", "echo out; echo err >&2; exit 3"], PATIENCE_S)
    assert done == (3, b"out\n", b"err\n")
    assert_no_child_left()


async def test_more_than_a_pipe_holds() -> None:
    done = await call([sys.executable, "-I", "-S", "-c", "print('x' * 1_000_000)"], PATIENCE_S)
    assert len(done.out) == 1_000_001


async def test_a_program_that_is_not_there() -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await call(["no-such-program-here"], PATIENCE_S)
    assert descriptors() <= before


async def test_one_that_takes_too_long_is_killed() -> None:
    before = descriptors()
    with pytest.raises(TimeoutError):
        await call(["sleep", "60"], 0.05)
    assert descriptors() <= before
    assert_no_child_left()


async def test_one_whose_caller_is_cancelled_is_killed(tmp_path: Path) -> None:
    async def calling() -> None:
        await call(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], PATIENCE_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calling)
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        tasks.cancel_scope.cancel()
    assert is_gone(int((tmp_path / "pid").read_text()))
    assert_no_child_left()
