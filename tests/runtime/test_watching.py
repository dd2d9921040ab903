"""The choice of the watcher: real watchers over a real spool, with an intake that takes their hints."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import anyio

from ackd.config.model import WatchSettings
from ackd.config.site import find_site
from ackd.core.events import Arrived
from ackd.core.ports import Hint, WatchFailed
from ackd.runtime import watching as module
from ackd.runtime.watching import SpoolWatch
from ackd.storage.inotify_watch import InotifyWatcher
from tests.live_config import live_config
from tests.runtime.intake_fixture import IntakeSetup, intake_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import pytest

    from ackd.core.message import Place
    from ackd.core.ports import Watcher

NEVER_BY_ITSELF_S = 3600.0


@dataclass
class Watching:
    setup: IntakeSetup
    watching: SpoolWatch
    failures: list[str] = field(default_factory=list)

    async def hears_of(self, name: str) -> None:
        place = self.setup.put(name)
        await self.setup.until(lambda: any(event.place == place for event in self.setup.of(Arrived)))

    def degraded(self) -> list[dict[str, object]]:
        return self.setup.said("watch_degraded")


@contextlib.asynccontextmanager
async def watching(
    place: Path, mode: Literal["auto", "inotify", "polling"] = "auto", poll_interval_s: float = 0.05
) -> AsyncIterator[Watching]:
    site = find_site(root=place)
    config = live_config(watch=WatchSettings(mode=mode, poll_interval_s=poll_interval_s, reconcile_interval_s=0.05))
    async with intake_in(place) as setup, anyio.create_task_group() as tasks:
        failures: list[str] = []
        services = replace(setup.services, tasks=tasks)
        watching = SpoolWatch(site=site, config=config, intake=setup.intake, services=services, fail=failures.append)
        yield Watching(setup, watching, failures)
        tasks.cancel_scope.cancel()


class Refused:
    """A watcher that gets no watches from the kernel, and fails before it is ready."""

    beats = 0

    def __init__(self, *_: object) -> None:
        pass

    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None:
        post(WatchFailed("no watches left"))

    def own_move(self, source: Place, target: Place) -> None:
        pass


class ReadyThenRefused(Refused):
    async def run(self, post: Callable[[Hint], None], ready: Callable[[], None]) -> None:
        ready()
        post(WatchFailed("no watches left for the next directory"))


async def test_inotify_is_used_where_it_can_be_had(tmp_path: Path) -> None:
    async with watching(tmp_path, poll_interval_s=NEVER_BY_ITSELF_S) as it:
        await it.watching.begin()
        assert it.watching.mode == "inotify"
        await it.hears_of("m.mime")
        assert it.degraded() == []


async def test_polling_is_used_where_it_is_asked_for(tmp_path: Path) -> None:
    async with watching(tmp_path, "polling") as it:
        await it.watching.begin()
        assert it.watching.mode == "polling"
        await it.hears_of("m.mime")
        before = it.watching.beats
        await it.setup.until(lambda: it.watching.beats > before)
        assert it.degraded() == []


async def test_a_watcher_that_fails_is_replaced_by_polling_said_once(tmp_path: Path) -> None:
    async with watching(tmp_path) as it:
        await it.watching.begin()
        it.watching.hear(anyio.Event(), WatchFailed("no watches left"))
        await it.setup.until(lambda: it.watching.mode == "polling")
        await it.hears_of("m.mime")
        assert it.degraded() == [{"reason": "no watches left", "mode": "polling"}]
        assert it.failures == []


async def test_what_came_between_two_watchers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "InotifyWatcher", Refused)
    async with watching(tmp_path, poll_interval_s=NEVER_BY_ITSELF_S) as it:
        place = it.setup.put()  # there before polling begins, and so polling sees no difference
        await it.watching.begin()
        await it.setup.until(lambda: any(event.place == place for event in it.setup.of(Arrived)))


async def test_inotify_that_was_insisted_on_and_cannot_be_had_is_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "InotifyWatcher", Refused)
    async with watching(tmp_path, "inotify") as it:
        with anyio.fail_after(60):
            await it.watching.begin()  # returns though no watcher is ready, because its caller must see the end
        assert it.failures == ["[watch] mode is inotify, and it cannot be had: no watches left"]
        assert it.watching.mode == "inotify"


async def test_inotify_is_tried_again_until_it_can_be_had_and_polling_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = InotifyWatcher, []

    def third_time_lucky(
        queue_dir: Path, receipts_dir: Path, reserved: frozenset[str], *around: Callable[[], None]
    ) -> Watcher:
        refusals.append(queue_dir)
        return real(queue_dir, receipts_dir, reserved, *around) if len(refusals) > 3 else Refused()

    monkeypatch.setattr(module, "InotifyWatcher", third_time_lucky)
    async with watching(tmp_path) as it:
        await it.watching.begin()
        await it.setup.until(lambda: it.watching.mode == "inotify" and len(refusals) == 4)
        assert len(it.degraded()) == len(it.setup.said("watch_restored")) == 1
        polls = it.watching._polling
        await it.setup.until(lambda: polls.cancelled_caught)
        await it.hears_of("m.mime")


async def test_a_watcher_that_fails_as_soon_as_it_is_back_is_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher is ready, and is refused the next watch at once: polling goes on, and nothing ends."""
    makes = iter([Refused, ReadyThenRefused])
    monkeypatch.setattr(module, "InotifyWatcher", lambda *_: next(makes, Refused)())
    async with watching(tmp_path) as it:
        await it.watching.begin()
        await it.setup.until(lambda: len(it.degraded()) == 2)
        await it.setup.until(lambda: it.watching.mode == "polling")
        await it.hears_of("m.mime")
        assert len(it.setup.said("watch_restored")) == 1
        assert it.failures == []
