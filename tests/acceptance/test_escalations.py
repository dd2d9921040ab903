"""When something cannot be mended: who is told, in which words, and who is told if that fails too."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ackd.coordination.ensemble.rules import plain_words
from ackd.core import effects, events
from ackd.core.engine import Engine
from ackd.core.message import Folder, Message, Place, Priority
from ackd.core.policy import AgentPolicy, EnginePolicy
from ackd.formats import bodies
from tests.acceptance.teams import Team, running
from tests.queue_mail import queue_mail

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = """
[agents.leader]
[agents.broken]
endpoint = "exec"
command = ["false"]
retry_limit = 0
[agents.refusing]
endpoint = "exec"
command = ["sh", "-c", "exit 65"]
[agents.missing]
endpoint = "exec"
command = ["./no-such-program"]
[agents.idle]
task_timeout_s = 0.2
[agents.worker_2]
"""


def body_of(path: Path) -> dict[str, Any]:
    return body_in(path.read_text())


def body_in(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text.partition("\n\n")[2])
    assert isinstance(found, dict)
    return found


def escalations_in(team: Team, box: str) -> dict[str, Path]:
    """By cause."""
    found = queue_mail(team.root, box, "escalation")
    return {str(body_in(text)["cause"]).partition(":")[0]: path for path, text in found.items()}


def at_rest(found: dict[str, Path]) -> bool:
    """Tell whether they are where the daemon leaves them until they are done."""
    return {path.parent.name for path in found.values()} == {"processed"}


def must_be_plain(text: str, names: tuple[str, ...]) -> None:
    """Who, how many and where. A share that says nothing (1 of 1, 100%) is left out."""
    assert plain_words.vague_words(text) == []
    assert not {*plain_words.missing_facts(text, names)} - {plain_words.WHAT_SHARE}
    assert "100%" not in text


def raise_all(team: Team) -> set[str]:
    """Every cause that a daemon of inboxes and commands knows, but for the last link of the chain."""
    team.post("broken", sender="leader", kind="task_list")
    team.post("refusing", sender="leader")
    team.post("missing", sender="leader")
    held = team.post("idle", sender="leader")
    team.fact("message_told", message=held)
    assert team.ackd("ack", held, "--agent", "idle").returncode == 0
    for number in range(12):
        one, other = ("leader", "worker_2") if number % 2 else ("worker_2", "leader")
        bounced = team.post(other, sender=one, extra="X-IGNITE-Thread-ID: plan-7\n")
        team.fact("message_queued", message=bounced)
    lost = team.post("worker_2", sender="leader", kind="task_list")
    team.fact("message_told", message=lost)
    (team.root / "queue/worker_2").rename(team.place / "carried-off")
    return {"dead", "refused", "away", "overdue", "spool_lost"}


def test_every_escalation_says_who_how_many_and_where(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, top='escalate_to = "user"')
    with running(team):
        causes = raise_all(team)
        found = team.until(lambda: (e := escalations_in(team, "user")).keys() >= causes and at_rest(e) and e)
        for path in found.values():
            text = path.read_text().partition("\n\n")[2]
            assert bodies.check("escalation", text) == []
            must_be_plain(text, ("user", "queue_monitor"))
            assert team.header(path, "X-IGNITE-Priority") == "critical"
            assert team.header(path, "From") == "queue_monitor"
        linted = team.ackd("lint", "--words-only", str(found["dead"]))
        assert (linted.returncode, linted.stdout) == (0, "")
        notices = list((team.root / "queue/leader").rglob("dead_letter_*.mime"))
        assert {body_of(path)["to"] for path in notices} == {"broken", "refusing"}
        for path in notices:
            assert bodies.check("dead_letter", path.read_text().partition("\n\n")[2]) == []
            assert team.header(path, "In-Reply-To") == f"<{body_of(path)['message_id']}>"
            assert (team.root / str(body_of(path)["file"])).exists()
        story = body_of(found["dead"])["what_happened"]
        assert [one["what"] for one in story] == ["attempt 1: exit 1"]
        assert {fact["cause"].partition(":")[0] for fact in team.facts("escalation")} == causes
        looped = {"members": ["leader", "worker_2"], "about": "plan-7", "rounds": 6}
        assert team.facts("loop_detected") == [looped]


def test_an_escalation_that_cannot_be_delivered_goes_on_to_the_person(tmp_path: Path) -> None:
    """The leader refuses it: mail of the monitor breeds no dead letter notice, and still somebody is told."""
    agents = AGENTS.replace("[agents.leader]", '[agents.leader]\nendpoint = "exec"\ncommand = ["sh", "-c", "exit 65"]')
    team = Team(tmp_path, agents, top='escalate_to = "leader"\non_escalation = ["./bell"]')
    team.script("bell", 'cat >"bell.$$.tmp"; mv "bell.$$.tmp" "bell.$$.txt"')
    with running(team):
        one = team.post("broken", sender="idle")
        first = team.fact("escalation", agent="broken")
        assert first["to"] == "leader"
        team.fact("message_dead", message=first["escalation_id"])
        passed_on = team.fact("escalation", agent="leader")
        assert (passed_on["cause"], passed_on["to"]) == ("escalation_undelivered", "user")
        path = team.until(lambda: escalations_in(team, "user").get("escalation_undelivered"))
        text = path.read_text().partition("\n\n")[2]
        assert bodies.check("escalation", text) == []
        must_be_plain(text, ("user", "queue_monitor"))
        bell = team.until(lambda: list(tmp_path.glob("bell.*.txt")))
        assert [file.read_bytes() for file in bell] == [path.read_bytes()] or len(bell) == 1
        assert passed_on["escalation_id"] in bell[0].read_text()
        team.fact("message_dead", message=one)
        assert not [
            f
            for f in team.facts("message_queued")
            if f["message_type"] == "dead_letter" and f["agent"] == "queue_monitor"
        ]


def test_with_the_leader_away_the_person_is_told_and_the_bell_rings(tmp_path: Path) -> None:
    agents = AGENTS.replace("[agents.leader]", '[agents.leader]\nendpoint = "exec"\ncommand = ["./nobody"]')
    team = Team(tmp_path, agents, top='escalate_to = "leader"\non_escalation = ["./bell"]')
    team.script("bell", 'cat >"bell.$$.tmp"; mv "bell.$$.tmp" "bell.$$.txt"')
    with running(team):
        team.post("leader", sender="idle")
        team.until(lambda: team.status()["agents"]["leader"]["state"] == "parked")
        team.post("broken", sender="idle")
        assert team.fact("escalation", agent="broken")["to"] == "user"
        rung = team.until(lambda: len(f := list(tmp_path.glob("bell.*.txt"))) == 2 and f)
    assert {str(body_of(path)["cause"]) for path in rung} == {"away", "dead"}


def test_a_bell_that_fails_or_does_not_listen_is_heard_of_and_harms_nothing(tmp_path: Path) -> None:
    """`false` leaves its stdin unread: nothing may break on a closed pipe."""
    team = Team(tmp_path, AGENTS, top='on_escalation = ["false"]')
    with running(team):
        one = team.post("broken", sender="leader", body="content: |\n" + "  word\n" * 40_000)
        failed = team.fact("notify_failed")
        assert (failed["command"], failed["error"]) == (["false"], "exit 1")
        team.fact("message_dead", message=one)
        team.fact("message_dead", message=team.post("refusing", sender="leader"))
        assert team.stop() == 0


def test_a_stop_waits_for_a_bell_that_is_ringing(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, top='on_escalation = ["./bell"]')
    team.script("bell", "touch ringing; sleep 0.5; touch rung")
    with running(team):
        team.post("broken", sender="leader")
        team.until((tmp_path / "ringing").exists)
        assert team.stop() == 0
    assert (tmp_path / "rung").exists()
    assert not team.facts("notify_failed")


@pytest.mark.parametrize("cause", ["silent", "busy"])
def test_the_words_about_a_silent_agent_are_plain_too(cause: str) -> None:
    """Agents with a ladder are not served yet; the words are decided already."""
    engine = Engine(EnginePolicy(), random.Random(1))
    policy = AgentPolicy(rungs=1, ack_timeout_s=60, busy_timeout_s=100)
    wall = 1_770_263_544.0
    message = Message("1770263544.1.abcdef@ignite.local", "leader", "worker_1", "task_list", Priority.NORMAL, "digest")
    place = Place("worker_1", Folder.QUEUE, "task_list_1770263544000001.mime")
    for event in (
        events.AgentJoined("user", AgentPolicy(reminds=True), "inbox"),
        events.AgentJoined("worker_1", policy, "tmux"),
        events.Arrived(message, place, wall),
        events.Claimed(1, Place("worker_1", Folder.PROCESSED, place.name)),
        events.Told(1, "pane shows the line"),
    ):
        engine.handle(event, events.Now(0, wall))
    drafts = []
    for minute in range(1, 6):
        now = events.Now(minute * 61.0, wall + minute * 61)
        asked = (
            engine.handle(events.SignOfLife("worker_1", "pane"), events.Now(now.mono - 1, now.wall))
            if cause == "busy"
            else []
        )
        asked += engine.handle(events.Ticked(), now)
        drafts += [effect.draft for effect in asked if isinstance(effect, effects.SendMessage)]
    (draft,) = [draft for draft in drafts if draft.body.get("cause") == cause]
    text = yaml.safe_dump(dict(draft.body), sort_keys=False)
    assert bodies.check(draft.type, text) == []
    must_be_plain(text, ("user", "queue_monitor"))


@pytest.mark.parametrize("to", ["user", "both", "either"])
def test_an_open_escalation_is_open_after_a_restart_wherever_its_mail_went(tmp_path: Path, to: str) -> None:
    """A group's copies and a pool's mail lie with the members."""
    shared = '[groups]\nboth = ["leader", "worker_2"]\n[pools.either]\nmembers = ["leader", "worker_2"]\n'
    team = Team(tmp_path, shared + AGENTS, top=f'escalate_to = "{to}"')

    def open_ones() -> list[str]:
        return [one["escalation_id"] for one in team.status()["escalations"]]

    def told() -> set[str]:
        return {fact["agent"] for fact in team.facts("message_told", message=escalation)}

    with running(team):
        team.post("refusing", sender="user")
        escalation = team.fact("escalation")["escalation_id"]
        readers = {"both": {"leader", "worker_2"}, "user": {"user"}}.get(to)
        team.until(lambda: readers <= told() if readers else told())
        assert open_ones() == [escalation]
        team.stop()
        team.start()
        assert open_ones() == [escalation]
        again = team.post("refusing", sender="user")
        team.until(lambda: [one for one in team.facts("escalation") if one["message_id"] == again])
        assert {one["escalation_id"] for one in team.facts("escalation")} == {escalation}
        reader = min(readers or told())
        assert team.ackd("done", escalation, "--agent", reader).returncode == 0
        assert team.fact("escalation_closed")["by"] == reader
