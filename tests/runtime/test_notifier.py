"""The ``on_escalation`` command, with real commands."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ackd.runtime.notifier import Notifier
from tests.live_config import live_config
from tests.strays import UNTIL_GO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MESSAGE = b"From: queue_monitor\n\ncause: dead\n"


@asynccontextmanager
async def new_notifier(
    place: Path, *command: str, patience_s: float = 10, env: dict[str, str] | None = None
) -> AsyncIterator[tuple[Notifier, list[dict[str, object]]]]:
    """Make a notifier. All its commands have ended when the block has."""
    failures: list[dict[str, object]] = []
    async with anyio.create_task_group() as tasks:
        environment = {**os.environ, **(env or {})}
        notifier = Notifier(
            config=live_config(root=str(place / ".ackd"), on_escalation=command),
            env=environment,
            tasks=tasks,
            record=lambda fact: failures.append(fact.data),
            patience_s=patience_s,
        )
        yield notifier, failures


async def test_the_command_gets_the_message_its_place_and_its_environment(tmp_path: Path) -> None:
    async with new_notifier(tmp_path, "sh", "-c", "cat >got; echo $WHO >>got", env={"WHO": "ada"}) as (
        notifier,
        failures,
    ):
        notifier.ring("e1", MESSAGE)
    assert (tmp_path / "got").read_bytes() == MESSAGE + b"ada\n"
    assert failures == []


async def test_without_a_command_nothing_is_started(tmp_path: Path) -> None:
    async with new_notifier(tmp_path) as (notifier, failures):
        notifier.ring("e1", MESSAGE)
        await notifier.stop(0)
    assert failures == []


async def test_one_that_does_not_read_megabytes_of_message_is_fine(tmp_path: Path) -> None:
    async with new_notifier(tmp_path, "true") as (notifier, failures):
        notifier.ring("e1", MESSAGE * 100_000)
    assert failures == []


async def test_failure_absence_and_hanging_are_all_heard_of(tmp_path: Path) -> None:
    heard = []
    for command in (["sh", "-c", "exit 3"], ["./no-such-bell"], ["sh", "-c", "echo $$ >pid; sleep 60 & wait"]):
        async with new_notifier(tmp_path, *command, patience_s=0.3) as (notifier, failures):
            notifier.ring("e1", MESSAGE)
        heard += failures
    assert heard[0]["error"] == "exit 3"
    assert "no-such-bell" in str(heard[1]["error"])
    assert heard[2]["error"] == "still running after 0.3 s: ended"
    assert all(fact["message_id"] == "e1" for fact in heard)
    leader = int((tmp_path / "pid").read_text())
    with anyio.fail_after(60):
        while _group_lives(leader):  # noqa: ASYNC110 - no event tells of another's children
            await anyio.sleep(0.01)


def _group_lives(leader: int) -> bool:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            return True
    return False


async def test_a_stop_waits_for_what_rings_but_not_for_ever(tmp_path: Path) -> None:
    async with new_notifier(tmp_path, "sh", "-c", f"{UNTIL_GO}; touch rung") as (notifier, failures):
        notifier.ring("e1", MESSAGE)
        with anyio.fail_after(60):
            await notifier.stop(0.05)
        assert not (tmp_path / "rung").exists()
        (tmp_path / "go").touch()
        with anyio.fail_after(60):
            await notifier.stop(5)
        assert (tmp_path / "rung").exists()
    assert failures == []


async def test_cancelled_it_leaves_no_process(tmp_path: Path) -> None:
    async with new_notifier(tmp_path, "sh", "-c", "echo $$ >pid.tmp; mv pid.tmp pid; exec sleep 60") as (
        notifier,
        failures,
    ):
        notifier.ring("e1", MESSAGE)
        with anyio.fail_after(60):
            while not (tmp_path / "pid").exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)
        notifier.tasks.cancel_scope.cancel()
    pid = int((tmp_path / "pid").read_text())
    try:
        os.kill(pid, signal.SIG_DFL)
        raise AssertionError("it runs on")
    except ProcessLookupError:
        assert failures == []
