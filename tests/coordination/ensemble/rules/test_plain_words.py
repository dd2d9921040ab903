"""The ban on vague words, word by word."""

from __future__ import annotations

import time

import pytest

from ackd.coordination.ensemble.rules.plain_words import (
    HOW_MANY,
    WHAT_SHARE,
    WHERE,
    WHO,
    is_report,
    missing_facts,
    vague_words,
)

#: The seed's table (ensemble-v3): what is banned, and what is to be written instead.
PAIRS = [
    ("多発", "3回発生"),
    ("一部", "src/api/auth.py の 45-52行目"),
    ("適宜", "5分後に再確認"),
    ("概ね", "87%"),
    ("いくつか", "4件"),
    ("しばらく", "30秒後"),
    ("偏り", "Worker-2に4件集中（全体の80%）"),
    ("既知の問題", "Issue #123 で報告済み"),
]


@pytest.mark.parametrize(("banned", "instead"), PAIRS)
def test_the_left_of_each_pair_fails_and_the_right_passes(banned: str, instead: str) -> None:
    assert [found.word for found in vague_words(banned)] == [banned]
    assert [found.word for found in vague_words(f"エラーが{banned}しています")] == [banned]
    assert vague_words(instead) == []
    assert not is_report(instead)


#: The same table in English.
ENGLISH_PAIRS = [
    ("it occurs frequently", "it occurred 3 times"),
    ("some of the code", "lines 45-52 of src/api/auth.py"),
    ("as appropriate", "check again after 5 minutes"),
    ("mostly done", "87%"),
    ("several items", "4 items"),
    ("for a while", "after 30 seconds"),
    ("the load is skewed", "4 items (80% of all) on Worker-2"),
    ("a known issue", "reported as Issue #123"),
]


@pytest.mark.parametrize(("banned", "instead"), ENGLISH_PAIRS)
def test_the_same_holds_in_english(banned: str, instead: str) -> None:
    assert len(vague_words(banned)) == 1
    assert vague_words(instead) == []
    assert not is_report(instead)


@pytest.mark.parametrize(
    "text",
    ["many errors", "it fails frequently", "some files", "partly done", "retry as appropriate", "mostly green", "roughly 5",
     "several tests", "a few tests", "waited for a while", "the load is skewed", "uneven load", "a known issue", "Often",
     "about 5 files", "approximately 80%", "as needed", "various places", "a number of tests", "soon", "almost all",
     "known bugs", "おおむね完了", "頻発", "数件", "必要に応じて"],
)  # fmt: skip
def test_the_kin_of_the_words_fails_too(text: str) -> None:
    assert len(vague_words(text)) == 1


@pytest.mark.parametrize(
    "text",
    ["src/some/several.py:4", "some_flag=1", "--as-needed", "many-to-one", "something", "https://example.org/known/often",
     "tell the leader about it", "known issue #123", "known issue (#123)", "3 errors", "第一部", "company", "handsome", "mailto:some@host"],
)  # fmt: skip
def test_names_paths_and_harmless_words_pass(text: str) -> None:
    assert vague_words(text) == []


def test_a_finding_says_where_it_stands_and_what_to_write() -> None:
    (found,) = vague_words("Worker-1: ok\nin src/a.py several tests fail\n")
    assert (found.line, found.column, found.word) == (2, 13, "several")
    assert str(found) == "line 2, column 13: 'several' is vague: give the count (4 items)"


ENGLISH = "Worker-1 fixed 3 files (60% of all 5) in src/api/auth.py:45."
JAPANESE = "Worker-1が src/api/auth.py:45 で3件（全体の60%）失敗した。"


@pytest.mark.parametrize("report", [ENGLISH, JAPANESE])
def test_a_full_report_lacks_nothing(report: str) -> None:
    assert is_report(report)
    assert vague_words(report) == []
    assert missing_facts(report) == []


