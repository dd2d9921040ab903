"""`ackd dead`: what could not be delivered (dead letters) and what could not be read (quarantined files).

Owns the list, the reasons, and the two ways out: back into the queue, or gone for good. Only the holder of the root may
move these files: with a daemon running a receipt asks it to, and the file is watched until it has left; without one the
command holds the root itself for as long as it takes. Where each file comes from and how it is moved: graveyard.py.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.core.errors import RootHeld, TheirFault
from ackd.core.message import Folder, ReceiptKind
from ackd.frontends.cli.errors import NO, TRY_AGAIN, Failure, creating
from ackd.frontends.cli.options import Commands, site_options
from ackd.frontends.cli.output import print_json, say

if TYPE_CHECKING:
    from ackd.frontends.cli.graveyard import Grave
    from ackd.site import Site

PATIENCE_S: Final = 5.0
VERDICT_S: Final = 1.0
_ASKED: Final = "asked for"
_BACK: Final = "requeued, and back again:"
_DONE: Final = {ReceiptKind.REQUEUE: "requeued", ReceiptKind.PURGE: "purged"}


@click.group(cls=Commands)
def dead() -> None:
    """What could not be delivered (dead) or read (corrupt), each with its reason."""


@dead.command("list")
@site_options
def list_(site: Site, as_json: bool) -> None:
    """List dead letters and quarantined files."""
    from ackd.frontends.cli import graveyard
    from ackd.frontends.cli.table import print_table

    graves = graveyard.all_graves(site)
    if as_json:
        print_json([grave.as_dict() for grave in graves])
    elif not graves:
        click.echo("nothing is dead or corrupt")
    else:
        rows = [
            [
                grave.kind,
                (grave.message_id or grave.name).partition("@")[0],
                grave.agent or "-",
                grave.at or "-",
                grave.reason,
            ]
            for grave in graves
        ]
        print_table(["KIND", "ID OR FILE", "AGENT", "AT", "REASON"], rows)


@dead.command()
@click.argument("wanted", metavar="ID|FILE")
@site_options
def show(site: Site, as_json: bool, wanted: str) -> None:
    """Print one, after the reason why it is here."""
    from ackd.adapters.message_lookup import read_head
    from ackd.dialects import ignite
    from ackd.frontends.cli import graveyard
    from ackd.frontends.cli.output import printable, printable_lines

    grave = graveyard.find(site, wanted)
    data = read_head(grave.path, site.max_message_bytes + ignite.MAX_HEADER_BYTES)  # with the headers it was given
    text = data.decode(errors="replace") if data is not None else None
    if as_json:
        print_json({**grave.as_dict(), "content": text})
        return
    for key, value in grave.as_dict().items():
        if value is not None:
            click.echo(f"{key}: {printable(str(value))}")
    click.echo()
    click.echo(printable_lines(text) if text is not None else "(not a regular file)")


@dead.command()
@click.argument("wanted", nargs=-1, metavar="ID|FILE...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@site_options
def requeue(site: Site, as_json: bool, wanted: tuple[str, ...], everything: bool) -> None:
    """Put back where they came from: dead letters with their counts reset, quarantined files byte for byte."""
    _act(site, ReceiptKind.REQUEUE, _chosen(site, wanted, everything), as_json=as_json)


@dead.command()
@click.argument("wanted", nargs=-1, metavar="ID|FILE...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--yes", is_flag=True, help="Needed: what is purged cannot be brought back.")
@site_options
def purge(site: Site, as_json: bool, wanted: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Remove for good. Needs --yes."""
    graves = _chosen(site, wanted, everything)
    if not yes:
        raise click.UsageError(f"{len(graves)} would be removed for good: say --yes")
    _act(site, ReceiptKind.PURGE, graves, as_json=as_json)


def _chosen(site: Site, wanted: tuple[str, ...], everything: bool) -> list[Grave]:
    from ackd.frontends.cli import graveyard

    if everything == bool(wanted):
        raise click.UsageError("name what you mean, or say --all")
    if everything:
        return graveyard.all_graves(site)
    return list({grave.path: grave for grave in (graveyard.find(site, one) for one in wanted)}.values())


