"""`ackd` as click knows it: a group whose commands are imported when they are used.

`ackd --help` prints from the table (commands.py) and imports none of them. A module that is missing breaks its own
command only.
"""

from __future__ import annotations

from typing import Any

import click

from ackd.frontends.cli import commands, help_page
from ackd.frontends.cli.errors import EXIT_CODES, USAGE, Failure
from ackd.frontends.cli.options import click_command, reported
from ackd.frontends.cli.shape import Command


class LazyCommands(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(commands.COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in commands.COMMANDS:
            return None
        try:
            command = commands.load(cmd_name)
        except ModuleNotFoundError as error:
            if error.name != commands.COMMANDS[cmd_name][0].partition(":")[0]:
                raise
            raise Failure(USAGE, f"`{cmd_name}` is not in this version") from None
        if isinstance(command, Command):
            return click_command(command)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in commands.COMMANDS:
            raise click.UsageError(_no_such_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in commands.COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), words) for code, words in EXIT_CODES])
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        with reported():
            return super().invoke(ctx)


def _no_such_command(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, commands.COMMANDS, n=1)
    return f"no command {name!r}" + (f": did you mean `{near[0]}`?" if near else "")


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from ackd import __version__

        click.echo(f"ackd {__version__}")
        ctx.exit()


@click.command(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": help_page.MAX_COLUMNS},
    help=help_page.ABOUT,
    epilog=help_page.EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help=help_page.VERSION_HELP,
)
def cli() -> None:
    pass
