"""Draws the state machines as Mermaid diagrams and Markdown tables, straight from their tables in the code.

``make diagrams`` puts the drawings into the documents beside the tables, and ``test_diagrams.py`` compares. A diagram leaves out the cells
that change nothing and do nothing: they are there for answers that come too late, and would hide the rest. The Markdown
tables have every cell.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ackd.coordination.board.rules import phases
from ackd.coordination.pipeline.rules import story
from ackd.coordination.pipeline.rules.story import StoryAct, StoryHappening, StoryState
from ackd.core import availability, delivery, idleness, liveness, parts, waits, worker
from ackd.core.availability import AgentHappening, AgentState
from ackd.core.delivery import Act, Happening, State
from ackd.core.idleness import IdleAct, IdleStage, Idling
from ackd.core.liveness import Pulse, Vital
from ackd.core.parts import PartAct, PartEvent, Sharing
from ackd.core.waits import WaitAct, WaitEvent, Waiting

#: (state, what happened) → (state after, what is done); in words.
_Cells: TypeAlias = dict[tuple[str, str], tuple[str, str]]

#: Acts that get an arrow from a state to itself.
_WORTH_A_LOOP: Final = frozenset({Act.AGAIN.value, Act.WARN.value, StoryAct.SPAWN.value, StoryAct.ASK.value})


def pictures() -> dict[str, str]:
    """Return every drawing, by the name in its marker."""
    return {
        "delivery": _mermaid(_delivery(), "queued", "arrived", ("completed", "withdrawn")),
        "delivery table": _table(_delivery(), [s.value for s in State], [h.value for h in Happening]),
        "availability": _mermaid(_availability(), "available", "joined"),
        "availability table": _table(_availability(), [s.value for s in AgentState], [h.value for h in AgentHappening]),
        "liveness table": _table(_liveness(), [v.value for v in Vital], [p.value for p in Pulse]),
        "idleness table": _table(_idleness(), [s.value for s in IdleStage], [i.value for i in Idling]),
        "waits table": _table(_waits(), [w.value for w in Waiting], [t.value for t in WaitEvent]),
        "parts table": _table(_parts(), [s.value for s in Sharing], [e.value for e in PartEvent]),
        "worker": _worker(),
        "board": _mermaid(_board(), "ASSESSING", "opened", ("COMPLETE", "CANCELLED")),
        "story": _mermaid(_story(), "waiting", "started", ("done", "cancelled")),
        "story table": _table(_story(), [s.value for s in StoryState], [h.value for h in StoryHappening]),
    }


def redraw(text: str) -> str:
    """Return the document with the current drawing between each pair of markers."""
    for name, picture in pictures().items():
        begin, end = f"<!-- diagram: {name} -->", "<!-- end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            text = f"{before}{begin}\n{picture}\n{end}{after}"
    return text


def _delivery() -> _Cells:
    return {
        (before.value, happening.value): (after.value, "" if act is Act.NOTHING else act.value)
        for before, row in delivery.TABLE.items()
        for happening, (after, act) in row.items()
    }


def _availability() -> _Cells:
    return {
        (before.value, happening.value): (after.value, "")
        for before, row in availability.TABLE.items()
        for happening, after in row.items()
    }


def _liveness() -> _Cells:
    return {
        (before.value, pulse.value): (after.value, "")
        for before, row in liveness.TABLE.items()
        for pulse, after in row.items()
    }


def _idleness() -> _Cells:
    return {
        (before.value, happened.value): (after.value, "" if act is IdleAct.NOTHING else act.value)
        for before, row in idleness.TABLE.items()
        for happened, (after, act) in row.items()
    }


def _waits() -> _Cells:
    return {
        (before.value, turn.value): (after.value, "" if act is WaitAct.NOTHING else act.value)
        for before, row in waits.TABLE.items()
        for turn, (after, act) in row.items()
    }


def _parts() -> _Cells:
    return {
        (before.value, happened.value): (after.value, "" if act is PartAct.NOTHING else act.value)
        for before, row in parts.TABLE.items()
        for happened, (after, act) in row.items()
    }


def _board() -> _Cells:
    """Mark a phase that leads to itself (another round) so that it gets an arrow."""
    return {
        (before.value, turn.value): (after.value, Act.AGAIN.value if before is after else "")
        for before, row in phases.TABLE.items()
        for turn, after in row.items()
    }


def _story() -> _Cells:
    return {
        (before.value, happening.value): (after.value, "" if act is StoryAct.NOTHING else act.value)
        for before, row in story.TABLE.items()
        for happening, (after, act) in row.items()
    }


def _worker() -> str:
    lines = [f"    {before.value} --> {after.value}" for before, row in worker.TABLE.items() for after in row]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> idle", *lines, "```"])


def _mermaid(cells: _Cells, first: str, by: str, ends: tuple[str, ...] = ()) -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, happening), (after, act) in cells.items():
        if before != after or act in _WORTH_A_LOOP:
            arrows.setdefault((before, after), []).append(happening)
    lines = [f"    {before} --> {after}: {', '.join(words)}" for (before, after), words in arrows.items()]
    last = [f"    {state} --> [*]" for state in ends]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first}: {by}", *lines, *last, "```"])


def _table(cells: _Cells, states: list[str], happenings: list[str]) -> str:
    """Draw one column for each state in which anything happens. ``·``: nothing changes; empty: it cannot happen."""
    columns = [state for state in states if any((state, happening) in cells for happening in happenings)]

    def words(state: str, happening: str) -> str:
        if (state, happening) not in cells:
            return ""
        after, act = cells[state, happening]
        return ", ".join(part for part in (f"**{after}**" if after != state else "", act) if part) or "·"

    rows = [[happening, *(words(state, happening) for state in columns)] for happening in happenings]
    head = ["", *columns]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
