"""A board at work: the real daemon, directors that are scripts, one of which knows the seed's files only."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.boards import BoardTeam
from tests.acceptance.teams import QUICK, running

EXAMPLE = Path(__file__).parents[2] / "config/examples/board.toml"


def body(path: Path) -> dict[str, Any]:
    """Read mail that was just seen there. Its agent may have been told since, and have moved it."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        text = (path.parent / "processed" / path.name).read_text()
    found: dict[str, Any] = yaml.safe_load(text.partition("\n\n")[2])
    return found


def of_three(**board: object) -> str:
    """Three directors, inboxes all."""
    numbers = "\n".join(f"{key} = {value}" for key, value in board.items())
    return f"""
escalate_to = "leader"
[bus]
tracks = ["conductor/tracks/*"]
[board]
directors = {{ CA = "technical", CPO = "product", CSO = "security" }}
{numbers}
{QUICK}
[agents.leader]
[agents.CA]
[agents.CPO]
[agents.CSO]
"""


def scripted(**board: object) -> str:
    commands = '\nendpoint = "exec"\ncommand = ["./director.sh"]\n'
    config = of_three(**board)
    for name in ("CA", "CPO", "CSO"):
        config = config.replace(f"[agents.{name}]\n", f"[agents.{name}]{commands}")
    return config


def test_the_example_decides_with_four_who_use_ackd_and_one_who_only_knows_the_files(tmp_path: Path) -> None:
    team = BoardTeam(tmp_path, EXAMPLE.read_text() + QUICK)
    with running(team):
        opened = team.board("open", "--checkpoint", "EVALUATE_PLAN", "--proposal", "Use SQLite", "--from", "leader")
        meeting = opened["session_id"]
        resolved = team.fact("board_resolved")
        assert (resolved["meeting"], resolved["verdict"]) == (meeting, "APPROVED")
        told = team.until(lambda: team.mail("leader", "message"))

    votes = {"CA": "APPROVE", "CPO": "APPROVE", "CSO": "APPROVE", "COO": "APPROVE", "CXO": "REJECT"}
    answer = body(told[0])
    assert (answer["session_id"], answer["verdict"], answer["votes"]) == (meeting, "APPROVED", votes)
    assert "fewer clicks (CXO)" in answer["conditions"]
    assert len(told) == 1

    # The seed's files, as the seed has them.
    session = json.loads((team.bus / f"board/session-{meeting}.json").read_text())
    assert session["status"] == "COMPLETE"
    assert session["phases"]["assess"] == {"status": "COMPLETE", "complete": 5, "of": 5}
    assert session["phases"]["discuss"] == {"status": "COMPLETE", "rounds": 3, "max_rounds": 3}
    assert session["phases"]["vote"] == {"status": "COMPLETE", "complete": 5, "of": 5}
    assert session["proposal"] == {"proposal": "Use SQLite"}
    flat = json.loads((team.bus / "board/assessments.json").read_text())
    assert {name: one["verdict"] for name, one in flat.items()} == {
        **dict.fromkeys(votes, "APPROVE"),
        "CXO": "CONCERNS",
    }
    flat = json.loads((team.bus / "board/votes.json").read_text())
    assert {name: one["final_verdict"] for name, one in flat.items()} == votes
    said = [json.loads(line) for line in (team.bus / "board/discussion.jsonl").read_text().splitlines()]
    assert sorted(one["from"] for one in said) == sorted([*votes] * 3)
    text = (team.bus / "board/resolution.md").read_text()
    assert "# APPROVED: EVALUATE_PLAN" in text
    assert "- CXO: too many clicks" in text
    assert "- CXO, round 2: why so?" in text

    # One line for each answer, one for the end, and its event. CXO has posted its own.
    record = team.record(meeting)
    assert len(record["discussion"]) == 15
    assert record["refused"] == []
    assert sorted(line["source"] for line in team.queue("BOARD_VOTE")).count("CA") == 1
    (end,) = team.queue("BOARD_RESOLVE")
    assert (end["payload"]["vote_summary"], end["payload"]["dissent"]) == (votes, ["CXO"])
    assert (team.bus / "events/BOARD_RESOLVE.event").exists()
    assert (team.bus / f"events/BOARD_RESOLVE_{meeting}.event").exists()
    phases = [(fact["before"], fact["phase"], fact.get("round")) for fact in team.facts("board_phase")]
    assert phases == [
        ("ASSESSING", "DISCUSSING", 1),
        ("DISCUSSING", "DISCUSSING", 2),
        ("DISCUSSING", "DISCUSSING", 3),
        ("DISCUSSING", "VOTING", None),
        ("VOTING", "RESOLVING", None),
        ("RESOLVING", "COMPLETE", None),
    ]
    assert not team.facts("message_dead")


