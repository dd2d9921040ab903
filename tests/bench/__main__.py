"""``make bench``: speed as ratios to a limit measured in the same run, medians of repetitions taken in turns.

Numbers of two runs are not comparable on a shared machine; ratios within one run are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.bench import (
    backlog,
    bus,
    children,
    crashes,
    crowd,
    growth,
    idle,
    keystrokes,
    latency,
    leasing,
    old_logs,
    pools,
    readiness,
    reloading,
    starting,
    team_idle,
    throughput,
)
from tests.bench.figures import Figure, Peer, Results
from tests.bench.ground import ground, machine
from tests.bench.publishing import publish, published
from tests.bench.race import BenchFailed
from tests.bench.scale import FULL, QUICK, Scale
from tests.bench.table import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Bench = Callable[[Path, Scale, Callable[[str], None]], Sequence[Figure | Peer]]

BENCHES: dict[str, Bench] = {
    "latency": latency.measure,
    "throughput": partial(throughput.measure, throughput.DURABLE),
    "crash-safe": partial(throughput.measure, throughput.CRASH_SAFE),
    "start-up": starting.measure,
    "readiness": readiness.measure,
    "backlog": backlog.measure,
    "idle": idle.measure,
    "team-idle": team_idle.measure,
    "crashes": crashes.measure,
    "keystrokes": keystrokes.measure,
    "children": children.measure,
    "pools": pools.measure,
    "leases": leasing.measure,
    "bus": bus.measure,
    "growth": growth.measure,
    "old-logs": old_logs.measure,
    "crowd": crowd.measure,
    "reload": reloading.measure,
}
#: In a warning: there are no figures of that bench, and nothing is kept of such a run.
FAILED = "was not measured"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which benches (default: all)")
    parser.add_argument("--list", action="store_true", help="name the benches, and measure nothing")
    parser.add_argument("--quick", action="store_true", help="less of everything: under two minutes, rougher")
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep the results: results.json, the tables of docs/performance.md, the plot",
    )
    parser.add_argument(
        "--redraw", action="store_true", help="measure nothing; make table and plot anew from results.json"
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    given = parser.parse_args()
    if unknown := set(given.names) - BENCHES.keys():
        parser.error(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    if given.save and (given.names or given.quick):
        parser.error("--save keeps whole runs only: no names, no --quick")
    return given


def measured(names: Sequence[str], scale: Scale) -> Results:
    """A bench that fails is a warning in the results: the others are measured all the same."""
    with ground() as here:
        warnings = [*here.warnings, *_busy()]
        print(f"{machine()}, {here.file_system}", *warnings, sep="\n", file=sys.stderr)
        rows: list[Figure | Peer] = []
        for name in names:
            place = here.place / name
            try:
                rows += BENCHES[name](place, scale, partial(_tell, name))
            except BenchFailed as failure:
                warnings.append(f"{name} {FAILED}: {failure}")
                _tell(name, str(failure))
            shutil.rmtree(place, ignore_errors=True)
        return Results(
            machine=machine(),
            file_system=here.file_system,
            date=time.strftime("%Y-%m-%d"),
            figures=tuple(row for row in rows if isinstance(row, Figure)),
            peers=tuple(row for row in rows if isinstance(row, Peer)),
            warnings=tuple(warnings),
        )


def _busy() -> list[str]:
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return [f"the machine was busy: load {load:.1f} on {cores} cores"] if load > cores / 2 else []


def _tell(bench: str, what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {bench}: {what}", file=sys.stderr, flush=True)


def main() -> int:
    given = arguments()
    if given.list:
        print("\n".join(BENCHES))
        return 0
    if given.redraw:
        publish(published())
        return 0
    try:
        results = measured(given.names or list(BENCHES), QUICK if given.quick else FULL)
    except KeyboardInterrupt:
        return 130
    print(f"\n{markdown(results)}")
    if any(FAILED in warning for warning in results.warnings):
        return 1
    if given.save:
        publish(results)
    missed = [figure for figure in results.figures if figure.met is False]
    return 1 if missed and given.strict else 0


if __name__ == "__main__":
    sys.exit(main())
