"""Sending: a message into the queues of its recipients, durably, or nothing at all.

Everything is checked (type, recipients, body, size) before the first byte is written. Then each recipient gets a file,
and none is visible before all are written. A message that is queued stays queued, whatever waiting for it comes to:
after that point nothing here raises. No daemon is needed.

Fails with ``UnknownType``, ``UnknownAgent``, ``BadName``, ``BadText``, ``BadBody``, ``BadLabels``, ``BadMessage``,
``CannotWrite``; a reply also with ``NoSpeaker``, ``NotHolder``, ``UnknownMessage``, ``AmbiguousMessage``,
``MessageGone``.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import os
import re
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ackd.client.errors import BadText, MessageGone, UnknownType
from ackd.client.identity import holder, sending_as
from ackd.client.writing import check_reader, creating
from ackd.config.site import Site
from ackd.core.errors import BadBody, BadMessage
from ackd.core.names import identity
from ackd.core.words import KNOWN_TYPES, accepted_types

DEFAULT_WAIT_S: Final = 300.0
#: How far a message can be waited for, each with what every recipient has then done; whoever is further counts, too.
WAIT_STAGES: Final[Mapping[str, str]] = {
    "told": "was told of it",
    "seen": "has seen it",
    "acked": "has acked it",
    "completed": "has completed it",
}

#: A body, or a function that reads one. It is called after the names were checked, so that nobody types a page for a
#: recipient who does not exist.
Body = str | Callable[[], str]


class RecipientState(NamedTuple):
    """The state of the message with one recipient, as far as the session log proves it.

    ``receipts``: pairs of a receipt (queued, claimed, told, seen, acked, completed) with its time and its proof.
    """

    agent: str
    state: str
    reason: str | None = None
    receipts: tuple[tuple[str, str, str], ...] = ()
    #: For a message to a pool: the member that has it, or had it when it ended.
    holder: str = ""


class Waited(NamedTuple):
    """The end of a wait. ``outcome`` is one of:

    done       every recipient has come as far with it as was asked
    failed     a recipient never will: the message is dead, withdrawn or rejected
    timeout    the time was over first, or the log could not be read (``trouble``)
    no daemon  none came, or the one there was went away

    After the last two the message goes on without the caller; ``words`` says how far it has come.
    """

    outcome: str
    recipients: Mapping[str, RecipientState]
    words: str = ""
    trouble: str = ""


class Sent(NamedTuple):
    """A message that is queued. ``waited`` is None if nothing was waited for."""

    message_id: str
    recipients: tuple[str, ...]
    files: tuple[str, ...]
    daemon_running: bool = False
    #: ackd.toml is not what the running daemon has read.
    config_differs: bool = False
    warnings: tuple[str, ...] = ()
    waited: Waited | None = None
    #: Sent once, and sent before: recipients to whom nothing was sent now.
    repeated: tuple[str, ...] = ()
    sender: str = ""
    #: The groups that it was sent to, each with the members who got it.
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    #: Groups in which the sender is, who got no copy.
    without_sender: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The outcome of the wait; ``queued`` without one."""
        return self.waited.outcome if self.waited is not None else "queued"


class Progress:
    """Hears what happens while a message is sent and waited for. Override the methods that matter."""

    def warned(self, words: str) -> None:
        """Called with a reason to doubt the message, which is sent all the same."""

    def queued(self, sent: Sent) -> None:
        """Called once the message is queued, before any waiting."""

    def settled(self, sent: Sent, one: RecipientState) -> None:
        """Called when one recipient has come as far with it as was asked, or never will."""

    def hindered(self, words: str) -> None:
        """Called while it is waited for, when a recipient takes no mail: it is parked, paused or down."""


class Outgoing(NamedTuple):
    """A message to be sent, with every name resolved and nothing yet written."""

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
    part_of: str | None = None
    root: str | None = None
    #: Whether the sender is told when all parts have ended: ``yes``, ``no``, or as the recipient's table says.
    notify: str | None = None
    expires: str | None = None
    deadline: str | None = None
    #: Labels that a member of a pool must have to do it, and labels that make it the better choice.
    needs: str | None = None
    prefers: str | None = None
    once: str | None = None

    @property
    def content(self) -> tuple[str | None, ...]:
        """The values by which the daemon judges whether this is the same message as another one."""
        return (self.type, self.thread_id, self.in_reply_to, self.body)

    @property
    def recipients(self) -> tuple[str, ...]:
        """Everyone once, however often and in whatever spelling they were named."""
        folded = {identity(name): name for name in reversed((*self.to, *self.cc))}
        return tuple(reversed(folded.values()))


class SendOptions(NamedTuple):
    """Options of a call that sends. ``wait``: None, one of ``WAIT_STAGES``, or ``all`` (until it and all that comes of
    it have ended). ``force``: send a wrong body, too."""

    force: bool = False
    wait: str | None = None
    timeout_s: float = DEFAULT_WAIT_S
    progress: Progress = Progress()


