"""The session log is a contract: what a team's day looks like in it, and that every door reads the same from it.

The golden file holds one run that shows every type of the seed. To write it anew after a wanted change, look at the
difference afterwards: ``REWRITE_GOLDEN=1 python -m pytest tests/acceptance/test_session_log.py -k golden``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.acceptance.teams import Team, running
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden" / "session_log.txt"
SEED_TYPES = set(
    "session_start session_end worker_assign worker_release task_start task_complete task_failed review_start "
    "review_result escalation loop_detected".split()
)
AGENTS = """
[agents.leader]
[agents.evaluator]
[agents.other]
[agents.worker]
endpoint = "exec"
command = ["true"]
[agents.failing]
endpoint = "exec"
command = ["sh", "-c", "echo no network >&2; exit 1"]
retry_limit = 1
"""


def a_day(team: Team) -> None:
    """One step after the other, so that each message's lines come in one order only."""
    team.fact(
        "message_completed", message=team.post("worker", sender="leader", kind="task_assignment", body="task_id: t1\n")
    )
    team.fact(
        "message_dead", message=team.post("failing", sender="leader", kind="task_assignment", body="task_id: t2\n")
    )
    asked = team.post("evaluator", sender="leader", kind="evaluation_request", body="task_id: t1\n")
    team.fact("message_told", message=asked)
    assert team.ackd("read", asked, "--agent", "evaluator").returncode == 0
    team.fact("message_seen", message=asked)
    team.post(
        "leader", sender="evaluator", kind="evaluation_result", body="task_id: t1\n", extra=f"In-Reply-To: <{asked}>\n"
    )
    team.fact("message_completed", message=asked)
    said = team.post(
        "leader",
        sender="worker",
        kind="progress_update",
        body="stage: build\npercent: 50\nmessage: half\nfinal: false\n",
    )
    team.fact("message_told", message=said)
    for number in range(12):
        a, b = ("leader", "other") if number % 2 else ("other", "leader")
        team.fact("message_told", message=team.post(b, sender=a, extra="X-IGNITE-Thread-ID: plan-7\n"))
    read = team.post("other", sender="leader", kind="github_task", body="task_id: t3\n")
    team.fact("message_told", message=read)
    for word in ("ack", "done"):
        assert team.ackd(word, read, "--agent", "other").returncode == 0
        team.fact({"ack": "message_acked", "done": "message_completed"}[word], message=read)
    wanted = {fact["escalation_id"] for fact in team.facts("escalation")} | {said}
    team.until(lambda: wanted <= {fact["message_id"] for fact in team.facts("message_told")})
    ours = ("dead_letter", "notification")
    notices = [fact["message_id"] for fact in team.facts("message_queued") if fact["message_type"] in ours]
    for notice in notices:
        team.fact("message_told", message=notice)


