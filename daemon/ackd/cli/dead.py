"""`ackd dead`: what could not be delivered (dead letters) and what could not be read (quarantined files).

client/dead_letters.py lists, requeues and purges them, with and without a daemon. Exit 1 if a file came straight back,
75 if the daemon has not done it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import Group, argument, for_team, shows_content
from ackd.cli.errors import NO, TRY_AGAIN, USAGE, Failure, WrongUsage
from ackd.cli.output import echo, print_json, printable, printable_lines, say
from ackd.cli.waiting import waiting
from ackd.client import Client, dead_letters
from ackd.facts import local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackd.client.dead_letters import AmbiguousDeadLetter, DeadLetter, DeadLetterResult
    from ackd.config.site import Site

_WORDS: Final = {dead_letters.PENDING: "asked for", dead_letters.RETURNED: "requeued, and back again:"}

_STAYS: Final = "interrupted: what was asked for is done all the same; `ackd dead list` shows what is left"


dead = Group("""List, show, requeue or purge files that could not be delivered (dead) or read (corrupt).""")


@dead.command
@shows_content
@for_team
def list_(site: Site, as_json: bool) -> None:
    """List dead letters and quarantined files."""
    from ackd.cli.table import print_table

    letters = Client.at(site).dead_letters()
    if as_json:
        print_json({"dead_letters": [letter.as_dict() for letter in letters]})
    elif not letters:
        echo("nothing is dead or corrupt")
    else:
        rows = [
            [
                letter.kind,
                (letter.message_id or letter.name).partition("@")[0],
                letter.agent or "-",
                local_time(letter.at) if letter.at else "-",
                letter.reason,
            ]
            for letter in letters
        ]
        print_table(["KIND", "ID OR FILE", "AGENT", "AT", "REASON"], rows)


@dead.command
@argument("wanted", metavar="ID|FILE")
@shows_content
@for_team
def show(site: Site, as_json: bool, wanted: str) -> None:
    """Print a dead letter or a quarantined file, after the reason why it is one."""
    client = Client.at(site)
    letter = _found(client, wanted)
    data = client.read_dead_letter(letter)
    text = data.decode(errors="replace") if data is not None else None
    if as_json:
        print_json({**letter.as_dict(), "content": text})
        return
    for key, value in letter.as_dict().items():
        if value is not None:
            echo(f"{key}: {local_time(value) if key == 'at' else printable(str(value))}")
    echo("")
    echo(printable_lines(text) if text is not None else "(not a regular file)")


@dead.command
@argument("wanted", nargs="*", metavar="ID|FILE...")
@argument("--all", dest="everything", action="store_true", help="All dead letters and quarantined files.")
@for_team
def requeue(site: Site, as_json: bool, wanted: tuple[str, ...], everything: bool) -> None:
    """Put files back where they came from: dead letters with their counts reset, quarantined files byte for byte."""
    client = Client.at(site)
    letters = _chosen(client, wanted, everything)
    with waiting("for the daemon to requeue them", stays=_STAYS):
        results = client.requeue(*letters)
    _report(results, as_json=as_json)


@dead.command
@argument("wanted", nargs="*", metavar="ID|FILE...")
@argument("--all", dest="everything", action="store_true", help="All dead letters and quarantined files.")
@argument("--yes", action="store_true", help="Confirm. Purged files cannot be brought back.")
@for_team
def purge(site: Site, as_json: bool, wanted: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Remove dead letters or quarantined files for good. Needs --yes."""
    client = Client.at(site)
    letters = _chosen(client, wanted, everything)
    if not yes:
        raise WrongUsage(f"{len(letters)} would be removed for good: say --yes")
    with waiting("for the daemon to remove them", stays=_STAYS):
        results = client.purge(*letters)
    _report(results, as_json=as_json)


def _chosen(client: Client, wanted: tuple[str, ...], everything: bool) -> list[DeadLetter]:
    if everything == bool(wanted):
        raise WrongUsage("name the messages or files, or say --all")
    if everything:
        return client.dead_letters()
    return list({letter.path: letter for letter in (_found(client, one) for one in wanted)}.values())


def _found(client: Client, wanted: str) -> DeadLetter:
    try:
        return client.dead_letter(wanted)
    except dead_letters.AmbiguousDeadLetter as error:
        raise Failure(USAGE, _which(error)) from None


def _which(error: AmbiguousDeadLetter) -> str:
    lines = [f"{printable(error.prefix)} fits {len(error.letters)}: name the file of the one that you mean"]
    for letter in error.letters:
        file = f"queue/{letter.path.parent.name}/{letter.name}"
        lines.append(f"  {printable(file)}  {printable(letter.agent or '-')}")
    return "\n".join(lines)


def _report(results: Sequence[DeadLetterResult], *, as_json: bool) -> None:
    failure = _failure({one.outcome for one in results})
    if as_json:
        listed = [_as_data(one) for one in results]
        if failure is not None:
            raise failure.with_results(results=listed)
        print_json({"results": listed})
    elif not results:
        echo("nothing is dead or corrupt")
    for one in () if as_json else results:
        to = f" to {one.to}" if one.to is not None else ""
        say(f"{_result(one)} {one.letter.message_id or one.letter.name}{to}")
    if failure is not None:
        raise failure


def _failure(outcomes: set[str]) -> Failure | None:
    if dead_letters.PENDING in outcomes:
        return Failure(TRY_AGAIN, "the daemon has not done it yet: `ackd dead list` shows what is left")
    if dead_letters.RETURNED in outcomes:
        return Failure(NO, "some came straight back: `ackd dead list` says why")
    return None


def _as_data(one: DeadLetterResult) -> dict[str, Any]:
    data = {"file": one.letter.name, "message_id": one.letter.message_id, "result": _result(one)}
    return data if one.to is None else {**data, "to": str(one.to)}


def _result(one: DeadLetterResult) -> str:
    return _WORDS.get(one.outcome, one.outcome)
