"""Commands and their arguments: declared beside the function that does the work, read by argparse.

    @command
    @argument("to", nargs="+", metavar="TO...")
    @argument("--body", metavar="TEXT", help="The body.")
    @for_team
    def send(site: Site, as_json: bool, to: tuple[str, ...], body: str | None) -> None:
        \"\"\"Queue a message for one or more agents.\"\"\"

``argument`` takes what argparse's ``add_argument`` takes. ``for_team`` adds ``--root``, ``--config`` and ``--json``;
the function is called with ``site`` and ``as_json`` and one value for each argument, and its docstring is the help
page. A ``Group`` holds commands of two words. cli/commands.py says in which module each command is; a module is
imported when its command is typed.

``Parser`` is argparse with three changes. Options and operands may stand in any order, and an option's value may begin
with a dash, because bodies and reasons do. Errors are ``WrongUsage``, with the nearest spelling of an unknown option.
Pages are worded and laid out as `ackd --help` is.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ackd.cli.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ackd.config.site import Site
    from ackd.core.errors import BadConfig

_Function = TypeVar("_Function", bound=Callable[..., None])

# Our own words are English only, so argparse's stay English too: looking for translations loads locale, 2 ms.
setattr(argparse, "_", str)  # noqa: B010 - mypy knows no such name

MAX_COLUMNS: Final = 100
MIN_COLUMNS: Final = 80
HELP_FLAGS: Final = ("-h", "--help")


# --- declaring --------------------------------------------------------------------------------------------------------
class Argument:
    """An argument, as argparse's ``add_argument`` takes it; a decorator.

    ``complete`` says what completion offers, where the metavar does not: a kind of values of
    cli/completion_values.py, or ``module:attribute``, where the words are or a function of the site that returns them.
    """

    __slots__ = ("complete", "names", "settings")

    def __init__(self, *names: str, complete: str = "", **settings: Any) -> None:
        if settings.get("action") == "append":
            settings.setdefault("default", [])
        if "choices" in settings:
            settings.setdefault("metavar", f"[{'|'.join(settings['choices'])}]")
        self.names = names
        self.settings = settings
        self.complete = complete

    def __call__(self, function: _Function) -> _Function:
        function.__dict__.setdefault("arguments", []).insert(0, self)
        return function


argument = Argument

ROOT: Final = Argument(
    "--root",
    metavar="DIR",
    help="The team's directory (default: as ackd.toml says, or the nearest .ackd/ or .ignite/).",
)
CONFIG: Final = Argument("--config", metavar="FILE", help="The config file (default: the nearest ackd.toml).")
JSON: Final = Argument("--json", dest="as_json", action="store_true", help="Print JSON, for programs.")
UNREDACTED: Final = Argument(
    "--unredacted", action="store_true", help="Show keys, tokens and passwords too, as they stand in the files."
)
AGENT: Final = Argument(
    "--agent",
    metavar="NAME",
    complete="agents",
    help="The agent to speak for (default: ACKD_AGENT, this pane's agent, or the recipient).",
)


class Command:
    """A function with the arguments of its command line.

    ``team`` says what the function gets of the team: ``site``, a ``site`` that may have been found without a readable
    config (``root``), the options ``root`` and ``config`` as typed (``place``), or nothing (``none``).
    """

    __slots__ = ("abbreviates", "arguments", "help", "name", "run", "shows_content", "takes_dashes", "team")

    def __init__(self, function: Callable[..., None], name: str) -> None:
        declared = function.__dict__
        self.run = function
        self.name = name
        self.help = function.__doc__ or ""
        self.team: str = declared.get("team", "none")
        #: As the message tool of the seed: `--to a b`, and `--prio` for `--priority`.
        self.abbreviates: bool = declared.get("abbreviates", False)
        #: An unknown word that begins with a dash is an operand.
        self.takes_dashes: bool = declared.get("takes_dashes", False)
        self.shows_content: bool = declared.get("shows_content", False)
        shared = (JSON,) if self.team == "none" else (ROOT, CONFIG, JSON)
        shared = (UNREDACTED, *shared) if self.shows_content else shared
        self.arguments: tuple[Argument, ...] = (*declared.get("arguments", ()), *shared)


def command(function: Callable[..., None]) -> Command:
    """Make a command of a function whose arguments were declared; it is called by the function's name."""
    return Command(function, function.__name__.rstrip("_").replace("_", "-"))


