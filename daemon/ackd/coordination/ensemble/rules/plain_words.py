"""The ban on vague words: a report says who, how many, what share and where, in names and numbers.

Defines the words that are not allowed (the eight pairs of ensemble-v3, their Japanese and English kin) and the signs by
which a report shows the four facts. Pure: text in, findings out; never fails.

Two rules, told apart on purpose. ``vague_words`` holds for any text. ``missing_facts`` is for reports: a lone phrase
such as "87%" is no report (``is_report``) and owes nobody a place.
"""
# ruff: noqa: RUF001 - the full-width signs are the Japanese ones, and meant

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

WHO: Final = "who"
HOW_MANY: Final = "how many"
WHAT_SHARE: Final = "what share"
WHERE: Final = "where"

#: Advice for each missing fact.
ADVICE: Final = {
    WHO: "name the agent, such as Worker-1",
    HOW_MANY: "give the number, such as 3 files or 4件",
    WHAT_SHARE: "give the percentage, such as 80%",
    WHERE: "give the file and line, such as src/api/auth.py:45",
}


@dataclass(frozen=True, slots=True)
class VagueWord:
    """A vague word: where it stands (both from 1) and what to say instead."""

    line: int
    column: int
    word: str
    say: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.word!r} is vague: {self.say}"


# --- vague words ------------------------------------------------------------------------------------------------------
# A row for each pair of the seed: the advice, the Japanese words, the English ones. Rows are patterns.
_ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "say how many times (3 times)",
        r"多発|頻発|頻繁|しばしば|時々|ときどき|たまに|何度か|何度も|何回か",
        r"many(?: times)?|frequent(?:ly)?|often|sometimes|occasional(?:ly)?|repeatedly|numerous|rarely|regularly",
    ),
    (
        "say which part (src/api/auth.py, lines 45-52)",
        r"(?<!第)一部(?!始終)|部分的|ところどころ|あちこち",
        r"some|partly|partial(?:ly)?|in part|parts of|in places|somewhere|certain",
    ),
    (
        "say when or on what condition (check again after 5 minutes)",
        r"適宜|必要に応じて|随時|適切に|臨機応変",
        r"as appropriate|appropriately|as needed|as necessary|if needed|if necessary|when needed|where appropriate",
    ),
    (
        "give the percentage (87%)",
        r"概ね|おおむね|大体|だいたい|ほぼ|ほとんど|大部分|大半",
        r"mostly|most|roughly|approx(?:imately)?|(?:about|around)(?= \d)|almost|nearly|largely|mainly|generally",
    ),
    (
        "give the count (4 items)",
        r"いくつか|幾つか|いくらか|数件|数回|数個|多数|多くの|少数|若干|複数|様々|さまざま",
        r"several|a few|few|a couple(?: of)?|a number of|a handful of|a lot(?: of)?|lots of|various|multiple|plenty of",
    ),
    (
        "say how long (after 30 seconds)",
        r"しばらく|暫く|そのうち|近いうち|後ほど|のちほど|まもなく|間もなく|いずれ",
        r"(?:for )?a while|for some time|for a bit|soon|shortly|eventually|recently|lately|at some point",
    ),
    (
        "say where and how much (4 on Worker-2, 80% of all)",
        r"偏り|偏っ|偏る|偏在|アンバランス",
        r"skewed|uneven(?:ly)?|unbalanced|imbalanced?|lopsided|biased",
    ),
    (
        "name the issue (reported as Issue #123)",
        r"既知の(?:問題|不具合|バグ|課題)",
        r"(?:a )?(?:well-)?known (?:issues?|problems?|bugs?|limitations?|defects?)(?! ?\(?#\d)",
    ),
)
# An English word counts only as a word of its own: not inside a path, an identifier, an option or an address.
_ENGLISH: Final = r"(?<![\w/\\.\-@#$])(?:{words})(?![\w/\\@\-]|\.\w)"
_PATTERN: Final = re.compile(
    "|".join(
        f"(?P<row{n}>{japanese}|{_ENGLISH.format(words=english)})" for n, (_, japanese, english) in enumerate(_ROWS)
    ),
    re.IGNORECASE,
)


def vague_words(text: str) -> list[VagueWord]:
    """Every vague word, in order."""
    return [
        VagueWord(number, match.start() + 1, match[0].strip(), _advice(match))
        for number, line in enumerate(text.splitlines(), 1)
        for match in _PATTERN.finditer(line)
    ]


def _advice(match: re.Match[str]) -> str:
    row = str(match.lastgroup).removeprefix("row")
    return _ROWS[int(row)][0]


