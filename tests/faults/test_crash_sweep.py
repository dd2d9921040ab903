"""kill -9 before and after every change that the daemon makes on disk, and a disk that refuses at every one.

Every script is run once to count its calls; then again for each of them, with the fault at that one. In CI a part is
taken by a fixed rule (every rename of a message, and every so-manyth of the others), by ``make faults`` all.
"""

from __future__ import annotations

import errno
import fcntl
import json
import random
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.faults import counts
from tests.faults.crash_cases import Verdict, run_case
from tests.faults.crash_processes import Fault
from tests.faults.crash_scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.faults.crash_processes import Zygote
    from tests.faults.crash_scripts import Script

#: Cases side by side: most of a case is waiting for a clock.
SIDE_BY_SIDE = 4
EVERY_NTH_KILL = 20
EVERY_NTH_FAULT = 24
#: A disk that is broken for this long is one that everything under way meets.
WHILE_MS = 300
#: How many may come to their end without their fault. A run does not make its calls in the same order twice, and one on a
#: busy machine makes fewer: what came in several steps it takes in at once. CI has few cases, and those mostly late ones.
MISSED = 0.1 if counts.full() else 0.4

pytestmark = [
    pytest.mark.timeout(600 if not counts.full() else 7200),
    pytest.mark.parametrize("script", [pytest.param(it, id=it.name, marks=it.marks) for it in SCRIPTS.values()]),
]


@pytest.fixture
def calls(zygote: Zygote, script: Script, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> list[str]:
    """The calls of one whole run of the script, in words. Recorded by the first test that asks, in whichever worker, and
    kept for the others in a directory that all workers of this run share."""
    shared = tmp_path_factory.getbasetemp() if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    kept = shared / f"calls-{script.name}.json"
    with kept.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(recorded(zygote, script)))
    found: list[str] = json.loads(kept.read_text())
    return found


def recorded(zygote: Zygote, script: Script) -> list[str]:
    """Of two runs the shorter, for a run that waited for the machine makes more calls."""
    verdicts = [run_case(zygote, script, Fault("record")) for _ in range(2)]
    assert not any(verdict.problems for verdict in verdicts), verdicts
    return min((verdict.notes for verdict in verdicts), key=len)


def chosen(calls: list[str], every_nth: int, salt: str) -> list[int]:
    """Numbers of calls. All, or every rename of a message and every so-manyth call of the others."""
    if counts.full():
        return list(range(1, len(calls) + 1))
    offset = zlib.crc32(salt.encode()) % every_nth
    numbers = range(1, len(calls) + 1)
    return [n for n in numbers if n % every_nth == offset or re.search(r": rename (?!state|run)", calls[n - 1])]


def kinds(calls: Iterable[str]) -> set[str]:
    """Which changes there are, by call and path, whatever their numbers, times, ids and the case's own directory."""
    named = (re.sub(r"/\S*/ackd-crash-[^/]*", "", call.partition(": ")[2]) for call in calls)
    return {re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", call) for call in named}


def glob_of(kind: str) -> str:
    """By which the interposer knows calls of that kind: over the call and its whole paths."""
    call, _, paths = kind.partition(" ")
    return f"{call} *{paths.replace(' -> ', ' *').replace('#', '*')}*"


def judge(cases: Iterable[tuple[Fault, ...]], run: Callable[..., Verdict], *, missed: float = MISSED) -> list[Verdict]:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        verdicts = list(pool.map(lambda faults: run(*faults), cases))
    assert verdicts, "no case was chosen"
    bad = [str(verdict) for verdict in verdicts if verdict.problems]
    assert not bad, f"{len(bad)} of {len(verdicts)} cases:\n" + "\n".join(bad)
    reached = sum(len(verdict.notes) >= len(verdict.faults) for verdict in verdicts)
    assert len(verdicts) - reached <= max(1, missed * len(verdicts)), in_words(verdicts)
    return verdicts


def judge_each_kind(calls: list[str], faults: list[Fault], run: Callable[..., Verdict]) -> str:
    """Faults at numbers of calls; then, by ``make faults``, one at every kind of call that these numbers happened to miss,
    for a run does not make its calls in the same order twice. A few are made in some runs only: a status, say, that is
    written if its command takes longer."""
    verdicts = judge(((fault,) for fault in faults), run)
    known = kinds(calls)
    spared = known - kinds(note for verdict in verdicts for note in verdict.notes)
    if spared and counts.full():
        again = [(replace(faults[0], at=1, only=glob_of(kind)),) for kind in sorted(spared)]
        verdicts += judge(again, run, missed=1.0)
        spared -= kinds(note for verdict in verdicts for note in verdict.notes)
        assert len(spared) <= 0.1 * len(known), f"never hit: {sorted(spared)}"
    return f"{in_words(verdicts)}, at {len(known - spared)} of {len(known)} kinds of calls"


def in_words(verdicts: list[Verdict]) -> str:
    reached = sum(len(verdict.notes) >= len(verdict.faults) for verdict in verdicts)
    return f"{len(verdicts)} cases, {reached} came to their fault"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_call_loses_nothing_and_runs_nothing_again(
    zygote: Zygote, script: Script, calls: list[str], when: str, record_property: Callable[[str, object], None]
) -> None:
    numbers = chosen(calls, EVERY_NTH_KILL, f"{script.name} {when}")
    faults = [Fault(f"kill {when}", n) for n in numbers]
    done = judge_each_kind(calls, faults, lambda *given: run_case(zygote, script, *given))
    record_property("told", f"{script.name}, kill -9 {when} a call: {done}")


def test_a_second_kill_while_the_first_is_recovered_from_loses_nothing(
    zygote: Zygote, script: Script, calls: list[str], record_property: Callable[[str, object], None]
) -> None:
    seed = random.randrange(1 << 32) if counts.full() else 1
    rng = random.Random(seed)
    pairs = [
        (Fault("kill before", rng.randint(60, len(calls))), Fault("kill before", rng.randint(1, 60)))
        for _ in range(counts.pick(2, 100))
    ]
    print(f"seed {seed}")
    done = judge(pairs, lambda *faults: run_case(zygote, script, *faults), missed=0.5)
    record_property("told", f"{script.name}, two kills: {in_words(done)}")


def _spans(what: str, number: int) -> tuple[int, ...]:
    if what == "EIO":
        return (0,)
    return (0, WHILE_MS) if counts.full() else (WHILE_MS * (number % 2),)


@pytest.mark.parametrize("what", ["EIO", "ENOSPC", "short write"])
def test_a_disk_that_refuses_any_call_costs_nothing_but_time(
    zygote: Zygote, script: Script, calls: list[str], what: str, record_property: Callable[[str, object], None]
) -> None:
    """Once, or for a while. The daemon goes on by itself, or ends with a clear word and is started again.

    EIO comes once only: a disk that answers it for longer than the retries last is a reason to bury, not to wait.
    """
    code = errno.EIO if what == "EIO" else errno.ENOSPC
    numbers = chosen(calls, EVERY_NTH_FAULT, f"{script.name} {what}")
    if what == "short write":
        writes = [n for n, call in enumerate(calls, 1) if ": write" in call or ": pwrite" in call]
        numbers = writes if counts.full() else writes[:: EVERY_NTH_FAULT // 4]
    action = "short" if what == "short write" else "fail"
    faults = [Fault(action, n, code, span) for n in numbers for span in _spans(what, n)]
    meant = [call for call in calls if what != "short write" or ": write" in call or ": pwrite" in call]
    done = judge_each_kind(meant, faults, lambda *given: run_case(zygote, script, *given))
    record_property("told", f"{script.name}, {what} at a call: {done}")
