"""Reading the config again: what it costs those who did not change, and how long it takes with very many agents.

The first: a handler agent that stands unchanged in every config is called at 50 messages a second while reloads add,
change and remove others, one after the other without a pause; two of the files are bad. Beside it the same without
reloads. The second: one reload of a team of 1,000 agents, one of which is new, and one in which all of them are treated
differently; beside them the reading and checking of the same file by itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING

from ackd.config.model import load
from tests.bench import daemon, letters, pace
from tests.bench.figures import Figure, at_most, percentile
from tests.bench.latency import by_number, rename_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.acceptance.teams import Team
    from tests.bench.figures import Peer
    from tests.bench.scale import Scale

PATIENCE_S = 120.0
_READ = (b'"type":"config_reloaded"', b'"type":"config_refused"')
#: Which of the reloads are of a bad file.
_BAD = (13, 37)
_PERCENTS = ((50, 1.25), (99, 2.0), (100, 2.0))


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure | Peer]:
    return [*_undisturbed(place, scale, tell), *_of_many(place, scale, tell)]


# --- those who did not change -----------------------------------------------------------------------------------------
def _undisturbed(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    beside: list[list[float]] = []
    alone: list[list[float]] = []
    for turn in range(scale.reload_repetitions):
        alone.append(_waits_ms(place / f"alone{turn}", scale, reloads=0))
        beside.append(_waits_ms(place / f"reloads{turn}", scale, reloads=scale.reloads))
        tell(f"p99 {percentile(beside[-1], 99):.3f} ms beside reloads, {percentile(alone[-1], 99):.3f} ms without")
    return [
        Figure(
            "reload",
            f"renamed in → handler called, beside {scale.reloads} reloads, {_named(percent)}",
            "ms",
            tuple(percentile(one, percent) for one in beside),
            "without reloads",
            tuple(percentile(one, percent) for one in alone),
            at_most(factor),
        )
        for percent, factor in _PERCENTS
    ]


def _named(percent: int) -> str:
    return "the slowest" if percent == 100 else f"p{percent}"


def _waits_ms(place: Path, scale: Scale, *, reloads: int) -> list[float]:
    count = scale.reload_messages
    team = daemon.make_team(place, [letters.AGENT], handler="note")
    over = threading.Event()
    with daemon.serving(team):
        common = (place / "ackd.toml").read_text()
        reloading = threading.Thread(target=_reload_again_and_again, args=(team, common, reloads, over))
        reloading.start()
        try:
            sent = rename_in(team.root / "queue" / letters.AGENT, place, count)
            daemon.LinesSeen(team).wait(count + pace.WARM_UP, PATIENCE_S)
        finally:
            over.set()
            reloading.join()
    waits = pace.waits_ms(sent, by_number(daemon.notes_of(team)))
    shutil.rmtree(place)
    return waits


def _reload_again_and_again(team: Team, common: str, reloads: int, over: threading.Event) -> None:
    """Spread over the messages: a reload is begun when the one before it is over, and a fiftieth of the time is."""
    seen = daemon.LinesSeen(team, *_READ)
    for number in range(reloads):
        team.write_config("[agents.bench]\nendpoint = 7\n" if number in _BAD else _others(number), common)
        os.kill(team.pid, signal.SIGHUP)
        seen.wait(number + 1, PATIENCE_S)
        if over.wait(0.05):
            return


def _others(number: int) -> str:
    """Others than the agent that is measured: some come and go, one changes its command, one its kind."""
    kind = 'endpoint = "exec"\ncommand = ["true"]\n' if number % 2 else ""
    comers = "".join(f"[agents.comer-{one}]\n" for one in range(number % 5))
    return f'[agents.other]\nendpoint = "exec"\ncommand = ["true", "{number}"]\n[agents.shifting]\n{kind}{comers}'


# --- very many agents -------------------------------------------------------------------------------------------------
def _of_many(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    one: list[float] = []
    every: list[float] = []
    reads: list[float] = []
    names = [f"agent_{number}" for number in range(scale.reload_agents)]
    team = daemon.make_team(place / "many", names)
    with daemon.serving(team):
        common = (team.place / "ackd.toml").read_text()
        seen = daemon.LinesSeen(team, *_READ)
        for turn in range(scale.reload_repetitions):
            new = "".join(f"[agents.new_{number}]\n" for number in range(turn + 1))
            one.append(_reload_s(team, seen, common, new))
            other = common.replace("[delivery]\n", f"[delivery]\nretry_limit = {turn}\n")
            every.append(_reload_s(team, seen, other, new))
            began = time.monotonic()
            load(team.place / "ackd.toml")
            reads.append(time.monotonic() - began)
            tell(
                f"{scale.reload_agents} agents: {one[-1]:.3f} s, all different {every[-1]:.3f} s, read {reads[-1]:.3f} s"
            )
    shutil.rmtree(place / "many")
    what, limit = f"reload of {scale.reload_agents:,} agents", "the file read and checked"
    return [
        Figure("reload", f"{what}, one of them new", "s", tuple(one), limit, tuple(reads), at_most(4)),
        Figure("reload", f"{what}, all treated differently", "s", tuple(every), limit, tuple(reads), at_most(5)),
    ]


def _reload_s(team: Team, seen: daemon.LinesSeen, common: str, agents: str) -> float:
    """From the request to the line that says that it is done."""
    team.write_config(agents, common)
    before = seen.look()
    began = time.monotonic()
    os.kill(team.pid, signal.SIGHUP)
    return seen.wait(before + 1, PATIENCE_S) - began
