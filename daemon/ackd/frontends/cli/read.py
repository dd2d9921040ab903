"""`ackd read`: a message as it lies on disk, and what its recipient is to do next.

What `ackd` types into a pane names this command, so it is described (shape.py) and starts fast. Read in the name of the
recipient (``--agent``, ACKD_AGENT, the pane), it drops a `seen` receipt: proof that the message was taken, which stops
the clock of its ACK. Whoever cannot be told apart reads all the same, and leaves none. What to do next is said to the
recipient only, while the message is on its way; programs read ``--json``, where it stands apart.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from ackd.core.words import Folder, ReceiptKind
from ackd.frontends.cli.errors import NOT_FOUND, Failure, creating
from ackd.frontends.cli.output import print_json, printable_lines
from ackd.frontends.cli.shape import Command, Operand, Option
from ackd.frontends.cli.whose import check_reader, said

if TYPE_CHECKING:
    from ackd.adapters.message_lookup import Found
    from ackd.site import Site

#: Beside the largest body: enough for any header block that is taken.
_HEAD_BYTES: Final = 70_000
#: What no shell acts on: an id, or a path.
_PLAIN: Final = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._@+/-]{0,300}")
#: A worker of a story's stage ends its work by a report.
_STAGE_WORKER: Final = re.compile(r"story-.+-s[0-3]")
_ON_ITS_WAY: Final = frozenset({Folder.QUEUE, Folder.PROCESSED})


def read(site: Site, as_json: bool, message_id: str, agent: str | None) -> None:
    from ackd.adapters import message_lookup
    from ackd.core.names import identity

    name = said(site, agent)
    one = message_lookup.find_for(site.root, message_id, name)
    data = message_lookup.read_head(one.path, site.max_message_bytes + _HEAD_BYTES)
    if data is None:
        raise Failure(NOT_FOUND, f"{one.path}: has just gone")
    own = name is not None and identity(one.box) == identity(name) and one.folder in _ON_ITS_WAY
    commands = _next(one) if own else {}
    if as_json:
        _print_json(one, data, commands)
    else:
        _print(data, commands)
    if own and name is not None:
        _say_seen(site, one, name)


def _next(one: Found) -> dict[str, str]:
    """The commands, by what each says. Whoever reads them runs them: an id is a sender's word, and may be anything."""
    known = one.message_id if _PLAIN.fullmatch(one.message_id) else str(one.path)
    if not _PLAIN.fullmatch(known):
        return {"which commands there are": "ackd --help"}
    if _STAGE_WORKER.fullmatch(one.box):
        return {"report the stage when it is over": "ackd stage report", "where you stand": "ackd stage status"}
    return {
        "you are at it": f"ackd ack {known}",
        "it is finished": f"ackd done {known}",
        "answer, which is an ack, too": f"ackd reply {known} --body TEXT",
        "where you stand, if it takes long": f"ackd checkpoint {known} TEXT",
        "not now": f"ackd defer {known} --reason WHY",
        "not at all": f"ackd refuse {known} --reason WHY",
    }


def _print(data: bytes, commands: dict[str, str]) -> None:
    """Byte for byte, unless a terminal would act on it. Text without a last line end gets one there."""
    end = "" if data.endswith(b"\n") else "\n"
    told = "".join(f"  {command:<{_width(commands)}}  {says}\n" for says, command in commands.items())
    told = f"{end}\n-- \nackd: what to do next, with this message's id:\n{told}" if commands else ""
    if sys.stdout.isatty():
        text = printable_lines(data.decode(errors="replace").replace("\r\n", "\n"))
        sys.stdout.write(text + (told or end))
        sys.stdout.flush()
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data + told.encode())
    sys.stdout.buffer.flush()


def _width(commands: dict[str, str]) -> int:
    return max(map(len, commands.values()))


def _print_json(one: Found, data: bytes, commands: dict[str, str]) -> None:
    from ackd.dialects import ignite

    raw = ignite.split_head(data)
    state = ignite.standing(data).status.value if one.folder is Folder.PROCESSED else _STATES.get(one.folder, "queued")
    row = {"message_id": one.message_id, "agent": one.box or None, "state": state, "file": str(one.path)}
    body = raw.body.decode(errors="replace")
    print_json({**row, "headers": dict(ignite.headers(data)), "body": body, "next": commands})


_STATES: Final = {Folder.DEAD: "dead", Folder.ARCHIVE: "completed"}


def _say_seen(site: Site, one: Found, name: str) -> None:
    from ackd.adapters import maildrop

    check_reader(site)
    with creating(site.receipts):
        maildrop.drop_receipt(site.receipts, ReceiptKind.SEEN, one.message_id, name, fsync=site.fsync)


READ: Final = Command(
    "read",
    "Print a message, and to its recipient what to do next. ID is whole, a unique beginning, its hash, or a path. Read "
    "by its recipient, it counts as seen.",
    Operand("message_id", "ID"),
    (Option("--agent", "agent", metavar="NAME", help="Who reads (default: ACKD_AGENT, or this pane's)."),),
    read,
    root_only=True,
)