def test_two_meetings_in_one_track_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    team = BoardTeam(tmp_path, scripted(rounds=1))
    with running(team):
        ids = [
            team.board("open", "--checkpoint", kind, "--proposal", kind, "--from", "leader")["session_id"]
            for kind in ("EVALUATE_PLAN", "PRE_LAUNCH")
        ]
        team.until(lambda: len(team.facts("board_resolved")) == 2)
        answers = [
            body(path)
            for path in team.until(lambda: team.mail("leader", "message")[1:] and team.mail("leader", "message"))
        ]
    assert ids[0] != ids[1]
    assert sorted(one["session_id"] for one in answers) == sorted(ids)
    for meeting, kind in zip(ids, ("EVALUATE_PLAN", "PRE_LAUNCH"), strict=True):
        record = team.record(meeting)
        assert (record["phase"], record["proposal"], record["checkpoint"]) == ("COMPLETE", kind, kind)
        assert len(record["votes"]) == len(record["assessments"]) == len(record["discussion"]) == 3
        session = json.loads((team.bus / f"board/session-{meeting}.json").read_text())
        assert (session["status"], session["session_id"]) == ("COMPLETE", meeting)
    assert [one["payload"]["session_id"] for one in team.queue("BOARD_RESOLVE")].count(ids[0]) == 1
    assert "PRE_LAUNCH" in (team.bus / "board/resolution.md").read_text(), "the flat files are the newest meeting's"
    assert "EVALUATE_PLAN" in (team.bus / "board" / ids[0] / "resolution.md").read_text()


def test_a_quick_review_answers_in_the_seeds_shape(tmp_path: Path) -> None:
    team = BoardTeam(tmp_path, scripted())
    with running(team):
        opened = team.board("open", "--checkpoint", "QUICK_REVIEW", "--proposal", "rename a field", "--from", "leader")
        (told,) = team.until(lambda: team.mail("leader", "message"))
        answer = body(told)
        assert (answer["session_id"], answer["verdict"], answer["consensus"]) == (
            opened["session_id"],
            "APPROVED",
            True,
        )
        assert set(answer["assessments"]) == {"CA", "CPO", "CSO"}
        assert answer["assessments"]["CA"]["verdict"] == "APPROVE"
        assert not team.queue("BOARD_VOTE")
        session = json.loads((team.bus / f"board/session-{opened['session_id']}.json").read_text())
        assert session["proposal"]["quick_mode"] is True


def test_who_does_not_come_is_named_and_a_board_without_a_majority_escalates_with_everything(tmp_path: Path) -> None:
    team = BoardTeam(tmp_path, of_three(rounds=1, assess_timeout_s=0.5, discuss_timeout_s=0.5, vote_timeout_s=0.5))
    opened = team.board("open", "--checkpoint", "PRE_LAUNCH", "--proposal", "Launch", "--from", "CPO")
    meeting = opened["session_id"]
    team.board("assess", "--director", "CA", "--verdict", "REJECT", "--concern", "no backups")
    with running(team):  # from here on the clock runs
        escalation = body(team.until(lambda: team.mail("leader", "escalation"))[0])
        answer = body(team.until(lambda: team.mail("CPO", "message"))[0])
    assert answer["verdict"] == "ESCALATE"
    assert answer["absent"]["assess"] == ["CPO", "CSO"]
    assert answer["absent"]["vote"] == ["CA", "CPO", "CSO"]
    assert (escalation["session_id"], escalation["proposal"]) == (meeting, "Launch")
    assert escalation["assessments"]["CA"]["concerns"] == ["no backups"]
    assert "3 absent (CA, CPO, CSO)" in escalation["summary"]
    named = [fact["absent"] for fact in team.facts("board_phase")]
    assert named[:3] == [["CPO", "CSO"], ["CA", "CPO", "CSO"], ["CA", "CPO", "CSO"]]
    assert "assess: CPO, CSO" in (team.bus / "board/resolution.md").read_text()


