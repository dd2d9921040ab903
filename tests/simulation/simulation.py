"""One run: a team, a daemon that lives and dies, and what happens around it, all from one seed.

The daemon is the real one, from its composition root on, and so are all adapters but the watcher, terminals and
commands; the machine below it is simulated (machine.py). Faults last for ``hours``; then the world is fair and time
passes, and everything must have come to an end or have a stated reason to wait.
"""

from __future__ import annotations

import hashlib
import random
import signal
import warnings
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from ackd.config.model import Config
from ackd.config.site import Site
from ackd.runtime.daemon import CannotGoOn, Daemon
from tests.simulation import machine, seams, team
from tests.simulation.agents import Agents
from tests.simulation.faults import Crash, Fate, draw
from tests.simulation.judge import Judge
from tests.simulation.kernel import Kernel
from tests.simulation.memory_disk import MemoryDisk
from tests.simulation.people import Ledger
from tests.simulation.timeline import Timeline
from tests.simulation.verdict import Broken
from tests.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable

#: How long the world is fair in the end: longer than every clock of the policy, one after the other.
TAIL_HOURS: Final = 6.0
#: Where work is shared out, parts are called off, too.
CANCELS_OF_PARTS_AN_HOUR: Final = 6.0
RELOADS_AN_HOUR: Final = 3.0
#: In the end, for whatever has just got its turn.
LAST_MOMENT_S: Final = 60.0
CHECK_EVERY_S: Final = 600.0


class OutOfTime(BaseException):
    """Whoever runs the simulation has no more time for this run. No handler of ours may catch it."""

    def __init__(self, hours: float) -> None:
        super().__init__(hours)
        self.hours = hours


class Service:
    """The service manager: it only hears that the daemon is ready."""

    watchdog_s: None = None

    def __init__(self) -> None:
        self.is_ready = False

    def ready(self, status: str) -> None:
        self.is_ready = True

    def reloading(self) -> None: ...

    def stopping(self) -> None: ...

    def alive(self) -> None: ...


class Nobody:
    """Whoever would look at the daemon's output."""

    def show(self, type_: str, data: dict[str, object], wall: float) -> None: ...

    def flush(self) -> None: ...