# --- golden -----------------------------------------------------------------------------------------------------------
def chapters(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """What the log says of each message, under a title; then of the session itself."""
    ids = list(dict.fromkeys(line["data"]["message_id"] for line in lines if "message_id" in line["data"]))
    names = {}
    for one in ids:
        queued = next(line["data"] for line in lines if line["data"].get("message_id") == one)
        names[one] = f"{queued['message_type']} {queued['from']} to {queued['agent']}"
    for one in ids:
        yield names[one], [normal(line, names) for line in lines if line["data"].get("message_id") == one]
    yield "the session", [normal(line, names) for line in lines if "message_id" not in line["data"]]


def normal(line: dict[str, Any], names: dict[str, str]) -> str:
    """A line without what differs from run to run."""
    data = dict(line["data"])
    data.pop("message_id", None)
    for key in ("in_reply_to", "escalation_id"):
        if key in data:
            data[key] = f"<{names[data[key]]}>"
    for key in ("pid", "seconds", "delay_s", "root", "config_hash", "next_retry_after", "version", "notice_id"):
        if key in data:
            data[key] = "…"
    text = json.dumps(data, ensure_ascii=False)
    text = re.sub(r"_\d{16}", "_…", re.sub(r"archive/\d{8}", "archive/…", text))
    return f"{line['type']} {re.sub(r'exec pid [0-9]+', 'exec pid …', text)}"


def written(lines: list[dict[str, Any]]) -> str:
    told: Counter[str] = Counter()
    for title, facts in chapters(lines):
        told["\n".join([title, *(f"  {fact}" for fact in facts)])] += 1
    return (
        "\n\n".join(text if count == 1 else f"{text}\n  ({count} times)" for text, count in sorted(told.items())) + "\n"
    )


def test_a_day_reads_as_the_golden_file_has_it(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    with running(team):
        a_day(team)
        assert team.stop() == 0
    found = written(team.lines())
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
    assert {line["type"] for line in team.lines()} >= SEED_TYPES


# --- order, numbers, doors --------------------------------------------------------------------------------------------
def must_be_in_order(lines: list[dict[str, Any]]) -> None:
    """Whatever happens at the same time: first told then seen, first started then ended, and so on."""
    pairs = [
        ("message_queued", "message_claimed"),
        ("message_claimed", "message_told"),
        ("message_told", "worker_assign"),
        ("message_told", "message_seen"),
        ("task_start", "task_complete"),
        ("task_start", "task_failed"),
        ("message_completed", "task_complete"),
        ("message_completed", "worker_release"),
        ("message_dead", "task_failed"),
        ("message_dead", "worker_release"),
    ]
    where: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(lines):
        if "message_id" in line["data"]:
            where.setdefault((line["type"], line["data"]["message_id"]), []).append(number)
    for first, then in pairs:
        for (type_, one), numbers in where.items():
            if type_ == then:
                assert min(where.get((first, one), [0])) < numbers[-1], (first, then, one)


def test_order_numbers_and_every_door_of_one_log(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    with running(team):
        for number in range(20):
            team.post("worker", sender="leader", kind="task_assignment", body=f"task_id: t{number}\n")
        dead = team.post("failing", sender="leader", kind="task_assignment", body="task_id: t99\n")
        team.fact("message_dead", message=dead)
        team.until(lambda: len(team.facts("message_completed")) == 20)
        explained = json.loads(team.ackd("explain", dead, "--json").stdout)
        tailed = team.ackd("tail", "-n", "1000", "--json").stdout.splitlines()
        team.stop()
    lines = team.lines()
    must_be_in_order(lines)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["writer"] for line in lines} == {"daemon"}
    assert len({line["session_id"] for line in lines}) == 1
    assert (lines[0]["type"], lines[-1]["type"]) == ("session_start", "session_end")
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)
    assert [json.loads(line) for line in tailed] == lines[: len(tailed)]
    assert {"message_id", "state", "receipts", "events"} <= explained.keys()
    assert (explained["message_id"], explained["state"]) == (dead, "dead")
    about = [line for line in lines if line["data"].get("message_id") == dead]
    assert [event["type"] for event in explained["events"]][: len(about)][:5] == [line["type"] for line in about][:5]


def test_tail_follows_over_a_restart(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    with running(team):
        command = [sys.executable, "-m", "ackd", "tail", "-f", "-n", "1000", "--json"]
        with (tmp_path / "tail.out").open("wb") as out:
            tail = subprocess.Popen(command, cwd=tmp_path, env=team.environment, stdout=out)
        try:
            first = team.post("worker")
            team.fact("message_completed", message=first)
            team.stop()
            team.start()
            second = team.post("worker")
            team.fact("message_completed", message=second)
            team.until(lambda: second in (tmp_path / "tail.out").read_text().partition("session_end")[2])
        finally:
            tail.terminate()
            tail.wait(PATIENCE_S)
        shown = [json.loads(line) for line in (tmp_path / "tail.out").read_text().splitlines() if line.endswith("}")]
    assert shown == team.lines()[: len(shown)]
    assert [line["type"] for line in shown].count("session_start") == 2


def test_totals_survive_restarts_and_kills_within_one_second(tmp_path: Path) -> None:
    """Sessions that begin in the same second have names whose order as text is not their age."""
    team = Team(tmp_path, AGENTS)

    def totals() -> dict[str, int]:
        found = json.loads(team.ackd("status", "--json").stdout)["totals"]
        return {key: found[key] for key in ("completed", "dead", "queued", "in_flight", "corrupt")}

    with running(team):
        dead = team.post("failing")
        team.fact("message_dead", message=dead)
        team.fact("message_completed", message=team.post("worker"))
        team.drop("worker", b"no message\n", "message_1.mime")
        team.fact("message_rejected")
        team.stop()
        offline = totals()
        team.start()
        team.fact("message_completed", message=team.post("worker"))
        team.kill()
        team.start()
        team.fact("message_completed", message=team.post("worker"))
        team.until(lambda: team.status()["totals"]["completed"] == 3)
        assert totals() | {"in_flight": 0} == {"completed": 3, "dead": 1, "queued": 0, "in_flight": 0, "corrupt": 1}
        team.stop()
    assert offline["completed"] == 1
    assert team.lines()[-1]["data"]["totals"]["completed"] == 3


def test_a_team_finds_the_daemons_log_among_its_own_and_a_torn_line_there_hides_nothing(tmp_path: Path) -> None:
    """Every door reads past what a writer that died within its line has left."""
    table = '[ensemble]\ndispatch = "leader"\nconductor = "leader"\nlog_dir = ".ensemble/logs"\n'
    team = Team(tmp_path, AGENTS + table)
    with running(team):
        message = team.post("worker", sender="leader", kind="task_assignment", body="task_id: t1\n")
        team.fact("message_completed", message=message)
        (log,) = (tmp_path / ".ensemble" / "logs").glob("session-*.ndjson")
        assert message in log.read_text()
    with log.open("ab") as file:
        file.write(
            b'{"timestamp":"2026-11-16T01:00:00.000000Z","session_id":"x","data":{"message_id":"' + message.encode()
        )
    assert "completed" in team.ackd("explain", message).stdout
    tailed = team.ackd("tail", "-n", "1", "--json").stdout
    assert json.loads(tailed)["type"] == "session_end"
    team.start()
    later = team.post("worker", sender="leader", kind="task_assignment", body="task_id: t2\n")
    team.fact("message_completed", message=later)
    team.stop()
    assert len(list((tmp_path / ".ensemble" / "logs").glob("session-*.ndjson"))) == 2
