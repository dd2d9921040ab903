"""Commands as click knows them: the options that every command has, and described commands whole (shape.py).

``site_options`` adds ``--root``, ``--config`` and ``--json``; the command receives ``site: Site`` and
``as_json: bool``. What the command raises by name becomes a click outcome here, so that a command does
not know whether it was started by `ackd` or by a test.
"""

from __future__ import annotations

import contextlib
import functools
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from ackd.frontends.cli import errors, shape
from ackd.frontends.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Command = TypeVar("_Command", bound="Callable[..., Any]")


class Commands(click.Group):
    """A group that lists its commands with their whole first sentence: click cuts it to fit a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            listed = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
            formatter.write_dl([(name, one.get_short_help_str(limit=200)) for name, one in listed if one is not None])


# --- described commands -----------------------------------------------------------------------------------------------
def click_command(command: shape.Command) -> click.Command:
    """The click command of a description."""

    def run(**values: Any) -> None:
        with reported():
            shape.perform(command, values)

    operands = [] if command.operand is None else [_click_operand(command.operand)]
    parameters = [*operands, *map(_click_option, command.options)]
    return click.Command(command.name.rpartition(" ")[2], callback=run, params=parameters, help=command.help)


def _click_operand(operand: shape.Operand) -> click.Argument:
    nargs = -1 if operand.several else 1
    return click.Argument([operand.name], nargs=nargs, required=operand.required, metavar=operand.metavar)


def _click_option(option: shape.Option) -> click.Option:
    return click.Option([option.flag, option.name], **_settings(option))


def _settings(option: shape.Option) -> dict[str, Any]:
    kind: click.ParamType[Any] | None = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.least is not None:
        kind = click.FloatRange(min=option.least)
    # A default that is passed counts as given, even None.
    given: dict[str, Any] = {"default": option.default} if option.default is not None else {}
    return {
        "type": kind,
        "help": option.help,
        "metavar": option.metavar,
        "show_default": option.show_default or None,
        "required": option.required,
        "multiple": option.several,
        "is_flag": option.switch or None,
        **given,
    }


def show_wrong_usage(command: shape.Command, words: str) -> int:
    """What click prints of a usage error, for a command that ran without it."""
    from ackd.frontends.cli.group import cli

    team = click.Context(cli, info_name="ackd", **cli.context_settings)
    error = click.UsageError(
        printable(words), click.Context(click_command(command), parent=team, info_name=command.name)
    )
    error.show()
    return error.exit_code


# --- decorators -------------------------------------------------------------------------------------------------------
def described(option: shape.Option) -> Callable[[_Command], _Command]:
    """One option of a description, for a command that is written for click."""
    return click.option(option.flag, option.name, **_settings(option))


json_option = described(shape.JSON)
agent_option = described(shape.AGENT)


def site_options(command: Callable[..., Any]) -> Callable[..., None]:
    """``--root``, ``--config`` and ``--json``; the command takes ``site`` and ``as_json``."""

    @functools.wraps(command)
    def run(*args: Any, root: str | None, config: str | None, **kwargs: Any) -> None:
        with reported():
            from ackd.site import find_site

            command(*args, site=find_site(root, config), **kwargs)

    return _with_site_options(run)


def place_options(command: Callable[..., Any]) -> Callable[..., None]:
    """The same options for commands that must not need a site yet (`init`, `check`): ``root`` and ``config``, raw."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with reported():
            command(*args, **kwargs)

    return _with_site_options(run)


def _with_site_options(command: _Command) -> _Command:
    for option in reversed(shape.SITE_OPTIONS):
        command = described(option)(command)
    return command


# --- ends -------------------------------------------------------------------------------------------------------------
class Refused(click.ClickException):
    """A ``Failure``, as click knows one."""

    def __init__(self, failure: errors.Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.exit_code = failure.exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        self.failure.show()


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Whatever leaves this block is a click outcome: a refusal, wrong usage, an exit; or nothing."""
    try:
        yield
    except click.UsageError as error:
        # An argument may be a file's name, put there by a shell's `*`.
        error.message = printable(error.message)  # type: ignore[misc]  # click reads it from the instance
        raise
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except errors.WrongUsage as error:
        raise click.UsageError(printable(str(error))) from None
    except errors.Ended as end:
        raise click.exceptions.Exit(end.exit_code) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(errors.INTERRUPTED) from None
    except BrokenPipeError:  # click ends quietly when the reader of a pipe has gone
        raise
    except Exception as error:
        raise Refused(errors.failure_of(error)) from error