def send(
    site: Site, to: tuple[str, ...], body: Body, delivery: SendOptions, *, cc: tuple[str, ...] = (),
    type: str = "message", sender: str | None = None, priority: str = "normal",  # noqa: A002
    part_of: str | None = None, thread_id: str | None = None, in_reply_to: str | None = None, **headers: str | None,
) -> Sent:  # fmt: skip
    """Queue a message for every one of ``to`` and ``cc``. ``headers`` are the optional fields of ``Outgoing``;
    ``expires`` and ``deadline`` among them are given as durations or times.

    ``part_of``: the message for which this one is sent (client/lineage.py), or ``none``.
    """
    warnings = check_type(site, type, delivery.progress)
    for option in ("expires", "deadline"):
        if (given := headers.get(option)) is not None:
            from ackd.client import due_times

            headers[option] = due_times.header(f"--{option}", given, time.time())
    for option in ("needs", "prefers"):
        if (given := headers.get(option)) is not None:
            from ackd.core import labels

            headers[option] = labels.in_header(labels.labels_of(given))
    if headers.get("once") == "":
        raise BadText("--once needs a key that is not empty")
    with creating():  # a root that cannot be read cannot be written to
        author = sending_as(site, sender)
        addressed, copied = _addressed(site, to, author), _addressed(site, cc, author)
    if headers.get("needs") or headers.get("prefers"):
        warnings = (*warnings, *_about_labels(site, addressed.agents + copied.agents, headers, delivery.progress))
    came = _lineage(site, author, (*addressed.agents, *copied.agents), type, part_of, in_reply_to)
    text, doubts = checked_body(type, body if isinstance(body, str) else body(), delivery)
    own = {"thread_id": thread_id, "in_reply_to": in_reply_to, **headers}
    fields = {**came, **{name: value for name, value in own.items() if value is not None}}
    if "part_of" in fields and (addressed.is_shared or copied.is_shared):
        fields.setdefault("notify", "yes")  # whoever shares work out wants to know when all of it has ended
    outgoing = Outgoing(author, addressed.agents, copied.agents, type, priority, text, **fields)
    return _post(site, outgoing, (*warnings, *doubts), delivery, addressed.with_groups_of(copied))


def reply(
    site: Site, message_id: str, body: Body, delivery: SendOptions, *,
    type: str = "message", priority: str = "normal", agent: str | None = None,  # noqa: A002
) -> Sent:  # fmt: skip
    """Answer the sender of a message, in its thread."""
    from ackd.client import lineage
    from ackd.storage import message_lookup

    warnings = check_type(site, type, delivery.progress)
    author, original = holder(site, message_id, agent)
    head = message_lookup.read_head(original.path)
    if head is None:
        raise MessageGone(str(original.path))
    fields = lineage.fields_of(head)
    addressed = _addressed(site, (fields.get("from", ""),), author)
    came = lineage.of_answer(original.message_id, fields)
    text, doubts = checked_body(type, body if isinstance(body, str) else body(), delivery)
    outgoing = Outgoing(
        sender=author,
        to=addressed.agents,
        cc=(),
        type=type,
        priority=priority,
        body=text,
        thread_id=came.thread_id,
        in_reply_to=original.message_id,
        repository=fields.get("x-ignite-repository") or None,
        issue=fields.get("x-ignite-issue") or None,
        root=came.root,
    )
    return _post(site, outgoing, (*warnings, *doubts), delivery, addressed)


# --- checking ---------------------------------------------------------------------------------------------------------
def _lineage(
    site: Site, author: str, recipients: tuple[str, ...], type_: str, part_of: str | None, in_reply_to: str | None
) -> dict[str, str]:
    """The fields of ``Outgoing`` that say which message this one comes of."""
    if part_of is None and in_reply_to is None and "ACKD_MESSAGE_ID" not in os.environ:
        return {}  # nearly always
    from ackd.client import lineage

    came = lineage.Lineage()
    if part_of is not None and part_of != lineage.NO_PART:
        came = lineage.of_part(site, author, part_of)
    elif in_reply_to is not None:
        came = lineage.of_answer_to(site, author, in_reply_to)
    elif part_of is None:
        came = lineage.of_run(author, recipients, type_)
    return {key: value for key, value in came._asdict().items() if value is not None}