def test_a_deadline_goes_on_while_the_daemon_is_dead_and_nobody_is_asked_twice(tmp_path: Path) -> None:
    team = BoardTeam(tmp_path, of_three(rounds=1, assess_timeout_s=600))
    with running(team):
        meeting = team.board("open", "--checkpoint", "PRE_LAUNCH", "--proposal", "Launch")["session_id"]
        team.until(lambda: all(team.mail(name, "board_request") for name in ("CA", "CPO", "CSO")))
        team.until(lambda: len(team.record(meeting)["done"]) == 4)
        deadline = team.record(meeting)["deadline_at"]
        team.kill()
        said = team.ackd("board", "assess", "--director", "CA", "--verdict", "APPROVE")
        assert "nobody is told until a daemon runs" in said.stdout
        team.start()
        team.until(lambda: [fact for fact in team.facts("board_answer") if fact["director"] == "CA"])
        assert team.record(meeting)["deadline_at"] == deadline
        team.kill()
        config = (tmp_path / "ackd.toml").read_text().replace("assess_timeout_s = 600", "assess_timeout_s = 0.2")
        (tmp_path / "ackd.toml").write_text(config)
        team.start()
        team.until(lambda: team.record(meeting)["phase"] == "DISCUSSING")
        team.until(lambda: [len(team.mail(name, "board_request")) for name in ("CA", "CPO", "CSO")] == [2, 2, 2])
    assert not team.facts("message_duplicate")


def test_without_a_daemon_a_meeting_waits_with_its_clock_for_one(tmp_path: Path) -> None:
    team = BoardTeam(tmp_path, of_three(rounds=1, assess_timeout_s=600))
    said = team.ackd("board", "open", "--checkpoint", "EVALUATE_EXECUTION", "--proposal", "Done")
    assert "nobody is told until a daemon runs" in said.stdout
    (meeting,) = [path.name for path in (team.bus / "board").glob("board-*")]
    assert team.record(meeting)["deadline_at"] is None
    with running(team):
        team.until(lambda: team.mail("CA", "board_request") and team.mail("CPO", "board_request"))
        asked = [body(team.mail(name, "board_request")[0]) for name in ("CA", "CPO")]
        assert [one["focus"] for one in asked] == ["technical", "product"]
        assert asked[0]["answer_with"][0].startswith(f"ackd board assess {meeting} --track {team.bus} --director CA ")
        assert team.record(meeting)["deadline_at"] is not None
        team.board("cancel", meeting)
        assert team.fact("board_resolved")["verdict"] == "CANCELLED"
        team.until(lambda: team.mail("CA", "message"))


def test_a_session_that_the_seeds_own_code_begins_is_adopted_and_its_directors_asked(tmp_path: Path) -> None:
    """An orchestrator that knows the files only: a session file, and no command of ours."""
    never = "\n[watch]\nsettle_s = 0.1\nreconcile_interval_s = 3600\n"
    team = BoardTeam(tmp_path, scripted(rounds=1).replace(QUICK, never))
    meeting = time.strftime("board-%Y%m%d%H%M%S", time.gmtime())
    session = {
        "session_id": meeting,
        "checkpoint": "EVALUATE_PLAN",
        "status": "ASSESSING",
        "proposal": {"proposal": "Use SQLite", "context": {"why": "small"}},
        "directors": ["CA", "CPO", "CSO"],
        "started_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z",
        "phases": {"assess": {"status": "IN_PROGRESS", "complete": 0, "of": 3}},
    }
    with running(team):
        (team.bus / f"board/session-{meeting}.json").write_text(json.dumps(session, indent=2))
        assert team.fact("board_opened")["opener"] == "leader"
        team.until(lambda: len(team.facts("board_answer")) == 3)
        (team.bus / "events/TASK_COMPLETE_1.1.event").touch()  # no more than that, of a worker
        told = team.until(lambda: team.mail("leader", "message"))
    assert set(team.record(meeting)["assessments"]) == {"CA", "CPO", "CSO"}
    assert "task 1.1 is complete" in body(told[0])["content"]
