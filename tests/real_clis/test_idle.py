"""The real programs idle with work in hand, waiting for others, and hanging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.real_clis.model import Answer, Asked, obedient, plain
from tests.real_clis.stage import hasty

if TYPE_CHECKING:
    from tests.real_clis.stage import Stage

DELIVERY = hasty


def test_one_that_saw_its_mail_and_does_not_finish_it_is_reminded_twice_then_someone_is_told(stage: Stage) -> None:
    stage.thinks(plain)
    message_id = stage.team.send("worker", body="build it")
    behind = stage.team.send("worker", body="and this")
    stage.fact("message_seen", message_id=message_id)
    told = stage.fact("escalation", agent="worker")
    assert told["message_id"] == message_id
    assert [fact["number"] for fact in stage.facts("idle_reminder", message_id=message_id)] == [1, 2]
    reminders = stage.turns(2, about=f"message {message_id} from user of type message is not finished")
    assert len(reminders) == 2
    assert all("ackd done" in line for line in reminders)
    stage.fact("message_told", message_id=behind)  # mail behind it flows
    assert stage.facts("nudge", "probe", "message_dead") == []


def test_a_leader_that_waits_at_its_prompt_gets_its_answer(stage: Stage) -> None:
    """One message fills its window, and the answer passes it; while it waits nobody reminds it."""

    def leads(asked: Asked) -> Answer:
        if "helper" in asked.said or asked.said != goal_line[0]:
            return obedient(asked)
        steps = ["ackd ack", "ackd send helper --body please"]
        at = len(asked.results)
        if at == 0:
            return Answer("I have a goal.", run=f"ackd ack {goal_id}")
        return Answer("I ask the helper.", run=steps[at]) if at < len(steps) else Answer("I wait.")

    goal_line = [""]

    def first(asked: Asked) -> Answer:
        goal_line[0] = asked.said
        stage.thinks(leads)
        return leads(asked)

    stage.thinks(first)
    goal_id = stage.team.send("worker", body="reach it")
    stage.fact("message_acked", message_id=goal_id)
    waits = stage.fact("message_waits", message_id=goal_id)
    assert "helper" in str(waits["waits_for"])
    stage.until_idle()
    (stage.team.place / "go").touch()
    answer = stage.fact("message_queued", agent="worker", **{"from": "helper"})["message_id"]
    stage.fact("message_completed", message_id=answer)
    assert stage.facts("message_completed", message_id=goal_id) == []
    assert stage.facts("idle_reminder", "escalation", "nudge") == []


def test_a_stream_that_hangs_is_interrupted_and_its_spinner_is_no_life(stage: Stage) -> None:
    gate = stage.holds()

    def hangs_once(asked: Asked) -> Answer:
        stage.thinks(obedient)
        return Answer("Never said.", gate=gate)

    stage.thinks(hangs_once)
    message_id = stage.team.send("worker", body="build it")
    stage.fact("message_seen", message_id=message_id)
    woken = stage.fact("nudge", agent="worker")
    assert woken["rung"] == 2
    stage.fact("message_completed", message_id=message_id)
    keys = [key for fact in stage.facts("keys_sent") for key in fact["keys"]]
    assert "Escape" in keys
    assert stage.facts("probe", "message_dead", "escalation") == []
