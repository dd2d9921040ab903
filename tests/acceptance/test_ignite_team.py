"""A team that writes IGNITE's files by hand, under the real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.core.words import FURTHER_TYPES
from tests.acceptance.teams import Team, mime, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENTS = """
[agents.leader]
endpoint = "inbox"

[agents.worker]
endpoint = "exec"
command = ["sh", "-c", 'cat "$ACKD_BODY" >"out-$ACKD_TYPE"']
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with running(Team(tmp_path_factory.mktemp("team"), AGENTS, top='escalate_to = "leader"')) as team:
        yield team
        assert "Traceback" not in team.output()


def notices(team: Team, to: str) -> list[str]:
    box = team.root / "queue" / to
    found = (*box.glob("notification_*.mime"), *(box / "processed").glob("notification_*.mime"))
    return [path.read_text() for path in found]


def test_quarantine_tells_the_sender_else_escalate_to_with_the_cure(team: Team) -> None:
    team.drop("worker", mime(sender="user", to="worker", kind="small_talk", message_id="1.1.a@x"), "talk.mime")
    team.drop("worker", mime(sender="somebody", to="worker", kind="gossip", message_id="1.1.b@x"), "gossip.mime")
    (told,) = team.until(lambda: notices(team, "user"))
    assert "queue/worker/talk.mime" in told
    assert "small_talk" in told
    assert "unknown_types" in told
    (told,) = team.until(lambda: notices(team, "leader"))
    assert "queue/worker/gossip.mime" in told


def test_a_receipt_that_is_none_is_told_of_as_well(team: Team) -> None:
    (team.root / "receipts" / "done_1763254800000000-abcdef.json").write_text("{}")
    assert team.until(lambda: [one for one in notices(team, "leader") if "receipts/done_1763254800000000" in one])


@pytest.mark.parametrize("kind", sorted(FURTHER_TYPES))
def test_the_further_types_of_such_a_team_are_delivered(team: Team, kind: str) -> None:
    team.drop("worker", mime(to="worker", kind=kind, message_id=f"1.2.{kind}@x"), f"{kind}_1.mime")
    team.fact("message_completed", message=f"1.2.{kind}@x")


def test_unknown_types_are_delivered_where_the_config_says_so(tmp_path: Path) -> None:
    with running(Team(tmp_path, AGENTS, top='unknown_types = "deliver"')) as team:
        team.drop("worker", mime(to="worker", kind="small_talk", message_id="1.1.a@x"), "talk.mime")
        team.drop("worker", mime(to="worker", kind="Small Talk!", message_id="1.1.b@x"), "none.mime")
        team.fact("message_completed", message="1.1.a@x")
        assert team.fact("message_rejected")["code"] == "unknown_type"
        sent = team.ackd("send", "worker", "--type", "task_assignmnt", "--body", "a: b")
        assert sent.returncode == 0
        assert "did you mean task_assignment?" in sent.stderr
        assert team.until((team.place / "out-task_assignmnt").exists)


def test_a_broken_body_that_came_by_file_is_delivered_with_a_line_in_the_log(team: Team) -> None:
    for number, body in enumerate(("task: 1\n", "task_id: [\n", "just words\n")):
        one = f"1.3.{number}@x"
        team.drop("worker", mime(to="worker", kind="task_assignment", message_id=one, body=body), f"body_{number}.mime")
        team.fact("message_completed", message=one)
        (warning,) = team.facts("message_warning", message=one)
        assert "not what a task_assignment should have, delivered all the same" in warning["warning"]


def workspace(place: Path) -> Team:
    """As IGNITE leaves it behind: no ackd.toml, no state of ours."""
    team = Team(place, "")
    (place / "ackd.toml").unlink()
    team.root = place / ".ignite"
    team.root.mkdir()
    return team


def test_mail_that_was_over_before_the_first_start_is_archived_or_dead_and_never_run(tmp_path: Path) -> None:
    team = workspace(tmp_path)
    for status, extra in (("completed", ""), ("error", "X-IGNITE-Error-Reason: out of memory\n"), ("delivered", "")):
        data = mime(to="ignitian_1", message_id=f"1.4.{status}@x", extra=f"X-IGNITE-Status: {status}\n{extra}")
        team.drop("ignitian_1", data, f"{status}_1.mime", "processed")
    with running(team):
        assert "first served this root" in team.fact("message_completed", message="1.4.completed@x")["by"]
        assert "out of memory" in team.fact("message_dead", message="1.4.error@x")["reason"]
        team.until((team.root / "queue/ignitian_1/processed/delivered_1.mime").exists)
        assert not team.facts("message_told", message="1.4.completed@x")
        assert not team.facts("message_told", message="1.4.error@x")
    assert len(list((team.root / "archive").rglob("completed_1.mime"))) == 1
    assert team.files("queue/dead_letter") == ["error_1.mime"]


def test_such_a_status_is_nobodys_word_once_ackd_is_there(tmp_path: Path) -> None:
    team = workspace(tmp_path)
    with running(team):
        data = mime(to="ignitian_1", message_id="1.5.late@x", extra="X-IGNITE-Status: completed\n")
        team.drop("ignitian_1", data, "late_1.mime", "processed")
        team.fact("message_told", message="1.5.late@x")
        assert not team.facts("message_completed")


@pytest.mark.parametrize(("boxes", "told"), [(("leader", "worker"), "leader"), (("worker",), "user")])
def test_without_a_config_escalations_go_to_the_leader_if_there_is_one(
    tmp_path: Path, boxes: tuple[str, ...], told: str
) -> None:
    team = workspace(tmp_path)
    for box in boxes:
        (team.root / "queue" / box).mkdir(parents=True)
    with running(team):
        team.drop("worker", mime(sender="somebody", to="worker", kind="gossip"), "gossip.mime")
        assert team.fact("notice")["to"] == told
