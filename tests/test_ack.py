"""Acks by file, and the ladder in a real pane: who is woken, by which keys, and who is left in peace."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import yaml

from ackd import ack
from ackd.ack import AckManager
from ackd.endpoints.tmux.screen import BadProfile
from ackd.files import with_file_lock
from ackd.storage import root_lock
from tests.endpoints.tmux.client.private_server import private_server
from tests.endpoints.tmux.fake_pane import TABLE, FakePane
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOUR_S = 3600


@pytest.fixture
def acks(tmp_path: Path) -> AckManager:
    return AckManager(tmp_path / "queue" / "ack")


def leave(directory: Path, name: str, *, age_s: float = 0) -> Path:
    """As `touch` does it, so long ago."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).touch()
    os.utime(directory / name, (time.time() - age_s,) * 2)
    return directory / name


# --- what counts
def test_what_a_worker_sends_is_an_ack_and_says_whose(acks: AckManager) -> None:
    assert not acks.check("task-001")
    path = acks.send("task-001", worker_id=1)
    assert acks.check("task-001")
    assert path == acks.ack_dir / "task-001.ack"
    said = yaml.safe_load(path.read_text())
    assert (said["task_id"], said["worker_id"]) == ("task-001", "1")
    assert path.stat().st_mode & 0o777 == 0o600


def test_touch_is_an_ack_as_well(acks: AckManager) -> None:
    leave(acks.ack_dir, "task-001.ack")
    assert acks.check("task-001")


def test_a_stale_ack_of_an_earlier_run_is_none(acks: AckManager) -> None:
    """[Ensemble] A stale `.ack` from an earlier run counts as an instant ACK."""
    leave(acks.ack_dir, "task-001.ack", age_s=HOUR_S)
    assert not acks.check("task-001")
    assert not acks.wait("task-001", timeout=0.1)
    assert acks.check("task-001", since=0)
    assert acks.check("task-001", since=time.time() - 2 * HOUR_S)
    assert acks.check("task-001", since=datetime.fromtimestamp(time.time() - 2 * HOUR_S, UTC))
    acks.send("task-001")  # over the old one
    assert acks.wait("task-001", timeout=0)


def test_a_task_that_is_handed_out_again_is_acknowledged_again(acks: AckManager) -> None:
    leave(acks.ack_dir, "task-001.ack")
    assert acks.check("task-001")
    acks._dispatched["task-001"] = time.time() + 1  # as `dispatched` a second later
    assert not acks.check("task-001")
    acks.dispatched("task-001")
    acks.send("task-001")
    assert acks.check("task-001")


def test_an_ack_within_the_tick_of_its_dispatch_counts(acks: AckManager) -> None:
    """The time of a file is that of the kernel's last tick, some milliseconds before now."""
    for number in range(200):
        acks.dispatched(f"t{number}")
        acks.send(f"t{number}")
        assert acks.check(f"t{number}")


def test_an_ack_that_lies_there_before_the_wait_counts_if_it_is_newer_than_the_task_file(tmp_path: Path) -> None:
    """[Ensemble] Its own order: write the task, tell the worker, and only then make an AckManager and wait."""
    queue = tmp_path / "queue"
    (queue / "tasks").mkdir(parents=True)
    for name in ("worker-1-task-001.yaml", "task-002.yaml"):
        (queue / "tasks" / name).write_text("title: a page\n")
    for name in ("task-001", "task-002", "task-003"):
        leave(queue / "ack", f"{name}.ack")
    acks = AckManager(queue / "ack")
    acks._made_at = time.time() + 1  # a quick worker: the ack is older than this AckManager
    assert acks.wait_with_escalation("task-001", 1, "%99", phase_timeout=0, max_phases=0) == (True, 0)
    assert (acks.wait("task-002", timeout=0), acks.check("task-002")) == (True, True)
    assert not acks.check("task-003")  # nothing says when that was given out
    (tmp_path / "elsewhere.yaml").touch()
    assert not acks.check("task-003")
    given = {"task_file": tmp_path / "elsewhere.yaml", "phase_timeout": 0, "max_phases": 0}
    leave(queue / "ack", "task-003.ack")
    assert acks.wait_with_escalation("task-003", 1, "%99", **given) == (True, 0)  # type: ignore[arg-type]


