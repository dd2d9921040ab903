"""`ackd`: the table of commands, loaded one at a time.

Owns the names, their one-line help and where each command lives. Importing them all would cost every `ackd send` a
second, so `ackd --help` prints from the table and imports nothing; a command is imported when it is run. A module that
is missing breaks its own command only.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.frontends.cli.errors import EXIT_CODES, USAGE, Failure, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

_HERE: Final = "ackd.frontends.cli"

#: name → (module:attribute, one line). The order is the order of `ackd --help`.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "init": (f"{_HERE}.init:init", "Write a small ackd.toml and the directories."),
    "check": (f"{_HERE}.check:check", "Look at the config and its surroundings; say what is wrong and how to mend it."),
    "run": (f"{_HERE}.run:run", "Run the daemon in the foreground."),
    "demo": (f"{_HERE}.demo:demo", "Watch a small team work, fail and recover, in a temporary directory."),
    "send": (f"{_HERE}.send:send", "Queue a message for one or more agents."),
    "inbox": (f"{_HERE}.inbox:inbox", "List an agent's mail."),
    "read": (f"{_HERE}.inbox:read", "Print a message."),
    "ack": (f"{_HERE}.receipts:ack", "Say that a message has arrived and is being worked on."),
    "done": (f"{_HERE}.receipts:done", "Say that a message is dealt with."),
    "refuse": (f"{_HERE}.receipts:refuse", "Give a message back for good."),
    "defer": (f"{_HERE}.receipts:defer", "Give a message back to be offered again later."),
    "reply": (f"{_HERE}.send:reply", "Answer a message."),
    "status": (f"{_HERE}.status:status", "Show the daemon, the agents and their mail."),
    "explain": (f"{_HERE}.explain:explain", "Tell the whole story of a message."),
    "dead": (f"{_HERE}.dead:dead", "List, show, requeue or purge what could not be delivered or read."),
    "tail": (f"{_HERE}.tail:tail", "Show the session log, and follow it."),
    "message": (f"{_HERE}.message:message", "Build, parse, change and validate message files."),
    "lint": (f"{_HERE}.lint:lint", "Find vague words in a report."),
    "completion": (f"{_HERE}.completion:completion", "Print the completion script of a shell."),
}


class LazyCommands(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        target, _ = COMMANDS[cmd_name]
        module, _, attribute = target.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise Failure(USAGE, f"`{cmd_name}` is not in this version") from None
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(_no_such_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), words) for code, words in EXIT_CODES])
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        with reported():
            return super().invoke(ctx)


def _no_such_command(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"no command {name!r}" + (f": did you mean `{near[0]}`?" if near else "")


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from ackd import __version__

        click.echo(f"ackd {__version__}")
        ctx.exit()


@click.command(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command takes --json, and every one but demo --root and --config. ACKD_ROOT, ACKD_CONFIG and "
    "ACKD_AGENT set defaults.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print it.")
def cli() -> None:
    """Deliver files between agents, wait for the ACK, and never lose one."""


def _open_what_is_closed() -> None:
    """Whatever is opened next would get the number of a closed stdin, stdout or stderr, and Python has no stream for
    it. What is printed goes nowhere; stdin stays None, because an empty body is not what was meant (options.py)."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is fd
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def main() -> None:
    _open_what_is_closed()
    cli.main(prog_name="ackd")
