from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.adapters.inotify_watch import CannotWatch, DirectoryWatch
from ackd.config import Watch
from ackd.runtime.gateways import Gateways
from ackd.runtime.gateways.gateway import LookRefused
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

open_ = DirectoryWatch.open


class Tellable:
    """A chronicle, as far as gateways know one."""

    def __init__(self) -> None:
        self.listeners: dict[str, list[Callable[[str, dict[str, object]], None]]] = {}
        self.lines: list[tuple[str, dict[str, object]]] = []

    def record(self, type_: str, data: dict[str, object]) -> None:
        self.lines.append((type_, data))

    def reporting(self, what: str) -> Reporting:
        return Reporting(self, what)


class Reporting:
    def __init__(self, chronicle: Tellable, what: str) -> None:
        self.chronicle, self.what = chronicle, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, OSError):
            self.chronicle.record("io_error", {"what": self.what})
            return True
        return False


class Looking:
    """A gateway that notes where it was asked to look."""

    name = "looking"
    listens = frozenset({"agent_state"})

    def __init__(self, *places: Path, wish: float | None = None) -> None:
        self.where: list[frozenset[str] | None] = []
        self.heard_of: list[str] = []
        self.seen_places = [frozenset(map(str, places))]
        self.wish = wish
        self.failure: OSError | None = None

    def heard(self, type_: str, data: dict[str, object]) -> None:
        self.heard_of.append(type_)

    def places(self) -> frozenset[str]:
        return self.seen_places[-1]

    async def look(self, where: frozenset[str] | None) -> float | None:
        self.where.append(where)
        if self.failure is not None:
            raise self.failure
        return self.wish

    def page(self) -> dict[str, object]:
        return {"looks": len(self.where)}


@pytest.mark.parametrize("mode", ["auto", "polling"])
async def test_a_change_is_looked_at_where_it_happened_or_everywhere_without_inotify(tmp_path: Path, mode: str) -> None:
    gateway, chronicle = Looking(tmp_path), Tellable()
    watch = Watch(mode=mode, poll_interval_s=0.05, reconcile_interval_s=60)  # type: ignore[arg-type]
    gateways = Gateways([gateway], watch, chronicle)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 2)  # everything, and once more when it is watched
        seen = len(gateway.where)
        (tmp_path / "new").touch()
        await until(lambda: len(gateway.where) > seen)
        assert gateway.where[:2] == [None, None]
        assert gateway.where[seen] == (frozenset({str(tmp_path)}) if mode == "auto" else None)
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_a_gateway_that_takes_a_lock_when_it_looks_does_not_wake_itself(tmp_path: Path) -> None:
    class Locking(Looking):
        async def look(self, where: frozenset[str] | None) -> float | None:
            with (tmp_path / ".lock").open("a"):
                return await super().look(where)

    gateway = Locking(tmp_path)
    gateways = Gateways([gateway], Watch(reconcile_interval_s=60), Tellable())  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 2)
        for number in range(3, 6):  # by what others do, once each, and not by its own lock
            (tmp_path / f"{number}").mkdir()
            await until(lambda number=number: len(gateway.where) >= number)  # type: ignore[misc]
        assert gateway.where == [None, None, *[frozenset({str(tmp_path)})] * 3]
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_a_clock_of_its_own_does_not_put_off_the_look_at_everything(tmp_path: Path) -> None:
    gateway = Looking(tmp_path, wish=0.02)
    gateways = Gateways([gateway], Watch(reconcile_interval_s=0.3), Tellable())  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: gateway.where.count(None) >= 4)
        assert frozenset() in gateway.where
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_a_look_that_fails_does_not_keep_new_places_from_being_watched(tmp_path: Path) -> None:
    gateway, chronicle = Looking(tmp_path), Tellable()
    gateways = Gateways([gateway], Watch(reconcile_interval_s=60), chronicle)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) == 2)
        gateway.failure = OSError(40, "Too many levels of symbolic links")
        new = tmp_path / "new"
        new.mkdir()
        gateway.seen_places.append(frozenset({str(tmp_path), str(new)}))
        await until(lambda: len(gateway.where) == 4)  # what came, and everything once more, since it is watched now
        (new / "file").touch()
        await until(lambda: gateway.where[4:] == [frozenset({str(new)})])
        assert ("io_error", {"what": "gateway looking"}) in chronicle.lines
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_what_others_of_a_gateway_wish_for_is_kept_though_one_of_them_is_refused(tmp_path: Path) -> None:
    gateway, chronicle = Looking(tmp_path), Tellable()
    gateway.failure = LookRefused({"track a": OSError(40, "Too many levels of symbolic links")}, wish_s=0.01)
    gateways = Gateways([gateway], Watch(reconcile_interval_s=60), chronicle)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 4)
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_trouble_is_a_line_and_another_look_and_lines_are_heard(tmp_path: Path) -> None:
    gateway, chronicle = Looking(tmp_path, wish=0.02), Tellable()
    gateway.failure = PermissionError(13, "Permission denied")
    gateways = Gateways([gateway], Watch(reconcile_interval_s=0.05), chronicle)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: len(gateway.where) >= 3)
        assert chronicle.lines[0] == ("io_error", {"what": "gateway looking"})
        gateway.failure = None
        for hear in chronicle.listeners["agent_state"]:
            hear("agent_state", {"agent": "worker"})
        assert gateway.heard_of == ["agent_state"]
        assert gateways.page()["looking"]
        gateways.close()
        tasks.cancel_scope.cancel()


async def test_who_was_closed_does_not_watch_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[DirectoryWatch] = []

    def counted(watch: DirectoryWatch) -> None:
        opened.append(watch)
        open_(watch)

    monkeypatch.setattr(DirectoryWatch, "open", counted)
    gateway = Looking(tmp_path)
    gateways = Gateways([gateway], Watch(reconcile_interval_s=0.05, poll_interval_s=0.05), Tellable())  # type: ignore[arg-type]
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
    gateway, chronicle = Looking(tmp_path), Tellable()
    gateways = Gateways([gateway], Watch(reconcile_interval_s=60, poll_interval_s=0.05), chronicle)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        gateways.start(tasks)
        await until(lambda: gateway.where.count(None) >= 3)
        assert [type_ for type_, _ in chronicle.lines] == ["watch_degraded"]
        monkeypatch.setattr(DirectoryWatch, "open", open_)
        await until(lambda: gateways.is_watching)
        (tmp_path / "new").touch()
        await until(lambda: frozenset({str(tmp_path)}) in gateway.where)
        gateways.close()
        tasks.cancel_scope.cancel()
    assert [type_ for type_, _ in chronicle.lines] == ["watch_degraded", "watch_restored"]
