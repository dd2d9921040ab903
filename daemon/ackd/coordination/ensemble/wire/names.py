"""Reads the names of an Ensemble team's files: the kind of a report, its recipient, the worker and the task.

The patterns are the seed's (ensemble-v3, "notification patterns"). Names are hostile text: nothing here becomes a path.
The caller passes in ``called``, which knows the agents. Nothing fails: every name gets an answer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

from ackd.core.names import is_agent_name

#: An agent's own spelling; None for a name that nobody has.
Called: TypeAlias = Callable[[str], str | None]
#: Patterns, each with the agent that gets the files which match. The first match counts.
Routes: TypeAlias = tuple[tuple[str, str], ...]

_YAML: Final = (".yaml", ".yml")
#: Endings of files that editors, locks and careful writers leave beside a file: not reports.
_PASSING: Final = (".lock", ".tmp", ".temp", ".swp", ".bak", ".part", "~")
ACK: Final = ".ack"
#: The conductor's file for dispatch, in ``queue/conductor/``, written anew for each piece of work.
INSTRUCTION: Final = "dispatch-instruction"


class ReportKind(enum.Enum):
    """The kind of a report, by its name."""

    COMPLETED = "completed"
    SUMMARY = "summary"
    ESCALATION = "escalation"
    REVIEW = "review"
    OTHER = "other"  # also the seed's other spelling of a completion, {id}.yaml


_KINDS: Final = (
    ("*-completed.yaml", ReportKind.COMPLETED),
    ("completion-summary.yaml", ReportKind.SUMMARY),
    ("escalation-*.yaml", ReportKind.ESCALATION),
    ("*-review.yaml", ReportKind.REVIEW),
)


class Owner(NamedTuple):
    """The agent whose task it is, and the rest of the name."""

    agent: str
    rest: str


def routes(own: Iterable[tuple[str, str]], dispatch: str, conductor: str) -> Routes:
    """A user's routes, then the seed's."""
    to = {ReportKind.SUMMARY: conductor, ReportKind.ESCALATION: conductor}
    return (*own, *((pattern, to.get(kind, dispatch)) for pattern, kind in _KINDS))


def recipient(name: str, ways: Routes) -> str | None:
    """The agent that gets the file; None: no route matches. A name ending in .yml goes the way of its .yaml."""
    spelled = _as_yaml(name)
    return next((to for pattern, to in ways if fnmatchcase(name, pattern) or fnmatchcase(spelled, pattern)), None)


def kind_of(name: str) -> ReportKind:
    spelled = _as_yaml(name)
    return next((kind for pattern, kind in _KINDS if fnmatchcase(spelled, pattern)), ReportKind.OTHER)


def is_yaml(name: str) -> bool:
    return not name.startswith(".") and name.endswith(_YAML)


def is_instruction(name: str) -> bool:
    return is_yaml(name) and stem(name) == INSTRUCTION


def is_passing(name: str) -> bool:
    """True for files that are meant for nobody: hidden ones, locks, drafts."""
    return name.startswith(".") or name.endswith(_PASSING)


def stem(name: str) -> str:
    for end in (*_YAML, ACK):
        if name.endswith(end):
            return name.removesuffix(end)
    return name


def reported_task(name: str) -> str:
    """The task that a report is about, as far as its name says."""
    bare = stem(name)
    match kind_of(name):
        case ReportKind.COMPLETED:
            return bare.removesuffix("-completed")
        case ReportKind.REVIEW:
            return bare.removesuffix("-review")
        case ReportKind.ESCALATION:
            return bare.removeprefix("escalation-")
        case ReportKind.SUMMARY | ReportKind.OTHER:
            return bare


def owner(name: str, prefixes: Mapping[str, str], called: Called) -> Owner | None:
    """The owner by the longest prefix of the config, else by the longest agent's name that the file begins with."""
    bare = stem(name)
    for prefix in sorted(prefixes, key=len, reverse=True):
        if prefix and _same(bare).startswith(_same(prefix)) and not _runs_on(bare, len(prefix)):
            return Owner(prefixes[prefix], _rest(bare, len(prefix)))
    for end in range(len(bare), 0, -1):
        if not _ends_word(bare, end) or not is_agent_name(bare[:end]):
            continue
        agent = called(bare[:end])
        if agent is not None:
            return Owner(agent, _rest(bare, end))
    return None


def _as_yaml(name: str) -> str:
    return f"{name.removesuffix('.yml')}.yaml" if name.endswith(".yml") else name


def _same(text: str) -> str:
    return text.replace("-", "_")


def _ends_word(bare: str, end: int) -> bool:
    """False within a word: ``worker-10-build`` does not begin with ``worker-1``."""
    return end == len(bare) or not bare[end].isalnum()


def _runs_on(bare: str, end: int) -> bool:
    """True if a prefix of the config ends within a number or a word; ``fe`` of ``fe12`` is a whole part."""
    if end >= len(bare):
        return False
    last, following = bare[end - 1], bare[end]
    return (last.isdigit() and following.isdigit()) or (last.isalpha() and following.isalpha())


def _rest(bare: str, end: int) -> str:
    return bare[end:].lstrip("-_. ")
