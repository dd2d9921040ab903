"""The record of one story: its state, and every try of every stage; as values, and as JSON in a file.

Budgets are not counted here: they follow from the tries (``decisions``). A record that was edited by hand is accepted
if it makes sense. Otherwise reading fails with ``BadStoryRecord``, and the file is left alone.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NamedTuple

from ackd.coordination.pipeline.rules.stage_names import STAGES, worker_name
from ackd.coordination.pipeline.rules.story import StoryState, stage_of
from ackd.core.errors import TheirFault
from ackd.core.words import Word

#: The most characters of a text that are kept in the record. The whole text is in the report's own file.
MAX_DETAIL_CHARS: Final = 4_000


class BadStoryRecord(TheirFault):
    def __init__(self, story: str, why: str) -> None:
        super().__init__(story, why)
        self.story = story
        self.why = why

    def __str__(self) -> str:
        return f"the record of story {self.story} cannot be read: {self.why}"


class Result(Word):
    """The end of a try. Those of reports are the seed's words."""

    COMPLETE = "COMPLETE"
    GO = "GO"
    NO_GO = "NO-GO"
    PASS = "PASS"  # noqa: S105 - a verdict
    CONCERNS = "CONCERNS"
    WAIVED = "WAIVED"
    FAIL = "FAIL"
    ERROR = "ERROR"
    CRASHED = "crashed"  # ended without a report
    SILENT = "silent"  # did not answer a status check
    LOST = "lost"  # ended with the daemon or the machine, which is not the worker's fault
    UNSTARTED = "not started"
    UNCLEAR = "not understood"
    STOPPED = "stopped"  # by a person


#: Results that use up a stage's respawns.
BROKEN: Final = frozenset({Result.ERROR, Result.CRASHED, Result.SILENT})
#: Results of reports that were processed.
REPORTED: Final = frozenset(
    {
        Result.COMPLETE,
        Result.GO,
        Result.NO_GO,
        Result.PASS,
        Result.CONCERNS,
        Result.WAIVED,
        Result.FAIL,
        Result.ERROR,
    }
)


class Doubt(Word):
    """The reason why a worker was asked for its status."""

    GARBLED = "garbled"  # the worker sent a text that is not understood
    QUIET = "quiet"  # the worker shows no sign of life
    HELD = "held"  # the worker says that its report was not acknowledged


class Try(NamedTuple):
    """The whole life of one worker. Times are wall-clock seconds.

    ``executed``: its one Execute is in its queue. ``settled``: its mail was closed and it has left, so that a restart
    need not look after it. ``garbled``: the ids of messages that were not understood, because a crash may have them
    read again. ``unclear``: the last of those texts, to be quoted. ``agents``: the agents that its report names.
    """

    generation: int
    stage: int
    started_at: float
    executed: bool = False
    asks: int = 0
    asked_at: float | None = None
    doubt: Doubt | None = None
    garbled: tuple[str, ...] = ()
    ended_at: float | None = None
    result: Result | None = None
    score: str = ""
    detail: str = ""
    report_id: str = ""
    unclear: str = ""
    agents: str = ""
    acked_at: float | None = None
    settled: bool = False


class Story(NamedTuple):
    """A story, as it is kept on disk.

    ``stage``: the stage at which it is, or goes on. ``fresh_from``: so many of its tries count for no budget any more,
    because a person has resumed it since. ``sequence``: the order in which stories were started. ``escalated``: the
    last of its ``pauses`` that a person was told of. ``earlier``: the last generation of its life before this one, if
    it was begun anew; no worker of that life is taken for one of this. ``moves``: how often its state was changed, by
    any process; ``logged``: how many of these the session log has. ``started_by``: the agent that started it and waits
    for its end; None for a person, and in records of older versions.
    """

    story_id: str
    state: StoryState
    created_at: float
    sequence: int = 0
    stage: int = 0
    after: tuple[str, ...] = ()
    tries: tuple[Try, ...] = ()
    reason: str = ""
    since: float = 0.0
    fresh_from: int = 0
    pauses: int = 0
    escalated: int = 0
    earlier: int = 0
    moves: int = 0
    logged: int = 0
    ended_at: float | None = None
    started_by: str | None = None

    @property
    def current(self) -> Try | None:
        """Return the try that is under way."""
        last = self.tries[-1] if self.tries else None
        return last if last is not None and last.ended_at is None and stage_of(self.state) is not None else None

    def of(self, generation: int) -> Try | None:
        index = generation - self.earlier - 1
        return self.tries[index] if 0 <= index < len(self.tries) else None

    def with_try(self, one: Try) -> Story:
        index = one.generation - self.earlier - 1
        return self._replace(tries=(*self.tries[:index], one, *self.tries[index + 1 :]))

    @property
    def generation(self) -> int:
        """Return the generation of its newest worker."""
        return self.earlier + len(self.tries)

    @property
    def worker(self) -> str:
        return worker_name(self.story_id, self.stage)


