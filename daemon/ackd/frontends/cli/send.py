"""`ackd send` and `ackd reply`: a message into the queues of its recipients, durably, or nothing at all.

Owns the order: everything is checked (recipients, type, body, size) before the first byte is written; then one file for
each recipient, none visible before all are written. Says "queued", because that is all that is known; `--wait` asks the
session log for more. Needs no daemon.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import os
import re
import time
from typing import Final, NamedTuple

from ackd.core.errors import BadBody, BadMessage, UnknownAgent
from ackd.core.names import USER, agent_name, identity
from ackd.core.words import KNOWN_TYPES, accepted_types
from ackd.frontends.cli.errors import BAD_DATA, NOT_FOUND, Failure, WrongUsage, accepted, creating
from ackd.frontends.cli.output import echo, print_json, read_stdin
from ackd.frontends.cli.shape import AGENT, Command, Operand, Option
from ackd.frontends.cli.whose import agent_here, check_reader, holder
from ackd.site import Site

DEFAULT_WAIT_S: Final = 300.0


class Outgoing(NamedTuple):
    """What is to be sent, every name resolved and nothing yet written."""

    sender: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    type: str
    priority: str
    body: str
    thread_id: str | None = None
    in_reply_to: str | None = None
    repository: str | None = None
    issue: str | None = None

    @property
    def recipients(self) -> tuple[str, ...]:
        """Everyone once, however often and in whatever spelling they were named."""
        folded = {identity(name): name for name in reversed((*self.to, *self.cc))}
        return tuple(reversed(folded.values()))


class Queued(NamedTuple):
    message_id: str
    recipients: tuple[str, ...]
    files: tuple[str, ...]


def send(
    site: Site, as_json: bool, to: tuple[str, ...], kind: str, cc: tuple[str, ...], body: str | None,
    body_file: str | None, sender: str | None, wait: str | None, timeout: float, force: bool, **headers: str | None,
) -> None:  # fmt: skip
    names = tuple(name for name in to if name != "-")
    if not names:
        raise WrongUsage("name at least one recipient")
    if len(names) < len(to):
        if body is not None or body_file is not None:
            raise WrongUsage("- already means stdin: give no --body or --body-file with it")
        body_file = "-"
    check_type(site, kind)
    with creating():  # a root that cannot be read cannot be written to
        author, to, cc = sender_name(site, sender), _resolved(site, names), _resolved(site, cc)
    outgoing = Outgoing(
        sender=author,
        to=to,
        cc=cc,
        type=kind,
        body=checked_body(kind, read_body(site, body, body_file), force=force),
        priority=headers.pop("priority") or "normal",
        **headers,
    )
    post(site, outgoing, wait, timeout, as_json=as_json)


def reply(
    site: Site, as_json: bool, message_id: str, kind: str, body: str | None, body_file: str | None,
    priority: str, sender: str | None, agent: str | None, wait: str | None, timeout: float, force: bool,
) -> None:  # fmt: skip
    from ackd.adapters import message_lookup
    from ackd.dialects import ignite

    if agent and sender and identity(agent) != identity(sender):
        raise WrongUsage("--agent and --from are one thing for a reply: name one agent")
    check_type(site, kind)
    author, original = holder(site, message_id, agent or sender)
    head = message_lookup.read_head(original.path)
    if head is None:
        raise Failure(NOT_FOUND, f"{original.path}: has just gone")
    fields = {name.lower(): value for name, value in ignite.headers(head)}
    outgoing = Outgoing(
        sender=author,
        to=(site.resolve_agent(fields.get("from", "")),),
        cc=(),
        type=kind,
        priority=priority,
        body=checked_body(kind, read_body(site, body, body_file), force=force),
        thread_id=fields.get("x-ignite-thread-id") or original.message_id,
        in_reply_to=original.message_id,
        repository=fields.get("x-ignite-repository") or None,
        issue=fields.get("x-ignite-issue") or None,
    )
    post(site, outgoing, wait, timeout, as_json=as_json)


# --- the command lines ------------------------------------------------------------------------------------------------
_BODY_OPTIONS: Final = (
    Option(
        "--timeout", "timeout", default=DEFAULT_WAIT_S, least=0, metavar="S", show_default=True,
        help="How many seconds to --wait; then exit 75.",
    ),
    Option("--force", "force", switch=True, help="Send a body that is not what its type should have, with a warning."),
    Option("--wait", "wait", choices=("acked", "completed"), help="Wait until every recipient has."),
    Option("--from", "sender", metavar="AGENT", help="The sender (default: ACKD_AGENT, this pane's agent, or user)."),
    Option("--priority", "priority", choices=("critical", "high", "normal", "low"), default="normal"),
    Option("--body-file", "body_file", metavar="FILE", help="Read the body from a file, or from stdin (-)."),
    Option(
        "--body", "body", metavar="TEXT", help="The body: YAML, or plain text for type message. - reads stdin."
    ),
)  # fmt: skip

SEND: Final = Command(
    "send",
    "Queue a message for one or more agents. A lone - among them reads the body from stdin.",
    Operand("to", "TO... [-]", several=True),
    (
        Option("--type", "kind", default="message", metavar="TYPE", show_default=True, help="The message's type."),
        Option("--cc", "cc", several=True, metavar="AGENT", help="Someone who gets it too. May be given again."),
        Option("--thread-id", "thread_id", metavar="ID"),
        Option("--in-reply-to", "in_reply_to", metavar="ID", help="The message that this one answers."),
        Option("--repo", "repository", metavar="OWNER/NAME"),
        Option("--issue", "issue", metavar="N"),
        *_BODY_OPTIONS,
    ),
    send,
)

REPLY: Final = Command(
    "reply",
    "Answer a message: to whoever sent it, in its thread. ID is whole, a unique beginning, its hash, or a path.",
    Operand("message_id", "ID"),
    (
        Option("--type", "kind", default="message", metavar="TYPE", show_default=True, help="The answer's type."),
        AGENT,
        *_BODY_OPTIONS,
    ),
    reply,
)


# --- checking ---------------------------------------------------------------------------------------------------------
def sender_name(site: Site, given: str | None) -> str:
    """Who it is from. A sender need not be an agent of ours, but if it is, its one spelling is used."""
    name = given or agent_here(site) or USER
    try:
        return site.resolve_agent(name)
    except UnknownAgent:
        return agent_name(name, site.reserved)


def _resolved(site: Site, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(site.resolve_agent(name) for name in names)


def check_type(site: Site, kind: str) -> None:
    known = (*KNOWN_TYPES, *site.extra_types)
    if kind in known:
        return
    import difflib

    near = difflib.get_close_matches(kind, known, n=1)
    if kind in accepted_types((), site.unknown_types):
        if near:
            echo(f"ackd: unknown type {kind!r}, sent all the same: did you mean {near[0]}?", err=True)
        return
    hint = f": did you mean {near[0]}?" if near else "; extra_types in ackd.toml adds one"
    raise Failure(BAD_DATA, f"unknown type {kind!r}{hint}")


def read_body(site: Site, body: str | None, body_file: str | None) -> str:
    """The text, from wherever it was said to be. Never from stdin unasked: an agent's may stay open for ever."""
    if body is not None and body_file is not None:
        raise WrongUsage("give --body or --body-file, not both")
    if body == "-":
        body, body_file = None, "-"
    if body is not None:
        return body
    if body_file is None:
        raise WrongUsage("a message needs a body: --body TEXT, --body-file FILE, or - for stdin")
    limit = site.max_message_bytes + 1
    if body_file == "-":
        data = read_stdin(limit)
    else:
        with open(body_file, "rb") as file:  # noqa: PTH123 - pathlib is no faster to read here
            data = file.read(limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if len(data) == limit:  # cut within a character, and too large anyway
            return data.decode(errors="replace")
        raise Failure(BAD_DATA, f"the body is not UTF-8 (byte {error.start})") from None


def checked_body(kind: str, text: str, *, force: bool = False) -> str:
    """The body as it will be written, proven right for its type; or, by ``force``, only that it can be written."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of an argument that are no UTF-8; yaml would write a question mark for them
        raise Failure(BAD_DATA, "the body is not UTF-8") from None
    if kind == "message" and not _has_keys(text):
        return _as_content(text)
    from ackd.dialects import body_shapes, yaml_body

    try:
        if body_shapes.quick_check(kind, yaml_body.load(text)):
            return text
    except BadBody as error:
        if not force:
            raise
        _warn_of_body(kind, error)
        return text
    from ackd.dialects import bodies  # pydantic: only a wrong body pays for it

    wrong = BadBody(tuple(bodies.check(kind, text)))
    if not force:
        raise wrong
    _warn_of_body(kind, wrong)
    return text


def _warn_of_body(kind: str, wrong: BadBody) -> None:
    from ackd.frontends.cli.output import printable

    echo(f"ackd: the body is not what a {kind} should be, sent all the same: {printable(str(wrong))}", err=True)


def _has_keys(text: str) -> bool:
    """A body of type message as YAML says so by its keys, which are small letters; everything else, colons or not, is
    someone's words: "Note: call me"."""
    if ":" not in text:
        return False  # nearly always, and without a pattern
    begins = r"(?:[ \t]*(?:#.*)?\n|---[ \t]*\n)*+(?:\{|[\"']?[a-z_][a-z0-9_-]*[\"']?[ \t]*:(?:\s|$))"
    if re.match(begins, text) is None:
        return False
    from ackd.dialects import yaml_body

    try:
        loaded = yaml_body.load(text)
    except BadBody:
        return False
    return isinstance(loaded, dict) and bool(loaded) and all(map(_is_key, loaded))


def _is_key(key: object) -> bool:
    return isinstance(key, str) and re.fullmatch(r"[a-z_][a-z0-9_-]*", key) is not None


def _as_content(text: str) -> str:
    line = text.removesuffix("\n")
    if line.isprintable():  # one line, written by hand: yaml costs as much to import as all the rest
        quoted = line.replace("\\", "\\\\").replace('"', '\\"')
        return f'content: "{quoted}"\n'
    from ackd.dialects import yaml_body

    return yaml_body.dump({"content": text})


# --- writing ----------------------------------------------------------------------------------------------------------
def post(site: Site, outgoing: Outgoing, wait: str | None, timeout_s: float, *, as_json: bool) -> None:
    """Queue it, say so, and wait if that was asked for."""
    from ackd.adapters import root_lock

    if wait is None:
        queued = queue(site, outgoing)
        with accepted(f"{queued.message_id} is queued"):
            _report(queued, running=root_lock.holder(site.run) is not None, as_json=as_json)
        return
    from ackd.frontends.cli.waiting import Waiter

    waiter = Waiter(site, wait)  # before the first byte is written, so that no line is missed
    queued = queue(site, outgoing)
    if not as_json:
        with accepted(f"{queued.message_id} is queued"):
            _report(queued, running=True, as_json=False)
    waiter.wait(queued.message_id, queued.recipients, queued.files, timeout_s, as_json=as_json)


def queue(site: Site, outgoing: Outgoing) -> Queued:
    from ackd.adapters import maildrop
    from ackd.dialects import ignite

    now_ns = time.time_ns()
    wall = now_ns / 1e9
    message_id = ignite.bare_id(ignite.new_message_id(wall, os.getpid(), os.urandom(6)))
    data = ignite.build(
        message_id=message_id,
        sender=outgoing.sender,
        to=outgoing.to,
        cc=outgoing.cc,
        date=ignite.rfc2822_date(wall),
        type=outgoing.type,
        priority=outgoing.priority,
        body=outgoing.body,
        in_reply_to=outgoing.in_reply_to,
        thread_id=outgoing.thread_id,
        repository=outgoing.repository,
        issue=outgoing.issue,
        copies="all" if len(outgoing.recipients) > 1 else None,
        extra_types=accepted_types(site.extra_types, site.unknown_types),
    )
    if len(data) > site.max_message_bytes:
        raise BadMessage("too_large", f"{len(data)} bytes; max_message_bytes is {site.max_message_bytes}")
    recipients = outgoing.recipients
    boxes = [site.box_path(name) for name in recipients]
    names = [ignite.file_name(outgoing.type, now_ns // 1000 + number) for number in range(len(boxes))]
    items = [(box, name, data) for box, name in zip(boxes, names, strict=True)]
    check_reader(site)
    with creating(*boxes):
        for box in boxes:
            maildrop.make_box(box, fsync=site.fsync)
        return Queued(message_id, recipients, tuple(maildrop.drop_all(items, fsync=site.fsync)))


def _report(queued: Queued, *, running: bool, as_json: bool) -> None:
    if as_json:
        print_json({"message_id": queued.message_id, "files": list(queued.files), "daemon_running": running})
        return
    note = "" if running else " (not yet delivered: no daemon is running)"
    echo(f"queued {queued.message_id} for {', '.join(queued.recipients)}{note}")