class Group:
    """Commands of two words, such as `ackd dead list`."""

    def __init__(self, help_: str) -> None:
        self.help = help_
        self.commands: dict[str, Command] = {}

    def command(self, function: Callable[..., None]) -> Command:
        return self.add(command(function))

    def named(self, name: str) -> Callable[[Callable[..., None]], Command]:
        """The same for a command that is not called as its function is."""
        return lambda function: self.add(Command(function, name))

    def add(self, one: Command) -> Command:
        self.commands[one.name] = one
        return one


def _mark(**marks: object) -> Callable[[_Function], _Function]:
    def mark(function: _Function) -> _Function:
        function.__dict__.update(marks)
        return function

    return mark


#: The function gets ``site`` and ``as_json``.
for_team: Final = _mark(team="site")
#: The same for a function that needs the root only, and works though the config cannot be read.
for_root: Final = _mark(team="root")
#: The function gets ``root`` and ``config`` as they were typed, because there may be no team yet.
for_place: Final = _mark(team="place")
#: The command shows bodies, reasons or what agents print: secrets are taken out of it (facts/redaction), unless
#: ``--unredacted`` is typed.
shows_content: Final = _mark(shows_content=True)
abbreviates: Final = _mark(abbreviates=True)
takes_dashes: Final = _mark(takes_dashes=True)


def at_least(least: float, kind: type[int | float] = float) -> Callable[[str], float]:
    """A number that is not below ``least``, as a ``type`` for argparse."""

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what}") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is not in the range x>={least}")
        return value

    return number


# --- reading ----------------------------------------------------------------------------------------------------------
class HelpWanted(Exception):  # noqa: N818 - a wish, not an error
    """The command line asks for the help page."""


class Parser(argparse.ArgumentParser):
    """Reads the command line of one command. Fails with ``WrongUsage`` and ``HelpWanted``."""

    def __init__(self, one: Command, name: str) -> None:
        super().__init__(prog=f"ackd {name}", add_help=False, allow_abbrev=False, formatter_class=_Formatter)
        self._command = one
        for declared in one.arguments:
            self.add_argument(*declared.names, **declared.settings)

    def _get_formatter(self) -> argparse.HelpFormatter:
        """Share one formatter: argparse makes one for each argument that is added, only to check it."""
        return _checking_formatter()

    def values(self, words: Sequence[str]) -> dict[str, Any]:
        """The value of every argument, lists as tuples."""
        found, extra = self.parse_known_args(self._options_first(words))
        if extra:
            raise WrongUsage(f"Got unexpected extra argument{'s' * (len(extra) > 1)} ({' '.join(extra)})")
        return {name: tuple(value) if isinstance(value, list) else value for name, value in vars(found).items()}

    def _options_first(self, words: Sequence[str]) -> list[str]:
        """The words with every option before the operands and joined to its value, as argparse understands them."""
        options: list[str] = []
        operands: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                operands += rest
                break
            if word == "-" or not word.startswith("-"):
                operands.append(word)
            elif word in HELP_FLAGS:
                raise HelpWanted
            else:
                self._take_option(word, rest, options, operands)
        return [*options, "--", *operands] if operands else options

    def _take_option(self, word: str, rest: list[str], options: list[str], operands: list[str]) -> None:
        """Move one option from ``word`` and ``rest`` to ``options``."""
        name, equals, value = word.partition("=")
        name = self._in_full(name)
        action = self._option_string_actions.get(name)
        if action is None and not word.startswith("--") and word[:2] in self._option_string_actions:
            options.append(word)  # -n5, -fn5
        elif action is None and self._command.takes_dashes:
            operands.append(word)
        elif action is None:
            raise WrongUsage(f"No such option {name!r}.{_nearest(name, self._option_string_actions)}")
        elif action.nargs == 0 or equals:
            options.append(f"{name}{equals}{value}")
        elif self._command.abbreviates and isinstance(action.default, list):
            # `--extra` takes HEADER=VALUE only, so that it leaves the operands after it alone.
            while rest and not rest[0].startswith("-") and (name != "--extra" or "=" in rest[0]):
                options.append(f"{name}={rest.pop(0)}")
        elif not rest:
            raise WrongUsage(f"Option {name!r} requires an argument.")
        else:
            long = next((one for one in action.option_strings if one.startswith("--")), None)
            options.append(f"{long}={rest.pop(0)}" if long else f"{name}{rest.pop(0)}")

    def _in_full(self, name: str) -> str:
        if not self._command.abbreviates or not name.startswith("--") or name in self._option_string_actions:
            return name
        fitting = [one for one in self._option_string_actions if one.startswith(name)]
        return fitting[0] if len(fitting) == 1 else name

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Take ``--body=--`` as it is: argparse drops a word of two dashes wherever it stands."""
        if action.option_strings and arg_strings == ["--"]:
            return "--"
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> Any:
        raise WrongUsage(f"{message[:1].upper()}{message[1:]}")

    # --- pages ----------------------------------------------------------------------------------------------------
    def format_usage(self) -> str:
        operands = [_metavar(one) for one in self._get_positional_actions()]
        return f"Usage: {' '.join([self.prog, '[OPTIONS]', *operands])}\n"

    def format_help(self) -> str:
        options = [*self._get_optional_actions(), _row("-h, --help", "Show this message and exit.")]
        return page(self.format_usage(), self._command.help, {"Options": options})


def _metavar(operand: argparse.Action) -> str:
    if operand.metavar is not None:
        return str(operand.metavar)
    name = operand.dest.upper()
    return f"[{name}]" if operand.nargs == "?" else name


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" (Did you mean {' or '.join(map(repr, near))}?)" if near else ""


def perform(one: Command, values: Mapping[str, Any]) -> None:
    """Run a command on the values of its arguments."""
    from ackd.cli.output import print_secrets

    print_secrets()  # a command before this one in the same process may have had them taken out
    if one.team in ("none", "place"):
        one.run(**values)
        return
    from ackd.config.site import find_root, find_site
    from ackd.core.errors import BadConfig

    rest = dict(values)
    where = rest.pop("root"), rest.pop("config")
    try:
        site = find_site(*where)
    except BadConfig as broken:
        if one.team != "root":
            raise
        site = find_root(*where)
        _say_broken(broken, str(site.root))
    if one.shows_content:
        _take_secrets_out(site, unredacted=rest.pop("unredacted"))
    one.run(site=site, **rest)


def _take_secrets_out(site: Site, *, unredacted: bool) -> None:
    """Have what is printed redacted, as [redact] says. Fails with ``BadConfig`` if that makes no sense."""
    from ackd.cli.output import take_secrets_out

    if not unredacted:
        take_secrets_out(site.redaction())


def _say_broken(broken: BadConfig, root: str) -> None:
    from ackd.cli.output import echo, printable

    echo(printable(f"ackd: {broken}; this command goes on, for it needs the root only ({root})"), err=True)


# --- pages ------------------------------------------------------------------------------------------------------------
class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=min(columns(), MAX_COLUMNS) - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FILE``: the value once, and operands by their names alone."""
        if not action.option_strings:
            return str(action.metavar or action.dest)
        value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        return ", ".join(action.option_strings) + value

    def _get_help_string(self, action: argparse.Action) -> str | None:
        needed = "  [required]" if action.required and action.option_strings else ""
        return f"{action.help or ''}{needed}"


