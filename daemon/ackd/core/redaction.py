"""Patterns of keys, tokens and passwords, for text that people are shown.

Ours are linear: each quantifier has an end, and none stands inside another, so no text makes them slow. Before one is
tried, a word of it must be in the text, which a search for plain words finds out; so a text without secrets costs next
to nothing, and a pattern is compiled when it is first needed. Whoever applies patterns of a user must expect them to be
slow (``facts.redaction``). In a pattern with a group, what the group matches is replaced, else all of it.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Stands in the place of a secret.
MARK: Final = "[redacted]"
MAX_PATTERN_CHARS: Final = 1_000

_NAMES: Final = (
    "passwords?|passwd|passphrase|pwd|secrets?|api[_-]?keys?|access[_-]?keys?|secret[_-]?access[_-]?key|"
    "private[_-]?key|(?:access|auth|refresh|session|api|bot|id)[_-]?token|client[_-]?secret|token"
)
_QUOTES: Final = r"""[\\"']{0,3}"""


class Default(NamedTuple):
    """A pattern of ours. ``hints``: words in small letters of which one is in every text that it fits."""

    name: str
    hints: tuple[str, ...]
    pattern: str


DEFAULTS: Final = (
    Default(
        "private keys",
        ("private key-----",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    ),
    Default("AWS", ("akia", "asia", "aroa", "aida"), r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b"),
    Default(
        "GitHub",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{22,255})",
    ),
    Default("GitLab", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,255}"),
    Default("OpenAI and Anthropic", ("sk-",), r"\bsk-[A-Za-z0-9_-]{16,255}"),
    Default("Google", ("aiza", "ya29."), r"\b(?:AIza[0-9A-Za-z_-]{30,60}|ya29\.[0-9A-Za-z_-]{16,255})"),
    Default("Slack", ("xox",), r"\bxox[abeoprs]-[0-9A-Za-z-]{10,255}"),
    Default("Slack hooks", ("hooks.slack.com",), r"hooks\.slack\.com/services/([A-Za-z0-9/]{8,255})"),
    Default("JSON Web Tokens", ("eyj",), r"\beyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{0,1024}"),
    Default("bearer tokens", ("bearer",), r"(?i)\bbearer[ \t]{1,8}([A-Za-z0-9._~+/=-]{8,4096})"),
    Default("basic authorization", ("basic",), r"(?i)\bauthorization\W{1,8}basic[ \t]{1,8}([A-Za-z0-9+/=]{8,1024})"),
    Default("passwords in addresses", ("://",), r"://[^/\s:@]{1,64}:([^/\s:@]{3,128})@"),
    Default(
        "named secrets",
        ("passw", "passphrase", "pwd", "secret", "key", "token"),
        rf"(?i)(?<![a-z])(?:[a-z0-9]{{1,32}}[_-])?(?:{_NAMES}){_QUOTES}[ \t]{{0,4}}[:=][ \t]{{0,4}}{_QUOTES}"
        r"""([^\s"'\\,;&<>()\[\]{}]{4,512})""",
    ),
)


class Redaction(NamedTuple):
    """The table [redact]: a user's own patterns, and whether ours are applied as well."""

    patterns: tuple[str, ...] = ()
    defaults: bool = True


def problem(pattern: str) -> str | None:
    """Say what is wrong with a user's pattern; None if nothing is."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"is longer than {MAX_PATTERN_CHARS} characters"
    try:
        found = compiled(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    return "fits the empty text, and so every text" if found.search("") is not None else None


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def by_default(text: str) -> str:
    """Replace what our own patterns find."""
    for pattern in _likely(text):
        text = replaced(compiled(pattern), text)
    return text


def _likely(text: str) -> Iterator[str]:
    small = text.lower()
    return (one.pattern for one in DEFAULTS if any(hint in small for hint in one.hints))


def may_hold_one(text: str) -> bool:
    """Say whether one of our own patterns is worth trying."""
    return next(_likely(text), None) is not None


def replaced(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(_mark, text)


def _mark(found: re.Match[str]) -> str:
    if not found.re.groups or found.group(1) is None:
        return MARK
    (whole, _), (start, end) = found.span(), found.span(1)
    return f"{found.group()[: start - whole]}{MARK}{found.group()[end - whole :]}"