# --- missing facts ----------------------------------------------------------------------------------------------------
_ROLES: Final = (
    "conductor|dispatch|leader|strategist|architect|evaluator|coordinator|innovator|queue_monitor|github_watcher|"
    "pipeline-lead"
)
# "user" and "system" are agents too, but also plain English: they count with a label only.
_LABELS: Final = "agent|who|worker|from|by|assignee|reporter|reported_by|誰が|担当"
_BEFORE: Final = r"(?<![A-Za-z0-9_/.-])"  # Japanese needs no space before a name or number
_WHO: Final = re.compile(
    rf"{_BEFORE}(?:worker|ignitian|agent|reviewer|story)[-_ ]?[A-Za-z]{{0,20}}-?\d"
    rf"|{_BEFORE}(?:{_ROLES})(?![A-Za-z0-9_/]|\.\w)"
    rf"|^[ \t-]*(?:{_LABELS})[ \t]*[:：][ \t]*[\"']?[A-Za-z0-9]",
    re.IGNORECASE | re.MULTILINE,
)
# Digits are taken whole (possessively): on a megabyte of them a pattern that gives back would never end.
_NUMBER: Final = r"(?<![A-Za-z0-9_.:#/-])\d++(?:,\d{3})*+"
_COUNTERS: Final = "件|回|個|名|人|本|つ|箇所|ヶ所|か所|台|通|枚|種類|ファイル|タスク|テスト|エラー"
_NOT_COUNTED: Final = r"(?:m?s|secs?|seconds?|mins?|minutes?|hours?|h|days?|weeks?|am|pm|percent|of|to|and|or|in|at)\b"
_HOW_MANY: Final = re.compile(
    rf"(?<!\d)\d++\s*+(?:{_COUNTERS})"
    rf"|{_NUMBER}\s+(?:out )?of\s+\d|{_NUMBER} ?/ ?\d++(?![\w/])"
    rf"|{_NUMBER}[ \t]++(?!{_NOT_COUNTED})[A-Za-z][\w-]"
    r"|^[ \t-]*(?:count|counted|total|total_tasks|completed|failed|passed|retry_count|何件|件数)[ \t]*[:：][ \t]*\d",
    re.IGNORECASE | re.MULTILINE,
)
_WHAT_SHARE: Final = re.compile(r"\d\s?(?:[%％]|割|percent\b|パーセント)", re.IGNORECASE)
# A path is known by its end, a name and an extension; what stands before that proves nothing more.
_FILE: Final = r"(?<=[\w-])\.[A-Za-z]\w{0,9}"
_WHERE: Final = re.compile(
    rf"{_FILE}:\d"
    rf"|{_FILE}[\"'`]?\s?(?:の|,|\(|（|at|on)?\s?(?:L|lines?\s?)\d"
    rf"|{_FILE}[\"'`]?\s?(?:の|,|、)?\s?\d{{1,9}}(?:\s?[-–〜~]\s?\d{{1,9}})?\s?行"
    r"|\blines?\s\d{1,9}(?:\s?[-–〜~]\s?\d{1,9})?\s(?:of|in)\s[\"'`]?[\w./~+-]{0,255}?[\w-]\.[A-Za-z]"
    r"|(?<=[\w-])\.mime\b"  # a message file is one thing as a whole: it needs no line
    r"|\bqueue/[\w.-]{1,64}/",  # and so is an agent's queue
    re.IGNORECASE,
)


def missing_facts(text: str, names: Collection[str] = ()) -> list[str]:
    """The facts that a report does not give, of who, how many, what share and where. ``names``: agents beyond the usual
    roles."""
    found = {
        WHO: _WHO.search(text) or any(_stands_alone(name, text) for name in names),
        HOW_MANY: _HOW_MANY.search(text),
        WHAT_SHARE: _WHAT_SHARE.search(text),
        WHERE: _WHERE.search(text),
    }
    return [fact for fact, evidence in found.items() if not evidence]


def _stands_alone(name: str, text: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text) is not None


_PHRASE_WORDS: Final = 8
#: Scripts that are written without spaces: about three characters make a word.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SPACED_WORD: Final = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff][\w./#%:-]*+")
_SENTENCE_END: Final = re.compile(r"[.。!?！？](?:\s|$)")


def is_report(text: str) -> bool:
    """False for one short phrase without a sentence's end, as in the right column of the seed's table."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        return len(lines) > 1
    phrase = lines[0].strip()
    return _words(phrase) > _PHRASE_WORDS or _SENTENCE_END.search(phrase) is not None


def _words(phrase: str) -> float:
    """The length of a phrase in words: characters would measure English three times as long as Japanese."""
    unspaced = len(_UNSPACED.findall(phrase))
    return len(_SPACED_WORD.findall(_UNSPACED.sub(" ", phrase))) + unspaced / 3
