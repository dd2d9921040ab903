"""The names that follow from a story's id: those of its workers, and the lead's; and which ids a team's config allows.

Ids come from hostile text and become directories and files, so ``story_id`` is the only way to make one. Fails with
``BadStory``. Quick to import, because the stop hook of every stage worker needs no more than this to know whose it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import TheirFault
from ackd.core.names import identity, is_agent_name

if TYPE_CHECKING:
    from decimal import Decimal

#: The agent that the workers report to.
LEAD: Final = "pipeline-lead"
STAGES: Final = (0, 1, 2, 3)
#: Wider than the seed's ``[A-Z]+-\d+`` on purpose: some teams have numbers in their prefixes.
DEFAULT_ID_PATTERN: Final = r"[A-Z][A-Z0-9]*-\d+"
_WORKER: Final = re.compile(r"story[-_](.+)[-_]s([0-3])", re.ASCII)


class BadStory(TheirFault):
    def __init__(self, text: str, why: str) -> None:
        super().__init__(text, why)
        self.text = text
        self.why = why

    def __str__(self) -> str:
        return f"{self.text[:80]!r} cannot be a story's id: {self.why}"


class TextRules(NamedTuple):
    """The part of a team's config about texts. ``readiness_scale``: the highest readiness; None: any number."""

    id_pattern: str = DEFAULT_ID_PATTERN
    readiness_scale: Decimal | None = None


def text_rules(id_pattern: object, readiness_scale: object) -> TextRules:
    """Make the rules from values of a config. A value of the wrong type is ignored."""
    scaled = isinstance(readiness_scale, int | float) and not isinstance(readiness_scale, bool) and readiness_scale > 0
    pattern = id_pattern if isinstance(id_pattern, str) else DEFAULT_ID_PATTERN
    if not scaled:
        return TextRules(pattern)
    from decimal import Decimal  # noqa: PLC0415 - most teams set no scale

    return TextRules(pattern, Decimal(str(readiness_scale)))


# --- names ------------------------------------------------------------------------------------------------------------
def story_id(text: str, pattern: str = DEFAULT_ID_PATTERN) -> str:
    """Return the id, if it fits the pattern and is harmless in the name of an agent and of a file."""
    if not re.fullmatch(pattern, text, re.ASCII):
        raise BadStory(text, f"it does not fit {pattern}")
    if not is_agent_name(worker_name(text, 0)) or not is_agent_name(text):
        raise BadStory(text, "it is part of an agent's name: letters, digits, dots, dashes, underscores, at most 55")
    return text


def worker_name(story: str, stage: int) -> str:
    return f"story-{story}-s{stage}"


def whose_worker(agent: str, pattern: str = DEFAULT_ID_PATTERN) -> tuple[str, int] | None:
    """Return the story and the stage of a worker, by its name; None for any other agent."""
    found = _WORKER.fullmatch(agent)
    if found is None:
        return None
    try:
        return story_id(found[1], pattern), int(found[2])
    except BadStory:
        return None


def is_lead(agent: str) -> bool:
    return identity(agent) == identity(LEAD)
