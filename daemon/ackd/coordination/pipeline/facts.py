"""The facts about stories and their stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.core.fact import BLUE, CYAN, DIM, GREEN, YELLOW, fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.fact import Shown


@fact(
    "story", "■", BLUE, lambda of: f"{of['story']}: {of['state']}{of('before', ', before: {}')}{of('reason', ': {}')}"
)
def story_state(*, story: str, state: str, before: str | None = None, reason: str | None = None) -> None:
    """A story is in another state."""


def _done(of: Shown) -> str:
    stages = of.data.get("stages")
    found = [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []
    words = (" ".join(of.shown(one.get(key, "")) for key in ("stage", "result", "score")).strip() for one in found)
    return f"{of['story']}: all four stages passed{of.time('seconds', ', after {}')}: {', '.join(words)}"


@fact("story", "✓", GREEN, _done)
def story_done(*, story: str, seconds: float, tries: int, stages: list[Mapping[str, Any]]) -> None:
    """All four stages of a story have passed; ``stages`` has the tries, times, results and scores of each."""


def _stage(of: Shown, words: str) -> str:
    return f"{of['story']} stage {of['stage']}: {words}"


@fact("stage", "→", CYAN, lambda of: _stage(of, f"its worker (try {of['generation']}) is told to begin"))
def stage_execute(*, story: str, stage: int, agent: str, generation: int, message_id: str) -> None:
    """A fresh worker was told to begin with a stage."""


#: The words for what the lead did with a report.
_HEARD: Final = {
    "processed": "",
    "duplicate": ", said before: acknowledged again",
    "late": ", of an old worker: acknowledged, not processed",
}


def _report(of: Shown) -> str:
    said = f"reports {of['result']}{of('score', ', score {}')}"
    return _stage(of, said + _HEARD.get(str(of.data.get("heard")), of("heard", ", {}")))


@fact("stage", "·", CYAN, _report)
def stage_report(
    *,
    story: str,
    stage: int,
    agent: str,
    message_id: str,
    result: str,
    heard: str,
    generation: int | None = None,
    score: str | None = None,
    detail: str | None = None,
    agents: str | None = None,
) -> None:
    """A worker reported on its stage; ``heard`` says what was made of it (processed, duplicate, late)."""


def _ended(of: Shown) -> str:
    score = of("score", ", score {}")
    return _stage(of, f"{of['result']}{score}{of.time('seconds', ', after {}')}{of('detail', ': {}')}")


@fact("stage", "■", BLUE, _ended)
def stage_ended(
    *,
    story: str,
    stage: int,
    agent: str,
    generation: int,
    result: str,
    seconds: float,
    score: str | None = None,
    detail: str | None = None,
    message_id: str | None = None,
) -> None:
    """A try of a stage is over."""


@fact("stage", "✓", GREEN, lambda of: _stage(of, "acknowledged"))
def stage_ack(*, story: str, stage: int, agent: str, generation: int, message_id: str) -> None:
    """A worker's report was acknowledged."""


@fact("stage", "?", YELLOW, lambda of: _stage(of, f"asked for its status{of('why', ' ({})')}"))
def stage_check(
    *, story: str, stage: int, agent: str, generation: int, message_id: str, why: str | None = None
) -> None:
    """A worker was asked whether it still works on its stage."""


@fact("stage", "·", DIM, lambda of: _stage(of, f"{of['doing']}: {of['step']}"))
def stage_status(
    *,
    story: str,
    stage: int,
    agent: str,
    message_id: str,
    doing: str,
    step: str,
    generation: int | None = None,
) -> None:
    """A worker answered a status check."""


@fact("stage", "!", YELLOW, lambda of: _stage(of, f"said what is no report ({of['why']}): {of['text']}"))
def stage_unparsed(
    *,
    story: str,
    stage: int,
    agent: str,
    why: str,
    text: str,
    message_id: str | None = None,
    generation: int | None = None,
) -> None:
    """A worker wrote to its lead what has none of the exact forms."""


@fact("stage", "·", DIM, lambda of: _stage(of, "its worker printed something for its lead"))
def stage_said(*, story: str, stage: int, agent: str, generation: int) -> None:
    """A worker printed words for its lead."""


@fact("stage", "·", DIM, lambda of: _stage(of, f"its worker has ended: {of['why']}"))
def stage_worker_ended(
    *, story: str, stage: int, agent: str, generation: int, why: str, reported: bool | None = None
) -> None:
    """A worker's command, child or pane has ended."""
