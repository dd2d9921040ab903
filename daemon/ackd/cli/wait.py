"""`ackd wait ID...`: wait until messages have ended, with `--tree` also all that comes of them.

Ends 0 when all were completed, 1 when one is dead or was withdrawn, 69 without a daemon, 75 when the time is over, 130
at Ctrl-C. Nothing is withdrawn: whoever stops waiting leaves the messages as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import argument, at_least, command, for_team, shows_content
from ackd.cli.errors import NO, NO_DAEMON, TRY_AGAIN, Ended, WrongUsage
from ackd.cli.output import echo_folded, print_json
from ackd.cli.waiting import waiting
from ackd.client import Client
from ackd.client.sending import DEFAULT_WAIT_S
from ackd.facts import short_id, visible

if TYPE_CHECKING:
    from ackd.client.thread_waiting import Awaited, AwaitedMessage
    from ackd.config.site import Site

_EXIT_CODES: Final = {"done": 0, "failed": NO, "no daemon": NO_DAEMON, "timeout": TRY_AGAIN}
#: Said at Ctrl-C.
STAYS: Final = "stopped waiting: nothing was withdrawn, the messages stay queued and go on"


@command
@argument("messages", nargs="+", metavar="ID...")
@argument("--all", dest="all_of", action="store_true", help="Wait until all have ended (the default).")
@argument("--any", dest="any_of", action="store_true", help="Wait until one of them is completed.")
@argument("--tree", action="store_true", help="Wait for all parts that come of them, too.")
@argument(
    "--timeout", type=at_least(0), default=DEFAULT_WAIT_S, metavar="S",
    help="Seconds to wait; then exit 75.  [default: %(default)s]",
)  # fmt: skip
@shows_content
@for_team
def wait(
    site: Site, as_json: bool, messages: tuple[str, ...], all_of: bool, any_of: bool, tree: bool, timeout: float
) -> None:
    """Wait until messages have ended.

    Each ID is whole, a unique beginning, a hash, or a path. Waiting goes on until all have ended, also when one of them
    is dead.

    Exit codes: 0 all were completed (with --any: one was), 1 one is dead or was withdrawn (with --any: each is), 66 no
    such message, 69 no daemon is running, 75 the time is over, 130 Ctrl-C: the messages stay queued.
    """
    if all_of and any_of:
        raise WrongUsage("--all and --any contradict each other: give one of them")

    def heard(one: AwaitedMessage) -> None:
        if not as_json:
            why = f": {visible(one.reason)}" if one.reason else ""
            by = f" ({visible(one.holder)})" if one.holder else ""
            echo_folded(f"{one.state}: {visible(one.agent)}{by} {short_id(one.message_id)}{why}")

    def hindered(words: str) -> None:
        if not as_json:
            echo_folded(f"ackd: {words}", err=True)

    until = "one of them is completed" if any_of else "all have ended"
    with waiting(f"until {until}, {timeout:g} s at most", stays=STAYS):
        awaited = Client.at(site).wait(
            messages, tree=tree, any_of=any_of, timeout_s=timeout, heard=heard, hindered=hindered
        )
    _report(awaited, as_json=as_json)


def _report(awaited: Awaited, *, as_json: bool) -> None:
    if awaited.trouble:
        echo_folded(f"cannot wait: {visible(awaited.trouble)}", err=True)
    if as_json:
        print_json(_as_data(awaited))
    elif awaited.words:
        echo_folded(awaited.words, err=True)
    if exit_code := _EXIT_CODES[awaited.outcome]:
        raise Ended(exit_code)


def _as_data(awaited: Awaited) -> dict[str, Any]:
    rows = [
        {
            "message_id": one.message_id,
            "agent": one.agent,
            **({"holder": one.holder} if one.holder else {}),
            "state": one.state,
            **({"reason": one.reason} if one.reason else {}),
        }
        for one in awaited.messages
    ]
    return {"outcome": awaited.outcome, "messages": rows}
