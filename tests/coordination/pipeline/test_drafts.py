"""The lead's messages, to the letter: the seed's texts and summaries, under ids that derive from their cause."""

from __future__ import annotations

from pathlib import Path

from ackd.coordination.pipeline import drafts
from ackd.coordination.pipeline.rules.decisions import turn
from ackd.coordination.pipeline.rules.stage_names import DEFAULT_ID_PATTERN
from ackd.core.message import Draft, Message, Priority
from tests.coordination.pipeline.under_test import NEW

STORY = turn(NEW, 2.0).story
ONE = STORY.tries[0]
WORKER = "story-A-1-s0"


def said(draft: Draft) -> tuple[str, str, str, object, object]:
    return draft.sender, draft.recipient, draft.type, draft.body["content"], draft.body["summary"]


def test_every_text_and_its_summary_is_the_seeds() -> None:
    ack = drafts.ack(STORY, ONE, WORKER, "m")
    lead = "pipeline-lead"
    assert said(drafts.execute(STORY, ONE, None)) == (
        lead,
        WORKER,
        "message",
        "Execute Stage 0 for A-1",
        "A-1 -> Stage 0",
    )
    assert said(drafts.status_check(STORY, ONE)) == (
        lead,
        WORKER,
        "message",
        "Status check: are you still working on Stage 0 for A-1?",
        "A-1 -> Stage 0",
    )
    assert said(ack) == (lead, WORKER, "message", "ACK Stage 0 for A-1", "A-1 Stage 0 ACK")
    assert (ack.in_reply_to, ack.priority) == ("m", Priority.HIGH)
    shutdown = drafts.shutdown(STORY, ONE)
    assert (shutdown.type, shutdown.recipient, shutdown.body["summary"]) == (
        "shutdown_request",
        WORKER,
        "A-1 -> Stage 0",
    )
    for draft in (ack, shutdown, drafts.execute(STORY, ONE, None)):
        assert len(str(draft.body["summary"]).split()) <= 10
        assert draft.body["generation"] == 1


def test_the_next_worker_is_given_the_checkpoint() -> None:
    assert drafts.execute(STORY, ONE, {"stage": 0}).body["checkpoint"] == {"stage": 0}
    assert "checkpoint" not in drafts.execute(STORY, ONE, None).body


def test_what_a_command_printed_is_mail_as_it_would_have_sent_it() -> None:
    printed = drafts.printed_report(STORY, ONE, "Stage 0 ERROR for A-1: no", DEFAULT_ID_PATTERN)
    assert said(printed) == (WORKER, "pipeline-lead", "message", "Stage 0 ERROR for A-1: no", "A-1 Stage 0 ERROR")


def test_an_id_is_the_same_for_the_same_cause_and_another_for_another() -> None:
    second = ONE._replace(generation=2)
    ids = [
        drafts.execute(STORY, ONE, None).message_id,
        drafts.execute(STORY, second, None).message_id,
        drafts.status_check(STORY, ONE).message_id,
        drafts.status_check(STORY, ONE._replace(asks=1)).message_id,
        drafts.ack(STORY, ONE, WORKER, "m").message_id,
        drafts.ack(STORY, ONE, WORKER, "n").message_id,
        drafts.shutdown(STORY, ONE).message_id,
        drafts.execute(STORY._replace(created_at=STORY.created_at + 0.5), ONE, None).message_id,
        drafts.escalation(STORY, 3.0).message_id,
        drafts.escalation(STORY._replace(pauses=2), 3.0).message_id,
    ]
    assert len(set(ids)) == len(ids)
    assert drafts.execute(STORY, ONE, {"x": 1}).message_id == ids[0]


def test_a_person_is_told_why_and_what_can_be_done() -> None:
    draft = drafts.escalation(STORY._replace(reason="enough"), 3.0)
    assert draft.recipient == "user"
    text = str(draft.body)
    assert "story A-1 is paused at stage 0, after 1 tries of it: enough" in text
    assert "ackd story resume A-1" in text


def test_words_that_were_printed_on_the_way_have_ids_of_their_own() -> None:
    status = "Status for A-1: Stage 0 WAITING. Current step: x."
    last = drafts.printed_report(STORY, ONE, "Stage 0 ERROR for A-1: no", DEFAULT_ID_PATTERN)
    first, second = (drafts.printed_report(STORY, ONE, status, DEFAULT_ID_PATTERN, nth=nth) for nth in (1, 2))
    near = drafts.printed_near_miss(STORY, ONE, "Stage 0 complete", 3)
    assert len({draft.message_id for draft in (last, first, second, near)}) == 4
    assert said(near) == (WORKER, "pipeline-lead", "message", "Stage 0 complete", "A-1 Stage 0 not understood")
    assert near.message_id == drafts.printed_near_miss(STORY, ONE, "Stage 0 complete", 3).message_id


def test_what_is_typed_to_a_worker_in_a_pane_is_the_leads_own_words_and_names_the_report() -> None:
    def line(draft: Draft) -> str:
        message = Message(
            draft.message_id,
            draft.sender,
            draft.recipient,
            draft.type,
            draft.priority,
            "",
            in_reply_to=draft.in_reply_to,
        )
        return drafts.line_for(STORY, ONE, message, Path("/x/y.mime"))

    execute = drafts.execute(STORY, ONE, None)
    short = execute.message_id.partition("@")[0].rpartition(".")[2][:8]
    report = "and when it is over: ackd stage report"
    assert line(execute) == f"ackd: Execute Stage 0 for A-1. Run: ackd read {short} {report}"
    check = drafts.status_check(STORY, ONE._replace(asks=3))
    assert line(check) == (
        "ackd: Status check: are you still working on Stage 0 for A-1? Answer with: ackd stage status"
    )
    assert line(drafts.ack(STORY, ONE, WORKER, "m")) == "ackd: ACK Stage 0 for A-1"
    assert line(drafts.shutdown(STORY, ONE)) == "ackd: Stage 0 for A-1 is over, you may stop"
    other = drafts.execute(STORY, ONE._replace(generation=7), None)
    assert line(other).startswith("ackd: mail from pipeline-lead (message). Run: ackd read ")
