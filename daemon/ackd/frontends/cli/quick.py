"""A described command, or the page of `ackd --help`, without click, if the command line is a plain one.

Owns reading the plain forms: known flags in full, their values, operands. Refuses to judge: whatever it does not
understand, right or wrong, is left to click (None), before anything was done. So there is nothing about usage that it
could say differently.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from ackd.frontends.cli import commands, errors
from ackd.frontends.cli.shape import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.frontends.cli.shape import Command, Operand, Option

#: Set by the shell that asks for completions.
_COMPLETE: Final = "_ACKD_COMPLETE"


def attempt(words: Sequence[str]) -> int | None:
    """The exit code of what these arguments of `ackd` mean; None, and nothing done, if click is needed to tell."""
    if not words or _COMPLETE in os.environ:
        return None
    if len(words) == 1 and words[0] in ("-h", "--help"):
        return _show_help()
    named = " ".join(words[:2]) if words[0] in commands.DESCRIBED_GROUPS else words[0]
    if named not in commands.DESCRIBED and named not in commands.DESCRIBED_PAIRS:
        return None
    command: Command = commands.load(named)
    values = read(command, words[1 + named.count(" ") :])
    return None if values is None else _run(command, values)


def read(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """The command's parameters; None for anything unusual or wrong."""
    known = {option.flag: option for option in command.options}
    given: dict[str, Any] = {}
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        flag, attached, text = word.partition("=")
        option = known.get(flag)
        if option is None or (option.switch and attached):
            return None
        value = True if option.switch else _value(option, text if attached else next(rest, None))
        if value is None:
            return None
        given[option.name] = (*given.get(option.name, ()), value) if option.several else value
    if any(option.required and option.name not in given for option in command.options):
        return None
    return _with_operand(command.operand, operands, {option.name: option.unset for option in command.options} | given)


def _value(option: Option, text: str | None) -> str | float | None:
    if text is None or (option.choices and text not in option.choices):
        return None
    if option.least is None:
        return text
    try:
        number = float(text)
    except ValueError:
        return None
    return None if number < option.least else number


def _with_operand(operand: Operand | None, found: list[str], values: dict[str, Any]) -> dict[str, Any] | None:
    if operand is None:
        return None if found else values
    if not found and not operand.required and not operand.several:
        return {**values, operand.name: None}
    if not found or (len(found) > 1 and not operand.several):
        return None
    return {**values, operand.name: tuple(found) if operand.several else found[0]}


def _run(command: Command, values: dict[str, Any]) -> int:
    try:
        return _exit_code(lambda: perform(command, values))
    except errors.WrongUsage as error:
        from ackd.frontends.cli.options import show_wrong_usage

        return show_wrong_usage(command, str(error))


def _show_help() -> int | None:
    from ackd.frontends.cli.help_page import page
    from ackd.frontends.cli.output import echo

    text = page()
    return None if text is None else _exit_code(lambda: echo(text))


def _exit_code(act: Callable[[], None]) -> int:
    """How it ends: as it would with click (options.py), and no traceback."""
    try:
        act()
    except errors.WrongUsage:
        raise
    except errors.Ended as end:
        return end.exit_code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except BrokenPipeError:
        errors.give_up_stdout()
        return errors.NO
    except Exception as error:  # noqa: BLE001 - failure_of names it, or calls it our bug
        failure = errors.failure_of(error)
        failure.show()
        return failure.exit_code
    return 0
