"""How one kind of agent looks and is typed to, as data: shipped, or a user's own.

Owns what may stand in a profile, and compiles its patterns. Every pattern says how it is known: ``captured`` names the
captures (tests/dialects/screen/captures) that it was made from and is tested with, ``assumed`` says that nobody has
seen it here, and where it was read. Refuses to know screens. Fails with ``BadProfile``, which lists every problem.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ackd.core.errors import Problem, TheirFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

#: Beside tmux's names of keys: bytes that no name stands for everywhere.
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
    """Looked for in the last ``rows`` rows that are not blank: what stands higher is what others said."""

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
    """``pause_s``: between the text and the key, or the key is taken for part of a paste. ``tries``: one after the
    other, while the line still stands there."""

    tries: tuple[Key, ...] = ("Enter", "Enter", "CR")
    pause_s: Pause = 0.3
    wait_s: Pause = 2.0


class Keys(_Table):
    """``type``: letters, one key event each; ``keys`` after them."""

    type: Plain = ""
    keys: tuple[Key, ...] = ()
    pause_s: Pause = 0.2


class Interrupt(_Table):
    """``when``: ``needed``, while it hangs at work or our own unsent line stands there; ``always``, as the Ensemble
    protocol has it, at an empty prompt too (there Escape Escape opens a list in some programs, and C-c ends them)."""

    keys: tuple[Key, ...] = ("Escape", "Escape", "C-c")
    pause_s: Pause = 0.2
    when: Literal["needed", "always"] = "needed"


class Start(_Table):
    """What an agent of this kind needs on its command line: ``options``, put after ``program`` by whoever starts it.
    A command in which ``unless`` stands has settled it by itself."""

    program: Plain
    options: tuple[Plain, ...]
    unless: Plain


class Input(_Table):
    """``marker``: the row that input begins on, with what was typed as ``text``. It ends at a blank row or a border.

    ``region``: for those whose input has no mark of its own: a pattern over all rows, the last match counts, with what
    was typed as ``text``. ``placeholders`` stand there while it is empty. ``collapsed``: what a long text is shown as.
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
    """``cli``: what its captures were made with. ``line_prefix``: what makes our line harmless there. ``line``: which
    line tells of mail: ``read``, the short one that names `ackd read`; ``path``, for who has no ackd."""

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
    #: Rows of its transcript, wherever they stand: a line that was said to it; its own words and tool calls; what looks
    #: like those and is an error, a limit or an interrupt.
    told: tuple[Pattern, ...] = ()
    agent: tuple[Pattern, ...] = ()
    trouble: tuple[Pattern, ...] = ()

    def patterns(self) -> dict[str, tuple[Pattern, ...]]:
        kinds = ("ready", "busy", "prompt", "menu", "limit", "shell", "context", "told", "agent", "trouble")
        return {kind: getattr(self, kind) for kind in kinds}


def profile_of(table: Mapping[str, Any], name: str) -> Profile:
    """A user's own, or a shipped one, from what its TOML says."""
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
