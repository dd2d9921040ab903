"""A restart in the middle of twenty tasks: none is lost, and no step that was completed runs again."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running
from tests.acceptance.workers import agent, sdk

if TYPE_CHECKING:
    from pathlib import Path

#: Waits that hand over when asked, and workers whose step outlasts any drain, of each some.
WORKERS = 10
RUNS = 10
STEPS = "abcdef"

#: What a worker has begun and ended is on the disk before it goes on. In step ``c`` it stands until the test lets it go
#: on. The steps before are quick, so that the SDK holds their checkpoints back.
STEADY = """
ackd.worker.task.KEEP_EVERY_S = 3600.0 if os.path.exists("seldom") else 1.0
def wrote(word):
    fd = os.open(f"steps-{os.environ['ACKD_AGENT']}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, (word + "\\n").encode())
    os.fsync(fd)
    os.close(fd)
def work(task):
    heeds = "heeds" in task.body
    for step in task.steps("abcdef"):
        wrote(f"begin-{step}")
        while step == "c" and not os.path.exists("go") and not (heeds and task._to_stop):
            time.sleep(0.01)
        wrote(f"end-{step}")
"""
RUN = """
echo "begin $ACKD_MESSAGE_ID" >>runs
if grep -q long "$ACKD_BODY"; then gate=go; else gate=soon; fi
until [ -e "$gate" ]; do sleep 0.05; done
echo "end $ACKD_MESSAGE_ID" >>runs
"""
QUICK = "[watch]\nsettle_s = 0.1\nreconcile_interval_s = 1\n[daemon]\ndrain_timeout_s = 8\nstop_timeout_s = 5\n"


class Twenty:
    """Ten workers and ten commands, each in the middle of its task."""

    def __init__(self, place: Path) -> None:
        tables = "".join(agent(f"worker-{number}") for number in range(WORKERS))
        run = '[agents.runner]\nendpoint = "exec"\ncommand = ["./run.sh"]\nmax_in_flight = 20\n'
        self.team = Team(place, tables + run, quick=QUICK)
        self.team.script("run.sh", RUN)
        sdk(self.team, STEADY)
        self.ids: list[str] = []
        self.long: list[str] = []

    def begin(self) -> None:
        team = self.team
        for number in range(WORKERS):
            body = "heeds" if number % 2 else "stands"
            self.ids.append(team.post(f"worker-{number}", body=f'content: "{body}"\n'))
        for number in range(RUNS):
            long = number % 2 == 0
            message_id = team.post("runner", body=f'content: "{"long" if long else "short"}"\n')
            self.ids.append(message_id)
            if long:
                self.long.append(message_id)
        team.until(lambda: all(self.steps(number)[-1:] == ["begin-c"] for number in range(WORKERS)))
        team.until(lambda: self.runs("begin").total() == RUNS)

    def steps(self, number: int) -> list[str]:
        path = self.team.place / f"steps-worker-{number}"
        return path.read_text().split() if path.exists() else []

    def runs(self, word: str) -> Counter[str]:
        path = self.team.place / "runs"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith(f"{word} "))

    def finish(self) -> None:
        (self.team.place / "go").touch()
        (self.team.place / "soon").touch()
        self.team.start()
        for message_id in self.ids:
            self.team.fact("message_completed", message=message_id)

    def check_nothing_is_lost_or_counted(self) -> None:
        team = self.team
        completed = Counter(fact["message_id"] for fact in team.facts("message_completed"))
        assert completed == dict.fromkeys(self.ids, 1)
        assert not [fact for fact in team.facts("message_retry") if fact["counted"]]
        assert not team.facts("message_dead", "escalation", "task_failed")
        archived = list((team.root / "archive").rglob("*.mime"))
        assert len(archived) == len(self.ids)
        assert {team.header(path, "X-IGNITE-Retry-Count") for path in archived} <= {None, "0"}


def ended(steps: list[str]) -> list[str]:
    return [step.removeprefix("end-") for step in steps if step.startswith("end-")]


@pytest.fixture
def twenty(tmp_path: Path) -> Twenty:
    return Twenty(tmp_path)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGUSR2])
def test_a_restart_in_the_middle_of_twenty_tasks_repeats_no_completed_step(twenty: Twenty, by: signal.Signals) -> None:
    team = twenty.team
    (team.place / "seldom").touch()  # the worst case: no checkpoint is said on the way after the first
    with running(team):
        twenty.begin()
        assert team.process is not None
        team.process.send_signal(by)
        stopping = team.fact("session_stopping")
        workers = sorted(f"worker-{number}" for number in range(WORKERS))
        assert sorted(stopping["asked"]) == workers
        if by is signal.SIGTERM:
            assert sorted(stopping["agents"]) == ["runner", *workers]
            (team.place / "soon").touch()  # these commands finish within the drain
        else:
            assert (sorted(stopping["agents"]), stopping["left"]) == (workers, ["runner"])
        assert team.ended() == 0
        kept = list((team.root / "queue").glob("*/processed/[!.]*"))
        assert {team.header(path, "X-IGNITE-Retry-Count") for path in kept} <= {None, "0"}
        twenty.finish()
        for number in range(WORKERS):
            steps = twenty.steps(number)
            assert ended(steps) == [*STEPS], steps
            again = steps.count("begin-c") - 1
            assert again == (0 if number % 2 else 1), "only a step that could not be completed is begun again"
        ran = twenty.runs("begin")
        if by is signal.SIGTERM:
            assert {one for one, times in ran.items() if times > 1} == set(twenty.long)
        else:
            assert set(ran.values()) == {1}, "commands were adopted"
        assert set(twenty.runs("end").values()) == {1}
        twenty.check_nothing_is_lost_or_counted()
        assert team.stop() == 0


def test_after_kill_9_in_the_middle_of_twenty_tasks_only_steps_since_the_checkpoint_run_again(twenty: Twenty) -> None:
    team = twenty.team
    with running(team):
        twenty.begin()
        team.until(lambda: len(checkpoints(team)) == WORKERS and set(checkpoints(team).values()) == {2})
        team.kill()
        twenty.finish()
        for number in range(WORKERS):
            steps = twenty.steps(number)
            assert ended(steps) == [*STEPS], "the steps before the one that was cut were in the checkpoint"
            assert steps.count("begin-c") == 2
        assert set(twenty.runs("begin").values()) == {1}, "commands were adopted"
        twenty.check_nothing_is_lost_or_counted()
        assert team.stop() == 0


def checkpoints(team: Team) -> dict[str, int]:
    """The steps that are done by the checkpoints on disk, by file."""
    found = (team.root / "state/checkpoints").glob("[!.]*.json")
    return {path.name: current_step(path) for path in found}


def current_step(path: Path) -> int:
    kept = json.loads(path.read_text())
    step = kept.get("current_step", kept.get("checkpoint", {}).get("current_step"))
    assert isinstance(step, int)
    return step


STAGE = """
echo "$ACKD_STORY $ACKD_STAGE" >>begun
case $ACKD_STAGE in
0) text="Stage 0 COMPLETE for $ACKD_STORY. 3 tasks created. Plan score: 4/4." ;;
1) text="Stage 1 COMPLETE for $ACKD_STORY. Verdict: GO. Readiness: 8." ;;
2) text="Stage 2 COMPLETE for $ACKD_STORY. All tasks Done. Story set to To Review." ;;
3) text="Stage 3 COMPLETE for $ACKD_STORY. Verdict: PASS. Quality Score: 91/100." ;;
esac
if [ "$ACKD_STAGE" = 1 ]; then until [ -e go ]; do sleep 0.05; done; fi
echo "$text"
"""


def test_a_storys_command_runs_on_through_a_restart_and_its_stage_is_not_begun_anew(tmp_path: Path) -> None:
    team = Team(tmp_path, '[pipeline]\nleave_s = 1\n[pipeline.worker]\ncommand = ["./stage.sh"]\n', quick=QUICK)
    team.script("stage.sh", STAGE)
    begun, record = tmp_path / "begun", team.root / "state/stories/PROJ-1.json"
    with running(team):
        assert team.ackd("story", "start", "PROJ-1").returncode == 0
        team.until(lambda: begun.exists() and "PROJ-1 1" in begun.read_text())
        team.fact("message_told", agent="story-PROJ-1-s1")
        assert team.stop(signal.SIGUSR2) == 0
        assert team.facts("session_stopping")[-1]["left"] == ["story-PROJ-1-s1"]
        team.start()
        (tmp_path / "go").touch()
        team.until(lambda: json.loads(record.read_text())["state"] == "done")
        assert begun.read_text() == "PROJ-1 0\nPROJ-1 1\nPROJ-1 2\nPROJ-1 3\n"
        assert team.stop() == 0
