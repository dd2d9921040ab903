"""Shows lines of the session log to people; `ackd run`, `tail` and `explain` share this.

table: every type of line, as its folder declared it · wording: a line's sentence · drawing: the line and its colours ·
harmless: values made harmless and short.
"""

from ackd.core.fact import BLUE, CYAN, DIM, DIM_CYAN, GREEN, PLAIN, RED, YELLOW
from ackd.facts.drawing import (
    AGENT_WIDTH,
    Look,
    agent_width,
    colour_wanted,
    joined,
    look_of,
    never_choke,
    paint,
    render,
)
from ackd.facts.harmless import cells, clock_time, cut, duration, local_time, short_id, tiny_id, visible
from ackd.facts.wording import agent_of, evidence, progress_words, words

__all__ = [
    "AGENT_WIDTH",
    "BLUE",
    "CYAN",
    "DIM",
    "DIM_CYAN",
    "GREEN",
    "PLAIN",
    "RED",
    "YELLOW",
    "Look",
    "agent_of",
    "agent_width",
    "cells",
    "clock_time",
    "colour_wanted",
    "cut",
    "duration",
    "evidence",
    "joined",
    "local_time",
    "look_of",
    "never_choke",
    "paint",
    "progress_words",
    "render",
    "short_id",
    "tiny_id",
    "visible",
    "words",
]
