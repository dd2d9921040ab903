"""`ackd reload`: have the running daemon read ackd.toml again, and print what came of it.

client/reloading.py asks and waits. Exit 78 if the daemon refuses the file, which changes nothing; 69 without a daemon;
75 if there was no answer in time: the request stays and is heard all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.command_line import argument, at_least, command, for_place
from ackd.cli.errors import TRY_AGAIN, Failure
from ackd.cli.output import print_json, say
from ackd.cli.waiting import waiting
from ackd.client import Client
from ackd.client.reloading import TIMEOUT_S

if TYPE_CHECKING:
    from ackd.client.reloading import Reloaded


@command
@argument(
    "--timeout",
    type=at_least(0),
    default=TIMEOUT_S,
    metavar="S",
    help="Wait at most so many seconds for the answer.  [default: %(default)s]",
)
@argument("--no-wait", action="store_true", help="Return once the request is written; do not wait for the answer.")
@for_place
def reload(root: str | None, config: str | None, as_json: bool, timeout: float, no_wait: bool) -> None:
    """Have the running daemon read ackd.toml again. What did not change goes on undisturbed; a file that is not right
    changes nothing."""
    stays = "interrupted: the request stays in receipts/, and the daemon hears it all the same"
    with waiting(f"for the daemon to read its config again, {timeout:g} s at most", stays=stays):
        found = Client(root, config).reload(wait=not no_wait, timeout_s=timeout)
    if found is None and not no_wait:
        raise Failure(TRY_AGAIN, "the daemon has not answered yet; it has the request: `ackd status` shows the rest")
    if as_json:
        print_json({"reloaded": None if found is None else found._asdict()})
    elif found is None:
        say("reload asked for")
    else:
        _print(found)


def _print(found: Reloaded) -> None:
    rows = (
        ("added", found.added, ""),
        ("changed", found.changed, ""),
        ("removed", found.removed, ""),
        ("set", found.settings, ""),
        ("waits", found.waiting, ": until the old endpoint has finished what it has"),
        ("not live", found.not_live, ": the old value holds until the daemon is started again"),
    )
    for word, names, note in rows:
        if names:
            say(f"{word}: {', '.join(names)}{note}")
    for name, count in found.mail.items():
        stay = "message stays" if count == 1 else "messages stay"
        say(f"{name}: {count} {stay} in queue/{name}/, as in an inbox: `ackd inbox {name}`")
    if not any((*found[:-1], found.mail)):
        say("read again: nothing is different")
