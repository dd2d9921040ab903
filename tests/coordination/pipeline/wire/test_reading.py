"""Reads and writes every text of pipeline-lead, and names the difference of those that are nearly one."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.pipeline.rules.stage_names import BadStory, story_id, whose_worker, worker_name
from ackd.coordination.pipeline.rules.stage_words import (
    Acknowledge,
    Erred,
    Execute,
    Judged,
    Planned,
    Reviewed,
    ReviewVerdict,
    StageDoing,
    StandsAt,
    StatusCheck,
    Worked,
)
from ackd.coordination.pipeline.wire import BadStageText, last_report, read, read_command, summary, word_in, write
from ackd.coordination.pipeline.wire.reading import Misread

if TYPE_CHECKING:
    from ackd.coordination.pipeline.rules.stage_words import StageWord

D = Decimal
TEXTS: list[tuple[str, StageWord, str]] = [
    ("Stage 0 COMPLETE for PROJ-42. 5 tasks created. Plan score: 4/4.", Planned("PROJ-42", 5, D(4)), "PROJ-42 Stage 0 COMPLETE"),
    ("Stage 0 COMPLETE for P2-1. 0 tasks created. Plan score: 3.5/4.", Planned("P2-1", 0, D("3.5")), "P2-1 Stage 0 COMPLETE"),
    ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8.", Judged("A-1", True, D(8)), "A-1 Stage 1 GO"),
    ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 7.5.", Judged("A-1", True, D("7.5")), "A-1 Stage 1 GO"),
    ("Stage 1 COMPLETE for A-1. Verdict: NO-GO. Readiness: 3. Reason: no tests", Judged("A-1", False, D(3), "no tests"), "A-1 Stage 1 NO-GO"),
    ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 85.", Judged("A-1", True, D(85)), "A-1 Stage 1 GO"),
    ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: -0.25.", Judged("A-1", True, D("-0.25")), "A-1 Stage 1 GO"),
    ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8. Agents: codex(2/3),gemini(1/2).", Judged("A-1", True, D(8), agents="codex(2/3),gemini(1/2)"), "A-1 Stage 1 GO"),
    ("Stage 1 COMPLETE for A-1. Verdict: NO-GO. Readiness: 3. Reason: no tests. Agents: SKIPPED(no agents available).", Judged("A-1", False, D(3), "no tests", agents="SKIPPED(no agents available)"), "A-1 Stage 1 NO-GO"),
    ("Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 91/100. Agents: codex(1/2),gemini(FAILED).", Reviewed("A-1", ReviewVerdict.PASS, D(91), agents="codex(1/2),gemini(FAILED)"), "A-1 Stage 3 PASS"),
    ("Stage 3 COMPLETE for A-1. Verdict: FAIL. Quality Score: 31/100. Issues: one.\ntwo. Agents: N/A.", Reviewed("A-1", ReviewVerdict.FAIL, D(31), "one.\ntwo", agents="N/A"), "A-1 Stage 3 FAIL"),
    ("Stage 2 COMPLETE for A-1. All tasks Done. Story set to To Review.", Worked("A-1"), "A-1 Stage 2 COMPLETE"),
    ("Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 100/100.", Reviewed("A-1", ReviewVerdict.PASS, D(100)), "A-1 Stage 3 PASS"),
    ("Stage 3 COMPLETE for A-1. Verdict: CONCERNS. Quality Score: 82.5/100.", Reviewed("A-1", ReviewVerdict.CONCERNS, D("82.5")), "A-1 Stage 3 CONCERNS"),
    ("Stage 3 COMPLETE for A-1. Verdict: WAIVED. Quality Score: 0/100.", Reviewed("A-1", ReviewVerdict.WAIVED, D(0)), "A-1 Stage 3 WAIVED"),
    ("Stage 3 COMPLETE for A-1. Verdict: FAIL. Quality Score: 31/100. Issues: one\ntwo", Reviewed("A-1", ReviewVerdict.FAIL, D(31), "one\ntwo"), "A-1 Stage 3 FAIL"),
    ("Stage 0 ERROR for A-1: cannot read the ticket", Erred("A-1", 0, "cannot read the ticket"), "A-1 Stage 0 ERROR"),
    ("Stage 2 ERROR for A-1: build: exit 2\n  at a.c:3.\n  at b.c:4", Erred("A-1", 2, "build: exit 2\n  at a.c:3.\n  at b.c:4"), "A-1 Stage 2 ERROR"),
    ("Status for A-1: Stage 2 EXECUTING. Current step: running e.g. the tests.", StandsAt("A-1", 2, StageDoing.EXECUTING, "running e.g. the tests"), "A-1 Stage 2 EXECUTING"),
    ("Status for A-1: Stage 2 WAITING. Current step: for\na lock..", StandsAt("A-1", 2, StageDoing.WAITING, "for\na lock."), "A-1 Stage 2 WAITING"),
    ("Status for A-1: Stage 0 ERROR. Current step: stuck.", StandsAt("A-1", 0, StageDoing.ERROR, "stuck"), "A-1 Stage 0 ERROR"),
]  # fmt: skip
COMMANDS: list[tuple[str, StageWord, str]] = [
    ("Execute Stage 2 for PROJ-42", Execute("PROJ-42", 2), "PROJ-42 -> Stage 2"),
    ("Status check: are you still working on Stage 2 for PROJ-42?", StatusCheck("PROJ-42", 2), "PROJ-42 -> Stage 2"),
    ("ACK Stage 2 for PROJ-42", Acknowledge("PROJ-42", 2), "PROJ-42 Stage 2 ACK"),
]


@pytest.mark.parametrize(("text", "word", "short"), TEXTS)
def test_what_a_worker_says_is_read_and_written_exactly(text: str, word: StageWord, short: str) -> None:
    assert read(text) == word
    assert write(word) == text
    assert summary(word) == short


@pytest.mark.parametrize(("text", "word", "short"), COMMANDS)
def test_what_the_lead_says_is_read_and_written_exactly(text: str, word: StageWord, short: str) -> None:
    assert read_command(text) == word
    assert write(word) == text
    assert summary(word) == short


def test_error_texts_are_parsed() -> None:
    """The seed's one pattern wants a full stop after the id, and so misses every ERROR."""
    for stage in range(4):
        assert read(f"Stage {stage} ERROR for A-1: why. And how.") == Erred("A-1", stage, "why. And how.")


