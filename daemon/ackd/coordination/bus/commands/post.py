"""`ackd bus post`: reads a message off the command line, and posts it through ``coordination/bus/door``.

A payload is given as JSON, as ``KEY=VALUE``, or both. Loaded without the rest of its group, because hooks call it
all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.command_line import argument, command, for_team
from ackd.cli.errors import BAD_DATA, Failure, WrongUsage, accepted, creating
from ackd.cli.output import echo, print_json, printable
from ackd.client.identity import agent_here
from ackd.coordination.bus.commands.tracks import TRACK, choose_track

if TYPE_CHECKING:
    from ackd.config.site import Site


@command
@argument("words", nargs="+", metavar="TYPE [KEY=VALUE...]", complete="ackd.coordination.bus.rules.words:BusType")
@argument("--source", metavar="NAME", help="The worker that posts it (default: ACKD_AGENT, or this pane's agent).")
@argument("--task", metavar="ID", help="The payload's task_id.")
@argument(
    "--payload", action="append", metavar="JSON|KEY=VALUE", help="The payload, or a field of it. May be given again."
)
@TRACK
@for_team
def post(
    site: Site,
    as_json: bool,
    words: tuple[str, ...],
    source: str | None,
    task: str | None,
    payload: tuple[str, ...],
    track: str | None,
) -> None:
    """Post a message to a bus. TYPE is one of PROGRESS, TASK_COMPLETE, TASK_FAILED, FILE_LOCK, FILE_UNLOCK, BLOCKED,
    BOARD_ASSESS, BOARD_DISCUSS, BOARD_VOTE, BOARD_RESOLVE; the payload is given as KEY=VALUE, as JSON, or both."""
    from ackd.coordination.bus.door import BusDoor, check_message, check_type

    kind, *pairs = words
    who = source or agent_here(site)
    if not who:
        raise WrongUsage("the sender is not known: say --source NAME, or set ACKD_AGENT")
    kind = kind.upper()
    check_type(kind)  # before the payload, which is read by its type
    said = _payload(kind, (*payload, *pairs), task)
    check_message(kind, who, said)  # before the message causes a bus to be made
    where = choose_track(site, track, make=True)
    with creating(where.bus):
        posted = BusDoor(site).post(kind, who, said, track=where)
    with accepted(f"{posted.message_id} is posted"):
        if as_json:
            print_json({"message_id": posted.message_id, "track": where.name, "bus": where.bus})
        else:
            echo(printable(f"posted {posted.message_id} to {where.name}"))


def _payload(kind: str, given: tuple[str, ...], task: str | None) -> dict[str, object]:
    """The payload; a later value for a key replaces an earlier one."""
    from ackd.coordination.bus.wire import from_text

    said: dict[str, object] = {} if task is None else {"task_id": task}
    for text in given:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            said.update(_object(text))
        elif equals and key:
            said[key] = from_text(kind, key, value)
        else:
            raise WrongUsage(f"{text!r} is neither KEY=VALUE nor a JSON object")
    return said


def _object(text: str) -> dict[str, object]:
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(BAD_DATA, f"the payload is no JSON: {error}") from None
    assert isinstance(found, dict)
    return found
