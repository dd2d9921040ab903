"""Where the simulation takes hold of the daemon: what it is given in the place of terminals, commands and inotify, and
where each event and effect is seen on its way.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.config import EndpointKind
from ackd.core.engine import Engine
from ackd.runtime import lookout, team
from ackd.runtime.effect_runner import EffectRunner
from ackd.runtime.gateways import gateways
from ackd.runtime.team import Team, environment
from tests.simulation.endpoints import PaneEndpoint, RunEndpoint
from tests.simulation.watching import BlindWatch, HintWatcher

if TYPE_CHECKING:
    from ackd.core.effects import Effect
    from ackd.core.events import Event, Now
    from tests.simulation.simulation import Simulation


def of(run: Simulation) -> list[tuple[Any, str, Any]]:
    handle, do, build = Engine.handle, EffectRunner._do, Team._build

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

    def built(of: Team, name: str, table: Any) -> Any:
        if table.endpoint is EndpointKind.TMUX:
            return PaneEndpoint(name, run.agents, of.post)
        if table.endpoint is EndpointKind.EXEC:
            return _commands(run, of, name, table)
        return build(of, name, table)

    def watcher(*_: object) -> HintWatcher:
        return HintWatcher(str(run.site.root), run.disk, run.rng(f"hints {run.counts['starts']}"), run.swarm)

    return [
        (Engine, "handle", traced_handle),
        (EffectRunner, "_do", fateful_do),
        (Team, "_build", built),
        (lookout, "InotifyWatcher", watcher),
        (gateways, "DirectoryWatch", BlindWatch),
        (team, "load_handler", run.agents.handler),
    ]


def _commands(run: Simulation, of: Team, name: str, table: Any) -> RunEndpoint:
    return RunEndpoint(
        agent=name,
        command=[],
        cwd=Path("/"),
        env={},
        runs_dir=run.site.state / "runs",
        resolve=of.spool.path,
        post=of.post,
        record=of.record,
        tasks=of.tasks,
        extra_env=environment(run.site),
        timeout_s=table.timeout_s,
        agents=run.agents,
    )
