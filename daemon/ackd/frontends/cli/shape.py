"""What a command line may look like, as data: one description for two readers.

Owns the words for it and the options that every command has. quick.py reads a plain command line by it, without click;
options.py makes the click command of it, which answers for all the rest: help, completion, wrong usage. So the two
cannot drift, and `ackd send` and `ackd ack` do not wait for click, which takes twice as long to import as they run.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple


class Option(NamedTuple):
    """``name`` is the parameter that gets the value. Without more, that is a text, and None if it was not given."""

    flag: str
    name: str
    help: str | None = None
    metavar: str | None = None
    default: str | float | None = None
    show_default: bool = False
    required: bool = False
    #: May be given again; the parameter gets a tuple.
    several: bool = False
    #: Takes no value; the parameter gets True or False.
    switch: bool = False
    choices: tuple[str, ...] = ()
    #: A number, and not below this.
    least: float | None = None

    @property
    def unset(self) -> Any:
        """What the parameter gets if the option is not given."""
        return () if self.several else False if self.switch else self.default


class Operand(NamedTuple):
    """What stands without a flag: one, or at least one of ``several``; None if it need not stand there and does not."""

    name: str
    metavar: str
    several: bool = False
    required: bool = True


class Command(NamedTuple):
    """``run`` is called with ``site``, ``as_json`` and a parameter for the operand and each option. A name of two words
    is a command of a group."""

    name: str
    help: str
    operand: Operand | None
    own_options: tuple[Option, ...]
    run: Callable[..., None]
    #: Of the site it needs the root only, and works though the config cannot be read.
    root_only: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        return (*self.own_options, *SITE_OPTIONS)


ROOT: Final = Option(
    "--root",
    "root",
    metavar="DIR",
    help="The team's directory (default: of ackd.toml, or .ackd/ or .ignite/ here or above).",
)
CONFIG: Final = Option("--config", "config", metavar="FILE", help="The config file (default: ackd.toml here or above).")
JSON: Final = Option("--json", "as_json", switch=True, help="Print JSON, for programs.")
SITE_OPTIONS: Final = (ROOT, CONFIG, JSON)
AGENT: Final = Option(
    "--agent", "agent", metavar="NAME", help="Who speaks (default: ACKD_AGENT, this pane's, or who has it)."
)


def perform(command: Command, values: Mapping[str, Any]) -> None:
    """Run it on what was read from the command line, by whomever."""
    from ackd.core.errors import BadConfig
    from ackd.site import find_root, find_site

    rest = dict(values)
    where = rest.pop("root"), rest.pop("config")
    try:
        site = find_site(*where)
    except BadConfig as broken:
        if not command.root_only:
            raise
        site = find_root(*where)
        from ackd.frontends.cli.output import echo, printable

        echo(printable(f"ackd: {broken}; this command goes on, for it needs the root only ({site.root})"), err=True)
    command.run(site=site, **rest)
