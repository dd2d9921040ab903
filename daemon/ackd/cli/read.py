"""`ackd read`: print a message as it lies on disk, and tell its recipient what to do next.

The line that is typed into a pane names this command. Read in the name of the recipient (``--agent``, ACKD_AGENT, the
pane), the message counts as seen once it was printed. A reader that nothing names reads it all the same, and leaves no
proof. The recipient alone is told what to do next, while the message is on its way; programs read ``--json``.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import argument, command, for_root
from ackd.cli.output import print_json, printable_lines
from ackd.client import Client
from ackd.coordination import registry

if TYPE_CHECKING:
    from ackd.client.mail import ReadMessage
    from ackd.config.site import Site

#: An id or a path that no shell acts on.
_PLAIN: Final = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._@+/-]{0,300}")


@command
@argument("message_id", metavar="ID")
@argument(
    "--agent", metavar="NAME", complete="agents", help="The agent that reads (default: ACKD_AGENT, or this pane's)."
)
@for_root
def read(site: Site, as_json: bool, message_id: str, agent: str | None) -> None:
    """Print a message, and to its recipient what to do next. ID is whole, a unique beginning, its hash, or a path. Read
    by its recipient, it counts as seen."""
    client = Client.at(site, agent)
    message = client.read(message_id, seen=False)
    commands = _next_commands(message) if message.is_own else {}
    if as_json:
        _print_json(message, commands)
    else:
        _print(message.data, commands)
    client.mark_seen(message)


def _next_commands(message: ReadMessage) -> dict[str, str]:
    """The commands, by what each says. Whoever reads them runs them, and an id is a sender's word, which may be
    anything: one that a shell might act on is left out."""
    known = message.message_id if _PLAIN.fullmatch(message.message_id) else message.file
    if not _PLAIN.fullmatch(known):
        return {"which commands there are": "ackd --help"}
    if own := registry.next_commands(message.agent):
        return dict(own)
    return {
        "you are at it": f"ackd ack {known}",
        "it is finished": f"ackd done {known}",
        "answer, which is an ack, too": f"ackd reply {known} --body TEXT",
        "where you stand, if it takes long": f"ackd checkpoint {known} TEXT",
        "not now": f"ackd defer {known} --reason WHY",
        "not at all": f"ackd refuse {known} --reason WHY",
    }


def _print(data: bytes, commands: dict[str, str]) -> None:
    """Print byte for byte, unless a terminal would act on it. Text without a last line end gets one there."""
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


def _print_json(message: ReadMessage, commands: dict[str, str]) -> None:
    body = message.body  # fails first if the file is broken
    row = {"message_id": message.message_id, "agent": message.agent or None, "state": message.state}
    print_json({**row, "file": message.file, "headers": message.headers, "body": body, "next": commands})
