"""Agents inside the daemon: those of ackd's own, and one from an installed distribution."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TYPE_CHECKING

import yaml

from ackd import handlers
from tests.acceptance.teams import Team, running
from tests.queue_mail import queue_mail

if TYPE_CHECKING:
    from pathlib import Path

GREETER = '[agents.greeter]\nendpoint = "handler"\nhandler = "greeter"\nretry_limit = 0\n'


def example() -> str:
    """The whole handler of the module's docstring, as a reader would copy it."""
    text = str(handlers.__doc__)
    found = re.search(r"A whole handler::\n\n(.*?)\n\nnamed in", text, re.DOTALL)
    assert found is not None
    return textwrap.dedent(found[1]) + "\n"


def installed(directory: Path, module: str) -> dict[str, str]:
    """A distribution as pip leaves it, and the environment that finds it."""
    info = directory / "my_team-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-team\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ackd.handlers]\ngreeter = my_team:greet\n")
    (directory / "my_team.py").write_text(module)
    return {"PYTHONPATH": os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])}


def body(team: Team, box: str, kind: str) -> dict[str, object]:
    (text,) = queue_mail(team.root, box, kind).values()
    found = yaml.safe_load(text.partition("\n\n")[2])
    assert isinstance(found, dict)
    return found


def test_the_example_of_the_docs_runs_from_a_real_distribution(tmp_path: Path) -> None:
    team = Team(tmp_path / "team", GREETER)
    environment = installed(tmp_path / "lib", example())
    checked = team.ackd("check", env=environment)
    assert "handler greeter" in checked.stdout
    team.start(env=environment)
    with_name = team.post("greeter", body="name: Ada\n", extra="X-IGNITE-Thread-ID: hello\n")
    try:
        assert team.fact("message_completed", message=with_name)["by"] == "returned"
        wrong = team.post("greeter", kind="status_check")
        assert team.fact("message_dead", message=wrong)["reason"] == "greeter only reads messages, not status_check"
        early = team.post("greeter", body="name: nobody\n")
        assert team.fact("message_dead", message=early)["reason"] == "nobody has come yet"
        broken = team.post("greeter", body="nothing: here\n")
        assert team.fact("message_dead", message=broken)["reason"] == "KeyError: 'name'"
        (reply,) = [fact for fact in team.facts("message_queued", agent="user") if fact.get("in_reply_to") == with_name]
        assert (reply["from"], reply["message_type"]) == ("greeter", "message")
        assert body(team, "user", "message") == {"content": "Hello, Ada!"}
        assert team.fact("progress")["message"] == "greeted Ada"
    finally:
        assert team.stop() == 0


def test_a_handler_that_is_not_installed_is_a_config_error_in_one_line(tmp_path: Path) -> None:
    team = Team(tmp_path, GREETER)
    refused = team.ackd("run")
    assert refused.returncode == 78
    (line,) = refused.stderr.splitlines()
    assert "agents.greeter.handler" in line
    assert "no handler 'greeter'" in line
    assert team.files("logs") == []


def test_a_handler_that_cannot_be_imported_is_one_too(tmp_path: Path) -> None:
    team = Team(tmp_path / "team", GREETER)
    refused = team.ackd("run", env=installed(tmp_path / "lib", "import no_such_thing\n"))
    assert refused.returncode == 78
    assert "No module named 'no_such_thing'" in refused.stderr


def test_system_answers_a_status_check_and_nothing_else(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.helper]\n")
    with running(team):
        waiting = team.post("helper")
        team.fact("message_told", message=waiting)
        asked = team.post("system", kind="status_check", sender="helper", body="question: how is everyone?\n")
        team.fact("message_completed", message=asked)
        reply = team.until(
            lambda: [f for f in team.facts("message_told", agent="helper") if f["message_id"] != waiting]
        )
        assert team.facts("message_queued", message=reply[0]["message_id"])[0]["in_reply_to"] == asked
        (text,) = [text for text in queue_mail(team.root, "helper").values() if "From: system" in text]
        said = yaml.safe_load(text.partition("\n\n")[2])
        assert said["agents"]["helper"]["in_flight"] == 1
        assert said["totals"]["in_flight"] >= 1
        wrong = team.post("system", kind="task_list")
        assert "system answers status_check" in team.fact("message_dead", message=wrong)["reason"]


def test_a_reply_to_an_escalation_closes_it(tmp_path: Path) -> None:
    team = Team(tmp_path, '[agents.worker]\nendpoint = "exec"\ncommand = ["false"]\nretry_limit = 0\n')
    with running(team):
        first = team.post("worker", sender="leader")
        raised = team.fact("escalation", agent="worker")
        team.fact("message_dead", message=first)
        team.fact("message_dead", message=team.post("worker", sender="leader"))
        assert [fact["counted"] for fact in team.facts("escalation")] == [1, 2]
        open_one = team.until(lambda: (e := team.status()["escalations"]) and e[0]["counted"] == 2 and e[0])
        assert (open_one["agent"], open_one["cause"], open_one["to"]) == ("worker", "dead", "user")
        answered = team.ackd(
            "reply", raised["escalation_id"], "--from", "user", "--type", "message", "--body", "mended the worker"
        )
        assert answered.returncode == 0, answered.stderr
        closed = team.fact("escalation_closed")
        assert (closed["escalation_id"], closed["by"], closed["counted"]) == (raised["escalation_id"], "user", 2)
        team.until(lambda: team.status()["escalations"] == [])
        team.fact("message_dead", message=team.post("worker", sender="leader"))
        assert [fact["counted"] for fact in team.facts("escalation")] == [1, 2, 1]  # what happens next is a new one
        stray = team.post("queue_monitor")
        assert "no reply" in team.fact("message_dead", message=stray)["reason"]


def test_open_escalations_outlive_a_kill(tmp_path: Path) -> None:
    team = Team(tmp_path, '[agents.worker]\nendpoint = "exec"\ncommand = ["false"]\nretry_limit = 0\n')
    with running(team):
        team.fact("message_dead", message=team.post("worker", sender="leader"))
        team.kill()
        team.start()
        team.until(lambda: len(team.status()["escalations"]) == 1)
        team.fact("message_dead", message=team.post("worker", sender="leader"))
        team.until(lambda: team.status()["escalations"][0]["counted"] == 2)
    assert len({fact["escalation_id"] for fact in team.facts("escalation")}) == 1
