"""kill -9 of the daemon, and of some senders, at random moments under load."""

from __future__ import annotations

import copy
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults import counts, crash_checks
from tests.faults.crash_cases import end_strays_of, in_memory
from tests.faults.crash_load import Load
from tests.faults.crash_scripts import Stage
from tests.faults.grip import seed_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.crash_processes import Child, Zygote

KILLS = counts.pick(25, 1000)
LONGEST_LIFE_S = 0.5
#: What must have come of it, or little was tried: messages for each kill, and kills that hit a daemon which had served.
#: Of three kills one waits for that, whatever the machine has to do: the share is no matter of its speed.
ACCEPTED_A_KILL = 1
ACCEPTED_AT_MOST = 10
SERVING_SHARE = 0.3
#: Without a new line in the log: thousands may still wait in line, and how long they take is the machine's business.
PATIENCE_S = 120.0


@pytest.mark.timeout(300 if not counts.full() else 7200)
def test_kills_at_random_moments_lose_nothing(
    zygote: Zygote, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    seed = seed_for(request)
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="ackd-crash-", dir=in_memory()) as place:
        stage = Stage(Path(place))
        stage.torn_lines_allowed = True  # a kill within a write of several pages
        zygote.run("init", place=stage.place).ended(10)
        load = Load(zygote, stage, rng, kill_share=0.1)
        load.start(2)
        try:
            final = _kill_again_and_again(zygote, load, rng)
        finally:
            load.stop()
        hit = _sessions_that_served(stage)
        ran = _finish(zygote, stage)
        twice = [key for key, before in final.items() if ran[key] != before]
        trouble = crash_checks.problems(stage) + [f"{key} ran again after its end" for key in twice]
        assert not trouble, f"seed {seed}: " + "\n".join(trouble[:20])
        tried = f"seed {seed}: {len(stage.accepted)} accepted, {len(final)} seen to end, {hit} of {KILLS} hit at work"
        assert len(stage.accepted) >= ACCEPTED_A_KILL * KILLS, tried
        assert hit >= SERVING_SHARE * KILLS, tried
        assert len(final) >= SERVING_SHARE * KILLS, tried
    again = sum(count - 1 for key, count in ran.items() if stage.accepted[key].ends == Counter(["message_completed"]))
    told = f"{KILLS} kill -9 at random moments (seed {seed}): {len(stage.accepted)} messages accepted, none lost, "
    told += f"{hit} kills hit a daemon that had served, "
    record_property("told", f"{told}{again} run again before their end, 0 after; {len(load.refused)} sends killed")


def _kill_again_and_again(zygote: Zygote, load: Load, rng: random.Random) -> dict[tuple[str, str], int]:
    """How often each message had run by the time that its end was on disk. A random time after the start, after the
    daemon has begun, or after it has told an agent of a message."""
    stage, final = load.stage, dict[tuple[str, str], int]()
    for number in range(KILLS):
        load.limit = ACCEPTED_AT_MOST * (number + 1)
        signs: tuple[Callable[[Stage], int] | None, ...] = (_sessions_that_served, _sessions, None)
        sign = signs[number % len(signs)]
        before = sign(stage) if sign else 0
        daemon = zygote.run("run", "--quiet", place=stage.place)
        give_up_at = time.monotonic() + PATIENCE_S
        while sign is not None and sign(stage) == before:
            assert not daemon.ended(0.005), f"ended by itself: {stage.output()[-2000:]}"
            assert time.monotonic() < give_up_at, f"does not come to its work: {stage.output()[-2000:]}"
        assert not daemon.ended(rng.uniform(0, LONGEST_LIFE_S)), f"ended by itself: {stage.output()[-2000:]}"
        daemon.kill()
        ran = stage.ledger()
        seen = copy.copy(stage)
        seen.accepted = dict(stage.accepted)  # senders add to it meanwhile, and what is added to cannot be gone through
        for key, _ in crash_checks.committed(seen):
            final.setdefault(key, ran[key])
    return final


def _sessions(stage: Stage) -> int:
    return len(list((stage.root / "logs").glob("session-*.ndjson")))


def _sessions_that_served(stage: Stage) -> int:
    """Those that told an agent of a message."""
    return len({line["session_id"] for line in stage.lines() if line["type"] == "message_told"})


def _finish(zygote: Zygote, stage: Stage) -> Counter[tuple[str, str]]:
    daemon = zygote.run("run", "--quiet", place=stage.place)
    said, give_up_at = 0, time.monotonic() + PATIENCE_S
    try:
        while not crash_checks.settled(stage):
            assert not daemon.ended(0.1), f"ended by itself: {stage.output()[-2000:]}"
            so_far = sum(path.stat().st_size for path in (stage.root / "logs").glob("session-*.ndjson"))
            if so_far > said:
                said, give_up_at = so_far, time.monotonic() + PATIENCE_S
            assert time.monotonic() < give_up_at, f"not at rest: {stage.story()[-20_000:]}"
    finally:
        _stop(daemon)
        end_strays_of(stage)
    return _accepted_only(stage)


def _accepted_only(stage: Stage) -> Counter[tuple[str, str]]:
    return Counter({key: count for key, count in stage.ledger().items() if key in stage.accepted})


def _stop(daemon: Child) -> None:
    daemon.send(signal.SIGTERM)
    assert daemon.ended(30)
