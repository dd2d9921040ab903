"""`ackd explain ID`: print the whole history of one message, for people or as JSON.

client/explain.py gathers the history; it works with and without a daemon, and for a message that no daemon has met yet.
Exit 66 for an unknown message, 2 for a beginning that fits several messages, which are then listed.
"""

from __future__ import annotations

import heapq
import os
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ackd import facts
from ackd.cli.command_line import argument, command, for_team, shows_content
from ackd.cli.errors import USAGE, Failure
from ackd.cli.index_notice import announce_building
from ackd.cli.output import echo, print_json
from ackd.cli.table import NARROW_COLUMNS, folded_under, terminal_width
from ackd.client import Client
from ackd.client.agent_lines import attempt_words
from ackd.client.message_history import RECEIPTS, recipient_of
from ackd.core.agent_facts import child_ended, child_restart, child_started, worker_state
from ackd.core.errors import AmbiguousMessage
from ackd.core.message_facts import (
    message_claimed,
    message_requeued,
    message_retry,
    message_seen,
    message_told,
    task_start,
    worker_assign,
    worker_release,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackd.client.message_history import MessageHistory, ReceiptProof, RecipientHistory
    from ackd.config.site import Site
    from ackd.storage.session_log import Line

_STATE_STYLE: Final = {
    "completed": facts.GREEN,
    "acked": facts.GREEN,
    "retrying": facts.YELLOW,
    "cancelling": facts.YELLOW,
    "dead": facts.RED,
    "cancelled": facts.RED,
}
_HAS_REASON: Final = frozenset({"retrying", "dead", "cancelled", "withdrawn"})
#: The lines of one try to have a message done, which look alike each time.
_OF_A_TRY: Final = frozenset(
    one.type
    for one in (
        message_claimed,
        message_told,
        message_seen,
        message_retry,
        worker_assign,
        worker_release,
        task_start,
        child_started,
        child_ended,
        child_restart,
    )
)
_OPTIONAL_HEADERS: Final = (
    ("task_id", "task"),
    ("thread_id", "thread"),
    ("in_reply_to", "in reply to"),
    ("part_of", "part of"),
    ("expires", "expires"),
    ("deadline", "due"),
)


@command
@argument("message", metavar="ID")
@argument("--tree", action="store_true", help="Show the message and all that came of it, as `ackd thread` does.")
@shows_content
@for_team
def explain(message: str, tree: bool, site: Site, as_json: bool) -> None:
    """Tell the whole story of a message.

    ID is a Message-ID, its part before the @, any beginning that fits one message only, its hash (the third dotted
    part, or the first four or more characters of that, as `run` and `tail` show it), or the path of a message file.

    Exit codes: 0 told, 2 the beginning fits several messages (they are listed), 66 no such message.
    """
    announce_building()
    try:
        if tree:
            from ackd.cli.thread import show

            show(Client.at(site).thread(message, whole=False), as_json=as_json)
            return
        history = Client.at(site).explain(message)
    except AmbiguousMessage as error:
        raise Failure(USAGE, _candidates(error)) from None
    if as_json:
        print_json(as_data(history), indent=2)
        return
    colour = facts.colour_wanted(sys.stdout)
    facts.never_choke(sys.stdout)
    for line in as_lines(history, colour=colour, width=terminal_width(sys.stdout)):
        echo(line, colour=colour)


def _candidates(error: AmbiguousMessage) -> str:
    shown, more = error.candidates[:20], len(error.candidates) - 20
    lines = [f"{facts.visible(error.prefix)} fits {len(error.candidates)} messages:"]
    lines += [f"  {facts.visible(one)}" for one in shown]
    return "\n".join(lines + ([f"  and {more} more"] if more > 0 else []))


# --- for programs -----------------------------------------------------------------------------------------------------
def as_data(history: MessageHistory) -> dict[str, Any]:
    return {
        "message_id": history.message_id,
        "state": history.state,
        **history.header,
        "to": [one.agent for one in history.recipients],
        "receipts": [_receipt(proven) for proven in history.receipts],
        "recipients": [_recipient(one) for one in history.recipients],
        "answers": list(history.answers),
        "events": [_event(line) for line in history.events],
        "around": [_event(line) for line in history.around],
    }


def _receipt(proven: ReceiptProof) -> dict[str, str]:
    return {"receipt": proven.receipt, "at": proven.at, "agent": proven.agent, "proof": proven.proof}


def _recipient(one: RecipientHistory) -> dict[str, Any]:
    extra = {
        "reason": one.reason,
        "holder": one.holder or None,
        "held": one.held or None if one.state == "queued" else None,
        "next_retry_after": one.next_retry_after if one.state == "retrying" else None,
    }
    return {
        "agent": one.agent,
        "state": one.state,
        "not_proven": list(one.missing),
        "path": os.fsencode(one.path).decode(errors="replace") if one.path else None,
        "next": one.next or None,
        "note": one.note or None,
        **{key: value for key, value in extra.items() if value is not None},
        **({"care": dict(one.attempts)} if one.attempts else {}),
    }


def _event(line: Line) -> dict[str, Any]:
    return {
        "timestamp": line.timestamp,
        "session_id": line.session_id,
        "seq": line.seq,
        "writer": line.writer,
        "type": line.type,
        "data": line.data,
    }


# --- for people -------------------------------------------------------------------------------------------------------
def as_lines(history: MessageHistory, *, colour: bool, width: int = 0) -> Iterator[str]:
    """Draw the history. On a terminal of ``width`` cells lines are folded between words; 0: they are as long as need
    be."""
    yield facts.visible(history.message_id)
    yield from folded_under(_header_words(history), "  ", "  ", width)
    if not history.recipients:
        yield from folded_under(
            "nobody has it: no file of it is left, and the logs tell only of its answers", "  ", "  ", width
        )
    for one in history.recipients:
        yield ""
        yield from _recipient_lines(one, colour=colour, width=width)
    if history.answers:
        yield ""
        yield from folded_under(f"answered by {', '.join(map(facts.short_id, history.answers))}", "", "  ", width)
    yield ""
    yield from _timeline(history, colour=colour, width=width)


def _header_words(history: MessageHistory) -> str:
    head = {key: facts.visible(value) for key, value in history.header.items()}
    to = ", ".join(facts.visible(one.agent) for one in history.recipients) or "?"
    words = [f"{head.get('from', '?')} → {to}", head.get("type", "?"), head.get("priority", "?")]
    words += [f"{label} {head[key]}" for key, label in _OPTIONAL_HEADERS if key in head]
    return ", ".join(words)


def _row(parts: Sequence[tuple[str, str]], words: str, *, colour: bool, width: int) -> Iterator[str]:
    """Yield the columns (texts and their styles) and the words, which are folded below their own beginning, or, where
    that leaves them no room, below the columns."""
    beside = sum(facts.cells(text) + 2 for text, _ in parts)
    rest = " " * (beside if width >= NARROW_COLUMNS else 4)
    first, *more = folded_under(words, " " * beside, rest, width)
    columns = "".join(f"{facts.paint(text, style) if colour else text}  " for text, style in parts)
    yield f"{columns}{first[beside:]}".rstrip()
    yield from more


def _recipient_lines(one: RecipientHistory, *, colour: bool, width: int) -> Iterator[str]:
    style = _STATE_STYLE.get(one.state, facts.CYAN)
    why = f": {facts.visible(one.reason)}" if one.reason and one.state in _HAS_REASON else ""
    first, *more = folded_under(f"{facts.visible(one.name)}: {one.state}{why}", "", "  ", width)
    yield first.replace(f": {one.state}", f": {facts.paint(one.state, style)}", 1) if colour else first
    yield from more
    rows = [(receipt, _proof_words(one.proof_of(receipt), colour=colour)) for receipt in RECEIPTS]
    rows += [("by ackd", attempt_words(one.attempts))] if one.attempts else []
    rows += [("note", one.note)] if one.note else []
    rows += [("file", facts.visible(str(one.path)) if one.path else "not on disk any more")]
    rows += [("next", one.next)] if one.next else []
    for name, words in rows:
        yield from _row([(f"  {name:9}", facts.PLAIN)], words, colour=colour, width=width)


def _proof_words(proven: ReceiptProof | None, *, colour: bool) -> str:
    if proven is None:
        return facts.paint("no proof", facts.DIM) if colour else "no proof"
    at = datetime.fromisoformat(proven.at).timestamp()
    return f"{facts.clock_time(at)}  {facts.visible(proven.proof)}"


def _folded(lines: Sequence[Line]) -> Iterator[tuple[Line, int]]:
    """Yield the lines, with the tries after an agent's first that ended in a retry as one: the last retry, and how many
    tries it stands for. A requeue begins anew. What else happened meanwhile stays."""
    left_out: set[int] = set()
    standing_for: dict[int, int] = {}
    for retries in _retries(lines):
        whom = facts.agent_of(lines[retries[0]])
        tried = range(retries[0] + 1, retries[-1] + 1)
        left_out |= {n for n in tried if lines[n].type in _OF_A_TRY and facts.agent_of(lines[n]) == whom}
        standing_for[retries[-1]] = len(retries) - 1
    for number, line in enumerate(lines):
        if number in standing_for or number not in left_out:
            yield line, standing_for.get(number, 0)


def _retries(lines: Sequence[Line]) -> Iterator[list[int]]:
    """Yield the places of the retries of each agent in each life of the message, if there are several."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if line.type == message_retry.type:
            found.setdefault(facts.agent_of(line), []).append(number)
        elif line.type == message_requeued.type:
            yield from filter(_several, [found.pop(facts.agent_of(line), [])])
    yield from filter(_several, found.values())


def _several(retries: list[int]) -> bool:
    return len(retries) > 1


def _timeline(history: MessageHistory, *, colour: bool, width: int) -> Iterator[str]:
    if not history.events:
        return
    started = history.events[0].at
    several = len({facts.agent_of(line) for line in history.events if recipient_of(line)}) > 1
    yield time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
    for line, more in _folded(list(heapq.merge(history.events, history.around, key=lambda line: line.at))):
        if line.type == worker_state.type and line.data.get("passed") is True:
            continue  # a state that nobody reported: --json and `ackd tail` have it
        look = facts.look_of(line.type)
        again = f"{more} more {'try' if more == 1 else 'tries'}, the last: " if more else ""
        parts = [
            (f"  +{facts.duration(max(0.0, line.at - started)):8}", facts.DIM),
            (f"{facts.visible(look.kind):10}", look.style),
        ]
        if several:
            parts.append((f"{facts.visible(facts.agent_of(line)):10}", facts.PLAIN))
        yield from _row(parts, f"{again}{facts.words(line)}", colour=colour, width=width)
