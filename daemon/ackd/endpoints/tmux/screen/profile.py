"""The looks of one kind of agent and how it is typed to, as data: shipped with ackd, or a user's own.

A user's profile may build on a shipped one: ``like = "claude"``, then what differs. Every pattern says how it is known:
``captured`` names the captures (tests/endpoints/tmux/screen/captures) that it was made from and is tested with,
``assumed`` says that nobody has seen it here, and where it was read. Fails with ``BadProfile``, which lists every
problem.

``started_with`` adds the options that a kind of agent needs to the command that starts it. A command is a line for a
shell, written by a user. Only one that plainly begins with the program, after ``exec``, ``env`` and settings of
variables, gets the options; everything else (a script of the user's own) is left as it is.
"""

from __future__ import annotations

import difflib
import re
import shlex
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ackd.core.errors import Problem, TheirFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

#: Key names of our own, beside tmux's: bytes for which tmux has no name that works everywhere.
RAW_KEYS: Final = {"CR": b"\r", "LF": b"\n"}
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*|[CMS]-.")


class BadProfile(TheirFault):
    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(name, problems)
        self.name = name
        self.problems = problems

    def __str__(self) -> str:
        return f"profile {self.name}: " + "; ".join(map(str, self.problems))


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise ValueError("not the name of a key, as tmux has it")
    return text


