"""An Ensemble team under ackd: agents that know nothing of it, and do what their protocol tells them: shell commands
and plain files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.panes import panes_in
from tests.acceptance.teams import Team, running

TRIO = ("conductor", "dispatch", "worker-1")
EXAMPLE = Path(__file__).parents[2] / "config" / "examples" / "ensemble.toml"

#: What was told: who, the type, the file it came from.
NOTE = r"""
file=$(sed -n 's/^  file: //p' "$ACKD_BODY")
printf '%s %s %s\n' "$ACKD_AGENT" "$ACKD_TYPE" "$file" >>told
"""
CONDUCTOR = r"""
case $ACKD_TYPE in
user_goal) printf 'task_id: PLAN-1\ntitle: two pages\n' >queue/tasks/dispatch-plan.yaml ;;
esac
"""
#: One task is written in place, the other beside and renamed in.
DISPATCH = r"""
case $file in
*/tasks/*)
    printf 'task_id: T-1\ntitle: the first page\ninstructions: write it\n' >queue/tasks/worker-1-T-1.yaml
    printf 'task_id: T-2\ntitle: the second page\ninstructions: write it\n' >queue/.t2.tmp
    mv queue/.t2.tmp queue/tasks/w2-T-2.yaml ;;
*/reports/*)
    done=$(ls queue/reports | grep -c -e '^T-[12]')
    if [ "$done" = 2 ]; then
        printf 'status: success\ncompleted: 2\nfailed: 0\n' >queue/reports/.summary
        mv queue/reports/.summary queue/reports/completion-summary.yaml
    fi ;;
esac
"""
#: The seed has two names for one report: each worker takes another.
WORKER = r"""
task=$(sed -n 's/^task_id: //p' "$file")
touch "queue/ack/$task.ack"
if [ "$ACKD_AGENT" = worker-1 ]; then report=queue/reports/$task-completed.yaml; else report=queue/reports/$task.yaml; fi
printf 'task_id: %s\nworker: %s\nstatus: success\n' "$task" "$ACKD_AGENT" >"$report"
"""


class EnsembleTeam(Team):
    """The example's agents, in a directory of their own."""

    def __init__(self, place: Path, *, config: str | None = None) -> None:
        super().__init__(place)
        (place / "ackd.toml").write_text(EXAMPLE.read_text() if config is None else config)
        for name, text in (("conductor", CONDUCTOR), ("dispatch", DISPATCH), ("worker", WORKER)):
            self.script(f"{name}.sh", NOTE + text)

    def told(self) -> list[str]:
        path = self.place / "told"
        return path.read_text().splitlines() if path.exists() else []

    def shell(self, commands: str) -> None:
        subprocess.run(["sh", "-euc", commands], cwd=self.place, check=True, timeout=60)


def test_the_example_runs_a_team_that_only_writes_files(tmp_path: Path) -> None:
    team = EnsembleTeam(tmp_path)
    with running(team):
        team.send("conductor", "--type", "user_goal", body="goal: two pages\n")
        summary = "conductor task_completed queue/reports/completion-summary.yaml"
        team.until(lambda: summary in team.told())
        assert sorted(team.told()) == [
            summary,
            "conductor user_goal ",
            "dispatch task_assignment queue/tasks/dispatch-plan.yaml",
            "dispatch task_completed queue/reports/T-1-completed.yaml",
            "dispatch task_completed queue/reports/T-2.yaml",
            "worker-1 task_assignment queue/tasks/worker-1-T-1.yaml",
            "worker-2 task_assignment queue/tasks/w2-T-2.yaml",
        ]
        team.until(lambda: len(team.facts("message_completed")) == 7)
        assert not team.facts("message_dead", "escalation", "stray_file", "ack_stale", "message_rejected", "io_error")
        assert {fact["file"] for fact in team.facts("file_taken_in")} == {line.split()[2] for line in team.told()[1:]}


# --- what broke for others ------------------------------------------------------------------------------------------------
TABLES = """
escalate_to = "conductor"

[ensemble]
{ensemble}

[watch]
settle_s = 0.1
reconcile_interval_s = {reconcile_s}
{watch}

[daemon]
drain_timeout_s = 5
stop_timeout_s = 1

[agents.conductor]
endpoint = "exec"
command = ["./note.sh"]

[agents.dispatch]
endpoint = "exec"
command = ["./note.sh"]

[agents.worker-1]
endpoint = "{worker}"
{command}
"""


class Noting(EnsembleTeam):
    """Agents that only write down what they are told of."""

    def __init__(
        self, place: Path, *, ensemble: str = "", watch: str = "", reconcile_s: float = 600, worker: str = "exec"
    ) -> None:
        command = 'command = ["./note.sh"]' if worker == "exec" else ""
        tables = TABLES.format(ensemble=ensemble, watch=watch, reconcile_s=reconcile_s, worker=worker, command=command)
        super().__init__(place, config=tables)
        self.script("note.sh", NOTE)

    def mail_of(self, task_id: str) -> str:
        """The message that a task became."""
        self.until(lambda: [fact for fact in self.facts("file_taken_in") if fact.get("task_id") == task_id])
        return str(next(fact["message_id"] for fact in self.facts("file_taken_in") if fact.get("task_id") == task_id))

    def register(self) -> dict[str, Any]:
        """What a daemon that comes after a crash knows."""
        found: dict[str, Any] = json.loads((self.root / "state/gateways/ensemble.json").read_text())
        return found

    def completes(self, number: int) -> None:
        self.until(lambda: len(self.facts("message_completed")) >= number)


WATCHES = {"inotify": 'mode = "inotify"', "polling": 'mode = "polling"\npoll_interval_s = 0.1'}
WRITERS = {
    "in place": "printf 'status: success\\n' >queue/reports/{name}",
    "in pieces": "{{ printf 'status: '; sleep 0.3; printf 'success\\n'; }} >queue/reports/{name}",
    "appended": "printf 'status: ' >queue/reports/{name}; printf 'success\\n' >>queue/reports/{name}",
    "renamed": "printf 'status: success\\n' >queue/reports/.draft; mv queue/reports/.draft queue/reports/{name}",
    "copied": "printf 'status: success\\n' >draft; cp draft queue/reports/{name}",
}


@pytest.mark.parametrize("how", WATCHES)
def test_create_and_modify_both_notify_two_nudges_for_one_write(tmp_path: Path, how: str) -> None:
    """[Ensemble] However a report is written, touched and written again with the same words: told of once."""
    team = Noting(tmp_path, watch=WATCHES[how])
    with running(team):
        team.until((tmp_path / "queue/reports").is_dir)
        for number, write in enumerate(WRITERS.values()):
            team.shell(write.format(name=f"T-{number}-completed.yaml"))
        team.completes(len(WRITERS))
        for number, write in enumerate(WRITERS.values()):
            team.shell(f"touch queue/reports/T-{number}-completed.yaml")
            team.shell(write.format(name=f"T-{number}-completed.yaml"))
        team.shell("printf 'status: failed\\n' >queue/reports/T-0-completed.yaml")
        team.completes(len(WRITERS) + 1)
        wanted = [f"dispatch task_completed queue/reports/T-{number}-completed.yaml" for number in (0, *range(5))]
        assert sorted(team.told()) == wanted


@pytest.mark.parametrize("how", WATCHES)
def test_reports_are_watched_under_one_name_agents_write_another(tmp_path: Path, how: str) -> None:
    """[Ensemble] {id}.yaml is as good as {id}-completed.yaml, and completes the task that it is about."""
    team = Noting(tmp_path, watch=WATCHES[how], worker="inbox")
    with running(team):
        team.until((tmp_path / "queue/tasks").is_dir)
        for number, name in enumerate(("T-1.yaml", "T-2-completed.yaml", "worker-1-T-3.yaml", "T-4.yml"), 1):
            team.shell(f"printf 'title: a page\\n' >queue/tasks/worker-1-T-{number}.yaml")
            task = team.mail_of(f"T-{number}")
            team.fact("message_told", message=task)
            team.shell(f"printf 'status: success\\n' >queue/reports/{name}")
            assert team.fact("message_completed", message=task)["by"] == "a report in reply"


@pytest.mark.parametrize("how", WATCHES)
def test_polling_fallback_that_skips_half_of_what_inotify_covers(tmp_path: Path, how: str) -> None:
    """[Ensemble fba89bc] Tasks, reports of every kind and ACK files: all of it, either way."""
    team = Noting(tmp_path, watch=WATCHES[how], worker="inbox")
    with running(team):
        team.until((tmp_path / "queue/tasks").is_dir)
        team.shell("printf 'title: a page\\n' >queue/tasks/worker-1-T-1.yaml")
        task = team.fact("message_told", agent="worker-1")["message_id"]
        team.shell("touch queue/ack/T-1.ack")
        assert team.fact("message_acked", message=task)["by"] == "ackd ack: queue/ack/T-1.ack"
        for name in ("T-1-completed", "completion-summary", "escalation-T-1", "T-1-review", "T-9"):
            team.shell(f"printf 'status: success\\n' >queue/reports/{name}.yaml")
        team.completes(6)
        assert sorted(team.told()) == [
            "conductor escalation queue/reports/escalation-T-1.yaml",
            "conductor task_completed queue/reports/completion-summary.yaml",
            "dispatch evaluation_result queue/reports/T-1-review.yaml",
            "dispatch message queue/reports/T-9.yaml",
            "dispatch task_completed queue/reports/T-1-completed.yaml",
        ]
        assert team.fact("review_result")["result"] == "success"


def test_a_stale_ack_from_an_earlier_run_counts_as_an_instant_ack(tmp_path: Path) -> None:
    """[Ensemble] It does not count, is said once, and the real one counts when it comes."""
    team = Noting(tmp_path, worker="inbox", reconcile_s=0.3)
    team.shell("mkdir -p queue/ack; touch -d '1 hour ago' queue/ack/T-1.ack")
    with running(team):
        team.until((tmp_path / "queue/tasks").is_dir)
        team.shell("printf 'title: a page\\n' >queue/tasks/worker-1-T-1.yaml")
        stale = team.fact("ack_stale")
        assert (stale["file"], stale["task_id"]) == ("queue/ack/T-1.ack", "T-1")
        team.fact("message_told", message=stale["message_id"])
        assert not team.facts("message_acked")
        team.shell("touch queue/ack/T-1.ack")
        team.fact("message_acked", message=stale["message_id"])
        assert len(team.facts("ack_stale")) == 1


def test_inotifywait_returns_after_idle_and_the_watcher_exits(tmp_path: Path) -> None:
    """[Ensemble inbox_watcher] Idle, and its directory made anew meanwhile: it watches on."""
    team = Noting(tmp_path, watch=WATCHES["inotify"])
    with running(team):
        team.until((tmp_path / "queue/reports").is_dir)
        team.shell("sleep 3; printf 'status: success\\n' >queue/reports/T-1-completed.yaml")
        team.completes(1)
        team.shell(
            "rm -r queue/reports; mkdir queue/reports; sleep 1; printf 'a: b\\n' >queue/reports/T-2-completed.yaml"
        )
        team.completes(2)
        team.shell("rm -r queue; mkdir -p queue/reports queue/tasks queue/ack")
        team.shell("sleep 1; printf 'a: b\\n' >queue/reports/T-3-completed.yaml")
        team.completes(3)
        team.kill()
        assert json.loads(team.ackd("status", "--json").stdout)["daemon"]["running"] is False


def test_claimed_files_in_processing_never_reclaimed_after_a_crash(tmp_path: Path) -> None:
    """[Ensemble] Killed with a task in its worker's hands, and with reports that nobody has read: all of it goes on."""
    team = Noting(tmp_path, worker="inbox")
    with running(team):
        team.until((tmp_path / "queue/tasks").is_dir)
        team.shell("printf 'title: a page\\n' >queue/tasks/worker-1-T-1.yaml")
        task = team.fact("message_told", agent="worker-1")["message_id"]
        team.kill()
        team.shell("touch queue/ack/T-1.ack; printf 'status: success\\n' >queue/reports/T-1-completed.yaml")
        team.shell("printf 'title: another\\n' >queue/tasks/worker-1-T-2.yaml")
        team.start()
        assert team.fact("message_completed", message=task)
        team.fact("message_told", message=team.mail_of("T-2"))
        team.until(lambda: team.told() == ["dispatch task_completed queue/reports/T-1-completed.yaml"])


# --- time -----------------------------------------------------------------------------------------------------------------
def test_a_report_and_a_summary_that_do_not_come_are_told_of_once(tmp_path: Path) -> None:
    clocks = "report_timeout_s = 0.5\nreport_poll_s = 0.2\nsummary_timeout_s = 1"
    team = Noting(tmp_path, ensemble=clocks, worker="inbox")
    with running(team):
        team.until((tmp_path / "queue/tasks").is_dir)
        team.shell("printf 'title: a page\\n' >queue/tasks/worker-1-T-1.yaml")
        overdue = team.fact("report_overdue")
        assert (overdue["task_id"], overdue["poll_s"]) == ("T-1", 0.2)
        assert team.until(lambda: team.status().get("ensemble", {}).get("polling")) is True
        escalation = team.fact("escalation")
        assert (escalation["cause"], escalation["to"]) == ("no_summary", "conductor")
        team.fact("message_completed", message=escalation["escalation_id"])
        team.until(lambda: team.register()["work"]["told"])  # a crash before has the line again, and no second mail
        team.kill()
        team.start()
        team.shell("printf 'status: success\\n' >queue/reports/T-1-completed.yaml")
        team.until(lambda: team.status().get("ensemble", {}).get("polling") is False)
        assert (len(team.facts("report_overdue")), len(team.facts("escalation"))) == (1, 1)
        assert [line for line in team.told() if "escalation" in line] == ["conductor escalation "]


# --- in panes, with the prompts that it has ---------------------------------------------------------------------------
PANES = """
escalate_to = "conductor"

[ensemble]

[watch]
settle_s = 0.1
{panes}
"""


def test_a_team_in_panes_that_never_says_done_hears_of_every_report_and_every_escalation(tmp_path: Path) -> None:
    """No prompt of an Ensemble team knows `ackd done`: what only informs is over when it was seen."""
    with panes_in(tmp_path) as panes:
        agents = [f'[agents.{name}]\nendpoint = "tmux"\nprofile = "fake"\ntitle = "{name}"' for name in TRIO]
        team = EnsembleTeam(tmp_path, config=PANES.format(panes="\n".join([panes.config(), *agents])))
        for name in TRIO:
            panes.open(name, "--work-s", "0.5")
        team.until(lambda: all(map(panes.is_up, TRIO)))
        with running(team):
            team.until((tmp_path / "queue/reports").is_dir)
            team.shell("printf 'title: two pages\\n' >queue/tasks/dispatch-plan.yaml")  # in its hands all the while
            team.fact("message_seen", agent="dispatch")
            for number in (1, 2, 3):
                team.shell(f"printf 'status: success\\n' >queue/reports/T-{number}-completed.yaml")
                team.shell(f"printf 'reason: no access\\n' >queue/reports/escalation-T-{number}.yaml")
            team.until(lambda: len(team.facts("message_completed")) == 6, 90)
            mail = {fact["message_id"]: fact["agent"] for fact in team.facts("file_taken_in")}
            for name, reports in (("dispatch", 4), ("conductor", 3)):
                mine = {message for message, agent in mail.items() if agent == name}
                told = {fact["message_id"] for fact in team.facts("message_told") if fact["agent"] == name}
                assert (len(mine), told, len(panes.submitted(name))) == (reports, mine, reports)
            assert {str(fact["by"])[:5] for fact in team.facts("message_completed")} == {"seen:"}
            assert not team.facts("nudge", "probe", "escalation", "message_dead")


# --- beside the agents' queues ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", WATCHES)
def test_a_queue_that_is_ackds_own_has_three_directories_that_are_nobodys(tmp_path: Path, how: str) -> None:
    team = Noting(tmp_path, ensemble='queue = ".ackd/queue"', watch=WATCHES[how], reconcile_s=0.2)
    with running(team):
        team.until((team.root / "queue/tasks").is_dir)
        team.shell("printf 'title: a page\\n' >.ackd/queue/tasks/worker-1-T-1.yaml")
        team.fact("message_told", agent="worker-1")  # who acks before has it already, and is not told
        team.shell(
            "printf 'status: success\\n' >.ackd/queue/reports/T-1-completed.yaml; echo x >.ackd/queue/ack/T-1.ack"
        )
        team.shell("echo hello >.ackd/queue/tasks/notes.mime")
        team.completes(2)
        team.shell(
            "printf 'worker_count: 1\\n' >.ackd/queue/conductor/.draft; touch -d '2 min ago' .ackd/queue/conductor/.draft"
        )
        team.shell("mv .ackd/queue/conductor/.draft .ackd/queue/conductor/dispatch-instruction.yaml")
        instruction = ".ackd/queue/conductor/dispatch-instruction.yaml"  # beside the conductor's own mail
        team.until(lambda: f"dispatch message {instruction}" in team.told())
        team.until(lambda: len(team.facts("stray_file")) == 1)  # by the gateway, once
        team.shell("printf 'title: another\\n' >.ackd/queue/tasks/worker-1-T-2.yaml")
        team.completes(4)
        agents = json.loads(team.ackd("status", "--json").stdout)["agents"]
        assert not {"tasks", "reports", "ack"} & agents.keys()
        assert team.files("queue/corrupt") == []
        assert team.files("queue/tasks") == ["notes.mime", "worker-1-T-1.yaml", "worker-1-T-2.yaml"]
        assert not team.facts("message_rejected", "io_error", "spool_lost", "agent_state")
        assert team.ackd("send", "tasks", "--body", "x").returncode == 67
        team.stop()
    status = team.ackd("status", "--json")
    assert not {"tasks", "reports", "ack"} & json.loads(status.stdout)["agents"].keys()
