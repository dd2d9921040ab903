from __future__ import annotations

from typing import Any

import pytest

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import ALL, AssessmentVerdict, Ballot, Talk
from ackd.core.errors import BadAnswer


def test_what_the_seed_leaves_out_may_be_missing() -> None:
    assert answers.assessment("CA", {"verdict": "approve"}).verdict is AssessmentVerdict.APPROVE
    said = answers.remark("CA", {"type": "Challenge", "message": "why?"})
    assert (said.to, said.talk, said.changes_my_verdict) == (ALL, Talk.CHALLENGE, False)
    cast = answers.vote("CA", {"final_verdict": "REJECT"})
    assert (cast.verdict, cast.confidence, cast.conditions) == (Ballot.REJECT, None, ())


def test_one_text_stands_for_a_list_of_one_and_objects_are_kept_as_text() -> None:
    found = answers.assessment("CA", {"verdict": "CONCERNS", "concerns": "slow", "recommendations": [{"do": "cache"}]})
    assert found.concerns == ("slow",)
    assert found.recommendations == ('{"do": "cache"}',)


BAD: list[tuple[Any, dict[str, object], str]] = [
    (answers.assessment, {}, "verdict is missing"),
    (answers.assessment, {"verdict": "MAYBE"}, "one of APPROVE, CONCERNS, REJECT"),
    (answers.assessment, {"verdict": ["APPROVE"]}, "one of"),
    (answers.assessment, {"verdict": "APPROVE", "score": "high"}, "must be a number"),
    (answers.assessment, {"verdict": "APPROVE", "score": float("nan")}, "must be a number"),
    (answers.assessment, {"verdict": "APPROVE", "score": 101}, "from 0 to 100"),
    (answers.assessment, {"verdict": "APPROVE", "concerns": {"a": 1}}, "must be a list"),
    (answers.assessment, {"verdict": "APPROVE", "concerns": ["x"] * 51}, "51 items"),
    (answers.assessment, {"verdict": "APPROVE", "concerns": ["x" * 9000]}, "8000 characters"),
    (answers.remark, {"type": "AGREE", "message": "  "}, "nothing is said"),
    (answers.remark, {"type": "SHOUT", "message": "x"}, "one of CHALLENGE"),
    (answers.remark, {"type": "AGREE", "message": "x", "changes_my_verdict": "no"}, "true or false"),
    (answers.remark, {"type": "AGREE", "message": "x", "to": 3}, "a director, or ALL"),
    (answers.remark, {"type": "AGREE", "message": "x" * 20_000}, "more than"),
    (answers.vote, {"final_verdict": "CONCERNS"}, "one of APPROVE, REJECT"),
    (answers.vote, {"final_verdict": "APPROVE", "confidence": 85}, "from 0 to 1"),
    (answers.vote, {"final_verdict": "APPROVE", "confidence": True}, "must be a number"),
]


@pytest.mark.parametrize(("read", "said", "words"), BAD)
def test_what_makes_no_sense_is_refused_with_words(read: Any, said: dict[str, object], words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        read("CA", said)


def test_a_lone_surrogate_can_be_written_down() -> None:
    answers.remark("CA", {"type": "AGREE", "message": "\ud800"}).message.encode()
    answers.assessment("CA", {"verdict": "REJECT", "concerns": ["\udfff"]}).concerns[0].encode()


def test_a_digest_tells_what_was_said_and_of_a_remark_when() -> None:
    once = answers.remark("CA", {"type": "AGREE", "message": "x", "timestamp": "12:00"})
    again = answers.remark("CA", {"type": "AGREE", "message": "x", "timestamp": "12:05"})
    assert answers.digest(once) != answers.digest(again)
    vote = answers.vote("CA", {"final_verdict": "APPROVE"})
    assert answers.digest(vote) == answers.digest(answers.vote("CA", {"final_verdict": "approve"}))
    assert answers.digest(vote) != answers.digest(answers.vote("CPO", {"final_verdict": "APPROVE"}))
