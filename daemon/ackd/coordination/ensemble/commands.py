"""`ackd lint`: checks that a report says who, how many, what share and where, without vague words.

The text is a file, stdin, or the body of a message file; the findings come from
coordination/ensemble/rules/plain_words. A lone phrase is checked for words only; anything longer is a report and needs
all four facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.cli.command_line import argument, command, for_place
from ackd.cli.errors import BAD_DATA, NO, NOT_FOUND, Ended, Failure, WrongUsage
from ackd.cli.output import print_json, printable, read_stdin, say
from ackd.coordination.ensemble.rules import plain_words
from ackd.storage import atomic_file

if TYPE_CHECKING:
    from ackd.coordination.ensemble.rules.plain_words import VagueWord

MAX_BYTES: Final = 1_048_576


class _Report(NamedTuple):
    text: str
    first_line: int = 1
    names: tuple[str, ...] = ()


@command
@argument("file", metavar="FILE|-")
@argument("--words-only", action="store_true", help="Look for vague words only; do not ask for the four facts.")
@argument("--report", dest="always", action="store_true", help="Ask for the four facts even of a single phrase.")
@for_place
def lint(root: str | None, config: str | None, as_json: bool, file: str, words_only: bool, always: bool) -> None:  # noqa: ARG001
    """Find vague words in a report, and what it does not say: who, how many, what share, where.

    Of a message file (.mime) the body is read. A single short phrase is not taken for a report. Exit 1 if anything is
    found.
    """
    if words_only and always:
        raise WrongUsage("--words-only and --report exclude each other")
    report = _read(file)
    words = plain_words.vague_words(report.text)
    asked = always or (not words_only and plain_words.is_report(report.text))
    missing = plain_words.missing_facts(report.text, report.names) if asked else []
    _print(file, report, words, missing, as_json=as_json)
    if words or missing:
        raise Ended(NO)


def _print(file: str, report: _Report, words: list[VagueWord], missing: list[str], *, as_json: bool) -> None:
    shift = report.first_line - 1
    if as_json:
        listed = [{"line": w.line + shift, "column": w.column, "word": w.word, "say": w.say} for w in words]
        print_json({"file": file, "words": listed, "missing": missing})
        return
    for word in words:
        say(f"{file}:{word.line + shift}:{word.column}: {word.word!r} is vague: {word.say}")
    for fact in missing:
        say(f"{file}: {fact} is missing: {plain_words.ADVICE[fact]}")


def _read(file: str) -> _Report:
    data = read_stdin(MAX_BYTES + 1) if file == "-" else _read_file(file)
    if len(data) > MAX_BYTES:
        raise Failure(BAD_DATA, f"{printable(file)}: more than {MAX_BYTES} bytes")
    if file.endswith(".mime"):
        return _body_of(data)
    try:
        return _Report(data.decode())
    except UnicodeDecodeError as error:
        raise Failure(BAD_DATA, f"{printable(file)}: byte {error.start} is not UTF-8") from None


def _read_file(file: str) -> bytes:
    try:
        return atomic_file.read_regular(file, MAX_BYTES)
    except OSError as error:
        raise Failure(NOT_FOUND, f"cannot read {printable(file)}: {error.strerror}") from None


def _body_of(data: bytes) -> _Report:
    """Return the body of a message, and the names of its sender and recipients, which count as "who"."""
    from ackd.formats import ignite

    raw = ignite.split(data)
    people = (ignite.names(raw.fields.get(key, "")) for key in ("from", "to", "cc"))
    return _Report(raw.body.decode(), raw.body_line, tuple(name for names in people for name in names if name))
