from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import anyio
import pytest

from ackd.config.model import Config, WatchSettings
from ackd.coordination.gateway import Gateway, LookRefused
from ackd.core.fact import Fact
from ackd.core.signals import AgentChanged, Signal
from ackd.runtime.gateways import Gateways, make_gateways
from ackd.runtime.signals import Signals
from ackd.storage.inotify_watch import CannotWatch, DirectoryWatch
from tests.live_config import live_config
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.coordination.gateway import GatewayContext
    from ackd.runtime.recorder import Recorder

open_ = DirectoryWatch.open


class FactRecorder:
    """Stands in for the ``Recorder``, with the part that gateways use."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def record(self, fact: Fact) -> None:
        type_, data = fact
        self.lines.append((type_, data))

    def reporting(self, what: str) -> Reporting:
        return Reporting(self, what)


class Reporting:
    def __init__(self, recorder: FactRecorder, what: str) -> None:
        self.recorder, self.what = recorder, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, OSError):
            self.recorder.record(Fact("io_error", {"what": self.what}))
            return True
        return False


def served(
    gateways: list[Gateway], watch: WatchSettings, recorder: FactRecorder, *, signals: Signals | None = None
) -> Gateways:
    config = live_config(watch=watch)
    return Gateways(gateways=gateways, config=config, recorder=cast("Recorder", recorder), signals=signals or Signals())


class NotingGateway(Gateway):
    """A gateway that notes where it was asked to look."""

    name = "looking"
    listens: frozenset[type[Signal]] = frozenset({AgentChanged})

    def __init__(self, *places: Path, wait_s: float | None = None) -> None:
        self.where: list[frozenset[str] | None] = []
        self.heard_of: list[Signal] = []
        self.seen_places = [frozenset(map(str, places))]
        self.wait_s = wait_s
        self.failure: OSError | None = None

    def heard(self, signal: Signal) -> None:
        self.heard_of.append(signal)

    def places(self) -> frozenset[str]:
        return self.seen_places[-1]

    async def look(self, where: frozenset[str] | None) -> float | None:
        self.where.append(where)
        if self.failure is not None:
            raise self.failure
        return self.wait_s

    def page(self) -> dict[str, object]:
        return {"looks": len(self.where)}


@pytest.mark.parametrize("mode", ["auto", "polling"])
async def test_a_change_is_looked_at_where_it_happened_or_everywhere_without_inotify(tmp_path: Path, mode: str) -> None:
    gateway, recorder = NotingGateway(tmp_path), FactRecorder()
    watch = WatchSettings(mode=mode, poll_interval_s=0.05, reconcile_interval_s=60)  # type: ignore[arg-type]
    gateways = served([gateway], watch, recorder)
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 2)  # once at the start, and once more when it is watched
        seen = len(gateway.where)
        (tmp_path / "new").touch()
        await until(lambda: len(gateway.where) > seen)
        assert gateway.where[:2] == [None, None]
        assert gateway.where[seen] == (frozenset({str(tmp_path)}) if mode == "auto" else None)
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_a_gateway_that_takes_a_lock_when_it_looks_does_not_wake_itself(tmp_path: Path) -> None:
    class LockingGateway(NotingGateway):
        async def look(self, where: frozenset[str] | None) -> float | None:
            with (tmp_path / ".lock").open("a"):
                return await super().look(where)

    gateway = LockingGateway(tmp_path)
    gateways = served([gateway], WatchSettings(reconcile_interval_s=60), FactRecorder())
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 2)
        for number in range(3, 6):  # each change of others causes one look; its own lock causes none
            (tmp_path / f"{number}").mkdir()
            await until(lambda number=number: len(gateway.where) >= number)  # type: ignore[misc]
        assert gateway.where == [None, None, *[frozenset({str(tmp_path)})] * 3]
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_a_clock_of_its_own_does_not_put_off_the_look_at_everything(tmp_path: Path) -> None:
    gateway = NotingGateway(tmp_path, wait_s=0.02)
    gateways = served([gateway], WatchSettings(reconcile_interval_s=0.3), FactRecorder())
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: gateway.where.count(None) >= 4)
        assert frozenset() in gateway.where
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_a_look_that_fails_does_not_keep_new_places_from_being_watched(tmp_path: Path) -> None:
    gateway, recorder = NotingGateway(tmp_path), FactRecorder()
    gateways = served([gateway], WatchSettings(reconcile_interval_s=60), recorder)
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) == 2)
        gateway.failure = OSError(40, "Too many levels of symbolic links")
        new = tmp_path / "new"
        new.mkdir()
        gateway.seen_places.append(frozenset({str(tmp_path), str(new)}))
        await until(lambda: len(gateway.where) == 4)  # the new file, and everything once more, since it is watched now
        (new / "file").touch()
        await until(lambda: gateway.where[4:] == [frozenset({str(new)})])
        assert ("io_error", {"what": "gateway looking"}) in recorder.lines
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_what_others_of_a_gateway_wish_for_is_kept_though_one_of_them_is_refused(tmp_path: Path) -> None:
    gateway, recorder = NotingGateway(tmp_path), FactRecorder()
    gateway.failure = LookRefused({"track a": OSError(40, "Too many levels of symbolic links")}, next_look_s=0.01)
    gateways = served([gateway], WatchSettings(reconcile_interval_s=60), recorder)
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 4)
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_trouble_is_a_line_and_another_look_and_signals_are_heard(tmp_path: Path) -> None:
    gateway, recorder = NotingGateway(tmp_path, wait_s=0.02), FactRecorder()
    gateway.failure = PermissionError(13, "Permission denied")
    signals = Signals()
    gateways = served([gateway], WatchSettings(reconcile_interval_s=0.05), recorder, signals=signals)
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 3)
        assert recorder.lines[0] == ("io_error", {"what": "gateway looking"})
        gateway.failure = None
        signals.emit(AgentChanged("worker", down=True))
        assert gateway.heard_of == [AgentChanged("worker", down=True)]
        assert gateways.page()["looking"]
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_who_was_closed_does_not_watch_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[DirectoryWatch] = []

    def counted(watch: DirectoryWatch) -> None:
        opened.append(watch)
        open_(watch)

    monkeypatch.setattr(DirectoryWatch, "open", counted)
    gateway = NotingGateway(tmp_path)
    gateways = served([gateway], WatchSettings(reconcile_interval_s=0.05, poll_interval_s=0.05), FactRecorder())
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 2)
        gateways.close()
        seen = gateway.where.count(None)
        await until(lambda: gateway.where.count(None) > seen + 2)  # it still looks
        tasks.cancel_scope.cancel()
    assert len(opened) == 1


async def test_a_limit_that_was_met_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_watch: DirectoryWatch) -> None:
        raise CannotWatch("no instance is left")

    monkeypatch.setattr(DirectoryWatch, "open", refuse)
    gateway, recorder = NotingGateway(tmp_path), FactRecorder()
    gateways = served([gateway], WatchSettings(reconcile_interval_s=60, poll_interval_s=0.05), recorder)
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: gateway.where.count(None) >= 3)
        assert [type_ for type_, _ in recorder.lines] == ["watch_degraded"]
        monkeypatch.setattr(DirectoryWatch, "open", open_)
        await until(lambda: gateways.is_watching)
        (tmp_path / "new").touch()
        await until(lambda: frozenset({str(tmp_path)}) in gateway.where)
        gateways.close()
        tasks.cancel_scope.cancel()
    assert [type_ for type_, _ in recorder.lines] == ["watch_degraded", "watch_restored"]


# --- making -----------------------------------------------------------------------------------------------------------
def made_for(tables: dict[str, object], place: Path) -> list[str]:
    config = Config.model_validate({"root": str(place), **tables})
    services = SimpleNamespace(base=place, root=place, state=place, durable=False, called=str, post=None)
    context = SimpleNamespace(config=config, escalate_to="user", services=services)
    return [gateway.name for gateway in make_gateways(cast("GatewayContext", context))]


def test_the_bus_is_always_served_and_the_rest_where_its_table_stands(tmp_path: Path) -> None:
    assert made_for({}, tmp_path) == ["bus", "leases", "board"]
    assert made_for({"ensemble": {}}, tmp_path) == ["ensemble", "bus", "leases", "board"]