def test_an_ack_that_is_older_than_the_task_file_is_none(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    leave(queue / "ack", "task-001.ack", age_s=HOUR_S)
    task = leave(queue / "tasks", "worker-1-task-001.yaml", age_s=2 * HOUR_S)  # a copy that keeps its old time
    acks = AckManager(queue / "ack")
    assert not acks.check("task-001")
    assert acks.wait_with_escalation("task-001", 1, "%99", 0, 0, task_file=task) == (False, 0)
    acks.dispatched("task-001")
    acks.send("task-001", agent="worker-1")
    assert acks.wait("task-001", timeout=1, interval=0.01)


def test_the_directory_is_made_and_cleaned_up(tmp_path: Path) -> None:
    acks = AckManager(tmp_path / "queue" / "ack")
    assert (tmp_path / "queue" / "ack").stat().st_mode & 0o777 == 0o700
    acks.send("task-001")
    acks.send("task-002")
    (acks.ack_dir / "notes.txt").touch()
    assert acks.cleanup() == 2
    assert [path.name for path in acks.ack_dir.iterdir()] == ["notes.txt"]
    assert (acks.check("task-001"), acks.cleanup()) == (False, 0)


def test_only_a_file_is_an_ack(acks: AckManager, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (acks.ack_dir / "link.ack").symlink_to(tmp_path / "elsewhere")
    (acks.ack_dir / "directory.ack").mkdir()
    os.mkfifo(acks.ack_dir / "fifo.ack")
    assert [acks.check(name) for name in ("link", "directory", "fifo")] == [False] * 3


@pytest.mark.parametrize("task_id", ["../../escape", "a/b", "", ".x", "a\nb: c", "x" * 300, "タスク", "\ud800", "a\0"])
def test_any_id_is_acknowledged_within_the_directory(acks: AckManager, tmp_path: Path, task_id: str) -> None:
    path = acks.send(task_id)
    assert acks.check(task_id)
    assert not acks.check(f"{task_id}x")
    assert path.parent == acks.ack_dir
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [path]
    assert yaml.safe_load(path.read_bytes())["acked_at"]


def test_a_relative_directory_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    acks = AckManager()
    monkeypatch.chdir("/")
    assert acks.send("t") == tmp_path / "queue" / "ack" / "t.ack"


async def test_a_wait_ends_with_the_ack_sync_and_async(acks: AckManager) -> None:
    waiting = [
        asyncio.ensure_future(asyncio.to_thread(acks.wait, "task-001", 20)),
        asyncio.ensure_future(acks.wait_async("task-001", 20)),
    ]
    await asyncio.wait(waiting, timeout=0.1)
    assert not any(one.done() for one in waiting)
    acks.send("task-001")
    assert await asyncio.gather(*waiting) == [True, True]


# --- waking
class Scene(FakePane):
    """A pane whose fake agent is a worker that is waited for."""

    recorded: list[tuple[str, dict[str, Any]]]

    def acks(self, **differs: Any) -> AckManager:
        self.recorded = []
        return AckManager(
            self.place / "queue" / "ack",
            profile=TABLE,
            tmux_socket=str(self.tmux.socket_path),
            record=lambda type_, data: self.recorded.append((type_, data)),
            **differs,
        )

    async def waits(
        self, *, phase_timeout: float = 0.4, acked_when: Callable[[], object] | None = None, **differs: Any
    ) -> tuple[bool, int]:
        """``acked_when``: the worker acknowledges as soon as that is so."""
        said: dict[str, Any] = {"task_id": "task-001", "worker_id": 1, "pane_id": self.pane_id} | differs
        manager = self.acks()

        async def answer() -> None:
            if acked_when is not None:
                await until(acked_when, "what is acknowledged")
                manager.send("task-001")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            ended = await manager.wait_with_escalation_async(phase_timeout=phase_timeout, **said)
            tasks.cancel_scope.cancel()
        return ended

    def done(self) -> list[str]:
        """What came of each rung."""
        return [str(data["done"]) for type_, data in self.recorded if type_ == "nudged"]

    def noted(self, what: str) -> list[str]:
        return [line[what] for line in self.log() if what in line]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with private_server() as server:
        yield Scene(server, tmp_path)


def line(scene: Scene) -> str:
    return (
        f"ackd: task task-001 waits: read it where your tasks lie then run: touch {scene.place}/queue/ack/task-001.ack"
    )


def fresh(scene: Scene) -> str:
    return line(scene).replace("ackd: task", "ackd: you are worker 1 of a team, your context was cleared and task")


async def test_who_acknowledges_in_time_is_not_disturbed(scene: Scene) -> None:
    await scene.agent()
    assert await scene.waits(phase_timeout=20, acked_when=lambda: True) == (True, 0)
    assert scene.given() == b""
    assert scene.recorded == []


async def test_rung_1_is_the_line_typed_and_proven(scene: Scene) -> None:
    await scene.agent()
    assert await scene.waits(phase_timeout=2, acked_when=scene.submitted, task_file=scene.place / "w.yaml") == (True, 1)
    path = f"{scene.place}/w.yaml"
    assert scene.submitted() == [line(scene).replace("it where your tasks lie", path)]
    assert scene.done() == ["the line stands in its transcript (keys: Enter)"]


async def test_rung_2_interrupts_one_that_hangs_and_no_further_than_needed(scene: Scene) -> None:
    await scene.agent("--state", "busy", "--hangs", "1")
    assert await scene.waits(phase_timeout=2, acked_when=scene.submitted) == (True, 2)
    assert scene.noted("interrupted") == ["C-c"]
    assert scene.submitted() == [line(scene)]
    assert scene.done()[0] == "not told: it is busy: * Working ( esc to interrupt)"
    assert "Escape, Escape, C-c" in scene.done()[1]


async def test_rung_3_clears_and_tells_one_who_knows_nothing(scene: Scene) -> None:
    await scene.agent()
    assert await scene.waits(phase_timeout=1, acked_when=lambda: fresh(scene) in scene.submitted()) == (True, 3)
    assert scene.submitted() == [line(scene), line(scene), fresh(scene)]
    assert scene.noted("cleared") == ["yes"]


async def test_who_never_answers_is_told_of_after_four_waits(scene: Scene) -> None:
    await scene.agent()
    assert await scene.waits() == (False, 3)
    assert [type_ for type_, _ in scene.recorded] == ["nudged", "nudged", "nudged", "escalation"]
    assert scene.recorded[-1][1]["cause"] == "no_ack"


async def test_fewer_phases_climb_less(scene: Scene) -> None:
    await scene.agent()
    assert await scene.waits(max_phases=0) == (False, 0)
    assert scene.given() == b""
    assert await scene.waits(max_phases=1) == (False, 1)
    assert scene.submitted() == [line(scene)]
    with pytest.raises(ValueError, match="0 to 3"):
        await scene.acks().wait_with_escalation_async("task-001", 1, scene.pane_id, max_phases=4)


@pytest.mark.parametrize("state", ["prompt", "menu", "limit", "strange"])
async def test_no_rung_presses_a_key_where_it_could_be_an_answer(scene: Scene, state: str) -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)  # a time of day that has passed would be a limit that is over
    await scene.agent("--state", f"{state} {in_an_hour:%H:%M} UTC" if state == "limit" else state)
    assert await scene.waits(phase_timeout=0.1) == (False, 3)
    assert (scene.given(), scene.answered()) == (b"", [])
    assert all(done.startswith("not told: ") for done in scene.done())


async def test_who_is_seen_at_work_is_not_interrupted(scene: Scene) -> None:
    """A healthy busy agent is never hurt."""
    await scene.agent("--state", "busy", "--spinner")
    assert await scene.waits(phase_timeout=0.5) == (False, 3)
    assert scene.given() == b""
    assert all("it is at work: * Working" in done for done in scene.done())


async def test_an_ack_of_an_earlier_run_does_not_end_the_wait(scene: Scene) -> None:
    await scene.agent()
    leave(scene.place / "queue" / "ack", "task-001.ack", age_s=HOUR_S)
    assert await scene.waits(phase_timeout=0.1, max_phases=1) == (False, 1)


async def test_a_pane_that_is_not_there_is_waited_for_in_vain_and_said_so(scene: Scene) -> None:
    scene.pane_id = "%99"
    assert await scene.waits(phase_timeout=0.05) == (False, 3)
    assert scene.done() == ["nothing typed: no pane %99"] * 3


async def test_a_pane_that_a_running_daemon_serves_is_left_to_it(scene: Scene) -> None:
    await scene.agent()
    root = scene.place / ".ackd"
    await scene.tmux.mark(scene.pane_id, f"{root}:worker")
    held = root_lock.hold(root / "run")
    assert await scene.waits(phase_timeout=0.05) == (False, 3)
    assert scene.given() == b""
    assert scene.done()[0] == f"nothing typed: the daemon of {root} serves this pane, and wakes who lives in it"
    held.release()
    assert await scene.waits(phase_timeout=2, acked_when=scene.submitted) == (True, 1)
    assert (await scene.tmux.look(scene.pane_id)).pane.agent == f"{root}:worker", "whose it is stays as it was"


async def test_two_who_wait_for_one_worker_do_not_type_at_the_same_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.agent()
    monkeypatch.setattr(ack, "_TYPING_TAKES_S", 0.05)
    async with with_file_lock(scene.place / "queue" / "ack" / f"pane-_{scene.pane_id[1:]}"):
        assert await scene.waits(phase_timeout=0.05, max_phases=1) == (False, 1)
    assert scene.given() == b""
    assert "could not be had" in scene.done()[0]


@pytest.mark.parametrize("task_id", ["$(reboot)", "a\nb", "x; rm -rf ~", "日本", "\x1b[2J"])
async def test_no_word_of_a_hostile_id_reaches_the_terminal(scene: Scene, task_id: str) -> None:
    await scene.agent()
    assert await scene.waits(task_id=task_id, phase_timeout=0.05, max_phases=1) == (False, 1)
    (submitted,) = scene.submitted()
    assert submitted.startswith("ackd: a task waits: ")
    assert task_id not in submitted


async def test_it_is_called_from_programs_without_a_loop_too(scene: Scene) -> None:
    await scene.agent()
    manager = scene.acks()
    waiting = asyncio.ensure_future(asyncio.to_thread(manager.wait_with_escalation, "t", 1, scene.pane_id, 2.0, 1))
    await until(scene.submitted, "the nudge")
    manager.send("t")
    assert await waiting == (True, 1)


def test_a_profile_is_a_shipped_one_a_table_or_one_of_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ackd.toml").write_text('[profiles.mine]\nlike = "codex"\nreset = { type = "/new" }\n')
    monkeypatch.chdir(tmp_path)
    assert ack._profile("claude").reset.type == "/clear"
    assert ack._profile("mine").reset.type == "/new"
    assert ack._profile(TABLE).reset.type == "/clear"
    with pytest.raises(BadProfile, match="there is none of that name"):
        ack._profile("nobody")
