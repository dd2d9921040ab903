"""A power cut under load: what the platter then holds is mounted and recovered from, and nothing accepted is missing.

One run is recorded write by write on a real ext4 and xfs; then the power is cut at random points of the record. A
message counts as accepted from the moment that `ackd send` had returned 0. To run one again is allowed here, and
counted; to lose or tear one is not.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.faults import counts, crash_checks
from tests.faults.crash_load import Load
from tests.faults.crash_scripts import Stage
from tests.faults.grip import seed_for
from tests.faults.power_images import Cut, image_at, loop_device, mounting, recording, require
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.crash_processes import Zygote
    from tests.faults.crash_scripts import Key

CUTS = counts.pick(4, 200)
MESSAGES = counts.pick(40, 500)
PATIENCE_S = 60.0

pytestmark = [pytest.mark.timeout(240 if not counts.full() else 7200), pytest.mark.xdist_group("power")]


@dataclass
class Recorded:
    """One run: the stage with all that was accepted, and where in the record each was."""

    kind: str
    log: Path
    stage: Stage
    marks: dict[Key, int]
    began_at: int
    ended_at: int


@dataclass
class Outcome:
    cut: Cut
    accepted: int
    problems: list[str] = field(default_factory=list)
    #: Of these, messages of which no whole file is left anywhere: not those that have only not come to their end yet.
    lost: list[str] = field(default_factory=list)
    #: Some for the first time: what the agents had written down before the cut was not flushed either.
    run_after: int = 0


def record(kind: str, zygote: Zygote, place: Path, broken: str | None = None) -> Recorded:
    """A daemon and two senders at work, on a disk that writes everything down."""
    rng = random.Random(1)
    with recording(kind, place) as (mounted, log):
        stage = Stage(mounted / "team")
        began_at = log.stat().st_size
        daemon = zygote.run("run", "--quiet", place=stage.place, broken=broken)
        load = Load(zygote, stage, rng, broken=broken, accepted_at=lambda: log.stat().st_size)
        load.start(2)
        try:
            give_up_at = time.monotonic() + 2 * PATIENCE_S
            while len(load.marks) < MESSAGES and time.monotonic() < give_up_at:
                assert not daemon.ended(0.05), stage.output()
        finally:
            load.stop()
            ended_at = log.stat().st_size
            daemon.kill()
            end_strays(stage.place)
    return Recorded(kind, log, stage, load.marks, began_at, ended_at)


def cut_power(zygote: Zygote, recorded: Recorded, place: Path, seed: int, patience_s: float = PATIENCE_S) -> Outcome:
    """Cut at a random point, mount what is left, let a fresh daemon recover, and look."""
    rng = random.Random(seed)
    place.mkdir()
    image = place / "image"
    cut = image_at(recorded.kind, recorded.log, rng.randint(recorded.began_at, recorded.ended_at), rng, image)
    accepted = {key: one for key, one in recorded.stage.accepted.items() if recorded.marks[key] <= cut.at}
    outcome = Outcome(cut, len(accepted))
    with loop_device(image) as device, mounting(device, place / "mounted"):
        if (place / "mounted/team/ackd.toml").exists() or accepted:
            stage = Stage(place / "mounted/team")
            stage.accepted = accepted
            _recover(zygote, stage, outcome, patience_s)
    shutil.rmtree(place)
    return outcome


def _recover(zygote: Zygote, stage: Stage, outcome: Outcome, patience_s: float) -> None:
    ran = stage.ledger()
    daemon = zygote.run("run", "--quiet", place=stage.place)
    give_up_at = time.monotonic() + patience_s
    try:
        while crash_checks.missing(stage) and not daemon.ended(0.05) and time.monotonic() < give_up_at:
            pass
        while stage.status_pid() != daemon.pid and not daemon.ended(0.05) and time.monotonic() < give_up_at:
            pass  # not before it has started: a signal would end it as it ends any process
        daemon.send(signal.SIGTERM)
        assert daemon.ended(30)
    finally:
        if not daemon.ended():
            daemon.kill()
        end_strays(stage.place)
    outcome.problems = crash_checks.missing(stage)
    if outcome.problems:
        outcome.lost = _lost_or_torn(stage)
    if daemon.code != 0:
        outcome.problems.append(f"ended with {daemon.code}: {stage.output()[-2000:]}")
    outcome.run_after = sum((stage.ledger() - ran)[key] for key in stage.accepted)


def _lost_or_torn(stage: Stage) -> list[str]:
    files = [path.read_bytes() for path in stage.root.rglob("*") if path.is_file()]
    return [
        f"{key}: torn" if any(key[0].encode() in data for data in files) else f"{key}: lost"
        for key, accepted in stage.accepted.items()
        if not any(crash_checks.is_whole(data, accepted.data) for data in files)
    ]


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_what_was_accepted_outlives_a_power_cut(
    kind: str,
    zygote: Zygote,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    require(kind)
    seed = seed_for(request)
    recorded = record(kind, zygote, tmp_path)
    assert len(recorded.marks) >= MESSAGES
    outcomes = [cut_power(zygote, recorded, tmp_path / f"cut-{n}", seed + n) for n in range(CUTS)]
    bad = [f"{one.cut}: {line}" for one in outcomes for line in one.problems]
    assert not bad, f"seed {seed}:\n" + "\n".join(bad[:20])
    pending, again = sum(one.cut.pending for one in outcomes), sum(one.run_after for one in outcomes)
    told = f"{CUTS} power cuts on {kind} (seed {seed}), {max(one.accepted for one in outcomes)} messages accepted by "
    told += (
        f"the last: none lost, none torn, at most {again} run again; {pending} unflushed writes, half of them dropped"
    )
    record_property("told", told)


def test_the_cut_finds_out_who_does_not_flush(zygote: Zygote, tmp_path: Path) -> None:
    """Proof that this can fail: the same without fsync loses messages that were accepted."""
    require("ext4")
    recorded = record("ext4", zygote, tmp_path, broken="no flush")
    assert len(recorded.marks) >= MESSAGES
    outcomes = []
    for n in range(10):
        outcomes.append(cut_power(zygote, recorded, tmp_path / f"cut-{n}", n, patience_s=5))
        if outcomes[-1].lost:  # not just any problem: a daemon that fails or is late would say nothing of flushes
            return
    others = [line for one in outcomes for line in one.problems]
    pytest.fail("\n".join(["ten power cuts, and not one message lost without a single flush", *others[:20]]))