def _plain(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters are pressed as keys, not typed")
    return text


def _compiled(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None


Key = Annotated[str, AfterValidator(_key)]
Plain = Annotated[str, AfterValidator(_plain), Field(max_length=64)]
Regex = Annotated[re.Pattern[str], BeforeValidator(_compiled)]
Pause = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Pattern(_Table):
    """A pattern is looked for in the last ``rows`` rows that are not blank: above them stands what others said."""

    pattern: Regex
    rows: Annotated[int, Field(ge=1, le=200)] = 12
    captured: tuple[str, ...] = ()
    assumed: str = ""

    @model_validator(mode="after")
    def _says_how_it_is_known(self) -> Pattern:
        if bool(self.captured) == bool(self.assumed):
            raise ValueError("say how it is known: captured = [files], or assumed = where from")
        return self


class Submit(_Table):
    """Keys that submit a line. ``pause_s``: time between the text and the key; without it some programs take the key
    for part of a paste. ``tries``: keys, pressed one after the other while the line still stands there."""

    tries: tuple[Key, ...] = ("Enter", "Enter", "CR")
    pause_s: Pause = 0.3
    wait_s: Pause = 2.0


class Keys(_Table):
    """Keys to press: first the letters of ``type``, one key event each, then ``keys``."""

    type: Plain = ""
    keys: tuple[Key, ...] = ()
    pause_s: Pause = 0.2


class Interrupt(_Table):
    """Keys that interrupt an agent. ``when`` is ``needed``: only while it hangs at work, or our own unsent line stands
    there; or ``always``: at an empty prompt too, as in the Ensemble protocol (there Escape Escape opens a list in some
    programs, and C-c ends them)."""

    keys: tuple[Key, ...] = ("Escape", "Escape", "C-c")
    pause_s: Pause = 0.2
    when: Literal["needed", "always"] = "needed"


class Start(_Table):
    """``options`` that an agent of this kind needs on its command line, put after ``program`` when ackd starts it. A
    command that contains ``unless`` has made its own choice, and is left as it is."""

    program: Plain
    options: tuple[Plain, ...]
    unless: Plain


class Input(_Table):
    """The input line. ``marker``: the row that input begins on; its group ``text`` is what was typed. The input ends at
    a blank row or a border.

    ``region``: for programs whose input has no mark: a pattern over all rows, of which the last match counts, with the
    same group. ``placeholders`` stand there while the line is empty. ``collapsed``: what a long text is shown as.
    """

    marker: Regex | None = None
    region: Regex | None = None
    placeholders: tuple[Regex, ...] = ()
    collapsed: Regex | None = None

    @model_validator(mode="after")
    def _says_where_it_is(self) -> Input:
        if (self.marker is None) == (self.region is None):
            raise ValueError("say where it is: marker, or region")
        return self


class Profile(_Table):
    """A profile. ``cli``: the program, and its version, that the captures were made with. ``line_prefix``: makes our
    line harmless there. ``line``: the form of the line that tells of mail: ``read``, the short one that names `ackd
    read`, or ``path``, for agents that have no ackd."""

    name: str
    cli: str = ""
    kind: Literal["agent", "shell"] = "agent"
    line_prefix: Plain = ""
    line: Literal["read", "path"] = "read"
    start: Start | None = None
    submit: Submit = Submit()
    interrupt: Interrupt = Interrupt()
    reset: Keys = Keys(type="/clear", keys=("Enter",))
    input: Input
    ready: tuple[Pattern, ...] = Field(min_length=1)
    busy: tuple[Pattern, ...] = ()
    prompt: tuple[Pattern, ...] = ()
    menu: tuple[Pattern, ...] = ()
    limit: tuple[Pattern, ...] = ()
    shell: tuple[Pattern, ...] = ()
    context: tuple[Pattern, ...] = ()
    #: Rows of the transcript, wherever they stand: a line that was said to the agent; its own words and tool calls;
    #: rows that look like those, but are an error, a limit or an interrupt.
    told: tuple[Pattern, ...] = ()
    agent: tuple[Pattern, ...] = ()
    trouble: tuple[Pattern, ...] = ()

    def patterns(self) -> dict[str, tuple[Pattern, ...]]:
        kinds = ("ready", "busy", "prompt", "menu", "limit", "shell", "context", "told", "agent", "trouble")
        return {kind: getattr(self, kind) for kind in kinds}


def profile_of(table: Mapping[str, Any], name: str) -> Profile:
    """The profile from its TOML table, a user's own or a shipped one."""
    try:
        return Profile.model_validate({"name": name, **table})
    except ValidationError as error:
        problems = (Problem(".".join(map(str, one["loc"])), _in_words(one)) for one in error.errors())
        raise BadProfile(name, tuple(problems)) from None


def _in_words(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":
        return "is missing"
    if problem["type"] != "extra_forbidden":
        return problem["msg"].removeprefix("Value error, ").replace("Input should be ", "must be ")
    *table, key = map(str, problem["loc"])
    near = difflib.get_close_matches(key, () if table else Profile.model_fields, n=1)
    return f"unknown key `{key}`" + (f": did you mean `{near[0]}`?" if near else "")


# --- by name ----------------------------------------------------------------------------------------------------------
SHIPPED: Final = ("claude", "codex", "gemini", "opencode", "shell")


def shipped_text(name: str) -> str:
    """The file of a shipped profile, with its comments."""
    return files(__package__).joinpath("profiles", f"{name}.toml").read_text(encoding="utf-8")


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(shipped_text(name))


def load_profile(name: str, own: Mapping[str, Mapping[str, Any]] | None = None) -> Profile:
    """Find a profile by name: one of ``own`` (tables of the config), else a shipped one. Fails with ``BadProfile``."""
    table = (own or {}).get(name)
    if table is None and name in SHIPPED:
        return profile_of(_table(name), name)
    if table is None:
        known = ", ".join(sorted({*(own or {}), *SHIPPED}))
        raise BadProfile(name, (Problem("", f"there is none of that name: {known}"),))
    like = table.get("like")
    if like is None:
        return profile_of(table, name)
    if like not in SHIPPED:
        raise BadProfile(name, (Problem("like", f"is one of {', '.join(SHIPPED)}"),))
    differs = {key: value for key, value in table.items() if key != "like"}
    return profile_of({**_table(like), **differs, "name": name}, name)


# --- the command that starts an agent ---------------------------------------------------------------------------------
_BEFORE: Final = r"""\s*(?:exec\s+)?(?:env\s+(?:-i\s+)?)?(?:[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|[^\s"';|&])*\s+)*"""


def started_with(command: str, profile: Profile) -> str:
    """The command, with its options if they have a place in it and it has not settled that by itself."""
    start = profile.start
    if start is None or start.unless in command:
        return command
    found = re.match(rf"{_BEFORE}(?:[^\s'\"]*/)?{re.escape(start.program)}(?=\s|$)", command)
    if found is None:
        return command
    return f"{command[: found.end()]} {shlex.join(start.options)}{command[found.end() :]}"
