"""kill -9 before and after every change on disk while a story is led through its stages.

However the daemon dies, the story ends done; each try was executed once at most, and each that was not lost with the
daemon exactly once; every report is acknowledged, every worker let go, and no mail of theirs is left open.
"""

from __future__ import annotations

import json
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.pipeline.files import StoryFiles
from ackd.coordination.pipeline.rules.record import Story
from ackd.coordination.pipeline.rules.story import StoryState
from tests.acceptance.teams import Team
from tests.faults import counts
from tests.faults.crash_cases import in_memory
from tests.faults.crash_processes import Fault
from tests.strays import end_strays

if TYPE_CHECKING:
    from tests.faults.crash_processes import Zygote

EVERY_NTH = 24
SIDE_BY_SIDE = 4
PATIENCE_S = 60.0
CONFIG = '[pipeline]\nleave_s = 1\n[pipeline.worker]\ncommand = ["./work"]\n'
QUICK = "[watch]\nsettle_s = 0.03\nreconcile_interval_s = 0.25\n[daemon]\ndrain_timeout_s = 5\nstop_timeout_s = 1\n"
#: Stage 1 crashes once, so that a respawn is among what is killed.
WORK = r"""
echo "$ACKD_STAGE $ACKD_TRY" >>runs.txt
case $ACKD_STAGE in
0) echo "Stage 0 COMPLETE for A-1. 3 tasks created. Plan score: 4/4." ;;
1) [ "$(grep -c '^1 ' runs.txt)" != 1 ] || exit 1; echo "Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8." ;;
2) echo "Stage 2 COMPLETE for A-1. All tasks Done. Story set to To Review." ;;
3) echo "Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 91/100." ;;
esac
"""
RESULTS = [(0, "COMPLETE"), (1, "crashed"), (1, "GO"), (2, "COMPLETE"), (3, "PASS")]

pytestmark = pytest.mark.timeout(600 if not counts.full() else 7200)


def record(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((team.root / "state/stories/A-1.json").read_text())
    return found


def unrest(team: Team) -> list[str]:
    """Return what is still under way."""
    story = record(team)
    found = [] if story["state"] in ("done", "paused") else [story["state"]]
    found += [f"try {one['generation']} ({one['result']})" for one in story["tries"] if not one["settled"]]
    boxes = [*team.root.glob("queue/story-*"), team.root / "queue/pipeline-lead"]
    found += [str(path.relative_to(team.root)) for box in boxes for path in box.rglob("*.mime")]
    return found + [
        name for name in team.files("receipts") if not name.startswith(".")
    ]  # else a torn write: swept later


def run_case(zygote: Zygote, fault: Fault) -> tuple[list[str], list[str]]:
    """Return what the interposer noted, and what does not hold."""
    with tempfile.TemporaryDirectory(prefix="ackd-story-", dir=in_memory()) as place:
        team = Team(Path(place), CONFIG, quick=QUICK)
        team.script("work", WORK)
        files = StoryFiles(team.root / "state/stories", durable=False)
        files.change("A-1", lambda _: Story("A-1", StoryState.WAITING, 1_770_000_000.0, 1, started_by="leader"))
        try:
            problems = lead(zygote, team, fault)
        finally:
            end_strays(team.place)
        notes = team.place / "notes"
        return (notes.read_text().splitlines() if notes.exists() else []), problems


def lead(zygote: Zygote, team: Team, fault: Fault) -> list[str]:
    child = zygote.run("run", place=team.place, fault=fault)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while unrest(team):
            if child.ended(0.02):
                if child.code != -signal.SIGKILL:
                    return [f"{fault}: ended with {child.code}: {team.output()[-2000:]}"]
                child = zygote.run("run", place=team.place)
            if time.monotonic() > deadline:
                return [f"{fault}: not at rest: {unrest(team)}\n{team.story()}"]
        child.send(signal.SIGTERM)
        child.ended(PATIENCE_S)
    finally:
        if not child.ended():
            child.kill()
    return [f"{fault}: {problem}" for problem in judged(team)]


def judged(team: Team) -> list[str]:
    story = record(team)
    had = [(one["stage"], one["result"]) for one in story["tries"] if one["result"] != "lost"]
    runs = [int(line.split()[1]) for line in (team.place / "runs.txt").read_text().splitlines()]
    kept = {one["generation"] for one in story["tries"] if one["result"] != "lost"}
    unacked = [one for one in story["tries"] if one["report_id"] and one["acked_at"] is None]
    found = [] if story["state"] == "done" and had == RESULTS else [f"{story['state']}: {had} ({story['reason']})"]
    if len(runs) != len(set(runs)) or not kept <= set(runs):
        found.append(f"executed {runs}, tries {story['tries']}")
    if story["started_by"] != "leader":
        found.append(f"started by {story['started_by']}")
    if unacked:
        found.append(f"not acknowledged: {unacked}")
    if left := [path.name for path in (team.root / "state/stories").rglob(".*.tmp")]:
        found.append(f"left half-written: {left}")
    if dead := team.facts("message_dead"):
        found.append(f"dead: {dead}")
    return found


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_call_loses_no_story_and_executes_nothing_twice(zygote: Zygote, when: str) -> None:
    calls, problems = run_case(zygote, Fault("record"))
    assert not problems, problems
    step = 1 if counts.full() else EVERY_NTH
    numbers = range(1 + (when == "after") * (step // 2), len(calls) + 1, step)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        verdicts = list(pool.map(lambda n: run_case(zygote, Fault(f"kill {when}", n)), numbers))
    bad = [problem for _, problems in verdicts for problem in problems]
    assert not bad, f"{len(bad)} of {len(verdicts)} cases:\n" + "\n".join(bad)
    assert sum(bool(notes) for notes, _ in verdicts) >= len(verdicts) // 2