def _about_labels(
    site: Site, names: tuple[str, ...], headers: Mapping[str, str | None], progress: Progress
) -> tuple[str, ...]:
    """Warnings about labels that do nothing, or that no member of a pool has."""
    pools = [name for name in dict.fromkeys(names) if name in site.pools]
    if not pools:
        return _warned("labels are for pools, and none of the recipients is one: they do nothing", progress)
    needs = set((headers.get("needs") or "").split(", ")) - {""}
    said: tuple[str, ...] = ()
    for pool in pools:
        has = [site.agents.get(member, {}).get("labels") for member in site.pools[pool]]
        if needs and not any(needs <= set(map(str, one if isinstance(one, list) else ())) for one in has):
            words = f"no member of {pool} has what it needs ({', '.join(sorted(needs))}): it waits until one has"
            said += _warned(words, progress)
    return said


class _Addressed(NamedTuple):
    """Names as they were given, and whom they mean: ``agents`` has the members of groups in their place, and pools.
    ``is_shared``: a group or a pool is among the names."""

    agents: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    without_sender: tuple[str, ...] = ()
    is_shared: bool = False

    def with_groups_of(self, other: "_Addressed") -> "_Addressed":
        if not other.groups:
            return self
        without = tuple(dict.fromkeys((*self.without_sender, *other.without_sender)))
        return self._replace(groups={**self.groups, **other.groups}, without_sender=without)


def _addressed(site: Site, names: tuple[str, ...], author: str) -> _Addressed:
    resolved = tuple(site.resolve_address(name) for name in names)
    if not any(name in site.groups or name in site.pools for name in resolved):
        return _Addressed(resolved)  # nearly always
    from ackd.config.groups import readers

    groups = {name: readers(site.groups[name], author) for name in resolved if name in site.groups}
    agents = tuple(one for name in resolved for one in groups.get(name, (name,)))
    is_named = identity(author) in map(identity, agents)
    without = tuple(name for name, got in groups.items() if len(got) < len(site.groups[name]) and not is_named)
    return _Addressed(agents, groups, without, is_shared=True)


def check_type(site: Site, type_: str, progress: Progress) -> tuple[str, ...]:
    """The warnings about a message's type; ``UnknownType`` if the team does not accept it."""
    known = (*KNOWN_TYPES, *site.extra_types)
    if type_ in known:
        return ()
    import difflib

    near = difflib.get_close_matches(type_, known, n=1)
    if type_ not in accepted_types((), site.unknown_types):
        raise UnknownType(type_, near[0] if near else None)
    if not near:
        return ()
    return _warned(f"unknown type {type_!r}, sent all the same: did you mean {near[0]}?", progress)


def _warned(words: str, progress: Progress) -> tuple[str, ...]:
    progress.warned(words)
    return (words,)


def checked_body(type_: str, text: str, delivery: SendOptions) -> tuple[str, tuple[str, ...]]:
    """The body as it will be written, proven right for its type, and no warnings. With ``force`` it is only proven that
    it can be written, and what is wrong with it is a warning."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of an argument that are no UTF-8; yaml would write a question mark for them
        raise BadText("the body is not UTF-8") from None
    if type_ == "message" and not _has_keys(text):
        return _as_content(text), ()
    from ackd.formats import body_shapes, yaml_body

    try:
        if body_shapes.quick_check(type_, yaml_body.load(text)):
            return text, ()
    except BadBody as error:
        wrong = error
    else:
        from ackd.formats import bodies  # pydantic: only a wrong body pays for it

        wrong = BadBody(tuple(bodies.check(type_, text)))
    if not delivery.force:
        raise wrong
    return text, _warned(f"the body is not what a {type_} should be, sent all the same: {wrong}", delivery.progress)


def _has_keys(text: str) -> bool:
    """Tell a body of type message that is YAML from someone's words by its keys, which are small letters: "Note: call
    me" is words."""
    if ":" not in text:
        return False  # nearly always, and without a pattern
    begins = r"(?:[ \t]*(?:#.*)?\n|---[ \t]*\n)*+(?:\{|[\"']?[a-z_][a-z0-9_-]*[\"']?[ \t]*:(?:\s|$))"
    if re.match(begins, text) is None:
        return False
    from ackd.formats import yaml_body

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
    from ackd.formats import yaml_body

    return yaml_body.dump({"content": text})


# --- writing ----------------------------------------------------------------------------------------------------------
def _post(
    site: Site, outgoing: Outgoing, warnings: tuple[str, ...], delivery: SendOptions, addressed: _Addressed
) -> Sent:
    """Queue the message, and wait if that was asked for."""
    if delivery.wait is None:
        return _queued(site, outgoing, warnings, delivery, addressed)
    if delivery.wait == "all":
        return _post_and_wait_for_all(site, outgoing, warnings, delivery, addressed)
    from ackd.client.waiting import LogWaiter

    waiter = LogWaiter(site, delivery.wait)  # before the first byte is written, so that no line is missed
    sent = _queued(site, outgoing, warnings, delivery, addressed)
    waited = waiter.wait(sent, delivery.timeout_s, delivery.progress)
    return sent._replace(waited=waited, daemon_running=waited.outcome != "no daemon")


