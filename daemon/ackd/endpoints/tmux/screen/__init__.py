"""Reads a captured terminal screen: ready, busy, a prompt, a limit. Pure; the looks of each program are data."""

from ackd.endpoints.tmux.screen.classify import (
    Busy,
    Limit,
    Menu,
    Prompt,
    Reading,
    Ready,
    Shell,
    State,
    Unknown,
    classify,
    context_usage,
    read,
)
from ackd.endpoints.tmux.screen.input_line import InputLine, Key, allowed, whose
from ackd.endpoints.tmux.screen.profile import (
    SHIPPED,
    BadProfile,
    Pattern,
    Profile,
    load_profile,
    profile_of,
    shipped_text,
    started_with,
)
from ackd.endpoints.tmux.screen.rows import compact, input_text, steady, transcript
from ackd.endpoints.tmux.screen.turns import UNMARKED, Mark, answered, mark

__all__ = [
    "SHIPPED",
    "UNMARKED",
    "BadProfile",
    "Busy",
    "InputLine",
    "Key",
    "Limit",
    "Mark",
    "Menu",
    "Pattern",
    "Profile",
    "Prompt",
    "Reading",
    "Ready",
    "Shell",
    "State",
    "Unknown",
    "allowed",
    "answered",
    "classify",
    "compact",
    "context_usage",
    "input_text",
    "load_profile",
    "mark",
    "profile_of",
    "read",
    "shipped_text",
    "started_with",
    "steady",
    "transcript",
    "whose",
]
