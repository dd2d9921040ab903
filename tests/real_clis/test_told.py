"""Mail to the real programs: told, seen, finished, and left alone when a person is at the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.real_clis.model import Answer, plain

if TYPE_CHECKING:
    from tests.real_clis.stage import Stage


def test_mail_is_told_once_seen_and_finished_by_its_own_commands(stage: Stage) -> None:
    message_id = stage.team.send("worker", body="build it")
    stage.fact("message_told", message_id=message_id)
    stage.fact("message_seen", "message_acked", message_id=message_id)  # it may ack before we look
    stage.fact("message_completed", message_id=message_id)
    assert len(stage.lines()) == 1
    assert stage.facts("nudge", "probe", "message_retry", "escalation") == []


def test_a_turn_quicker_than_our_eye_was_seen(stage: Stage) -> None:
    """It answers within a second, by words alone: the line stands in its transcript with them below it."""
    stage.thinks(plain)
    message_id = stage.team.send("worker")
    stage.fact("message_seen", message_id=message_id)
    assert len(stage.turns()) == 1
    assert stage.facts("nudge") == []


def test_half_typed_words_of_a_person_are_left_alone(stage: Stage) -> None:
    stage.pane.type("please refactor")
    stage.until(lambda: stage.reading().typed == "please refactor")
    message_id = stage.team.send("worker")
    parked = stage.fact("agent_state", agent="worker", state="parked")
    assert parked["reason"] == "someone's own words stand on its input line"
    assert stage.reading().typed == "please refactor"
    assert stage.facts("keys_sent", "message_told") == []
    assert stage.lines() == []
    stage.pane.press("C-u")
    stage.fact("message_completed", message_id=message_id)
    assert "refactor" not in " ".join(stage.lines())


def test_a_notice_is_completed_when_it_was_seen(stage: Stage) -> None:
    """Its agent says neither ack nor done."""
    stage.thinks(plain)
    body = "repository: r\ntask_id: T-1\nstatus: half\nsummary: half of it"
    notices = [stage.team.send("worker", "--type", "progress_update", body=body) for _ in range(2)]
    for message_id in notices:
        stage.fact("message_completed", message_id=message_id)
    assert len(stage.turns(2)) == 2
    assert stage.facts("nudge", "escalation") == []


def test_in_a_pane_of_40x12_the_line_is_short_submitted_and_obeyed(stage: Stage) -> None:
    stage.pane.resize(40, 12)
    try:
        stage.until_idle()
        message_id = stage.team.send("worker", body="build it")
        stage.fact("message_completed", message_id=message_id)
        (line,) = stage.lines()
        assert "ackd read" in line
        assert len(line) < 80
        stage.until_idle()
        assert stage.facts("nudge", "message_retry", "escalation") == []
    finally:
        stage.pane.resize(120, 40)


def test_a_permission_prompt_is_quoted_to_a_person_and_its_escalation_closes_by_itself(stage: Stage) -> None:
    def asks(command: str) -> None:
        stage.thinks(
            lambda asked: Answer("All done.") if asked.results else Answer("May I?", run=command, escalated=True)
        )

    asks("rm -rf ./first")
    message_id = stage.team.send("worker")
    told = stage.fact("escalation", agent="worker")
    assert told["cause"] == "stuck"
    assert "rm -rf ./first" in stage.mail_of(told)
    assert "rm -rf ./first" in stage.worker()["reason"]
    answer(stage)
    stage.fact("message_seen", message_id=message_id)
    stage.until_at_rest()
    stage.fact("escalation_closed")
    asks("rm -rf ./second")
    stage.person_says("and another thing")
    stage.until(lambda: len(stage.escalations()) == 2)
    assert "rm -rf ./second" in stage.mail_of(stage.escalations()[1])
    answer(stage)
    stage.until_idle()


def answer(stage: Stage) -> None:
    """As a person does: yes."""
    stage.pane.press({"claude": "1", "codex": "y", "gemini": "Enter"}[stage.name])
