"""`ackd explain ID`: the whole story of one message, from the session logs and the disk.

Owns the command and its two outputs. What the lines mean is story_of_message.py's, where files lie is the lookup's.
Works with and without a daemon, and for a message that no daemon has met yet. Exit 66 for a message nobody knows, 2 for
a beginning that fits several, which are then listed.
"""

from __future__ import annotations

import heapq
import os
import re
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.adapters import message_lookup, root_lock, session_log
from ackd.core import message_ids
from ackd.core.errors import AmbiguousMessage, UnknownMessage
from ackd.core.message import Folder
from ackd.frontends import care, facts
from ackd.frontends.agent_states import last_agent_state
from ackd.frontends.cli.errors import USAGE, Failure
from ackd.frontends.cli.options import site_options
from ackd.frontends.cli.output import print_json
from ackd.frontends.story_of_message import (
    RECEIPTS,
    Course,
    Proven,
    Story,
    corrected,
    from_disk_alone,
    next_step,
    story,
    stray,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ackd.adapters.message_lookup import Found, Stray
    from ackd.adapters.session_log import Line
    from ackd.frontends.cli.site import Site

_STATE_STYLE: Final = {"completed": facts.GREEN, "acked": facts.GREEN, "retrying": facts.YELLOW, "dead": facts.RED}
_HAS_REASON: Final = frozenset({"retrying", "dead", "withdrawn"})
_OPTIONAL_HEADERS: Final = (("task_id", "task"), ("thread_id", "thread"), ("in_reply_to", "in reply to"))
_HEADERS: Final = (("from", rb"from"), ("type", rb"x-ignite-type"), ("priority", rb"x-ignite-priority"))


@dataclass(frozen=True, slots=True)
class Told:
    """One recipient's course, with what the disk and the clock add to it, and how often what was done for it."""

    course: Course
    path: Path | None
    next: str
    care: Mapping[str, int] = field(default_factory=dict)


@click.command("explain")
@click.argument("message", metavar="ID")
@site_options
def explain(message: str, site: Site, as_json: bool) -> None:
    """Tell the whole story of a message.

    ID is a Message-ID, its part before the @, any beginning that fits one message only, its hash (the third dotted
    part, or the first four or more characters of that, as `run` and `tail` show it), or the path of a message file.

    Exit codes: 0 told, 2 the beginning fits several messages (they are listed), 66 no such message.
    """
    try:
        message_id = find_id(site, message)
    except AmbiguousMessage as error:
        raise Failure(USAGE, _candidates(error)) from None
    told_story, recipients = gather(site, message_id, time.time())
    if as_json:
        print_json(as_data(told_story, recipients), indent=2)
        return
    colour = facts.colour_wanted(sys.stdout)
    facts.never_choke(sys.stdout)
    for line in as_lines(told_story, recipients, colour=colour):
        click.echo(line, color=colour)


def _candidates(error: AmbiguousMessage) -> str:
    shown, more = error.candidates[:20], len(error.candidates) - 20
    lines = [f"{facts.visible(error.prefix)} fits {len(error.candidates)} messages:"]
    lines += [f"  {facts.visible(one)}" for one in shown]
    return "\n".join(lines + ([f"  and {more} more"] if more > 0 else []))


# --- finding ----------------------------------------------------------------------------------------------------------
def find_id(site: Site, wanted: str) -> str:
    """The one id that is meant, among those in the logs and those on disk. Raises UnknownMessage, AmbiguousMessage."""
    bare = wanted.strip().removeprefix("<").removesuffix(">")
    ids = session_log.matching_ids(site.logs, bare)
    if bare in ids:
        return bare
    try:
        on_disk = {one.message_id for one in message_lookup.find(site.root, bare)}
    except UnknownMessage:
        on_disk = set()
    except AmbiguousMessage as error:
        on_disk = set(error.candidates)
    if not ids and not on_disk:
        on_disk = {one.message_id for one in _strays(site, bare) if one.message_id}
    if len(on_disk) == 1 and not message_ids.fits(bare, next(iter(on_disk))):
        return on_disk.pop()  # it was the path of a file
    return session_log.choose_id(bare, ids | on_disk)


def _strays(site: Site, wanted: str, agent: str | None = None) -> list[Stray]:
    """Those that bear the id that is meant, or lie under that path."""
    found = message_lookup.strays(site.root, time.time(), agent)
    return [one for one in found if one.message_id and (message_ids.fits(wanted, one.message_id) or _is(one, wanted))]


def _is(one: Stray, wanted: str) -> bool:
    return "/" in wanted and os.path.abspath(wanted) == os.path.abspath(one.path)  # noqa: PTH100


def gather(site: Site, message_id: str, now: float) -> tuple[Story, tuple[Told, ...]]:
    """Everything that logs and disk know of a message."""
    try:
        lines = session_log.find_message_lines(site.logs, message_id)
    except UnknownMessage:
        lines = []
    known = story(lines, message_id)
    if not known.courses:
        known = _from_disk(site, known)
    known = replace(known, around=care.lines_around(site.logs, known))
    daemon_runs = root_lock.holder(site.run) is not None
    told = []
    for course in known.courses:
        found = whereabouts(site.root, message_id, course)
        course_now = corrected(course, found.folder if found else None)
        step = next_step(
            course_now,
            message_id,
            now=now,
            agent_state=last_agent_state(site.logs, course.agent),
            daemon_runs=daemon_runs,
        )
        done = care.counts((*known.events, *known.around), course.agent)
        path = found.path if found else _path_of_stray(site, message_id, course)
        told.append(Told(course_now, path, step, done))
    return replace(known, courses=tuple(one.course for one in told)), tuple(told)


def _path_of_stray(site: Site, message_id: str, course: Course) -> Path | None:
    if course.state != "stray":
        return None
    return next((one.path for one in _strays(site, message_id, course.agent)), None)


def _from_disk(site: Site, known: Story) -> Story:
    try:
        files = message_lookup.find(site.root, known.message_id)
    except UnknownMessage:
        lying = _strays(site, known.message_id)
        head = (message_lookup.read_head(lying[0].path) or b"") if lying else b""
        return replace(known, courses=tuple(stray(one.box) for one in lying), header=_headers(head))
    head = message_lookup.read_head(files[0].path) or b""
    courses = tuple(from_disk_alone(one.box, one.folder) for one in files)
    return replace(known, courses=courses, header=_headers(head))


def _headers(head: bytes) -> dict[str, str]:
    block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    found = {key: re.search(rb"(?mi)^" + name + rb":[ \t]*([^\r\n]*)", block) for key, name in _HEADERS}
    return {key: match[1].decode(errors="replace").strip() for key, match in found.items() if match}


def whereabouts(root: Path, message_id: str, course: Course) -> Found | None:
    """The recipient's file, if there is one."""
    look: tuple[Callable[[], Found | None], ...] = (
        lambda: _by_id(root, message_id, course.agent, (*message_lookup.LIVE, Folder.DEAD)),
        lambda: _archived_by_name(root, message_id, course),
        lambda: _by_id(root, message_id, course.agent, (Folder.ARCHIVE,)),
    )
    return next((found for one in look if (found := one()) is not None), None)


def _by_id(root: Path, message_id: str, agent: str, folders: tuple[Folder, ...]) -> Found | None:
    try:
        return message_lookup.find(root, message_id, agent=agent, folders=folders)[0]
    except UnknownMessage:
        return None


def _archived_by_name(root: Path, message_id: str, course: Course) -> Found | None:
    """By the name that the log gives: the archive may hold a month of mail, too much to open it all."""
    name = (course.file or "").rpartition("/")[2]
    if not name:
        return None
    for path in (day / box / name for day in _days(root) for box in {course.agent, course.agent.replace("-", "_")}):
        if message_id.encode() in (message_lookup.read_head(path) or b""):
            return message_lookup.Found(message_id, course.agent, Folder.ARCHIVE, path)
    return None


def _days(root: Path) -> list[Path]:
    return sorted((root / "archive").glob("[0-9]*"), reverse=True)


# --- for programs -----------------------------------------------------------------------------------------------------
def as_data(known: Story, recipients: tuple[Told, ...]) -> dict[str, Any]:
    return {
        "message_id": known.message_id,
        "state": known.state,
        **known.header,
        "to": [one.course.agent for one in recipients],
        "receipts": [_receipt(proven) for one in recipients for proven in one.course.receipts],
        "recipients": [_recipient(one) for one in recipients],
        "answers": list(known.answers),
        "events": [_event(line) for line in known.events],
        "around": [_event(line) for line in known.around],
    }


def _receipt(proven: Proven) -> dict[str, str]:
    return {"receipt": proven.receipt, "at": proven.at, "agent": proven.agent, "proof": proven.proof}


def _recipient(one: Told) -> dict[str, Any]:
    course = one.course
    extra = {
        "reason": course.reason,
        "held": course.held or None if course.state == "queued" else None,
        "next_retry_after": course.next_retry_after if course.state == "retrying" else None,
    }
    return {
        "agent": course.agent,
        "state": course.state,
        "not_proven": list(course.missing),
        "path": os.fsencode(one.path).decode(errors="replace") if one.path else None,
        "next": one.next or None,
        "note": course.note or None,
        **{key: value for key, value in extra.items() if value is not None},
        **({"care": dict(one.care)} if one.care else {}),
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
def as_lines(known: Story, recipients: tuple[Told, ...], *, colour: bool) -> Iterator[str]:
    yield facts.visible(known.message_id)
    yield f"  {_header_words(known, recipients)}"
    if not recipients:
        yield "  nobody has it: no file of it is left, and the logs tell only of its answers"
    for one in recipients:
        yield ""
        yield from _recipient_lines(one, colour=colour)
    if known.answers:
        yield ""
        yield f"answered by {', '.join(map(facts.short_id, known.answers))}"
    yield ""
    yield from _timeline(known, colour=colour)


def _header_words(known: Story, recipients: tuple[Told, ...]) -> str:
    head = {key: facts.visible(value) for key, value in known.header.items()}
    to = ", ".join(facts.visible(one.course.agent) for one in recipients) or "?"
    words = [f"{head.get('from', '?')} → {to}", head.get("type", "?"), head.get("priority", "?")]
    words += [f"{label} {head[key]}" for key, label in _OPTIONAL_HEADERS if key in head]
    return ", ".join(words)


def _recipient_lines(one: Told, *, colour: bool) -> Iterator[str]:
    course = one.course
    style = _STATE_STYLE.get(course.state, facts.CYAN)
    state = facts.paint(course.state, style) if colour else course.state
    why = f": {facts.visible(course.reason)}" if course.reason and course.state in _HAS_REASON else ""
    yield f"{facts.visible(course.agent)}: {state}{why}"
    for receipt in RECEIPTS:
        yield f"  {receipt:9}  {_proof_words(course.proof_of(receipt), colour=colour)}"
    if one.care:
        yield f"  {'by ackd':9}  {care.words(one.care)}"
    if course.note:
        yield f"  {'note':9}  {course.note}"
    yield f"  {'file':9}  {facts.visible(str(one.path)) if one.path else 'not on disk any more'}"
    if one.next:
        yield f"  {'next':9}  {one.next}"


def _proof_words(proven: Proven | None, *, colour: bool) -> str:
    if proven is None:
        return facts.paint("no proof", facts.DIM) if colour else "no proof"
    at = datetime.fromisoformat(proven.at).timestamp()
    return f"{facts.clock_time(at)}  {facts.visible(proven.proof)}"


def _timeline(known: Story, *, colour: bool) -> Iterator[str]:
    if not known.events:
        return
    started = known.events[0].at
    several = len(known.courses) > 1
    yield time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
    for line in heapq.merge(known.events, known.around, key=lambda line: line.at):
        look = facts.look_of(line.type)
        agent = facts.visible(facts.agent_of(line)) if several else ""
        parts = [
            (f"  +{facts.duration(max(0.0, line.at - started)):8}", facts.DIM),
            (f"{facts.visible(look.kind):10}", look.style),
            (f"{agent:10}" if several else "", facts.PLAIN),
            (facts.words(line), facts.PLAIN),
        ]
        yield facts.joined([part for part in parts if part[0]], colour=colour)
