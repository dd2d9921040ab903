"""`ackd bus post`: one message onto a bus, checked, by one write, its events raised. Needs no daemon.

Owns how a payload is said on a command line: as JSON, as ``KEY=VALUE``, or both. Described (shape.py), because hooks
call it all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.frontends.cli.errors import BAD_DATA, Failure, WrongUsage, accepted, creating
from ackd.frontends.cli.output import echo, print_json, printable
from ackd.frontends.cli.shape import Command, Operand, Option
from ackd.frontends.cli.tracks import TRACK, choose_track
from ackd.frontends.cli.whose import agent_here

if TYPE_CHECKING:
    from ackd.site import Site


def post(
    site: Site,
    as_json: bool,
    words: tuple[str, ...],
    source: str | None,
    task: str | None,
    payload: tuple[str, ...],
    track: str | None,
) -> None:
    from ackd.bus import Bus, check

    kind, *pairs = words
    who = source or agent_here(site)
    if not who:
        raise WrongUsage("who says it? Say --source NAME, or set ACKD_AGENT")
    kind = kind.upper()
    check_type(kind)
    said = _payload(kind, (*payload, *pairs), task)
    check(kind, who, said)  # before a bus is made for it
    bus = Bus(choose_track(site, track, make=True))
    with creating(bus.track.bus):
        message_id = bus.post(kind, who, said)
    with accepted(f"{message_id} is posted"):
        if as_json:
            print_json({"message_id": message_id, "track": bus.track.name, "bus": bus.track.bus})
        else:
            echo(printable(f"posted {message_id} to {bus.track.name}"))


def check_type(kind: str) -> None:
    from ackd.dialects.bus import TYPES

    if kind not in TYPES:
        import difflib

        near = difflib.get_close_matches(kind, TYPES, n=1)
        hint = f": did you mean {near[0]}?" if near else f"; known are {', '.join(TYPES)}"
        raise Failure(BAD_DATA, f"unknown type {kind!r}{hint}")


def _payload(kind: str, given: tuple[str, ...], task: str | None) -> dict[str, object]:
    """What is said later replaces what was said before."""
    from ackd.dialects.bus import from_text

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


POST: Final = Command(
    "bus post",
    "Post a message to a bus. TYPE is one of PROGRESS, TASK_COMPLETE, TASK_FAILED, FILE_LOCK, FILE_UNLOCK, BLOCKED, "
    "BOARD_ASSESS, BOARD_DISCUSS, BOARD_VOTE, BOARD_RESOLVE; the payload is given as KEY=VALUE, as JSON, or both.",
    Operand("words", "TYPE [KEY=VALUE...]", several=True),
    (
        Option("--source", "source", metavar="NAME", help="Who says it (default: ACKD_AGENT, or this pane's)."),
        Option("--task", "task", metavar="ID", help="The payload's task_id."),
        Option("--payload", "payload", several=True, metavar="JSON|KEY=VALUE", help="May be given again."),
        TRACK,
    ),
    post,
)