@pytest.mark.parametrize(
    ("report", "missing"),
    [
        (ENGLISH.replace("Worker-1 fixed", "Fixed"), WHO),
        (ENGLISH.replace("3 files (60% of all 5)", "60%"), HOW_MANY),
        (ENGLISH.replace(" (60% of all 5)", ""), WHAT_SHARE),
        (ENGLISH.replace(" in src/api/auth.py:45", ""), WHERE),
        (JAPANESE.replace("Worker-1が ", ""), WHO),
        (JAPANESE.replace("3件（全体の60%）", "60%"), HOW_MANY),
        (JAPANESE.replace("（全体の60%）", ""), WHAT_SHARE),
        (JAPANESE.replace(" src/api/auth.py:45 で", ""), WHERE),
    ],
)
def test_each_fact_that_is_left_out_is_reported_alone(report: str, missing: str) -> None:
    assert is_report(report)
    assert missing_facts(report) == [missing]


def test_all_four_are_reported_one_by_one() -> None:
    assert missing_facts("The tests do not pass.") == [WHO, HOW_MANY, WHAT_SHARE, WHERE]


@pytest.mark.parametrize(
    "who", ["worker_2", "ignitian-3", "Conductor", "the evaluator", "agent: bob", "誰が：bob", "本日Worker-1が"]
)
def test_who_is_a_name(who: str) -> None:
    assert WHO not in missing_facts(who)


@pytest.mark.parametrize("who", ["someone", "a worker", "the user", "src/leader/x", "leader.py"])
def test_who_is_not_a_kind_of_person_or_a_path(who: str) -> None:
    assert WHO in missing_facts(who)


def test_an_agent_of_any_name_counts_where_the_names_are_known() -> None:
    assert WHO in missing_facts("bob did it")
    assert WHO not in missing_facts("bob did it", names=["bob"])
    assert WHO in missing_facts("bobby did it", names=["bob"])


@pytest.mark.parametrize("count", ["3 errors", "4 of 5", "4/5", "1,204 lines", "4件", "３回", "completed: 2"])
def test_how_many_is_a_number_of_things(count: str) -> None:
    assert HOW_MANY not in missing_facts(count)


@pytest.mark.parametrize(
    "other", ["87%", "after 30 seconds", "30秒後", "Issue #123", "auth.py:45", "v1.2 release", "at 10 am"]
)
def test_how_many_is_not_a_time_a_share_or_a_line(other: str) -> None:
    assert HOW_MANY in missing_facts(other)


@pytest.mark.parametrize(
    "where",
    [
        "src/a.py:4",
        "a.py line 4",
        "a.py, lines 4-9",
        "a.py (L4)",
        "`a.py` の 4行目",
        "a.py の 45-52行目",
        "queue/dead_letter/x_1.mime",
        "it lies in queue/worker_1/processed/task_assignment_1794794802000000.mime now",
        "lines 45-52 of src/api/auth.py",
        "line 4 of `a.py`",
        "Lines 4 – 9 in auth.py",
    ],
)
def test_where_is_a_file_and_a_line_or_a_message_file(where: str) -> None:
    assert WHERE not in missing_facts(where)


@pytest.mark.parametrize(
    "where", ["in the parser", "src/a.py", "at 10:45", "line 4", "line 4 of the parser", "4 of a.py"]
)
def test_where_is_not_less_than_that(where: str) -> None:
    assert WHERE in missing_facts(where)


@pytest.mark.parametrize("phrase", ["87%", "", "  \n4件\n", "a phrase of more than 25 characters"])
def test_a_lone_phrase_is_no_report(phrase: str) -> None:
    assert not is_report(phrase)


@pytest.mark.parametrize(
    "text",
    [
        "It failed.",
        "失敗した。",
        "a\nb",
        "a phrase of more than eight words is a report",
        "本日の作業はすべて終わりましたが試験はまだ一件も通っていません",
    ],
)
def test_a_sentence_or_two_lines_or_a_long_phrase_is_a_report(text: str) -> None:
    assert is_report(text)


@pytest.mark.parametrize(
    "unit", ["a", "1", "1 ", "a.", "- ", " ", "worker", "1,111", "a.b:", "known ", "多", "line 4 of ", "line 4 of a"]
)
def test_hostile_repetition_takes_time_in_proportion(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started = time.perf_counter()
    vague_words(text)
    missing_facts(text)
    is_report(text)
    assert time.perf_counter() - started < 10
