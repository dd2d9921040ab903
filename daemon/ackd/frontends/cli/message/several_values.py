"""Options that take several values after one name (`--to a b`), as the seed's tool and its scripts have it.

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
        return super().parse_args(ctx, _spelled_out(args, several, single))


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
