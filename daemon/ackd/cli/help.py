"""`ackd help` and `ackd version`: the pages of `--help`, and the version, as commands."""

from __future__ import annotations

from ackd.cli.command_line import argument, command
from ackd.cli.output import echo, print_json


@command
@argument(
    "words",
    nargs="*",
    metavar="[COMMAND...]",
    complete="ackd.cli.commands:COMMANDS",
    help="A command, such as send, or dead list.",
)
def help_(words: tuple[str, ...], as_json: bool) -> None:
    """Show how ackd is used, or one of its commands: `ackd help send`, `ackd help dead list`."""
    from ackd.cli.main import help_page

    page = help_page(words)
    if as_json:
        print_json({"help": page})
    else:
        echo(page)


@command
def version(as_json: bool) -> None:
    """Print the version."""
    from ackd import __version__

    if as_json:
        print_json({"version": __version__})
    else:
        echo(f"ackd {__version__}")