def clipped(text: str) -> str:
    return text if len(text) <= MAX_DETAIL_CHARS else f"{text[: MAX_DETAIL_CHARS - 1]}…"


# --- in a file --------------------------------------------------------------------------------------------------------
def encode(story: Story) -> bytes:
    data = story._asdict()
    data["state"] = story.state.value
    data["tries"] = [_plain_try(one) for one in story.tries]
    return json.dumps(data, ensure_ascii=False, indent=1).encode(errors="replace") + b"\n"


def _plain_try(one: Try) -> dict[str, Any]:
    data = one._asdict()
    data["doubt"] = one.doubt.value if one.doubt is not None else None
    data["result"] = one.result.value if one.result is not None else None
    return data


def decode(data: bytes, story_id: str) -> Story:
    """Read a record. ``story_id`` is the name of its file: a record of another story in it is a mistake."""
    try:
        raw = json.loads(data)
        json.dumps(
            raw, ensure_ascii=False
        ).encode()  # a lone surrogate, which JSON can hold, could not be written again
        if not isinstance(raw, dict) or raw.get("story_id") != story_id:
            raise ValueError(f"it is not about {story_id}")
        return _checked(_story(raw))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadStoryRecord(story_id, str(error) or type(error).__name__) from None


def _story(raw: dict[str, Any]) -> Story:
    known = set(Story._fields)
    return Story(
        **{key: given for key, given in raw.items() if key in known - {"state", "after", "tries"}},
        state=StoryState(raw["state"]),
        after=tuple(map(str, raw.get("after", ()))),
        tries=tuple(map(_try, raw.get("tries", ()))),
    )


def _try(raw: dict[str, Any]) -> Try:
    known = set(Try._fields)
    doubt, result = raw.get("doubt"), raw.get("result")
    return Try(
        **{key: given for key, given in raw.items() if key in known - {"doubt", "result", "garbled"}},
        garbled=tuple(map(str, raw.get("garbled", ()))),
        doubt=Doubt(doubt) if doubt is not None else None,
        result=Result(result) if result is not None else None,
    )


def _checked(story: Story) -> Story:
    if story.stage not in STAGES or stage_of(story.state) not in (None, story.stage):
        raise ValueError(f"stage {story.stage!r} does not go with state {story.state.value}")
    numbers = [one.generation for one in story.tries]
    if story.earlier < 0 or numbers != list(range(story.earlier + 1, story.generation + 1)):
        raise ValueError(f"its tries are not numbered {story.earlier + 1}, {story.earlier + 2}, …")
    if stage_of(story.state) is not None and story.current is None:
        raise ValueError("it is in a stage that nobody works on")
    times = [story.created_at, story.since, *(one.started_at for one in story.tries)]
    later = [story.ended_at, *(t for one in story.tries for t in (one.asked_at, one.ended_at, one.acked_at))]
    if not all(_is_time(time) for time in times) or not all(time is None or _is_time(time) for time in later):
        raise ValueError("one of its times is none")
    if not all(one.stage in STAGES and _is_whole(one) for one in story.tries) or not isinstance(story.reason, str):
        raise ValueError("one of its tries makes no sense")
    if story.started_by is not None and not isinstance(story.started_by, str):
        raise ValueError("who started it is no name")
    return story


def _is_time(time: object) -> bool:
    return isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time)


def _is_whole(one: Try) -> bool:
    texts = (one.score, one.detail, one.report_id, one.unclear, one.agents)
    return all(isinstance(text, str) for text in texts) and (one.ended_at is None) == (one.result is None)
