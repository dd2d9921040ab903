"""One line of the session log as a person reads it; `ackd run`, `tail` and `explain` share it.

harmless: values made harmless and short · wording: what happened, in English · drawing: the line and its colours.
"""

from ackd.frontends.facts.drawing import (
    AGENT_WIDTH,
    BLUE,
    CYAN,
    DIM,
    DIM_CYAN,
    GREEN,
    PLAIN,
    RED,
    YELLOW,
    Look,
    agent_width,
    colour_wanted,
    joined,
    look_of,
    never_choke,
    paint,
    render,
)
from ackd.frontends.facts.harmless import cells, clock_time, cut, duration, short_id, tiny_id, visible
from ackd.frontends.facts.wording import agent_of, evidence, progress_words, words

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
