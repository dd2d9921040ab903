"""Which files of the session log are followed, compressed and removed: real files, a real recorder, a real engine."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.config.live import LiveConfig, announcement
from ackd.config.model import Config
from ackd.core.daemon_facts import signal_ignored
from ackd.core.engine import Engine
from ackd.core.events import Now
from ackd.core.message import Folder, Place
from ackd.runtime import log_upkeep
from ackd.runtime.log_upkeep import EVERY_S, LogUpkeep
from ackd.runtime.recorder import Recorder
from ackd.storage.journal import Journal
from ackd.storage.session_log import append, iter_logs, keeping, read_lines, session_files
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from tests.acceptance.teams import mime
from tests.core.engine_world import make_message
from tests.runtime.recording_view import RecordingView
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DAY_S = 86_400.0


@dataclass
class Setup:
    root: Path
    engine: Engine
    recorder: Recorder
    upkeep: LogUpkeep
    view: RecordingView

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def old(self, name: str, *ids: str, days: float = 100, writer: str = "daemon") -> Path:
        """A log of another session, to which nothing was written for so many days."""
        path = self.logs / f"session-{name}.ndjson"
        for number, message_id in enumerate(ids or ("1.1.none@x",)):
            append(path, name, writer, "message_queued", {"message_id": message_id, "agent": "reader", "n": number})
        at = time.time() - days * DAY_S
        os.utime(path, (at, at))
        return path

    def meets(self, message_id: str) -> int:
        place = Place("reader", Folder.QUEUE, f"{message_id}.mime")
        return self.engine.state.deliveries.open(make_message(message_id, "reader"), place, 0, 0).key

    def ends(self, key: int) -> None:
        delivery = self.engine.state.deliveries.get(key)
        assert delivery is not None
        self.engine.state.deliveries.close(delivery)

    def goes_on(self) -> str:
        """Fill the file; return what the next one says is needed."""
        self.recorder.record(signal_ignored(signal="x" * 2_000))
        self.recorder.commit()
        first = next(iter(read_lines(self.recorder.log.path)))
        assert first.type == "log_continued"
        return str(first.data.get("needed_from"))

    def names(self) -> list[str]:
        return sorted(path.name for path in self.logs.iterdir())

    def said(self, type_: str) -> list[dict[str, object]]:
        self.recorder.show()
        return [data for name, data in self.view.shown if name == type_]

    async def sweep(self, *, ran_days: float = 1) -> None:
        now = SystemClock().now()
        await self.upkeep.sweep(Now(now.mono - ran_days * DAY_S, now.wall - ran_days * DAY_S), now)


@pytest.fixture
def new_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Setup]]:
    monkeypatch.setattr(log_upkeep, "_REST", 0.0)
    made: list[Setup] = []

    def make(**config: Any) -> Setup:
        settings = Config.model_validate({"root": str(tmp_path), "log_rotate_mb": 0.001, **config})
        spool = Spool(tmp_path, max_message_bytes=1 << 20, durable=False)
        spool.ensure_layout()
        engine = Engine(settings.engine_policy(), random.Random(1))
        engine.handle(announcement(settings, "reader"), Now(0, 0))
        view = RecordingView()
        journal = Journal.open(tmp_path / "state/journal.ndjson")
        recorder = Recorder(journal=journal, clock=SystemClock(), view=view, wake=lambda: None)
        recorder.open(tmp_path / "logs")
        upkeep = LogUpkeep(
            config=LiveConfig(settings),
            recorder=recorder,
            deliveries=engine.state.deliveries,
            spool=spool,
            clock=SystemClock(),
            logs_dir=tmp_path / "logs",
            shown_in=lambda: None,
            counted=lambda: "session-99991231-235959.ndjson",
        )
        upkeep.attach()
        made.append(Setup(tmp_path, engine, recorder, upkeep, view))
        return made[-1]

    yield make
    for one in made:
        one.recorder.close()


# --- files that are full ----------------------------------------------------------------------------------------------
def test_a_new_file_names_the_one_in_which_the_oldest_open_message_has_its_first_lines(
    new_setup: Callable[..., Setup],
) -> None:
    setup = new_setup()
    setup.upkeep.all_met = True
    one = setup.recorder.log.path.name
    first = setup.meets("m1")
    assert setup.goes_on() == one
    second = setup.meets("m2")
    two = setup.recorder.log.path.name
    assert setup.goes_on() == one
    setup.ends(first)
    assert setup.goes_on() == two
    setup.ends(second)
    assert setup.goes_on() == setup.recorder.log.path.name
    third, three = setup.meets("m3"), setup.recorder.log.path.name
    assert [setup.goes_on(), setup.goes_on()] == [three, three]
    setup.ends(third)
    assert setup.goes_on() == setup.recorder.log.path.name


def test_it_names_none_before_everything_that_lay_there_was_met(new_setup: Callable[..., Setup]) -> None:
    setup = new_setup()
    assert setup.goes_on() == "None"
    setup.upkeep.all_met = True
    assert setup.goes_on() == setup.recorder.log.path.name


def test_after_the_session_has_said_its_last_word_no_file_is_begun(new_setup: Callable[..., Setup]) -> None:
    setup = new_setup()
    setup.upkeep.detach()
    setup.recorder.record(signal_ignored(signal="x" * 2_000))
    setup.recorder.commit()
    assert len(session_files(setup.logs)) == 1


# --- compressing ------------------------------------------------------------------------------------------------------
async def test_what_is_finished_for_long_enough_is_compressed_and_nothing_else(
    new_setup: Callable[..., Setup],
) -> None:
    setup = new_setup(log_compress_hours=24)
    old, fresh = setup.old("20260101-000000", days=2), setup.old("20260102-000000", days=0.9)
    theirs = setup.old("20260103-000000", days=50, writer="python:7")
    setup.goes_on()
    own = session_files(setup.logs)[-2:]
    (setup.logs / ".session-20260101-000000.ndjson.gz.tmp").write_bytes(b"of one that was killed")
    before = list(iter_logs(setup.logs))
    await setup.upkeep.compress()
    assert setup.names() == sorted([f"{old.name}.gz", fresh.name, theirs.name, *(path.name for path in own)])
    assert list(iter_logs(setup.logs)) == before
    (said,) = setup.said("log_compressed")
    assert said["file"] == old.name


async def test_it_is_done_when_a_file_is_full_and_tried_again_when_the_disk_refuses(
    new_setup: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = new_setup(log_compress_hours=0)
    monkeypatch.setattr(log_upkeep, "AGAIN_S", 0.01)
    compress, tries = keeping.compress, list[str]()

    def refusing(path: Path, pace: Any) -> Any:
        tries.append(path.name)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")
        return compress(path, pace)

    monkeypatch.setattr(keeping, "compress", refusing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(setup.upkeep.run)
        setup.goes_on()
        await until(lambda: setup.said("log_compressed"))
        tasks.cancel_scope.cancel()
    assert len(tries) == 3
    assert len(setup.said("io_error")) == 1


# --- removing ---------------------------------------------------------------------------------------------------------
async def test_old_logs_are_removed_but_for_those_that_an_open_message_or_a_dead_letter_needs(
    new_setup: Callable[..., Setup],
) -> None:
    setup = new_setup(log_keep_days=90)
    gone = setup.old("20260101-000000", "1.1.gone@x")
    needed = setup.old("20260102-000000", "1.2.open@x", "1.3.gone@x")
    dead = setup.old("20260103-000000", "1.4.dead@x")
    young = setup.old("20260104-000000", days=89)
    theirs = setup.old("20260105-000000", writer="python:7")
    keeping.compress(needed, lambda _took_s: True)
    (setup.root / "queue/dead_letter/d.mime").write_bytes(mime(message_id="1.4.dead@x"))
    key = setup.meets("1.2.open@x")
    for _ in range(2):
        await setup.sweep()
        assert session_files(setup.logs)[:-1] == [needed, dead, young, theirs]
    assert setup.said("logs_swept") == [{"files": [gone.name]}]
    setup.ends(key)
    (setup.root / "queue/dead_letter/d.mime").unlink()
    await setup.sweep()
    assert session_files(setup.logs)[:-1] == [young, theirs]


async def test_a_log_that_was_kept_is_read_again_only_when_its_message_is_gone(
    new_setup: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = new_setup()
    setup.old("20260101-000000", "1.1.a@x", "1.2.a@x")
    first, second = setup.meets("1.1.a@x"), setup.meets("1.2.a@x")
    read, names_any = list[str](), keeping.names_any

    def noting(path: Path, *args: Any) -> Any:
        read.append(path.name)
        return names_any(path, *args)

    monkeypatch.setattr(keeping, "names_any", noting)
    for ended, reads in ((None, 1), (None, 1), (first, 2), (None, 2)):
        if ended is not None:
            setup.ends(ended)
        await setup.sweep()
        assert len(read) == reads
    setup.ends(second)
    await setup.sweep()
    assert len(session_files(setup.logs)) == 1


async def test_never_means_never(new_setup: Callable[..., Setup]) -> None:
    setup = new_setup(log_keep_days=0)
    old = setup.old("20260101-000000", days=9_000)
    await setup.sweep()
    assert old.exists()


async def test_what_is_not_counted_yet_is_kept(new_setup: Callable[..., Setup]) -> None:
    setup = new_setup()
    for counted in ("", "session-20260101-000000.ndjson"):
        setup.upkeep.counted = lambda counted=counted: counted  # type: ignore[misc]
        old = setup.old("20260101-000000")
        await setup.sweep()
        assert old.exists()
    setup.upkeep.counted = lambda: "session-20260102-000000.ndjson"
    await setup.sweep()
    assert not old.exists()


async def test_a_clock_that_jumps_takes_no_file_of_the_session_that_runs(new_setup: Callable[..., Setup]) -> None:
    setup = new_setup()
    setup.goes_on()
    setup.goes_on()
    own = session_files(setup.logs)
    for path in own:
        os.utime(path, (1.0, 1.0))
    await setup.sweep(ran_days=1)
    assert session_files(setup.logs) == own
    setup.upkeep.all_met = True
    await setup.sweep(ran_days=100)
    assert session_files(setup.logs) == own[-1:], "after a session of months they are as old as they say"


async def test_nothing_is_removed_in_the_first_hour(
    new_setup: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = new_setup()
    old = setup.old("20260101-000000")
    rounds = 0

    async def round_is_over() -> None:
        nonlocal rounds
        rounds += 1

    class Clock(SystemClock):
        def now(self) -> Now:
            now = super().now()
            return Now(now.mono + (rounds >= 3) * EVERY_S, now.wall)

    setup.upkeep.clock = Clock()
    monkeypatch.setattr(log_upkeep, "EVERY_S", EVERY_S)
    monkeypatch.setattr(setup.upkeep, "compress", round_is_over)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(setup.upkeep.run)
        while old.exists():
            seen = rounds
            setup.upkeep._full.set()
            await until(lambda seen=seen: rounds > seen or not old.exists())  # type: ignore[misc]
        assert rounds >= 3
        tasks.cancel_scope.cancel()
