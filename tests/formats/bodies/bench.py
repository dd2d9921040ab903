"""An example of every body, and every single breakage of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackd.formats import yaml_body
from ackd.formats.bodies import where

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted((Path(__file__).parents[1] / "corpus" / "bodies").glob("*.yaml"))
EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
Step = tuple[str | int, ...]


def type_of(stem: str) -> str:
    return stem.partition("--")[0]


def paths(value: Any, at: Step = ()) -> Iterator[Step]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*at, key))


def changed(value: Any, at: Step, new: Any) -> Any:
    result = copy.deepcopy(value)
    holder = result
    for step in at[:-1]:
        holder = holder[step]
    if new is DROPPED:
        del holder[at[-1]]
    else:
        holder[at[-1]] = new
    return result


DROPPED = object()
BREAKAGES = [(stem, at) for stem, text in EXAMPLES.items() for at in paths(yaml_body.load(text))]


def shown(at: Step) -> str:
    return where(at)
