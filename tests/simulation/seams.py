"""Where the simulation takes hold of the daemon: what it is given in the place of terminals, commands and inotify, and
where each event and effect is seen on its way.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.config.comparing import compare
from ackd.core.engine import Engine
from ackd.endpoints.handler import maker
from ackd.runtime import gateways, watching
from ackd.runtime.reloading import ReadAgain, Reloads
from ackd.runtime.runner.runner import EffectRunner
from ackd.runtime.team import Makers, environment
from tests.simulation.endpoints import PaneEndpoint, RunEndpoint
from tests.simulation.watching import BlindWatch, HintWatcher

if TYPE_CHECKING:
    from ackd.core.effects import Effect
    from ackd.core.events import Event, Now
    from tests.simulation.simulation import Simulation


def of(run: Simulation) -> list[tuple[Any, str, Any]]:
    handle, do, build = Engine.handle, EffectRunner._do, Makers.make

    def traced_handle(engine: Engine, event: Event, now: Now) -> list[Effect]:
        if run.is_traced:  # to put it into words takes as long as to handle it
            run.trace(f"event {event}")
        return handle(engine, event, now)

    def fateful_do(runner: EffectRunner, effect: Effect) -> Any:
        run.fate.between_effects(type(effect).__name__)
        if run.is_traced:
            run.trace(f"effect {effect}")
        run.judge.about_to(effect)
        return do(runner, effect)

    def built(of: Makers, name: str, table: Any) -> Any:
        if table.endpoint == "tmux":
            return PaneEndpoint(name, run.agents, of._offered.services.post)
        if table.endpoint == "exec":
            return _commands(run, of, name, table)
        return build(of, name, table)

    def read_again(reloads: Reloads, known: list[str]) -> ReadAgain:
        """There is no file: what it would say is the run's."""
        config = run.config
        return ReadAgain(config, config.fingerprint(), (), compare(reloads.config.now, config, known))

    def watcher(*_: object) -> HintWatcher:
        return HintWatcher(str(run.site.root), run.disk, run.rng(f"hints {run.counts['starts']}"), run.swarm)

    return [
        (Engine, "handle", traced_handle),
        (EffectRunner, "_do", fateful_do),
        (Makers, "make", built),
        (Reloads, "_read", read_again),
        (watching, "InotifyWatcher", watcher),
        (gateways, "DirectoryWatch", BlindWatch),
        (maker, "load_handler", run.agents.handler),
    ]


def _commands(run: Simulation, of: Makers, name: str, table: Any) -> RunEndpoint:
    return RunEndpoint(
        agent=name,
        command=[],
        cwd=Path("/"),
        env={},
        runs_dir=run.site.state / "runs",
        resolve=of._offered.files.path,
        services=of._offered.services,
        config=of._offered.live,
        extra_env=environment(run.site),
        timeout_s=table.timeout_s,
        agents=run.agents,
    )
