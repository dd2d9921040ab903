"""Options that take several values after one name (`--to a b`), and abbreviated ones, as the seed's tool has them.

Owns rewriting the words before click sees them. Refuses to know which options there are: it asks the command. Never
fails; wrong usage is click's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


class SeveralValues(click.Command):
    """A command whose repeatable options also take several values after one name, as argparse's ``nargs`` do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, click.Option) and not param.is_flag]
        several = {name for option in options if option.multiple for name in option.opts}
        single = {name for option in options if not option.multiple for name in option.opts}
        flags = {name for param in self.params for name in param.opts if name.startswith("--")}
        return super().parse_args(ctx, _spelled_out(_in_full(args, flags, single | several), several, single))


def _in_full(args: Sequence[str], flags: set[str], with_value: set[str]) -> list[str]:
    """``--prio high`` as ``--priority high``: argparse takes every beginning that fits one option only. One that fits
    several is left to click, which names them."""
    result: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        name, equals, value = word.partition("=")
        if name.startswith("--") and name not in flags:
            fitting = [flag for flag in flags if flag.startswith(name)]
            name = fitting[0] if len(fitting) == 1 else name
        result.append(f"{name}{equals}{value}")
        if name in with_value and not equals and rest:
            result.append(rest.pop(0))
    return result


def _spelled_out(args: Sequence[str], several: set[str], single: set[str]) -> list[str]:
    """``--to a b`` as ``--to a --to b``. ``--extra`` takes K=V only, so that it leaves the arguments after it alone."""
    result: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word in several:
            while rest and not rest[0].startswith("-") and (word != "--extra" or "=" in rest[0]):
                result += [word, rest.pop(0)]
        else:
            result.append(word)
            if word in single and rest:
                result.append(rest.pop(0))
    return result
