"""`ackd completion`: the script that makes a shell complete ackd's commands, and the answers to that script.

The script (shell_scripts/) calls `ackd` with ``_ACKD_COMPLETE`` set to the shell's name, and the words up to the cursor
as arguments. bash takes words apart at ``@`` and ``=``, so its script gives the line itself in ``_ACKD_LINE``.

``answer`` prints what may stand there: first ``words``, ``files`` or ``directories`` (what the shell may offer by
itself if nothing follows), then one candidate a line, with its description after a tab, as completion_values.py finds
them.

Whatever goes wrong, nothing is printed, and nothing is waited for longer than ``PATIENCE_S``: whoever presses Tab is in
the middle of a line. Ids and names are other people's words: a candidate that a shell might act on is never offered.
"""

from __future__ import annotations

import importlib.resources
import os
import re
import signal
from typing import TYPE_CHECKING, Final

from ackd.cli import commands
from ackd.cli.command_line import HELP_FLAGS, Group, argument, command, first_sentence, for_place
from ackd.cli.output import echo, print_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import FrameType

    from ackd.cli.command_line import Argument, Command

#: The file of each shell's script, in shell_scripts/.
_SCRIPTS: Final = {"bash": "ackd.bash", "zsh": "_ackd", "fish": "ackd.fish"}
PATIENCE_S: Final = 2.0
_DESCRIPTION_CHARS: Final = 60
#: No shell acts on these characters, nor on one of these words at the beginning of a word.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-][A-Za-z0-9_./@+:,=-]{0,300}")

#: A word that may stand at the cursor, and its description.
Candidate = tuple[str, str]
WORDS, FILES, DIRECTORIES = "words", "files", "directories"


@command
@argument("shell", choices=("bash", "fish", "zsh"))
@for_place
def completion(shell: str, as_json: bool, root: str | None, config: str | None) -> None:  # noqa: ARG001 - as everywhere
    """Print the completion script of a shell.

    \b
    bash: eval "$(ackd completion bash)"     in ~/.bashrc
    zsh:  eval "$(ackd completion zsh)"      in ~/.zshrc, after compinit
    fish: ackd completion fish | source      in ~/.config/fish/config.fish
    """
    text = importlib.resources.files("ackd.cli").joinpath("shell_scripts", _SCRIPTS[shell]).read_text(encoding="utf-8")
    if as_json:
        print_json({"shell": shell, "script": text})
    else:
        echo(text.rstrip("\n"))


