"""`ackd inbox`: an agent's mail as it lies on disk.

Owns the difference between "no mail" (exit 0) and "cannot read" (exit 66): three days of deafness looked like an empty
inbox elsewhere. Reads headers and the first line of each body, no more. Listing is not seeing: `ackd read` is.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.core.errors import BadMessage
from ackd.core.message_files import STRAY_WORDS, is_message_file, is_stray
from ackd.core.names import identity
from ackd.core.words import Folder
from ackd.frontends.cli.errors import NOT_FOUND, Failure, WrongUsage
from ackd.frontends.cli.options import site_options
from ackd.frontends.cli.output import print_json
from ackd.frontends.cli.whose import NOBODY, said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.site import Site

#: Enough for any header block that is taken, and the beginning of the body.
_LOOK_BYTES: Final = 70_000
_STYLES: Final = {
    "critical": "bold red",
    "high": "yellow",
    "low": "dim",
    "unreadable": "red",
    "stray": "red",
    "dead": "red",
}


@click.command()
@click.argument("name", required=False, metavar="[AGENT]")
@click.option("--agent", metavar="NAME", help="The same as AGENT (default: ACKD_AGENT, or this pane's).")
@click.option("--all", "everything", is_flag=True, help="Also what is completed or dead.")
@site_options
def inbox(site: Site, as_json: bool, name: str | None, agent: str | None, everything: bool) -> None:
    """List an agent's mail: what waits, and what it was told of and has not completed."""
    if name and agent and identity(name) != identity(agent):
        raise WrongUsage("AGENT and --agent are one thing: name one agent")
    name = said(site, name or agent)
    if name is None:
        raise WrongUsage(NOBODY)
    try:
        mail = list(_mail(site, name, everything))
    except OSError as error:
        where = error.filename or site.box_dir(name)
        raise Failure(NOT_FOUND, f"cannot read {where}: {error.strerror}") from None
    if as_json:
        print_json({"agent": name, "messages": mail})
    elif not mail:
        click.echo(f"no mail for {name}")
    else:
        from ackd.frontends.cli.table import age, print_table

        now = time.time()
        rows = [
            [
                (row["message_id"] or row["file"].rpartition("/")[2]).partition("@")[0],
                age(now - row["arrived_at"]),
                *(row[key] or "-" for key in ("from", "type", "priority", "state", "subject")),
            ]
            for row in mail
        ]
        print_table(["ID", "AGE", "FROM", "TYPE", "PRIORITY", "STATE", "SUBJECT"], rows, _STYLES)


def _mail(site: Site, name: str, everything: bool) -> Iterator[dict[str, Any]]:
    boxes = site.box_dirs(name)
    for box in boxes:
        yield from _rows(box, Folder.QUEUE)
    for box in boxes:
        yield from _rows(box / "processed", Folder.PROCESSED)
    if everything:
        from ackd.adapters import message_lookup

        for one in message_lookup.in_folders(site.root, (Folder.DEAD, Folder.ARCHIVE), name):
            if (row := _row(one.path, one.folder)) is not None:
                yield row


def _rows(directory: Path, folder: Folder) -> Iterator[dict[str, Any]]:
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return
    rows = (_row(directory / name, folder) for name in names if not name.startswith(".") and name != "processed")
    yield from sorted((row for row in rows if row is not None), key=lambda row: row["arrived_at"])


def _row(path: Path, folder: Folder) -> dict[str, Any] | None:
    from ackd.adapters import message_lookup
    from ackd.dialects import ignite

    row: dict[str, Any] = dict.fromkeys(("message_id", "from", "type", "priority", "subject"))
    try:
        arrived_at = path.lstat().st_mtime
    except FileNotFoundError:
        return None
    head = message_lookup.read_head(path, _LOOK_BYTES)
    try:
        raw = ignite.split_head(head if head is not None else b"")
    except BadMessage as error:
        if is_stray(path.name) and folder in (Folder.QUEUE, Folder.PROCESSED):
            return None  # no message in its content, either: somebody's notes
        return {**row, "state": "unreadable", "subject": str(error), "file": str(path), "arrived_at": arrived_at}
    fields = raw.fields
    if folder in (Folder.QUEUE, Folder.PROCESSED) and not is_message_file(path.name):
        return {**row, "state": "stray", "subject": STRAY_WORDS, "file": str(path), "arrived_at": arrived_at}
    return {
        "message_id": ignite.bare_id(fields.get("message-id", "")) or None,
        "from": fields.get("from"),
        "type": fields.get("x-ignite-type"),
        "priority": fields.get("x-ignite-priority"),
        "state": _state(folder, raw.data),
        "subject": _subject(raw.body),
        "file": str(path),
        "arrived_at": arrived_at,
    }


def _state(folder: Folder, head: bytes) -> str:
    from ackd.dialects import ignite

    match folder:
        case Folder.PROCESSED:
            return ignite.standing(head).status.value
        case Folder.DEAD:
            return "dead"
        case Folder.ARCHIVE:
            return "completed"
        case _:
            return "queued"


#: The keys of a body that say what it is about, the best first.
_TELLING: Final = ("summary", "title", "goal", "content", "message", "reason", "task_id")
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}")


def _subject(body: bytes) -> str:
    """What the body says of itself under the most telling key, else its first line. Read as lines: YAML costs too much
    for a list, and the end of the body may be cut off."""
    lines = body[:4000].decode(errors="replace").splitlines()
    told = {
        key: number for number, line in reversed([*enumerate(lines)]) if (key := line.partition(":")[0]) in _TELLING
    }
    for key in _TELLING:
        if key in told and (words := _value(lines, told[key])):
            return words
    return next((line.strip() for line in lines if line.strip()), "")


def _value(lines: list[str], number: int) -> str:
    """One line of what stands after the key, or, of a text of several lines, below it."""
    value = lines[number].partition(":")[2].strip()
    if _BLOCK.fullmatch(value):
        return next((line.strip() for line in lines[number + 1 :] if line.strip()), "")
    if len(value) > 1 and value[0] == value[-1] == '"':  # as `ackd send` writes one line of words
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return value