def _post_and_wait_for_all(
    site: Site, outgoing: Outgoing, warnings: tuple[str, ...], delivery: SendOptions, addressed: _Addressed
) -> Sent:
    from ackd.client.thread_waiting import ThreadWaiter

    waiter = ThreadWaiter(site, tree=True)  # before the first byte is written
    sent = _queued(site, outgoing, warnings, delivery, addressed)
    progress = delivery.progress
    awaited = waiter.wait(
        [sent.message_id],
        delivery.timeout_s,
        lambda one: progress.settled(sent, RecipientState(one.agent, one.state, one.reason, holder=one.holder)),
        progress.hindered,
    )
    waited = Waited(awaited.outcome, awaited.recipients_of(sent.message_id), awaited.words, awaited.trouble)
    return sent._replace(waited=waited, daemon_running=waited.outcome != "no daemon")


def _queued(
    site: Site, outgoing: Outgoing, warnings: tuple[str, ...], delivery: SendOptions, addressed: _Addressed
) -> Sent:
    from ackd.storage import root_lock

    sent = queue(site, outgoing)
    for words in sent.warnings:
        delivery.progress.warned(words)
    running = root_lock.holder(site.run) is not None
    sent = sent._replace(
        daemon_running=running,
        config_differs=running and _config_differs(site),
        warnings=(*warnings, *sent.warnings),
        sender=outgoing.sender,
        groups=addressed.groups,
        without_sender=addressed.without_sender,
    )
    delivery.progress.queued(sent)
    return sent


def _config_differs(site: Site) -> bool:
    from ackd.config.file_mark import differs

    return differs(site.run, site.config_path)


def queue(site: Site, outgoing: Outgoing) -> Sent:
    """Write the message into every recipient's queue. Whether a daemon runs is not looked at."""
    from ackd.formats import ignite
    from ackd.storage import maildrop

    recipients = outgoing.recipients
    now_ns = time.time_ns()
    wall = now_ns / 1e9
    message_id = ignite.bare_id(ignite.new_message_id(wall, os.getpid(), os.urandom(6)))
    if outgoing.once is not None:
        from ackd.client import sending_once

        message_id = sending_once.message_id(outgoing.once, outgoing.sender, outgoing.content)
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
        copies="all" if len(recipients) > 1 else None,
        part_of=outgoing.part_of,
        root=outgoing.root,
        notify=outgoing.notify,
        expires=outgoing.expires,
        deadline=outgoing.deadline,
        needs=outgoing.needs,
        prefers=outgoing.prefers,
        extra_types=accepted_types(site.extra_types, site.unknown_types),
    )
    if len(data) > site.max_message_bytes:
        raise BadMessage("too_large", f"{len(data)} bytes; max_message_bytes is {site.max_message_bytes}")
    boxes = [site.box_path(name) for name in recipients]
    names = [ignite.file_name(outgoing.type, now_ns // 1000 + number) for number in range(len(boxes))]
    items = [(box, name, data) for box, name in zip(boxes, names, strict=True)]
    check_reader(site)
    with creating(*boxes):
        for box in boxes:
            maildrop.make_box(box, fsync=site.fsync)
        if outgoing.once is not None:
            return _queue_once(site, outgoing, message_id, boxes, data)
        files = tuple(maildrop.drop_all(items, fsync=site.fsync))
    return Sent(message_id, recipients, files)


def _queue_once(site: Site, outgoing: Outgoing, message_id: str, boxes: list[str], data: bytes) -> Sent:
    """Write it for every recipient that was not sent it before, with the same key and content."""
    from ackd.client import sending_once
    from ackd.formats import ignite
    from ackd.storage import maildrop

    files: dict[str, str] = {}
    others: dict[str, str] = {}
    items: list[tuple[str, tuple[str, str, bytes]]] = []
    with maildrop.locked(boxes):
        for name, box in zip(outgoing.recipients, boxes, strict=True):
            number = sending_once.file_number(outgoing.once or "", outgoing.sender, name)
            file = ignite.file_name(outgoing.type, number)
            before = sending_once.sent_before(site, name, file, time.time())
            same = [path for path, ident in before if ident == message_id]
            if same:
                files[name] = same[-1]
                continue
            items.append((name, (box, file, data)))
            if before:
                others[name] = before[-1][1]
        paths = maildrop.drop_all([item for _, item in items], fsync=site.fsync) if items else []
    repeated = tuple(files)
    files |= {name: path for (name, _), path in zip(items, paths, strict=True)}
    doubts = tuple(
        f"the key was used before for another message to {name}, {ident}: its content differs, so this is a new one"
        for name, ident in others.items()
    )
    in_order = tuple(files[name] for name in outgoing.recipients)
    return Sent(message_id, outgoing.recipients, in_order, warnings=doubts, repeated=repeated)
