"""The composition root inside the test's own process: its start, failures and end. tests/acceptance has the rest."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.config.model import load_site
from ackd.config.site import find_site
from ackd.core.errors import BadConfig, ImpossibleEvent, RootHeld
from ackd.core.events import Claimed
from ackd.core.ports import WatchFailed
from ackd.core.restarts import RestartPolicy
from ackd.runtime.daemon import CannotGoOn, Daemon
from ackd.runtime.pump import EVENTS_A_TURN
from ackd.runtime.recovery.missing import MissingMessages
from ackd.runtime.systemd import ServiceManager
from ackd.storage import root_lock
from ackd.storage.session_log import SessionLog, iter_logs
from tests.acceptance.teams import mime
from tests.live_config import config_with
from tests.runtime.recording_view import RecordingView
from tests.runtime.test_supervisor import FakeLiving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ackd.config.site import Site


@dataclass
class NotingServiceManager(ServiceManager):
    """Notes what the service manager would be told."""

    said: list[str] = field(default_factory=list)
    watchdog_s: float | None = None

    def __post_init__(self) -> None:
        self.up = anyio.Event()

    def ready(self, status: str) -> None:
        self.said.append(f"ready: {status}")
        self.up.set()

    def alive(self) -> None:
        self.said.append("alive")

    def stopping(self) -> None:
        self.said.append("stopping")


@dataclass
class Run:
    daemon: Daemon
    site: Site
    service: NotingServiceManager
    shown: list[tuple[str, dict[str, object]]]
    failure: list[BaseException] = field(default_factory=list)

    def types(self) -> list[str]:
        return [line.type for line in iter_logs(self.site.logs)]

    async def until(self, holds: Any) -> None:
        with anyio.fail_after(60):
            while not holds():  # noqa: ASYNC110 - it polls the daemon's files
                await anyio.sleep(0.005)


def make(place: Path, config: str = "", watchdog_s: float | None = None) -> Run:
    (place / "ackd.toml").write_text(config + "\n[watch]\nsettle_s = 0\n" if "[watch]" not in config else config)
    site = find_site(cwd=place)
    view = RecordingView()
    service = NotingServiceManager(watchdog_s=watchdog_s)
    daemon = Daemon(load_site(site), site, view, service=service)
    return Run(daemon, site, service, view.shown)


@asynccontextmanager
async def serving(run: Run) -> AsyncIterator[Run]:
    """Run the daemon during the block. At the end it is asked to stop, unless it has ended by itself."""

    async def serve() -> None:
        try:
            await run.daemon.serve()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            run.failure.append(error)
        finally:
            over.set()

    over = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(60):
            await run.service.up.wait()
        yield run
        run.daemon._stop_asked.set()
        with anyio.fail_after(60):
            await over.wait()


async def test_it_starts_says_so_stops_and_leaves_a_clean_house(tmp_path: Path) -> None:
    async with serving(make(tmp_path)) as run:
        assert run.service.said == ["ready: 0 agents, 0 queued, 0 dead; watching by inotify"]
        assert root_lock.holder(run.site.run) == os.getpid()
        assert (run.site.run / "status.json").exists()
    assert run.failure == []
    assert run.service.said[-1] == "stopping"
    assert run.types() == ["session_start", "session_end"]
    assert root_lock.holder(run.site.run) is None
    assert (run.site.state / "journal.ndjson").read_bytes().endswith(b'{"op":"stop"}\n')


async def test_its_journal_is_found_where_it_was_though_someone_moved_it_away(tmp_path: Path) -> None:
    async with serving(make(tmp_path)) as run:
        run.site.state.rename(tmp_path / "old")
    assert run.failure == []
    assert (run.site.state / "journal.ndjson").read_bytes().endswith(b'{"op":"stop"}\n')


async def test_the_journal_of_a_daemon_that_took_the_root_over_is_left_alone(tmp_path: Path) -> None:
    async with serving(make(tmp_path)) as run:
        run.site.root.rename(tmp_path / "old")
        lock = root_lock.hold(run.site.run)
        run.site.state.mkdir()
        theirs = run.site.state / "journal.ndjson"
        theirs.write_text("theirs\n")
    lock.release()
    assert theirs.read_text() == "theirs\n"


async def test_it_starts_with_mail_in_the_hands_of_an_agent_that_no_config_names(tmp_path: Path) -> None:
    run = make(tmp_path)
    (run.site.queue / "stranger" / "processed").mkdir(parents=True)
    (run.site.queue / "stranger" / "processed" / "m.mime").write_bytes(mime(to="stranger"))
    async with serving(run):
        await run.until(lambda: "message_queued" in run.types())
    assert run.failure == []


async def test_it_starts_with_more_agents_than_a_turn_hears_of(tmp_path: Path) -> None:
    count = 2 * EVENTS_A_TURN + 1
    run = make(tmp_path, "".join(f"[agents.worker_{number}]\n" for number in range(count)))
    (run.site.queue / "zoe").mkdir(parents=True)
    (run.site.queue / "zoe" / "m.mime").write_bytes(mime(to="zoe"))
    async with serving(run):
        await run.until(lambda: "message_told" in run.types())
    assert run.failure == []


@pytest.mark.parametrize("ended", [True, False])
async def test_what_this_session_has_met_is_not_ended_by_the_log_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """The message was not there yet when the start looked, and the last log is long."""
    run, read, go_on = make(tmp_path), MissingMessages._read_sessions, threading.Event()

    def slowly(missing: MissingMessages) -> Any:
        told = read(missing)
        go_on.wait(60)
        return told

    monkeypatch.setattr(MissingMessages, "_read_sessions", slowly)
    log = SessionLog.open(run.site.logs, started_at=time.time() - 60)
    about: dict[str, object] = {"message_id": "1.1.a@x", "agent": "user", "from": "leader"}
    log.record("message_queued", {**about, "file": "queue/user/before.mime"}, time.time() - 60)
    log.close()
    async with serving(run):
        temp = run.site.queue / "user" / ".m.tmp"
        temp.write_bytes(mime(to="user", message_id="1.1.a@x"))
        temp.rename(temp.with_name("m.mime"))
        await run.until(lambda: "message_told" in run.types())
        if ended:
            (run.site.queue / "user/processed/m.mime").unlink()
            await run.until(lambda: "message_completed" in run.types())
        go_on.set()
        with anyio.fail_after(60):
            while any(task.name == "backlog" for task in anyio.get_running_tasks() if task.name):  # noqa: ASYNC110
                await anyio.sleep(0.005)
    ends = [line for line in run.types() if line in ("message_completed", "message_withdrawn", "message_dead")]
    assert ends == (["message_completed"] if ended else [])


async def test_a_root_that_is_held_is_left_alone(tmp_path: Path) -> None:
    run = make(tmp_path)
    held = root_lock.hold(run.site.run)
    with pytest.raises(RootHeld):
        await run.daemon.serve()
    held.release()
    assert not run.site.logs.exists()


async def test_a_missing_handler_is_told_in_its_own_words_before_any_log_is_begun(tmp_path: Path) -> None:
    run = make(tmp_path, '[agents.clerk]\nendpoint = "handler"\nhandler = "nobody"\n')
    with pytest.raises(BadConfig, match="no handler 'nobody'"):
        await run.daemon.serve()
    assert list(run.site.logs.iterdir()) == []
    assert root_lock.holder(run.site.run) is None


async def test_a_bug_ends_it_at_once_with_its_own_exception_and_no_last_line(tmp_path: Path) -> None:
    async with serving(make(tmp_path)) as run:
        engine = run.daemon._engine

        def broken(*_: object) -> list[Any]:
            raise ImpossibleEvent("delivery", "dead", "told")

        engine.handle = broken  # type: ignore[method-assign, assignment]
        run.daemon._pump.post(Claimed(1, None))  # type: ignore[arg-type]
        await run.until(lambda: run.failure)
    assert isinstance(run.failure[0], ImpossibleEvent)
    assert run.types() == ["session_start"]
    assert root_lock.holder(run.site.run) is None


async def test_a_watcher_that_fails_is_replaced_and_the_page_says_by_what(tmp_path: Path) -> None:
    async with serving(make(tmp_path)) as run:
        run.daemon._watching.hear(anyio.Event(), WatchFailed("no watches left"))
        await run.until(lambda: b'"polling"' in (run.site.run / "status.json").read_bytes())
    assert run.failure == []


async def test_inotify_that_was_insisted_on_and_fails_ends_it_with_the_reason(tmp_path: Path) -> None:
    async with serving(make(tmp_path, '[watch]\nmode = "inotify"\n')) as run:
        run.daemon._watching.hear(anyio.Event(), WatchFailed("no watches left"))
        await run.until(lambda: run.failure)
    assert isinstance(run.failure[0], CannotGoOn)
    assert "no watches left" in str(run.failure[0])
    assert run.types()[-1] == "session_end"


async def test_a_service_manager_that_wants_to_hear_from_us_does(tmp_path: Path) -> None:
    async with serving(make(tmp_path, watchdog_s=0.03)) as run:
        await run.until(lambda: run.service.said.count("alive") >= 3)


async def test_full_at_the_very_end_it_ends_all_the_same(tmp_path: Path) -> None:
    async with serving(make(tmp_path)) as run:

        def full() -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        run.daemon._recorder.journal.stop = full  # type: ignore[method-assign]
    assert run.failure == []
    assert root_lock.holder(run.site.run) is None


async def test_every_part_goes_by_a_config_that_is_swapped_in_while_it_runs(tmp_path: Path) -> None:
    """Only the swap is made here; no part is told of it."""
    async with serving(make(tmp_path)) as run:
        daemon = run.daemon
        new = config_with(
            settle_s=0.25,
            stop_timeout_s=0.5,
            root=str(run.site.root),
            extra_types=("code_review",),
            max_message_bytes=2048,
            on_escalation=("sh", "-c", "cat > rung"),
        )
        assert daemon._intake.settle_s == daemon._receipts.settle_s == 0
        daemon._config.swap(new)
        assert daemon._intake.settle_s == daemon._receipts.settle_s == 0.25

        (run.site.queue / "user" / "new.mime").write_bytes(mime(to="user", kind="code_review"))
        await run.until(lambda: "message_queued" in run.types())
        large = mime(to="user", message_id="2.2.b@x", body="x" * 3000)
        (run.site.queue / "user" / "large.mime").write_bytes(large)
        await run.until(lambda: "message_rejected" in run.types())
        rejected = next(line for line in iter_logs(run.site.logs) if line.type == "message_rejected")
        assert rejected.data["code"] == "too_large"

        living, supervisor = FakeLiving(), daemon._make_supervisor(lambda _: None)
        supervisor.keep("worker", living, RestartPolicy())
        await supervisor.ready("worker")
        await supervisor.stop("worker")
        assert living.stops == [0.5]

        daemon._notifier.ring("e1", b"come")
        await run.until(lambda: (tmp_path / "rung").exists() and (tmp_path / "rung").read_bytes() == b"come")
    assert run.failure == []
