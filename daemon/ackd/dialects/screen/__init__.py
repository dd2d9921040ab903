"""What a captured terminal screen says: ready, busy, a prompt, a limit. Pure; the looks of each program are data."""

from ackd.dialects.screen.classify import classify, context_usage, read
from ackd.dialects.screen.input_line import InputLine, Key, allowed, whose
from ackd.dialects.screen.profile import BadProfile, Pattern, Profile, profile_of
from ackd.dialects.screen.rows import compact, input_text, transcript
from ackd.dialects.screen.shipped import SHIPPED, load_profile
from ackd.dialects.screen.starting import started_with
from ackd.dialects.screen.states import Busy, Limit, Menu, Prompt, Reading, Ready, Shell, State, Unknown
from ackd.dialects.screen.stirring import steady
from ackd.dialects.screen.turns import UNMARKED, Mark, answered, mark

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
    "started_with",
    "steady",
    "transcript",
    "whose",
]
