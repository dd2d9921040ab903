"""Facts: the types of lines in the session log, each declared once.

A type of fact is one decorated function. Its name is the line's type, its keyword parameters are the line's fields with
their types, its docstring says when the line is written; the decorator says how people are shown it. Calling it makes a
``Fact``, ready to be recorded. Everything else about a type of line is read from here: how it is worded (ackd.facts),
coloured, counted, and described in the document of the log's format.

A new log line is such a function, and a call of it where the line is to be written (daemon/README.md, "How to add").

A capability and an endpoint kind declare their facts in their module ``facts``; those of the engine and the daemon are
in ``message_facts``, ``agent_facts`` and ``daemon_facts``. A field that is None is left out of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping  # noqa: TC003 - the NamedTuple below names them
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, cast

GREEN: Final = "32"
YELLOW: Final = "33"
RED: Final = "1;31"
BLUE: Final = "34"
CYAN: Final = "36"
DIM: Final = "2"
DIM_CYAN: Final = "2;36"
PLAIN: Final = ""

#: Optional fields that whoever makes a fact leaves out where they say nothing, instead of giving None.
_LEFT_OUT: Final = frozenset({"pool"})

Fields = ParamSpec("Fields")


class Fact(NamedTuple):
    """A line of the session log, before it has a time and a number."""

    type: str
    data: dict[str, object]


class Shown(Protocol):
    """A line's fields as the words of a sentence: every value made harmless for a terminal."""

    @property
    def data(self) -> Mapping[str, Any]: ...

    def __getitem__(self, key: str) -> str:
        """The field's text, or ``?`` if the line lacks it."""

    def __call__(self, key: str, shape: str = "{}") -> str:
        """The field's text in ``shape``, or nothing if the line lacks it."""

    def mark(self, key: str, words: str) -> str:
        """The words, if the field is there and true."""

    def time(self, key: str, shape: str) -> str:
        """A number of seconds, said as people say it, or nothing if the line lacks it."""

    def id(self, key: str, shape: str) -> str:
        """A message's id without its host part, or nothing if the line lacks it."""

    def counts(self, key: str) -> str:
        """Names and how many of each there are, without those that are 0."""

    def percent(self, key: str) -> str:
        """A share between 0 and 1 as a percentage."""

    def shown(self, value: object) -> str:
        """Any value as harmless text."""


class Tally(NamedTuple):
    """The count of such lines while an agent had a message: its name, and the words for one and for several."""

    name: str
    once: str
    often: str


class FactType(NamedTuple):
    """The row of one type of line: how it is shown, and what it counts for. ``declared``: the function that names its
    fields."""

    type: str
    declared: Callable[..., None]
    kind: str
    symbol: str
    style: str
    sentence: Callable[[Shown], str]
    #: Part of the ordinary life of a message: `ackd run --quiet` leaves it out.
    routine: bool
    #: The total in state/totals.json that each such line adds one to, if any; only for facts about messages.
    counts: str | None
    #: Something that an operator should look into: a warning in structured logs.
    loud: bool
    #: About an agent and what lives behind its endpoint: told in the history of the message that it has in hand.
    of_agent: bool
    #: Counted in the history of a message.
    tally: Tally | None


class FactMaker(Protocol[Fields]):
    """The constructor of a type of fact. ``type`` is the line's type, for those who read the log."""

    type: str

    def __call__(self, *args: Fields.args, **kwargs: Fields.kwargs) -> Fact: ...


def fact(
    kind: str,
    symbol: str,
    style: str,
    sentence: Callable[[Shown], str],
    *,
    routine: bool = False,
    counts: str | None = None,
    loud: bool = False,
    of_agent: bool = False,
    tally: Tally | None = None,
) -> Callable[[Callable[Fields, None]], FactMaker[Fields]]:
    """Declare a type of fact: the decorated function becomes its constructor."""

    def declare(function: Callable[Fields, None]) -> FactMaker[Fields]:
        type_ = function.__name__
        renamed = "from_" in function.__annotations__  # "from" is a word of Python
        new, pair = tuple.__new__, Fact

        # Six facts belong to every message, so each takes the shortest way that its fields allow.
        def make_whole(**fields: object) -> Fact:
            return new(pair, (type_, fields))

        def make_without_none(**fields: object) -> Fact:
            if None in fields.values():
                fields = {key: value for key, value in fields.items() if value is not None}
            return new(pair, (type_, fields))

        def make_with_from(**fields: object) -> Fact:
            items = fields.items()
            data = {"from" if key == "from_" else key: value for key, value in items if value is not None}
            return new(pair, (type_, data))

        may_be_none = (function.__kwdefaults__ or {}).keys() - _LEFT_OUT
        make = make_with_from if renamed else make_without_none if may_be_none else make_whole
        make.__name__ = type_
        make.__doc__ = function.__doc__
        row = FactType(type_, function, kind, symbol, style, sentence, routine, counts, loud, of_agent, tally)
        make.declares = row  # type: ignore[attr-defined]
        make.type = type_  # type: ignore[attr-defined]
        return cast("FactMaker[Fields]", make)

    return declare


def declared_in(names: Mapping[str, object]) -> Iterator[FactType]:
    """The types of facts that a module declares, given its names."""
    for one in names.values():
        row = getattr(one, "declares", None)
        if isinstance(row, FactType):
            yield row