@functools.cache
def _checking_formatter() -> argparse.HelpFormatter:
    return _Formatter("ackd")


def page(usage: str, about: str, sections: Mapping[str, Iterable[argparse.Action]], epilog: str = "") -> str:
    """A help page: usage, words, tables, and words again."""
    formatter = _Formatter("ackd")
    for title, rows in sections.items():
        formatter.start_section(title)
        formatter.add_arguments(rows)
        formatter.end_section()
    tables = formatter.format_help().rstrip("\n")
    return "\n".join(filter(None, [usage, _paragraphs(about), f"{tables}\n", _paragraphs(epilog)])).rstrip("\n")


def rows(table: Mapping[str, str]) -> list[argparse.Action]:
    return [_row(name, words) for name, words in table.items()]


def _row(name: str, words: str) -> argparse.Action:
    return argparse.Action((), dest=name, help=words.replace("%", "%%"))


def _paragraphs(text: str) -> str:
    r"""The paragraphs, indented and filled; one that begins with a line of ``\b`` keeps its lines."""
    import textwrap

    width = min(columns(), MAX_COLUMNS) - 2
    made = []
    for paragraph in "\n".join(line.strip() for line in text.strip().splitlines()).split("\n\n"):
        if paragraph.startswith("\b"):
            made.append("\n".join(f"  {line}" for line in paragraph.split("\n")[1:]))
        elif paragraph:
            made.append(textwrap.fill(paragraph, width, initial_indent="  ", subsequent_indent="  "))
    return "\n\n".join(made) + "\n" if made else ""


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    words = " ".join(text.strip().partition("\n\n")[0].split())
    first, stop, _ = words.partition(". ")
    return f"{first}." if stop else words


def columns() -> int:
    """The terminal's width. ``shutil.get_terminal_size`` says the same, and loads three compressors first."""
    said = os.environ.get("COLUMNS", "")
    wide = int(said) if said.isdecimal() else 0
    if wide > 0:
        return wide
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or MIN_COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return MIN_COLUMNS