def test_white_space_around_a_text_and_before_its_details_is_nothing() -> None:
    assert read("\n Stage 1 COMPLETE for A-1.\nVerdict: NO-GO. Readiness: 3.\nReason:\n  a\n  b\n") == Judged(
        "A-1", False, D(3), "a\n  b"
    )


@pytest.mark.parametrize("gap", [" ", "\x1f", "\u00a0", "\r\n\u2003"])
def test_white_space_is_the_same_wherever_it_stands(gap: str) -> None:
    assert read(f"{gap}Stage 2 ERROR for A-1:{gap}build{gap}") == Erred("A-1", 2, "build")
    said = read(f"Status for A-1: Stage 2 EXECUTING. Current step: build{gap}.")
    assert isinstance(said, StandsAt)
    assert read(write(said)) == said


NEAR_MISSES = [
    ("stage 0 COMPLETE for A-1. 5 tasks created. Plan score: 4/4.", "Stage 0 COMPLETE", 0),
    ("Stage 0 Complete for A-1. 5 tasks created. Plan score: 4/4.", "Stage 0 COMPLETE", 9),
    ("Stage 0 COMPLETE for A-1. 5 tasks created. Plan score: 4/4", "Stage 0 COMPLETE", 58),
    ("Stage 0 COMPLETE for A-1 5 tasks created. Plan score: 4/4.", "Stage 0 COMPLETE", 24),
    ("Stage 0 COMPLETE for A-1. 5 tasks created. Plan score: 4/4. Well done.", "Stage 0 COMPLETE", 59),
    ("Stage 7 COMPLETE for A-1. All tasks Done. Story set to To Review.", "Stage 0 COMPLETE", 6),
    ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8. Reason: it is fine", "Stage 1 GO", 52),
    ("Stage 1 COMPLETE for A-1. Verdict: NO-GO. Readiness: 3.", "Stage 1 NO-GO", 55),
    ("Stage 1 COMPLETE for A-1. Verdict: MAYBE. Readiness: 3.", "Stage 1 GO", 35),
    ("Stage 3 COMPLETE for A-1. Verdict: FAIL. Quality Score: 31/100.", "Stage 3 FAIL", 63),
    ("Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 91/10.", "Stage 3 passed", 61),
    ("Stage 2 COMPLETE for a-1. All tasks Done. Story set to To Review.", "Stage 2 COMPLETE", 21),
    ("Stage 2 ERROR for A-1. it broke", "ERROR", 21),
    ("Stage 2 ERROR for A-1:", "ERROR", 22),
    ("Status for A-1: Stage 2 SLEEPING. Current step: zzz.", "Status", 24),
    ("Status for A-1: Stage 2 EXECUTING. Current step: tests", "Status", 49),
    ("I am done!", "Stage 0 COMPLETE", 0),
]


