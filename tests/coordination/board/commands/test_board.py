"""`ackd board`, without a daemon: recording, showing, refusing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ackd.formats import yaml_body

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Team

BOARD = """
escalate_to = "leader"

[board]
directors = { CA = "technical", CPO = "product", CSO = "security" }
agents = { CA = "architect", CPO = "architect", CSO = "guard" }
rounds = 1

[agents.leader]
[agents.architect]
[agents.guard]
"""


@pytest.fixture
def board(team: Team) -> Team:
    (team.home / "ackd.toml").write_text(BOARD)
    return team


def opened(team: Team, *words: str, checkpoint: str = "PRE_LAUNCH") -> str:
    found = team.json("board", "open", "--checkpoint", checkpoint, "--proposal", "Launch", *words)
    assert isinstance(found["session_id"], str)
    return found["session_id"]


def say(team: Team, what: str, *words: str) -> None:
    for name in ("CA", "CPO", "CSO"):
        result = team.ackd("board", what, "--director", name, *words)
        assert result.exit_code == 0, result.output


def test_a_whole_meeting_by_hand(board: Team) -> None:
    meeting = opened(board, "--from", "leader")
    say(board, "assess", "--verdict", "CONCERNS", "--score", "6", "--concern", "slow", "--recommendation", "cache")
    say(board, "discuss", "--to", "ALL", "--type", "AGREE", "--message", "yes", "--changes-my-verdict")
    for name in ("CA", "CPO"):
        board.ackd("board", "vote", "--director", name, "--verdict", "APPROVE", "--condition", "the secret")
    shown = board.ackd("board", "show", "--for", "CSO").output
    assert "2 of 3 votes are in, sealed" in shown
    assert "secret" not in shown + json.dumps(board.json("board", "show")) + json.dumps(
        board.json("board", "show", "--for", "CSO")
    )
    resolved = board.json("board", "resolve")
    assert (resolved["session_id"], resolved["verdict"]) == (meeting, "APPROVED_WITH_REVIEW")
    assert resolved["votes"] == {"CA": "APPROVE", "CPO": "APPROVE"}
    assert resolved["absent"] == {"vote": ["CSO"]}
    again = board.ackd("board", "resolve", meeting)
    assert again.exit_code == 0
    assert "# APPROVED_WITH_REVIEW" in again.output
    (listed,) = board.json("board", "list")["meetings"]
    assert (listed["phase"], listed["verdict"], listed["opened_by"]) == ("COMPLETE", "APPROVED_WITH_REVIEW", "leader")
    assert "APPROVED_WITH_REVIEW" in board.ackd("board", "list").output
    full = board.json("board", "show", meeting)
    assert [one["changes_my_verdict"] for one in full["discussion"]] == [True] * 3
    assert "CA changed" not in full["not_counted"]


def test_recording_needs_no_daemon_and_says_who_is_told(board: Team) -> None:
    result = board.ackd("board", "open", "--checkpoint", "quick_review", "--proposal", "x")
    assert result.exit_code == 0
    assert "nobody is told until a daemon runs" in result.output
    result = board.ackd("board", "assess", "--director", "ca", "--verdict", "approve")
    assert "assessment recorded" in result.output
    assert "waits for CPO, CSO" in result.output


def test_what_a_director_is_shown_in_each_phase(board: Team) -> None:
    meeting = opened(board)
    board.ackd("board", "assess", "--director", "CA", "--verdict", "REJECT", "--concern", "a worry")
    mine = board.json("board", "show", "--for", "CPO")
    assert (mine["director"], mine["focus"], mine["proposal"]) == ("CPO", "product", "Launch")
    assert "a worry" not in json.dumps(mine), "not before all are in"
    assert mine["answer_with"][0].startswith(f"ackd board assess {meeting} --track ")
    assert board.json("board", "show", "--for", "CA")["your"]["assessment"]["verdict"] == "REJECT"
    for name in ("CPO", "CSO"):
        board.ackd("board", "assess", "--director", name, "--verdict", "APPROVE")
    board.ackd("board", "discuss", "--director", "CA", "--to", "CPO", "--type", "QUESTION", "--message", "for CPO only")
    assert "a worry" in board.ackd("board", "show", "--for", "CPO").output
    assert "for CPO only" in board.ackd("board", "show", "--for", "CPO").output
    assert "for CPO only" not in board.ackd("board", "show", "--for", "CSO").output
    assert board.json("board", "show", "--for", "CSO")["discussion"] == []


REFUSED: list[tuple[tuple[str, ...], int, str]] = [
    (("vote", "--director", "CA", "--verdict", "APPROVE"), 1, "too early to vote"),
    (("discuss", "--director", "CA", "--pass"), 1, "too early to discuss"),
    (("resolve",), 1, "nothing to count"),
    (("assess", "--director", "CFO", "--verdict", "APPROVE"), 67, "no director of this meeting; it has CA, CPO, CSO"),
    (("assess", "--director", "CA", "--verdict", "MAYBE"), 65, "one of APPROVE, CONCERNS, REJECT"),
    (("assess", "--director", "CA", "--verdict", "APPROVE", "--score", "11"), 65, "from 0 to 10"),
    (("assess", "board-20200101000000", "--director", "CA", "--verdict", "APPROVE"), 66, "no meeting"),
    (("assess", "../../x", "--director", "CA", "--verdict", "APPROVE"), 66, "no meeting's id"),
    (("assess", "--verdict", "APPROVE"), 2, "say --director"),
    (("discuss", "--director", "CA"), 2, "say something"),
    (("show", "--for", "CFO"), 67, "no director"),
    (("open", "--checkpoint", "PRE_LAUNCH", "--proposal", " "), 65, "empty"),
    (("open", "--checkpoint", "PRE_LAUNCH", "--proposal", "@missing"), 66, "missing"),
    (("open", "--checkpoint", "PRE_LAUNCH", "--proposal", "x", "--directors", "CA,CFO"), 67, "no director 'CFO'"),
    (("open", "--checkpoint", "PRE_LAUNCH", "--proposal", "x", "--from", "nobody"), 67, "no agent"),
    (("open", "--checkpoint", "LUNCH", "--proposal", "x"), 2, "LUNCH"),
]


@pytest.mark.parametrize(
    ("words", "code", "said"), REFUSED, ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
def test_what_is_refused_says_why_and_changes_nothing(
    board: Team, words: tuple[str, ...], code: int, said: str
) -> None:
    opened(board)
    before = {path: path.read_bytes() for path in board.files("bus")}
    result = board.ackd("board", *words)
    assert result.exit_code == code, result.output
    assert said in result.output
    assert {path: path.read_bytes() for path in board.files("bus")} == before


def test_an_agent_speaks_from_its_own_seat_only(board: Team) -> None:
    opened(board)
    guard, architect = {"ACKD_AGENT": "guard"}, {"ACKD_AGENT": "architect"}
    assert board.ackd("board", "assess", "--verdict", "APPROVE", env=guard).exit_code == 0
    stolen = board.ackd("board", "assess", "--director", "CA", "--verdict", "APPROVE", env=guard)
    assert (stolen.exit_code, "CA is architect's seat, and this is guard" in stolen.output) == (67, True)
    both = board.ackd("board", "assess", "--verdict", "APPROVE", env=architect)
    assert (both.exit_code, "CA and CPO: say --director" in both.output) == (2, True)
    stranger = board.ackd("board", "assess", "--verdict", "APPROVE", env={"ACKD_AGENT": "leader"})
    assert (stranger.exit_code, "leader is no director" in stranger.output) == (67, True)
    assert set(board.json("board", "show")["assessments"]) == {"CSO"}


def test_a_meeting_of_a_few_with_papers_from_files(board: Team) -> None:
    (board.home / "plan.md").write_text("# The plan\n")
    (board.home / "facts.json").write_text('{"users": 3}')
    (board.home / "notes").write_text("just text")
    found: Any = board.json(
        "board",
        "open",
        "--checkpoint",
        "EVALUATE_PLAN",
        "--proposal",
        "@plan.md",
        "--context",
        "facts.json",
        "--directors",
        "csO, CA",
    )
    assert found["waits_for"] == ["CSO", "CA"]
    shown = board.json("board", "show")
    assert shown["proposal"] == {"proposal": "# The plan\n", "context": {"users": 3}}
    opened(board, "--context", "notes")
    assert board.json("board", "show")["proposal"]["context"] == "just text"
    assert "\ncontext:\njust text\n" in board.ackd("board", "show").output


@pytest.mark.parametrize("deep", [32, 300, 985, 20_000])
def test_a_context_that_no_request_could_hold_is_refused(board: Team, deep: int) -> None:
    """With such a context the daemon would fail at every start, or nobody could read the request."""
    for given in ("[" * deep + "]" * deep, '{"a":' * deep + "0" + "}" * deep):
        (board.home / "facts.json").write_text(given)
        result = board.ackd("board", "open", "--checkpoint", "PRE_LAUNCH", "--proposal", "x", "--context", "facts.json")
        assert result.exit_code == 65
        assert result.output == "ackd: --context is nested more than 31 deep\n"
    assert board.json("board", "list")["meetings"] == []


def test_a_context_of_too_many_values_is_refused(board: Team) -> None:
    (board.home / "facts.json").write_text(json.dumps([0] * 10_000))
    result = board.ackd("board", "open", "--checkpoint", "PRE_LAUNCH", "--proposal", "x", "--context", "facts.json")
    assert (result.exit_code, result.output) == (65, "ackd: --context has more than 10000 values\n")
    (board.home / "facts.json").write_text(json.dumps([0] * 9_999))
    opened(board, "--context", "facts.json")


@pytest.mark.parametrize("given", ["[" * 31 + "]" * 31, '{"a":' * 31 + "0" + "}" * 31])
def test_the_deepest_context_can_be_read_by_whoever_is_asked(board: Team, given: str) -> None:
    (board.home / "facts.json").write_text(given)
    opened(board, "--context", "facts.json")
    told = board.json("board", "show", "--for", "CA")["context"]
    assert yaml_body.load(yaml_body.dump({"context": told})) == {"context": told}


@pytest.mark.parametrize("given", ['{"a": NaN}', "[1e999]", "-Infinity"])
def test_numbers_that_json_has_not_make_a_context_text(board: Team, given: str) -> None:
    (board.home / "facts.json").write_text(given)
    opened(board, "--context", "facts.json")
    assert board.json("board", "show")["proposal"]["context"] == given


def test_a_meeting_can_be_cancelled_once(board: Team) -> None:
    meeting = opened(board)
    assert board.json("board", "cancel")["phase"] == "CANCELLED"
    again = board.ackd("board", "cancel", meeting)
    assert (again.exit_code, "nothing to cancel" in again.output) == (1, True)
    assert board.ackd("board", "assess", "--director", "CA", "--verdict", "APPROVE").exit_code == 66, "none is open"


def test_without_any_meeting(board: Team) -> None:
    assert "no meetings" in board.ackd("board", "list").output
    assert not (board.root / "bus").exists()
    assert board.json("board", "list")["meetings"] == []
    assert board.ackd("board", "show").exit_code == 66


def test_control_characters_do_not_reach_the_terminal(board: Team) -> None:
    opened(board, "--proposal", "safe\x1b]0;owned\x07")
    assert "\x1b" not in board.ackd("board", "show").output
    assert "\x1b" not in board.ackd("board", "list").output


def test_a_record_that_cannot_be_read_is_bad_data(board: Team, tmp_path: Path) -> None:
    meeting = opened(board)
    (board.root / "bus/board" / meeting / "meeting.json").write_text("{")
    result = board.ackd("board", "show", meeting)
    assert (result.exit_code, "no record of a meeting" in result.output) == (65, True)
    assert "passed over" in board.ackd("board", "list").output
