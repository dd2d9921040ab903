"""`ackd thread ID`: print a message and all that came of it as a tree, with states, times and who waits for whom.

`ackd explain --tree` prints the same for one branch. Lines are folded to the terminal's width; into a pipe they go
whole. Exit 66 for an unknown message, 2 for a beginning that fits several messages.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from ackd import facts
from ackd.cli.command_line import argument, command, for_team
from ackd.cli.output import echo, print_json
from ackd.client import Client
from ackd.client.message_history import OVER
from ackd.core.escalations import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ackd.client.threads import Thread, ThreadMessage, ThreadRecipient
    from ackd.config.site import Site

_STYLES: Final = {"completed": facts.GREEN, "acked": facts.GREEN, "retrying": facts.YELLOW, "dead": facts.RED}
#: A tree that is deeper than a third of the width is drawn no further to the right.
_DEEPEST_SHARE: Final = 3


@command
@argument("message", metavar="ID")
@for_team
def thread(message: str, site: Site, as_json: bool) -> None:
    """Show a message's whole thread: from its first message on, all that came of it.

    A message comes of another as its part (`ackd send --part-of`) or as an answer (`ackd reply`). ID is whole, a unique
    beginning, its hash, or a path.

    Exit codes: 0 shown, 2 the beginning fits several messages, 66 no such message.
    """
    show(Client.at(site).thread(message), as_json=as_json)


def show(found: Thread, *, as_json: bool) -> None:
    if as_json:
        print_json(as_data(found), indent=2)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    colour = facts.colour_wanted(sys.stdout)
    facts.never_choke(sys.stdout)
    for line in as_lines(found, width=width, now=time.time(), colour=colour):
        echo(line, colour=colour)


# --- for programs -----------------------------------------------------------------------------------------------------
def as_data(found: Thread) -> dict[str, Any]:
    return {
        "message_id": found.asked,
        "root": found.root,
        "states": _counts(found.messages[1:]),
        "messages": [_message(one) for one in found.messages],
    }


def _message(one: ThreadMessage) -> dict[str, Any]:
    return {
        "message_id": one.message_id,
        "parent": one.parent,
        "how": one.how,
        "depth": one.depth,
        "from": one.sender,
        "type": one.type,
        "recipients": [_recipient(to) for to in one.recipients],
    }


def _recipient(to: ThreadRecipient) -> dict[str, Any]:
    return {
        "agent": to.agent,
        **({"holder": to.holder} if to.holder else {}),
        "state": to.state,
        "queued_at": stamp(to.queued_at) if to.queued_at is not None else None,
        "since": stamp(to.since) if to.since is not None else None,
        "reason": to.reason,
        "waits_for": list(to.waits_for),
    }


def _counts(messages: Sequence[ThreadMessage]) -> dict[str, int]:
    """Count the recipients of messages by their states."""
    found: dict[str, int] = {}
    for one in messages:
        for to in one.recipients:
            found[to.state] = found.get(to.state, 0) + 1
    return found


# --- for people -------------------------------------------------------------------------------------------------------
def as_lines(found: Thread, *, width: int, now: float, colour: bool) -> Iterator[str]:
    """Draw the tree. ``width`` 0: as wide as need be."""
    first = found.messages[0]
    more = _last_ones(found.messages)
    deepest = max(1, width // _DEEPEST_SHARE // 3) if width else len(found.messages)
    #: For each depth, whether a line to a later message of that depth must be drawn past the present one.
    lines: list[bool] = []
    for number, one in enumerate(found.messages):
        del lines[one.depth :]
        lines += [False] * (one.depth - len(lines))
        lines.append(more[number])
        shown = [mark for depth, mark in enumerate(lines) if depth and depth <= deepest]
        has_children = number + 1 < len(found.messages) and found.messages[number + 1].depth > one.depth
        past = "".join("│  " if mark else "   " for mark in shown)
        here = past[:-3] + ("├─ " if shown[-1] else "└─ ") if shown else ""
        under = past + ("│  " if has_children and one.depth < deepest else "   ")
        mark = "  (asked for)" if one.message_id == found.asked and one is not first else ""
        yield from _folded(f"{_head(one, whole=one is first)}{mark}", here, under, width)
        for to in one.recipients:
            for line in _folded(_state(to, now), under, under, width):
                yield _painted(line, to.state) if colour else line
    yield from _folded(_sum(found), "", "", width)


def _last_ones(messages: Sequence[ThreadMessage]) -> list[bool]:
    """Return for each message whether another of the same depth and parent follows it."""
    follows: list[bool] = []
    open_depths: set[int] = set()
    for one in reversed(messages):
        open_depths = {depth for depth in open_depths if depth <= one.depth}
        follows.append(one.depth in open_depths)
        open_depths.add(one.depth)
    return follows[::-1]


def _head(one: ThreadMessage, *, whole: bool) -> str:
    name = facts.short_id(one.message_id) if whole else facts.tiny_id(one.message_id)
    to = ", ".join(facts.visible(each.agent) for each in one.recipients) or "nobody"
    how = f"{one.how}, " if one.how else ""
    return f"{name} {how}{facts.visible(one.type or '?')}, {facts.visible(one.sender or '?')} → {to}"


def _state(to: ThreadRecipient, now: float) -> str:
    words = f"{facts.visible(to.agent)}{f' ({facts.visible(to.holder)})' if to.holder else ''}: {to.state}"
    if to.since is not None and to.state in OVER:
        after = f" after {facts.duration(max(0.0, to.since - to.queued_at))}" if to.queued_at is not None else ""
        words += f"{after} at {facts.clock_time(to.since)}"
    elif to.since is not None:
        words += f" for {facts.duration(max(0.0, now - to.since))}"
    if to.reason:
        words += f": {facts.visible(to.reason)}"
    if to.waits_for:
        words += f", waits for {', '.join(map(facts.visible, to.waits_for))}"
    return words


def _painted(line: str, state: str) -> str:
    return line.replace(f": {state}", f": {facts.paint(state, _STYLES.get(state, facts.CYAN))}", 1)


def _sum(found: Thread) -> str:
    came = found.messages[1:]
    if not came:
        return "nothing came of it"
    counts = _counts(came)
    recipients = sum(counts.values())
    several = f", for {recipients} recipients" if recipients > len(came) else ""
    return f"{len(came)} came of it{several}: {', '.join(f'{number} {state}' for state, number in counts.items())}"


def _folded(text: str, first: str, rest: str, width: int) -> Iterator[str]:
    """Fold a text between words to the width; a word that is too long is broken."""
    if not width:
        yield first + text
        return
    before, line = first, ""
    for word in text.split(" "):
        room = max(1, width - facts.cells(before))
        if line and facts.cells(line) + 1 + facts.cells(word) > room:
            yield before + line
            before, line, room = rest, "", max(1, width - facts.cells(rest))
        left = f"{line} {word}" if line else word
        while facts.cells(left) > room:
            taken = _fitting(left, room)
            yield before + left[:taken]
            before, left, room = rest, left[taken:], max(1, width - facts.cells(rest))
        line = left
    if line:
        yield before + line


def _fitting(text: str, room: int) -> int:
    """Return how many characters fit, at least one."""
    taken = 1
    while taken < len(text) and facts.cells(text[: taken + 1]) <= room:
        taken += 1
    return taken