@pytest.mark.parametrize(("text", "closest", "at"), NEAR_MISSES)
def test_a_near_miss_is_named_with_the_closest_form_and_where_it_differs(text: str, closest: str, at: int) -> None:
    with pytest.raises(BadStageText) as bad:
        read(text)
    assert (bad.value.code, bad.value.closest, bad.value.at) == (Misread.NEAR_MISS, closest, at)
    assert f"at character {at + 1} " in str(bad.value)


def test_what_belongs_where_a_text_differs_is_said_in_words() -> None:
    with pytest.raises(BadStageText, match=r"at character 10 it has 'omplete for A-1' instead of 'OMPLETE for '"):
        read("Stage 2 Complete for A-1")
    with pytest.raises(BadStageText, match=r"it has the end instead of '\.'"):
        read("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8")


@pytest.mark.parametrize(
    ("text", "at", "found"),
    [
        ("Stage 0 COMPLETE for A-1. 5 tasks created. Plan score: 4.1/4.", 55, "4.1"),
        ("Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 101/100.", 56, "101"),
    ],
)
def test_a_score_out_of_its_range_is_no_report(text: str, at: int, found: str) -> None:
    with pytest.raises(BadStageText) as bad:
        read(text)
    assert (bad.value.code, bad.value.at, bad.value.found) == (Misread.OUT_OF_RANGE, at, found)


def test_readiness_is_any_number_unless_the_team_has_a_scale() -> None:
    """The seed has none: 1 to 10, percent, or a share."""
    text = "Stage 1 COMPLETE for A-1. Verdict: {}. Readiness: {}.{}"
    for score in ("0", "7.5", "85", "100", "0.92", "1234567", "-3"):
        assert read(text.format("GO", score, "")) == Judged("A-1", True, D(score))
        assert read(text.format("NO-GO", score, " Reason: no")) == Judged("A-1", False, D(score), "no")
    assert read(text.format("GO", "10", ""), readiness_scale=D(10)) == Judged("A-1", True, D(10))
    for score in ("10.5", "85", "-1"):
        with pytest.raises(BadStageText) as bad:
            read(text.format("GO", score, ""), readiness_scale=D(10))
        assert (bad.value.code, bad.value.at, bad.value.found) == (Misread.OUT_OF_RANGE, 50, score)
    with pytest.raises(BadStageText):
        read(text.format("GO", "high", ""))


def test_agents_after_details_are_read_where_they_end_the_text_and_belong_to_the_details_elsewhere() -> None:
    begin = "Stage 1 COMPLETE for A-1. Verdict: NO-GO. Readiness: 3. Reason: "
    assert read(f"{begin}no. Agents: a. Agents: b(1/2).") == Judged(
        "A-1", False, D(3), "no. Agents: a", agents="b(1/2)"
    )
    for reason in ("no Agents: a.", "no. Agents: a", "no. Agents: a.\nand more", "no. Agents:"):
        assert read(begin + reason) == Judged("A-1", False, D(3), reason)
    assert read(f"{begin}no.\n  Agents:\n codex .\n") == Judged("A-1", False, D(3), "no", agents="codex")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Stage 1 COMPLETE for A-1. Verdict: GO. Readiness: 8. Agents: codex(2/3)", 61),
        ("Stage 3 COMPLETE for A-1. Verdict: PASS. Quality Score: 91/100. Agents:codex.", 71),
    ],
)
def test_agents_that_are_nearly_there_are_named_as_where_the_text_differs(text: str, at: int) -> None:
    with pytest.raises(BadStageText) as bad:
        read(text)
    assert (bad.value.code, bad.value.at) == (Misread.NEAR_MISS, at)


def test_nothing_and_far_too_much_are_named() -> None:
    with pytest.raises(BadStageText) as empty:
        read(" \n")
    assert empty.value.code is Misread.EMPTY
    with pytest.raises(BadStageText) as endless:
        read("Stage 0 ERROR for A-1: " + "x" * 70_000)
    assert endless.value.code is Misread.TOO_LONG


def test_the_id_pattern_is_the_teams() -> None:
    own = r"[a-z]+\.\d+"
    assert read("Stage 2 ERROR for story.7: no", own) == Erred("story.7", 2, "no")
    with pytest.raises(BadStageText):
        read("Stage 2 ERROR for A-1: no", own)
    with pytest.raises(BadStageText) as bad:
        read("Stage 2 ERROR for ../../etc: no", r"[./a-z]+")
    assert bad.value.code is Misread.BAD_ID


