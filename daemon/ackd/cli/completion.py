"""`ackd completion`: the script that makes a shell complete ackd's commands, options and agents.

The script calls `ackd` with ``_ACKD_COMPLETE`` set and the words typed so far in ``COMP_WORDS``; ``answer`` prints one
completion a line, as ``plain,WORD``. Shells complete file names by themselves where the answer is empty.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ackd.cli import commands
from ackd.cli.command_line import HELP_FLAGS, Argument, Command, Group, argument, command, for_place
from ackd.cli.output import echo, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BASH: Final = """\
_ackd_completion() {
    local IFS=$'\\n' answer
    COMPREPLY=()
    for answer in $(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _ACKD_COMPLETE=bash_complete $1); do
        COMPREPLY+=("${answer#plain,}")
    done
}
complete -o nosort -o bashdefault -o default -F _ackd_completion ackd
"""
_ZSH: Final = """\
#compdef ackd
_ackd_completion() {
    local -a answers
    answers=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) _ACKD_COMPLETE=zsh_complete ackd)}")
    answers=("${(@)answers#plain,}")
    if [[ -n ${answers[1]} ]]; then compadd -U -V unsorted -a answers; else _files; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _ackd_completion "$@"
else
    compdef _ackd_completion ackd
fi
"""
_FISH: Final = """\
function _ackd_completion
    for answer in (env _ACKD_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) ackd)
        string replace -r '^plain,' '' -- $answer
    end
end
complete --command ackd --arguments "(_ackd_completion)"
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@command
@argument("shell", choices=("bash", "fish", "zsh"))
@for_place
def completion(shell: str, as_json: bool, root: str | None, config: str | None) -> None:  # noqa: ARG001 - as everywhere
    """Print the completion script of a shell. For bash: eval "$(ackd completion bash)" in ~/.bashrc."""
    if as_json:
        print_json({"shell": shell, "script": _SCRIPTS[shell]})
    else:
        echo(_SCRIPTS[shell].rstrip("\n"))


def answer() -> None:
    """Print what may stand where the cursor is."""
    words, begun = _typed()
    for word in dict.fromkeys(completions(words, begun)):
        echo(f"plain,{word}")


def _typed() -> tuple[list[str], str]:
    """The words before the cursor, without `ackd`, and the beginning of the one at the cursor."""
    import shlex

    line = os.environ.get("COMP_WORDS", "")
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    at = os.environ.get("COMP_CWORD", "")
    if os.environ.get("_ACKD_COMPLETE", "").startswith("fish"):  # fish gives the word itself
        return (words[1:-1] if at and words[-1:] == [at] else words[1:]), at
    number = int(at) if at.isdecimal() else len(words)
    return words[1:number], words[number] if number < len(words) else ""


def completions(words: Sequence[str], begun: str) -> Iterator[str]:
    """The words that begin so and may follow: commands, options, choices, agents."""
    if not words:
        yield from _beginning(begun, (*commands.COMMANDS, "--version", *HELP_FLAGS))
        return
    if words[0] not in commands.COMMANDS:
        return
    found = commands.load(words[0])
    rest = words[1:]
    if isinstance(found, Group):
        if not rest:
            yield from _beginning(begun, (*sorted(found.commands), *HELP_FLAGS))
            return
        found, rest = found.commands.get(rest[0]), rest[1:]
    if found is not None:
        yield from _in_command(found, rest, begun)


def _in_command(found: Command, words: Sequence[str], begun: str) -> Iterator[str]:
    options = [one for one in found.arguments if one.names[0].startswith("-")]
    flags = {name: one for one in options for name in one.names}
    before = flags.get(words[-1]) if words else None
    if before is not None and before.settings.get("action") != "store_true":
        yield from _values(before, words, begun)
    elif begun.startswith("-"):
        yield from _beginning(begun, (*flags, *HELP_FLAGS))
    else:
        for one in found.arguments:
            if not one.names[0].startswith("-"):
                yield from _values(one, words, begun)


def _values(one: Argument, words: Sequence[str], begun: str) -> Iterator[str]:
    yield from _beginning(begun, one.settings.get("choices", ()))
    if one.complete == "agents":
        yield from _beginning(begun, _agents(words))


def _agents(words: Sequence[str]) -> list[str]:
    """The agents of the team that is meant; none of a team that cannot be read."""
    from ackd.config.site import find_site
    from ackd.core.errors import AckdError

    given = dict(pairwise(words))
    try:
        return find_site(given.get("--root"), given.get("--config")).known_agents()
    except (AckdError, OSError):
        return []


def _beginning(begun: str, words: Sequence[str]) -> Iterator[str]:
    return (word for word in words if word.startswith(begun) and (begun or not word.startswith("-")))