def answer(words: Sequence[str]) -> None:
    """Print what may stand at the end of these words of a command line, `ackd` itself left out."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        before, begun, broken_at = _typed(words)
        kind, candidates = completions(before, begun)
        offered = {word: description for word, description in candidates if _PLAIN.fullmatch(word)}
        lines = [kind]
        for word, description in offered.items():
            shown = " ".join(printable(description).split())[:_DESCRIPTION_CHARS]
            lines.append(f"{word[broken_at:]}\t{shown}" if shown else word[broken_at:])
    except Exception:  # noqa: BLE001 - no completion is better than an error in the middle of a line
        return
    echo("\n".join(lines))


def _give_up(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


# --- what was typed ---------------------------------------------------------------------------------------------------
def _typed(words: Sequence[str]) -> tuple[list[str], str, int]:
    """The words before the cursor, the beginning of the one at the cursor, and how much of it the shell keeps as it
    is, so that it wants the rest only."""
    line = os.environ.get("_ACKD_LINE")
    if line is None:
        return list(words[:-1]), _words_of(words[-1])[0][-1] if words else "", 0
    found, quoted = _words_of(line)
    *before, begun = found
    programs = [number for number, word in enumerate(before) if word.rpartition("/")[2] == "ackd"]
    breaks = "" if quoted else os.environ.get("_ACKD_BREAKS", "")
    kept = max((begun.rfind(one) + 1 for one in breaks), default=0)
    return before[programs[0] + 1 :] if programs else before[1:], begun, kept


def _words_of(line: str) -> tuple[list[str], bool]:
    """The words of a command line as a shell takes them apart, the last one as far as it was typed (empty after a
    space), and whether that one has a quote in it. Nothing is expanded."""
    words, quote, quoted = [""], "", False
    characters = iter(line)
    for one in characters:
        if one == "\\" and quote != "'":
            words[-1] += next(characters, "")
        elif one == quote:
            quote = ""
        elif not quote and one in "'\"":
            quote, quoted = one, True
        elif not quote and one.isspace():
            if words[-1] or quoted:
                words.append("")
            quoted = False
        else:
            words[-1] += one
    return words, quoted


# --- what may follow --------------------------------------------------------------------------------------------------
def completions(words: Sequence[str], begun: str) -> tuple[str, Iterable[Candidate]]:
    """Return the kind of words that the shell may offer by itself, and the words of ackd that may follow."""
    if not words:
        listed = {name: line for name, (_, line) in commands.COMMANDS.items()}
        more = {"--version": "Print the version and exit."} | dict.fromkeys(HELP_FLAGS, "Show help and exit.")
        return WORDS, _beginning(begun, {**listed, **more}.items())
    if words[0] not in commands.COMMANDS:
        return WORDS, ()
    found, name, rest = commands.load(words[0]), words[0], words[1:]
    if isinstance(found, Group):
        if not rest:
            listed = {one: first_sentence(found.commands[one].help) for one in sorted(found.commands)}
            return WORDS, _beginning(begun, {**listed, **dict.fromkeys(HELP_FLAGS, "Show help and exit.")}.items())
        if rest[0] not in found.commands:
            return WORDS, ()
        found, name, rest = found.commands[rest[0]], f"{name} {rest[0]}", rest[1:]
    return _in_command(found, name, rest, begun)


def _in_command(one: Command, name: str, words: Sequence[str], begun: str) -> tuple[str, Iterable[Candidate]]:
    flags = {flag: option for option in one.arguments for flag in option.names if flag.startswith("-")}
    operands, pending = _read(flags, words)
    option, equals, value = begun.partition("=")
    if pending is not None:
        return _values(pending, name, words, begun)
    if "--" not in words and equals and option in flags:
        kind, values = _values(flags[option], name, words, value)
        return kind, ((f"{option}={word}", description) for word, description in values)
    if "--" not in words and begun.startswith("-"):
        return WORDS, _beginning(begun, _options(flags, words))
    positional = [argument for argument in one.arguments if not argument.names[0].startswith("-")]
    if not positional:
        return WORDS, ()
    at = min(len(operands), len(positional) - 1)
    takes_more = str(positional[at].settings.get("nargs")) in "+*"
    if len(operands) > at and not takes_more:
        return WORDS, ()
    first, space, _ = str(positional[at].settings.get("metavar")).partition(" ")
    if len(operands) > at and space and not first.endswith("..."):
        return WORDS, ()  # ID [TEXT]: the first is an id, and the others are the caller's own words
    kind, candidates = _values(positional[at], name, words, begun)
    return kind, (found for found in candidates if found[0] not in operands)


def _read(flags: dict[str, Argument], words: Sequence[str]) -> tuple[list[str], Argument | None]:
    """The operands among the words, and the option that waits for its value at the cursor."""
    operands: list[str] = []
    pending: Argument | None = None
    for number, word in enumerate(words):
        if pending is not None:
            pending = None
        elif word == "--":
            return [*operands, *words[number + 1 :]], None
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        elif word in flags and takes_value(flags[word]):
            pending = flags[word]
    return operands, pending


def takes_value(one: Argument) -> bool:
    return one.settings.get("action") not in ("store_true", "store_false", "store_const", "count")


def _options(flags: dict[str, Argument], words: Sequence[str]) -> Iterator[Candidate]:
    """The options that may follow: one that was given already is not offered again, unless it may be."""
    for flag, one in flags.items():
        if one.settings.get("action") == "append" or not set(one.names) & set(words):
            yield flag, str(one.settings.get("help") or "")
    yield from dict.fromkeys(HELP_FLAGS, "Show help and exit.").items()


def _values(one: Argument, name: str, words: Sequence[str], begun: str) -> tuple[str, Iterable[Candidate]]:
    from ackd.cli import completion_values

    kind = completion_values.kind_of(one, name)
    if kind in (FILES, DIRECTORIES):
        return kind, ()
    found = _beginning(begun, completion_values.values(kind, one, words, begun))
    return FILES if kind == completion_values.DEAD else WORDS, found


def _beginning(begun: str, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Options are offered only to who has typed a dash."""
    return ((word, said) for word, said in candidates if word.startswith(begun) and (begun or word[:1] != "-"))