def test_an_id_is_harmless_in_names() -> None:
    for bad in ("a/b", "..", "A-1\n", "-1", "A" * 60 + "-1"):
        with pytest.raises(BadStory):
            story_id(bad, r"(?s).*")


def test_a_workers_name_says_whose_it_is() -> None:
    assert worker_name("PROJ-42", 3) == "story-PROJ-42-s3"
    assert whose_worker("story-PROJ-42-s3") == ("PROJ-42", 3)
    for other in ("story-PROJ-42-s4", "story-PROJ-42", "leader", "story-proj-s1"):
        assert whose_worker(other) is None


def test_of_an_output_the_last_line_that_is_a_report_counts() -> None:
    output = "Stage 0 ERROR for A-1: first\nStage 2 COMPLETE for A-1. All tasks Done. Story set to To Review.\nbye\n"
    assert last_report(output) == "Stage 2 COMPLETE for A-1. All tasks Done. Story set to To Review."
    assert last_report("nothing\nStatus for A-1: Stage 0 WAITING. Current step: x.\n") is None


@pytest.mark.parametrize(
    "line",
    [
        "Stage 2 COMPLETE for A-1. All tasks Done. Story set to To Review",
        "**Stage 2 COMPLETE for A-1.** All tasks Done. Story set to To Review.",
        "  > `stage 0 complete for A-1`",
        "Stage 2 error: it broke",
        "Status for A-1: busy",
        "Stage 9 COMPLETE for A-1.",
    ],
)
def test_a_line_that_was_meant_for_the_lead_is_known_for_one(line: str) -> None:
    assert isinstance(word_in(line), BadStageText)
    assert last_report(line) is None


def test_lines_of_other_meaning_say_nothing_to_the_lead() -> None:
    for line in (
        "",
        "Stage 2 of 3: building",
        "all stages complete",
        "Statuses for A-1",
        "Status for build: ok",
        "ERROR for A-1",
        "exit status for x",
    ):
        assert word_in(line) is None
    assert word_in("Stage 2 ERROR for A-1: no") == Erred("A-1", 2, "no")
    assert word_in(" Status for A-1: Stage 2 EXECUTING. Current step: x. ") == StandsAt(
        "A-1", 2, StageDoing.EXECUTING, "x"
    )


ids = st.from_regex(r"[A-Z][A-Z0-9]{0,8}-[0-9]{1,6}", fullmatch=True)
stages = st.integers(0, 3)
details = st.text(min_size=1, max_size=300).map(str.strip).filter(lambda text: text and "Agents:" not in text)


def scores(most: int) -> st.SearchStrategy[Decimal]:
    return st.decimals(0, most, places=2) | st.integers(0, most).map(Decimal)


#: The agents that took part: one line of any words, mostly empty.
agents = st.just("") | st.text(max_size=60).map(lambda text: " ".join(text.split())).filter(
    lambda text: "Agents:" not in text
)
readiness = st.decimals(-(10**9), 10**9, places=3)

words: st.SearchStrategy[StageWord] = st.one_of(
    st.builds(Planned, ids, st.integers(0, 999_999), scores(4)),
    st.builds(Judged, ids, st.just(True), readiness, agents=agents),
    st.builds(Judged, ids, st.just(False), readiness, details, agents=agents),
    st.builds(Worked, ids),
    st.builds(
        Reviewed,
        ids,
        st.sampled_from([ReviewVerdict.PASS, ReviewVerdict.CONCERNS, ReviewVerdict.WAIVED]),
        scores(100),
        agents=agents,
    ),
    st.builds(Reviewed, ids, st.just(ReviewVerdict.FAIL), scores(100), details, agents=agents),
    st.builds(Erred, ids, stages, details),
    st.builds(StandsAt, ids, stages, st.sampled_from(StageDoing), details),
)


@given(words)
def test_every_word_comes_back_from_its_text(word: StageWord) -> None:
    text = write(word)
    assert read(text) == word
    assert write(read(text)) == text
    assert len(summary(word).split()) <= 10


@given(words, st.integers(0, 400), st.characters())
def test_one_wrong_character_is_another_text_or_a_named_near_miss(word: StageWord, at: int, char: str) -> None:
    text = write(word)
    broken = text[: at % len(text)] + char + text[at % len(text) + 1 :]
    try:
        again = read(broken)
    except BadStageText as bad:
        assert 0 <= bad.at <= len(broken)
        assert str(bad)
    else:
        assert read(write(again)) == again


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    for reader in (read, read_command):
        try:
            assert reader(text) is not None
        except BadStageText as bad:
            assert bad.closest
