"""Twenty stories at once, with workers that do everything wrong, and a daemon that is killed throughout.

What each story's workers do is written down before it begins; what must become of it follows from the budgets. A try
that was lost with the daemon counts for nothing, and is begun anew.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, running
from tests.acceptance.test_pipeline import QUICK
from tests.faults import counts

if TYPE_CHECKING:
    from pathlib import Path

#: Takes the next move from its stage's plan; without one it does what it should.
WORK = r"""
case $ACKD_STAGE in
0) text="Stage 0 COMPLETE for $ACKD_STORY. 3 tasks created. Plan score: 3.5/4." ;;
1) text="Stage 1 COMPLETE for $ACKD_STORY. Verdict: GO. Readiness: 8." ;;
2) text="Stage 2 COMPLETE for $ACKD_STORY. All tasks Done. Story set to To Review." ;;
3) text="Stage 3 COMPLETE for $ACKD_STORY. Verdict: CONCERNS. Quality Score: 71/100." ;;
esac
echo "$ACKD_STAGE $ACKD_TRY" >>"runs/$ACKD_STORY"
nth=$(grep -c "^$ACKD_STAGE " "runs/$ACKD_STORY")
move=$(sed -n "${nth}p" "plans/$ACKD_STORY-$ACKD_STAGE" 2>/dev/null)
case $move in
error) echo "Stage $ACKD_STAGE ERROR for $ACKD_STORY: told to fail"; exit 1 ;;
die) kill -9 $$ ;;
quit) exit 3 ;;
silly) echo "all is well"; exit 0 ;;
no-go) echo "Stage 1 COMPLETE for $ACKD_STORY. Verdict: NO-GO. Readiness: 2. Reason: told to" ;;
fail) echo "Stage 3 COMPLETE for $ACKD_STORY. Verdict: FAIL. Quality Score: 5/100. Issues: told to" ;;
garbage) ackd send pipeline-lead --body "I am done!" >/dev/null; ackd send pipeline-lead --body "Truly." >/dev/null; sleep 120 ;;
unsure) ackd send pipeline-lead --body "Hm." >/dev/null; ackd stage status for a thought >/dev/null; echo "$text" ;;
twice) ackd stage report --wait 0 "$text" >/dev/null; echo "$text" ;;
lost-ack) ackd stage report --wait 0 "$text" >/dev/null ;;
acked) ackd stage report --wait 60 "$text" >/dev/null ;;
late) env -u ACKD_RUN setsid ./late "$text" >/dev/null 2>&1 & exit 4 ;;
*) echo "$text" ;;
esac
"""
#: Speaks when its worker was replaced, or its story given up: not before, or its word would be in time.
LATE = r"""
record=.ackd/state/stories/$ACKD_STORY.json
until grep -q -e '"state": "paused"' -e "\"generation\": $((ACKD_TRY + 1))," "$record"; do sleep 0.5; done
ackd stage report --wait 0 "$1"
"""
CONFIG = """
[pipeline]
max_parallel = 8
leave_s = 0.5
[pipeline.worker]
command = ["./work"]
"""
BREAKS = ("error", "die", "quit", "silly", "late")
PASSES = ("", "unsure", "twice", "lost-ack", "acked")
#: The seeds of what workers do and when the daemon dies.
SEEDS = (20_261_116, 1, 2, 3, 4) if counts.full() else (20_261_116,)


def plan(rng: random.Random, number: int) -> dict[int, list[str]]:
    """Make every combination come up: each story has one way to go wrong by its number, and some by chance."""
    moves = {stage: [rng.choice(PASSES)] for stage in range(4)}
    stage = number % 4
    match number % 5:
        case 0:
            moves[stage] = [rng.choice(BREAKS), rng.choice(PASSES)]
        case 1:
            moves[stage] = [rng.choice(BREAKS), rng.choice(BREAKS)]
        case 2:
            moves[1] = ["no-go", *(["no-go"] if number % 2 else []), ""]
        case 3:
            moves[3] = ["fail"] * (1 + number % 3) + [""]
        case _:
            moves[stage] = ["garbage"] if number % 2 else ["acked"]
    return moves


def expected(moves: dict[int, list[str]]) -> tuple[str, list[tuple[int, str]], str]:
    """Return how a story must end, by which tries if none is lost, and with which reason."""
    passed = {0: "COMPLETE", 1: "GO", 2: "COMPLETE", 3: "CONCERNS"}
    tries: list[tuple[int, str]] = []
    counts: Counter[tuple[int, str]] = Counter()
    begun: Counter[int] = Counter()
    stage = 0
    while True:
        given = moves[stage]
        move = given[begun[stage]] if begun[stage] < len(given) else ""
        begun[stage] += 1
        kind = "broken" if move in BREAKS else move if move in ("no-go", "fail", "garbage") else "passed"
        counts[stage, kind] += 1
        result = {"error": "ERROR", "no-go": "NO-GO", "fail": "FAIL", "garbage": "not understood"}
        tries.append((stage, result.get(move, "crashed" if kind == "broken" else passed[stage])))
        limit = {"broken": 1, "no-go": 1, "fail": 2, "garbage": 0}
        reasons = {
            "broken": f"stage {stage} failed in 2 of 2 tries, the last with ",
            "no-go": "stage 1 failed in 2 of 2 tries, the last with NO-GO: told to",
            "fail": "stage 3 said FAIL 3 of 3 times, the last with told to",
            "garbage": f"-s{stage} was not understood twice: ",
        }
        if kind in limit and counts[stage, kind] > limit[kind]:
            return "paused", tries, reasons[kind]
        if kind == "fail":
            stage = 2
        elif kind == "passed":
            stage += 1
        if stage == 4:
            return "done", tries, ""


def record(team: Team, story_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((team.root / f"state/stories/{story_id}.json").read_text())
    return found


def is_over(team: Team, story_id: str) -> bool:
    story = record(team, story_id)
    return story["state"] in ("done", "paused") and all(one["settled"] for one in story["tries"])


def open_mail(team: Team) -> list[str]:
    """Return the agents that have open mail. A person's may wait."""
    agents = team.status()["agents"]
    return [name for name, said in agents.items() if name != "user" and said["queued"] + said["in_flight"]]


