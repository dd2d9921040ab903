"""The command ``python -m tests.simulation``: runs seeds until one breaks a promise, or replays one, with everything that happened.

python -m tests.simulation --hours 10000 --jobs 2   as `make faults` does, with as many jobs as there are processors
python -m tests.simulation --seed 1234 --trace      one run again, to the last byte
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import signal
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation import mutations
from tests.simulation.simulation import TAIL_HOURS, OutOfTime, Simulation
from tests.simulation.verdict import Broken

if TYPE_CHECKING:
    from types import FrameType

RUN_HOURS = 20.0
#: A run that takes more CPU time goes round in circles: it is ended, with the place it was at.
PATIENCE_S = 180


def main() -> int:
    options = _options()
    begun = time.perf_counter()
    shares = _side_by_side(options) if options.jobs > 1 else [_share(options, 0)]
    if shares is None:
        return 1  # it has said why
    hours, broken, cpu = (sum(numbers) for numbers in zip(*shares, strict=True))
    if broken and not options.keep_going:
        return 1
    print(f"{hours:.0f} simulated hours, {broken:.0f} promises broken")
    took = time.perf_counter() - begun
    print(f"in {took:.0f} s: {hours / cpu:.1f} hours a second of CPU time", file=sys.stderr)
    return int(broken > 0)


_FORK = multiprocessing.get_context("fork")
_FOUND = _FORK.Event()  # by one of several: the others stop looking


def _side_by_side(options: argparse.Namespace) -> list[tuple[float, int, float]] | None:
    """Each takes every so-many-th seed: which they are depends on nobody's speed."""
    with ProcessPoolExecutor(options.jobs, mp_context=_FORK) as pool:
        try:
            return list(pool.map(partial(_share, options), range(options.jobs)))
        except BrokenProcessPool:  # a run that did not come to its end
            _FOUND.set()
            return None


def _share(options: argparse.Namespace, number: int) -> tuple[float, int, float]:
    """Simulated hours, promises broken, seconds of CPU time."""
    seeds = [options.seed] if options.seed is not None else itertools.count(options.first + number, options.jobs)
    cpu, hours, broken = time.process_time(), 0.0, 0
    for seed in seeds:
        if hours >= options.hours / options.jobs or _FOUND.is_set():
            break
        try:
            broken += not one(seed, options, until=cpu + options.seconds)
        except OutOfTime as cut:
            print(
                f"time is up: seed {seed} was left after {cut.hours:.1f} hours, and counts for nothing", file=sys.stderr
            )
            break
        hours += options.run_hours + TAIL_HOURS
        if broken and not options.keep_going:
            _FOUND.set()
            break
    return hours, broken, time.process_time() - cpu


def one(seed: int, options: argparse.Namespace, until: float) -> bool:
    show = print if options.trace else None
    mutation = mutations.ALL.get(options.mutation)
    run = Simulation(
        seed,
        options.run_hours,
        show=show,
        digested=options.verbose or options.seed is not None,
        mutation=mutations.mended(mutation) if options.mended and mutation is not None else mutation,
        is_over=lambda: time.process_time() > until,
    )
    signal.signal(signal.SIGPROF, partial(_give_up, seed, run))
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        run.run()
    except OutOfTime:
        raise
    except Exception as error:  # noqa: BLE001 - whatever else it is, in the daemon or around it, has a seed, too
        cause = error.__cause__ if isinstance(error, Broken) else error
        if cause is not None and (options.trace or not isinstance(error, Broken)):
            traceback.print_exception(cause)
        _say(f"seed {seed} breaks a promise after {run.timeline.hours:.2f} hours: {error}")
        mutated = f" --mutation {options.mutation}" if options.mutation else ""
        mutated += " --mended" if options.mended else ""
        _say(f"replay: python -m tests.simulation --seed {seed} --run-hours {options.run_hours:g}{mutated} --trace")
        return False
    if options.verbose or options.seed is not None:
        _say(f"seed {seed}: {run.digest} {dict(run.counts)}")
    return True


def _say(line: str) -> None:
    """In one write: another job may have something to say at the same time."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _give_up(seed: int, run: Simulation, _number: int, frame: FrameType | None) -> None:
    traceback.print_stack(frame)
    print(
        f"seed {seed} does not come to its end: {run.timeline.hours:.2f} hours in {PATIENCE_S} s of CPU time",
        flush=True,
    )
    os._exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--first", type=int, default=1, help="the first of many")
    parser.add_argument("--hours", type=float, default=float("inf"), help="simulated, over all seeds")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="of CPU time: end after that many, in the midst of a seed"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its share of the seeds and the hours")
    parser.add_argument("--keep-going", action="store_true", help="find more than the first that breaks")
    parser.add_argument("--run-hours", type=float, default=RUN_HOURS, help="with faults, for each seed")
    parser.add_argument("--mutation", choices=sorted(mutations.ALL), help="a daemon that breaks a promise on purpose")
    parser.add_argument("--mended", action="store_true", help="with its trouble, but a daemon that breaks nothing")
    parser.add_argument("--trace", action="store_true", help="print every event, effect and change on disk")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.jobs < 1 or (options.jobs > 1 and (options.seed is not None or options.trace)):
        parser.error("--jobs: at least one, and just one to replay or trace a seed")
    return options