def _act(site: Site, kind: ReceiptKind, graves: list[Grave], *, as_json: bool) -> None:
    from ackd import state_version
    from ackd.adapters import maildrop, root_lock
    from ackd.frontends.cli.whose import check_reader

    check_reader(site)
    with creating(site.queue):
        maildrop.make_private_directory(site.run, fsync=site.fsync)
        try:
            lock = root_lock.hold(site.run)
        except RootHeld:
            results = _ask_daemon(site, kind, graves)
        else:
            try:
                state_version.require(site.state)
                results = _act_ourselves(site, kind, graves)
            finally:
                lock.release()
    _report(results, as_json=as_json)
    if any(result["result"] == _ASKED for result in results):
        raise Failure(TRY_AGAIN, "the daemon has not done it yet: `ackd dead list` shows what is left")
    if any(result["result"] == _BACK for result in results):
        raise Failure(NO, "what came straight back is as it was: `ackd dead list` says why")


def _act_ourselves(site: Site, kind: ReceiptKind, graves: list[Grave]) -> list[dict[str, Any]]:
    from ackd.frontends.cli import graveyard

    if kind is ReceiptKind.PURGE:
        return [graveyard.purge(grave) for grave in graves]
    boxes = [graveyard.home(site, grave) for grave in graves]  # all of them before the first is moved
    return [graveyard.requeue(site, grave, box) for grave, box in zip(graves, boxes, strict=True)]


def _ask_daemon(site: Site, kind: ReceiptKind, graves: list[Grave]) -> list[dict[str, Any]]:
    from ackd.adapters import maildrop

    before = {grave.path: _trace(grave) for grave in graves}
    for grave in graves:
        where = Folder.DEAD if grave.kind == "dead" else Folder.CORRUPT
        about = (grave.message_id, None)
        maildrop.drop_receipt(site.receipts, kind, *about, file=grave.name, folder=where, fsync=site.fsync)
    waiting = list(graves)
    deadline = time.monotonic() + PATIENCE_S
    while waiting and time.monotonic() < deadline:
        time.sleep(0.02)
        waiting = [grave for grave in waiting if _trace(grave) == before[grave.path]]
    if kind is ReceiptKind.REQUEUE:
        _await_verdict(site, [grave for grave in graves if grave not in waiting])
    return [
        {
            "file": grave.name,
            "message_id": grave.message_id,
            "result": _ASKED if grave in waiting else _ended(kind, grave),
        }
        for grave in graves
    ]


def _await_verdict(site: Site, left: list[Grave]) -> None:
    """Until the daemon has taken them from their queues, well or back to the grave. One that waits its turn in a queue
    is not waited for: it was read, and is fine."""
    deadline = time.monotonic() + VERDICT_S
    while any(_is_undecided(site, grave) for grave in left) and time.monotonic() < deadline:
        time.sleep(0.02)


def _is_undecided(site: Site, grave: Grave) -> bool:
    """In its queue; or still here, because a dead letter's counts are reset before it is moved."""
    return _in_queue(site, grave) or (grave.kind == "dead" and _trace(grave) is not None)


def _in_queue(site: Site, grave: Grave) -> bool:
    from ackd.frontends.cli import graveyard

    try:
        return (graveyard.home(site, grave) / (grave.original or grave.name)).is_file()
    except (Failure, TheirFault):  # nobody's: the daemon knows better than we do
        return False


def _ended(kind: ReceiptKind, grave: Grave) -> str:
    """A file that is as broken as before comes back at once, under the same name."""
    return _DONE[kind] if _trace(grave) is None else _BACK


def _trace(grave: Grave) -> tuple[int, int, int] | None:
    """What changes when a file leaves, even if it returns: None once it is gone, else its and its reason's identity."""
    try:
        file = grave.path.lstat()
    except FileNotFoundError:
        return None
    try:
        reason = grave.path.with_name(f"{grave.name}.reason").lstat()
    except OSError:  # a dead letter has none, and its name may be too long for one
        return file.st_ino, file.st_mtime_ns, 0
    return file.st_ino, file.st_mtime_ns, reason.st_mtime_ns


def _report(results: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(results)
        return
    for result in results:
        to = f" to {result['to']}" if "to" in result else ""
        say(f"{result['result']} {result['message_id'] or result['file']}{to}")
    if not results:
        click.echo("nothing is dead or corrupt")