def story_of_open_mail(team: Team) -> str:
    """Return the open mail, where it lies, and all that the log says of it."""
    told = []
    for name in open_mail(team):
        files = [str(path.relative_to(team.root)) for path in (team.root / "queue" / name).rglob("*") if path.is_file()]
        words = [
            f"{line['timestamp']} {line['type']} {line['data']}" for line in team.lines() if name in str(line["data"])
        ]
        told.append("\n".join([f"{name}: {team.status()['agents'][name]}, {files}", *words]))
    return "\n".join(told)


@pytest.mark.parametrize("seed", SEEDS)
def test_twenty_stories_end_as_they_must_while_the_daemon_is_killed_at_random(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    team = Team(tmp_path, CONFIG, delivery='durability = "process"\n', quick=QUICK)
    team.script("work", WORK)
    team.script("late", LATE)
    (tmp_path / "runs").mkdir()
    (tmp_path / "plans").mkdir()
    plans = {f"STORM-{number}": plan(rng, number) for number in range(20)}
    for story_id, moves in plans.items():
        for stage, given in moves.items():
            (tmp_path / f"plans/{story_id}-{stage}").write_text("".join(f"{move}\n" for move in given))
    with running(team):
        assert team.ackd("story", "start", *plans).returncode == 0
        for _ in range(8):
            progress = len(team.facts("stage_ended")) + rng.randrange(1, 8)
            team.until(lambda so_far=progress: len(team.facts("stage_ended")) >= so_far, 60)  # type: ignore[misc]
            team.kill()
            team.start()
        team.until(lambda: all(is_over(team, story_id) for story_id in plans), 240)
        try:
            team.until(lambda: not open_mail(team))
        except AssertionError:
            raise AssertionError(story_of_open_mail(team)) from None
    for story_id, moves in plans.items():
        story = record(team, story_id)
        state, tries, reason = expected(moves)
        had = [(one["stage"], one["result"]) for one in story["tries"] if one["result"] != "lost"]
        assert (story_id, story["state"], had) == (story_id, state, tries), story["reason"]
        assert reason in story["reason"]
        assert bool(story["reason"]) == (state == "paused")
        # Each try was executed once at most, and each that was not lost exactly once.
        runs = [line.split() for line in (tmp_path / "runs" / story_id).read_text().splitlines()]
        generations = [int(generation) for _, generation in runs]
        assert len(generations) == len(set(generations))
        assert {one["generation"] for one in story["tries"] if one["result"] != "lost"} <= set(generations)
    told = {fact["agent"] for fact in team.facts("escalation")}
    paused = {story_id for story_id in plans if record(team, story_id)["state"] == "paused"}
    assert {agent.removeprefix("story-").rpartition("-s")[0] for agent in told} == paused
    assert not team.facts("message_dead")


def test_mail_of_a_worker_that_is_gone_is_completed_though_we_died_between_telling_and_completing_it(
    tmp_path: Path,
) -> None:
    """Kill the daemon after a message was told and its header written: only its endpoint would ever complete it."""
    team = Team(tmp_path, CONFIG, delivery='durability = "process"\n')
    team.script("work", WORK)
    (tmp_path / "runs").mkdir()
    (tmp_path / "plans").mkdir()
    with running(team):
        assert team.ackd("story", "start", "STORM-1").returncode == 0
        team.until(lambda: is_over(team, "STORM-1"))
        team.until(lambda: not open_mail(team))
        team.kill()
        told = next((team.root / "archive").glob("*/story-STORM-1-*/shutdown_request_*.mime"))
        header = b"X-IGNITE-Status: delivered\nX-IGNITE-Seen: yes\n"
        data = re.sub(rb"Message-ID: <[^@]*@", b"Message-ID: <1794787200.1.left@", told.read_bytes())
        box = team.root / "queue" / told.parent.name / "processed"
        (box / told.name).write_bytes(data.replace(b"Content-Type:", header + b"Content-Type:", 1))
        team.start()
        team.fact("message_completed", message="1794787200.1.left@ignite.local")