class Simulation:
    def __init__(
        self,
        seed: int,
        hours: float,
        *,
        show: Callable[[str], None] | None = None,
        digested: bool = True,
        mutation: Callable[[Simulation], Any] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_over = is_over
        self.seed, self.hours, self._show, self._mutation = seed, hours, show, mutation
        self.is_traced = digested or show is not None
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.blake2b(digest_size=16)
        self.timeline = Timeline()
        self.swarm = draw(self.rng("swarm"))
        self.fate = Fate(self.rng("fate"), self.swarm, self._crash, self.trace)
        self.disk = MemoryDisk(self.timeline)
        self.kernel = Kernel(self.disk, self.fate)
        self.disk.create(machine.ROOT, 0o40755)
        self._dice = self.rng("world")
        self.reloads = seed % 10 == 5
        self.pooled = seed % 10 in (3, 7) or self.reloads
        self._first_config = team.config(self.rng("config"), pooled=self.pooled)
        #: What the file says. A daemon that runs may not have read it yet.
        self.config = Config.model_validate(self._first_config)
        durable = self.config.delivery.durability == "power"
        if not durable:  # then a power cut may take anything: that was the bargain
            self.swarm.power_cut = 0.0
        self.site = Site(None, Path(machine.ROOT) / "root", fsync=durable)
        self.ledger = Ledger(self.rng("ledger"), self.swarm, self.timeline, self.disk, self.site)
        self.ledger.shares, self.ledger.pooled = seed % 10 == 9, self.pooled
        if self.ledger.shares:
            self.swarm.cancels_an_hour = CANCELS_OF_PARTS_AN_HOUR
        self.agents = Agents(self.rng("agents"), self.swarm, self.timeline, self.kernel, self.site, self.ledger)
        self.judge = Judge(self)
        self.daemon: Daemon | None = None
        self._loop: VirtualLoop | None = None
        self._power_cut = False
        self.clock_was_set = False
        self._ending = False
        self._unfinished: dict[int, str] = {}

    @property
    def digest(self) -> str:
        """The same for the same run, to the last byte; if it is ``digested``."""
        return self._digest.hexdigest()

    def trace(self, line: str) -> None:
        if not self.is_traced:
            return
        self._digest.update(line.encode("utf-8", "backslashreplace"))
        if self._show is not None:
            self._show(f"{self.timeline.mono:14.4f} {line}")

    # --- the run ----------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Raises ``Broken`` when a promise is, ``OutOfTime`` once ``is_over`` says so."""
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings(
                "ignore", message="coroutine .* was never awaited"
            )  # a killed process awaits nothing
            stack.enter_context(machine.replaced(self.kernel, self.timeline, self.rng("machine")))
            for owner, name, value in seams.of(self):
                stack.enter_context(mock.patch.object(owner, name, value))
            if self._mutation is not None:
                stack.enter_context(self._mutation(self))
            self._plan()
            while not self._ending or self._loop is not None:
                self._live_once()
                if not self._ending:
                    self._stay_down(self._dice.choice((0.1, 2.0, self._dice.expovariate(1 / 300))))
            self.judge.conclude()

    def _live_once(self) -> None:
        """One daemon, from its start to its end, whatever that is."""
        self.counts["starts"] += 1
        self.trace("start")
        self.judge.daemon_starts()
        self.fate.dead = False
        service = Service()
        loop = self._loop = VirtualLoop(self.timeline, self.kernel, self.fate.thread_delay_s)
        self.daemon = Daemon(
            self.config,
            self.site,
            Nobody(),
            clock=self.timeline,
            service=service,  # type: ignore[arg-type]
            rng=self.rng(f"engine {self.counts['starts']}"),
            in_terminal=False,
        )
        try:
            loop.run_until_complete(self.daemon.serve())
        except Crash:
            pass
        except Broken:
            raise
        except OSError as error:
            if service.is_ready or not self.fate.refused:
                raise Broken(f"the daemon ended by itself: {error!r}") from error
            self.counts["failed starts"] += 1
        except CannotGoOn as why:
            raise Broken(f"the daemon gave up: {why}") from why
        except Exception as error:
            if not loop.killed:
                raise Broken(f"the daemon ended with a bug: {error!r}") from error
        self._end_life(loop)

    def _end_life(self, loop: VirtualLoop) -> None:
        killed = loop.killed
        self.fate.dead = True
        self.kernel.daemon_acts = True
        loop.bury()
        self.kernel.daemon_acts = False
        self.kernel.end_process()
        self.disk.listeners[:] = [one for one in self.disk.listeners if one == self.judge.notice]
        if loop.mishaps and not killed:
            raise Broken(f"asyncio complains: {loop.mishaps[0]}")
        self.daemon = self._loop = None
        if self._power_cut:
            self._power_cut = False
            self.counts["power cuts"] += 1
            self.agents.lose_power()
            self.trace(f"power cut: {self.disk.power_cut(self._dice)} names back")
            self.judge.power_was_cut()
        self.judge.daemon_ended()

    def _stay_down(self, seconds: float) -> None:
        until = self.timeline.mono + seconds
        while self.timeline.next_at() <= until and not self._ending:
            self.timeline.step()
        self.timeline.mono = max(until, self.timeline.mono)

    def _crash(self, where: str) -> None:
        if self._loop is None or self.fate.dead:
            return
        self.trace(f"crash {where}")
        self.counts["crashes"] += 1
        self.fate.dead = True
        self._power_cut = self._dice.random() < self.swarm.power_cut
        self._loop.kill()
        raise Crash(where)

    # --- the world --------------------------------------------------------------------------------------------------
    def _plan(self) -> None:
        self.disk.listeners.append(self.judge.notice)
        letters_an_hour = self._dice.choice((1.0, 4.0, 15.0))
        self._often(lambda: letters_an_hour, self._send)
        self._often(lambda: self.swarm.stops_an_hour, self._stop)
        self._often(lambda: self.swarm.full_disk_an_hour, self._fill_disk)
        self._often(lambda: self.swarm.jumps_an_hour, self._set_clock)
        self._often(lambda: self.swarm.boxes_lost_an_hour, lambda: self.ledger.lose_box(self._dice.choice(team.NAMES)))
        self._often(lambda: self.swarm.deletions_an_hour, self.ledger.delete_any)
        self._often(lambda: self.swarm.requests_an_hour, self.ledger.ask)
        self._often(lambda: self.swarm.cancels_an_hour, self.ledger.cancel_any)
        self._often(lambda: 4.0, lambda: self.agents.look_into_inbox(self._dice.choice(("clerk", "user"))))
        if self.reloads:
            self._often(lambda: RELOADS_AN_HOUR, lambda: self._reload(team.changed(self._dice, self._first_config)))
        self._again(CHECK_EVERY_S, self._check)
        self.timeline.after(self.hours * 3600, self._calm_down)
        self.timeline.after((self.hours + TAIL_HOURS) * 3600, self._end)

    def _send(self) -> None:
        sender = self._dice.choice((*team.NAMES, "user", "stranger"))
        to = self._dice.choice((*team.NAMES, *team.NAMES, "user", "system"))
        if self._dice.random() < self.swarm.odd_letters:
            self.ledger.send_oddly(sender, to)
            return
        burst = self._dice.choice((1, 1, 1, 5))
        for _ in range(burst):
            letter = self.ledger.send(sender, to)
            self.agents.speak_early(to, letter.message_id)

    def _reload(self, config: dict[str, Any]) -> None:
        """Somebody writes another config, and has the daemon read it, if there is one."""
        self.trace("the config is another")
        self.config = Config.model_validate(config)
        if self.daemon is not None and self._loop is not None and self._loop.stoppable:
            self.counts["reloads"] += 1
            self._loop.call_soon(self.daemon._reloads.ask, "SIGHUP")

    def _stop(self) -> None:
        """By the service manager; the second signal never comes."""
        if self._loop is not None and self._loop.stoppable:
            self.trace("SIGTERM")
            self.counts["stops"] += 1
            self._loop.send_signal(signal.SIGTERM)

    def _fill_disk(self) -> None:
        self.trace("disk full")
        self.fate.disk_full = True
        self.timeline.after(self._dice.uniform(1, 900), lambda: setattr(self.fate, "disk_full", False))

    def _set_clock(self) -> None:
        jump_s = self._dice.uniform(-3600, 3600)
        self.trace(f"wall clock set by {jump_s:.0f} s")
        self.timeline.skew += jump_s
        self.clock_was_set = True

    def _check(self) -> None:
        if self._is_over():
            raise OutOfTime(self.timeline.hours)
        if self.daemon is not None and self._loop is not None and not self._loop.killed:
            self.judge.look(self.daemon)

    def _calm_down(self) -> None:
        self.trace("from here on the world is fair")
        self.swarm.calm()
        self.fate.disk_full = False
        if self.reloads:
            self._reload(self._first_config)
        for name in team.NAMES:  # whoever was taken for dead shows that it lives
            self.ledger.send(name, "user")

    def _end(self) -> None:
        if self.daemon is not None and self._loop is not None and not self._unfinished:
            self._unfinished = self.judge.unfinished(self.daemon)
            if self._unfinished:
                self.timeline.after(LAST_MOMENT_S, self._end)
                return
        self._ending = True
        if self.daemon is not None and self._loop is not None:
            self.judge.look_last(self.daemon, self._unfinished)
            self.trace("the end")
            if self._loop.stoppable:
                self._loop.send_signal(signal.SIGTERM)

    def _often(self, an_hour: Callable[[], float], act: Callable[[], object]) -> None:
        """At random moments, so often on average. A rate of nothing is asked for again later."""

        def happen() -> None:
            if self.timeline.hours < self.hours and an_hour():
                act()
            plan()

        def plan() -> None:
            rate = an_hour()
            self.timeline.after(self._dice.expovariate(rate / 3600) if rate else 36_000.0, happen)

        plan()

    def _again(self, every_s: float, act: Callable[[], None]) -> None:
        def happen() -> None:
            act()
            self.timeline.after(every_s, happen)

        self.timeline.after(every_s, happen)

    def rng(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/{what}")
