"""A team that writes IGNITE's files by hand, under the real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.core.words import FURTHER_TYPES
from tests.acceptance.teams import Team, mime, running
from tests.queue_mail import queue_mail

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
    return list(queue_mail(team.root, to, "notification").values())


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
        assert "does not fit its type (task_assignment), delivered all the same" in warning["warning"]


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


# --- files that name several ------------------------------------------------------------------------------------------
SEVERAL = """
[agents.leader]
endpoint = "inbox"
[agents.coder]
endpoint = "inbox"
[agents.tester]
endpoint = "inbox"
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with running(Team(tmp_path_factory.mktemp("several"), SEVERAL)) as team:
        yield team
        assert "Traceback" not in team.output()


def told(team: Team, message_id: str) -> list[str]:
    return sorted(fact["agent"] for fact in team.facts("message_told", message=message_id))


def test_a_file_dropped_by_hand_that_names_others_is_copied_to_them_and_told_once_each(several: Team) -> None:
    one = "1.6.hand@x"
    extra = "Cc: tester, nobody-here\n"
    several.drop("leader", mime(to="leader, coder", message_id=one, extra=extra), "hand_1.mime")
    several.until(lambda: told(several, one) == ["coder", "leader", "tester"])
    assert sorted(fact["agent"] for fact in several.facts("message_copied", message=one)) == ["coder", "tester"]
    assert "nobody-here" in several.facts("message_warning", message=one)[0]["warning"]
    (copy,) = (several.root / "queue/coder/processed").glob("message_*.mime")
    assert several.header(copy, "Message-ID") == f"<{one}>"


def test_who_writes_a_file_for_each_is_not_helped(several: Team) -> None:
    """With one id, or with one each; before and after the others."""
    for number, box in enumerate(("coder", "tester")):
        several.drop(box, mime(to="coder, tester", message_id="1.7.each@x", body="a: 1\n"), f"each_{number}.mime")
    for number, box in enumerate(("tester", "coder")):
        data = mime(to="coder, tester", message_id=f"1.7.own{number}@x", body="b: 1\n")
        several.drop(box, data, f"own_{number}.mime")
    several.until(lambda: told(several, "1.7.each@x") == ["coder", "tester"])
    several.until(lambda: told(several, "1.7.own0@x") + told(several, "1.7.own1@x") == ["tester", "coder"])
    assert not several.facts("message_copied", message="1.7.each@x")
    assert not [fact for fact in several.facts("message_copied") if "own" in fact["message_id"]]


def test_what_another_had_and_finished_is_not_copied_to_it_again(several: Team) -> None:
    several.drop("coder", mime(to="coder", message_id="1.8.done@x"), "done_1.mime")
    several.fact("message_told", message="1.8.done@x")
    assert several.ackd("done", "1.8.done@x", "--agent", "coder").returncode == 0
    several.fact("message_completed", message="1.8.done@x")
    several.drop("leader", mime(to="leader, coder", message_id="1.8.done@x", body="c: 1\n"), "done_2.mime")
    several.until(lambda: told(several, "1.8.done@x") == ["coder", "leader"])
    assert not several.facts("message_copied", message="1.8.done@x")


def test_what_ackd_send_wrote_bears_its_mark_and_is_never_copied(several: Team) -> None:
    one = several.send("leader", "coder", "--cc", "tester")
    several.until(lambda: told(several, one) == ["coder", "leader", "tester"])
    assert not several.facts("message_copied", message=one)


def test_what_lay_there_before_the_first_start_is_never_copied(tmp_path: Path) -> None:
    team = workspace(tmp_path)
    (team.root / "queue/coder").mkdir(parents=True)
    team.drop("leader", mime(to="leader, coder", message_id="1.9.old@x"), "old_1.mime")
    with running(team):
        team.fact("message_told", message="1.9.old@x")
        assert team.files("queue/coder/processed") + team.files("queue/coder")[1:] == []
        assert not team.facts("message_copied")
