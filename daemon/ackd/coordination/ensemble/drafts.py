"""Turns a task or a report into the message that it becomes: sender, recipient, type, id, and a body that fits.

The id derives from the file, its version and its content, so the same file read again after a crash is the same
message. Nothing fails: a task for nobody is ``None``, and the gateway escalates it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.config.site import ALWAYS
from ackd.coordination.ensemble import wire as ensemble
from ackd.coordination.ensemble.rules import dispatches
from ackd.coordination.ensemble.rules.plain_words import vague_words
from ackd.coordination.ensemble.wire import Content, ReportKind
from ackd.core.escalations import derived_id
from ackd.core.message import AutoSubmitted, Draft, Priority
from ackd.core.names import identity
from ackd.core.values import value
from ackd.formats import yaml_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ackd.coordination.ensemble.rules.dispatches import Dispatch
    from ackd.coordination.ensemble.settings import EnsembleSettings

#: The sender of a report that names none. Nobody of that name has a queue, so nothing about it comes back.
NOBODY: Final = "ensemble"
#: Larger files are not read: the message says where the file is.
MOST_BYTES: Final = 262_144
#: Room for headers, and for keys that are added to a body.
_ROOM_BYTES: Final = 32_768
_MOST_VAGUE: Final = 5
_TYPES: Final = {
    ReportKind.COMPLETED: "task_completed",
    ReportKind.SUMMARY: "task_completed",
    ReportKind.ESCALATION: "escalation",
    ReportKind.REVIEW: "evaluation_result",
}
#: Names that do not make a file their task: `user-login.yaml` is about users.
_NOT_BY_NAME: Final = frozenset(map(identity, ALWAYS))


@value
class FileVersion:
    """A version of a file. ``data`` is None if it is too large; ``digest`` stands for its content."""

    key: str  # tasks/NAME or reports/NAME
    name: str
    shown: str  # the path, for people
    version: int
    digest: str
    data: bytes | None
    note: str = ""

    @property
    def message_id(self) -> str:
        return derived_id("ensemble", self.key, f"v{self.version}", f"content {self.digest}")

    def content(self) -> Content:
        return Content("", self.note) if self.data is None else ensemble.understood(self.data, yaml_body.load)


@value
class TaskDraft:
    draft: Draft
    names: tuple[str, ...]


@value
class Report:
    """``about``: the task that it reports on; ``completes``: it is the end of that task; ``vague``: the words in it
    that are not allowed (ensemble-v3, the ban on vague words). It is passed on all the same, with a note to its
    reader."""

    draft: Draft
    kind: ReportKind
    task_id: str | None
    about: Dispatch | None
    completes: bool
    vague: tuple[str, ...]


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class EnsembleDrafts:
    config: EnsembleSettings
    called: ensemble.Called
    max_message_bytes: int
    _own: ensemble.Routes = field(init=False)
    _routes: ensemble.Routes = field(init=False)

    def __post_init__(self) -> None:
        own = ((route.match, route.to) for route in self.config.routes)
        self._own = tuple(own)
        self._routes = ensemble.routes(self._own, self.config.dispatch, self.config.conductor)

    @property
    def limit(self) -> int:
        """The size in bytes up to which a file travels whole."""
        return min(MOST_BYTES, max(0, self.max_message_bytes - _ROOM_BYTES))

    def is_report(self, name: str) -> bool:
        return ensemble.is_yaml(name) or ensemble.recipient(name, self._own) is not None

    def task(self, file: FileVersion) -> TaskDraft | None:
        content, config = file.content(), self.config
        owner = ensemble.owner(file.name, config.workers, self._who)
        agent = self._spelled(owner.agent) if owner is not None else self._first(ensemble.assignees(content))
        if agent is None:
            return None
        names = self.names_of(file, content)
        kind = "evaluation_request" if "review" in file.name.lower() else "task_assignment"
        sender = config.conductor if identity(agent) == identity(config.dispatch) else config.dispatch
        body = self._body(content, file, task_id=names[0])
        draft = Draft(file.message_id, self._spelled(sender), agent, kind, ensemble.priority(content), body)
        return TaskDraft(draft, names)

    def names_of(self, file: FileVersion, content: Content) -> tuple[str, ...]:
        """All names of the task: from its content, and from its file name with and without the worker."""
        owner = ensemble.owner(file.name, self.config.workers, self._who)
        rest = (owner.rest,) if owner is not None and owner.rest else ()
        return tuple(dict.fromkeys((*ensemble.task_ids(content), *rest, ensemble.stem(file.name))))

    def report(self, file: FileVersion, tasks: Sequence[Dispatch], at_ns: int) -> Report:
        content, kind, name = file.content(), ensemble.kind_of(file.name), ensemble.reported_task(file.name)
        owner = ensemble.owner(name, {}, self._who)
        named = self._first(ensemble.reporters(content)) or (owner.agent if owner is not None else None)
        rest = (owner.rest,) if owner is not None and owner.rest else ()
        names = tuple(dict.fromkeys((*ensemble.task_ids(content), name, *rest)))
        about = dispatches.reported(tasks, names, named, at_ns, review=kind is ReportKind.REVIEW)
        sender = named or self._writer(kind, about)
        completes = about is not None and self._completes(kind, content, (name, *rest), about)
        task_id = None if kind is ReportKind.SUMMARY else about.task_id if about is not None else names[0]
        vague = _vague(file)
        body = self._body(
            content,
            file,
            vague,
            task_id=task_id,
            overall_status=ensemble.verdict(content) if kind is ReportKind.REVIEW else None,
        )
        draft = Draft(
            message_id=file.message_id,
            sender=sender,
            recipient=self._spelled(ensemble.recipient(file.name, self._routes) or self.config.dispatch),
            type=self._type(kind, content, about, completes=completes),
            priority=Priority.CRITICAL if kind is ReportKind.ESCALATION else ensemble.priority(content),
            body=body,
            in_reply_to=about.message_id if about is not None and about.agent == sender else None,
            auto=AutoSubmitted.GENERATED,  # over once it was read: no prompt of a team's says `ackd done`
        )
        return Report(draft, kind, task_id, about, completes, vague)

    def instruction(self, file: FileVersion) -> Draft:
        """The message from the conductor's instruction to dispatch. It completes when it was seen: its results, tasks
        and a summary, are files of their own."""
        content = file.content()
        return Draft(
            message_id=file.message_id,
            sender=self._spelled(self.config.conductor),
            recipient=self._spelled(self.config.dispatch),
            type="message",
            priority=ensemble.priority(content),
            body=self._body(content, file),
            auto=AutoSubmitted.GENERATED,
        )

    def _writer(self, kind: ReportKind, about: Dispatch | None) -> str:
        if about is not None:
            return about.agent
        return self._spelled(self.config.dispatch) if kind is ReportKind.SUMMARY else NOBODY

    def _completes(self, kind: ReportKind, content: Content, named: Iterable[str], about: Dispatch) -> bool:
        """True if the report ends its task. A file that merely mentions a task does not; ``{id}.yaml`` does, unless its
        content says otherwise."""
        if kind is ReportKind.OTHER:
            return any(one in about.names for one in named) and not ensemble.is_under_way(content)
        return kind in (ReportKind.COMPLETED, ReportKind.REVIEW)

    def _type(self, kind: ReportKind, content: Content, about: Dispatch | None, *, completes: bool) -> str:
        if kind is not ReportKind.OTHER:
            return _TYPES[kind]
        if ensemble.is_under_way(content):
            return "progress_update"
        says_task = about is None and any(ensemble.task_ids(content))
        return "task_completed" if completes or says_task else "message"

    def _body(
        self, content: Content, file: FileVersion, vague: tuple[str, ...] = (), **more: object
    ) -> dict[str, object]:
        """The body: the content as it is if that fits, else its text, else the beginning of the text."""
        body = ensemble.body(content, file.shown, file.version, vague=vague, **more)
        if self._fits(body) or file.data is None:
            return body
        text = file.data.decode("utf-8", "replace")
        beginning = text[: max(0, self.max_message_bytes - _ROOM_BYTES) // 8]  # a character takes up to 8 bytes in YAML
        for note, part in (("too wide for a message: this is the text", text), ("this is how it begins", beginning)):
            body = ensemble.body(Content(part, note), file.shown, file.version, vague=vague, **more)
            if self._fits(body):
                break
        return body

    def _fits(self, body: dict[str, object]) -> bool:
        return len(yaml_body.dump(body).encode()) <= self.max_message_bytes - _ROOM_BYTES // 2

    def _who(self, name: str) -> str | None:
        """The agent of that name; never one of ackd's own, in whose name anybody could speak."""
        return None if identity(name) in _NOT_BY_NAME else self.called(name)

    def _first(self, names: Iterable[str]) -> str | None:
        return next((agent for name in names if (agent := self._who(name)) is not None), None)

    def _spelled(self, agent: str) -> str:
        return self.called(agent) or agent


def _vague(file: FileVersion) -> tuple[str, ...]:
    """The first few vague words. A report that has some mostly has many, and its reader needs no full list."""
    text = (file.data or b"").decode("utf-8", "replace")
    return tuple(map(str, vague_words(text)[:_MOST_VAGUE]))
