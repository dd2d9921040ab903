"""Handlers: agents that are Python functions inside the daemon. Here are their arguments, and the way they are found.

A handler is a callable of a mail and a context, ``async`` or plain (a plain one runs in a thread). Returning completes
the message; ``Refuse`` buries it with its reason, ``Defer`` tries it again later, any other exception is a failure and
is retried like a command's non-zero exit. It may be called again for the same message after a crash: what it sends has
ids that derive from the message's, so that the same answer given twice is recognised. A whole handler::

    from ackd.handlers import Context, Defer, Mail, Refuse

    async def greet(mail: Mail, ctx: Context) -> None:
        if mail.type != "message":
            raise Refuse(f"{ctx.agent} only reads messages, not {mail.type}")
        name = mail.body["name"]
        if name == "nobody":
            raise Defer("nobody has come yet")
        await ctx.reply(type="message", body={"content": f"Hello, {name}!"})
        await ctx.send("user", "progress_update", {"message": f"greeted {name}"}, "low")

named in the project's ``pyproject.toml``::

    [project.entry-points."ackd.handlers"]
    greeter = "my_team:greet"

and in ``ackd.toml``: an agent with ``endpoint = "handler"`` and ``handler = "greeter"``. A plain function sends by
``anyio.from_thread.run(ctx.send, to, type, body)``.

``load_handler`` finds one among the installed entry points; it fails with ``UnknownHandler`` or ``BrokenHandler``. The
calls are made by ``endpoints/handler``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from ackd.core.errors import TheirFault
from ackd.core.escalations import derived_id
from ackd.core.message import MONITOR, AutoSubmitted, Draft, Priority, agent_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from importlib.metadata import EntryPoint

GROUP: Final = "ackd.handlers"


class Refuse(Exception):  # noqa: N818 - an answer, not an error
    """Raised by a handler that will never do this message: it becomes a dead letter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Defer(Exception):  # noqa: N818
    """Raised by a handler that cannot do this message now: it is offered again later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class UnknownHandler(TheirFault):
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"no handler {self.name!r} among the installed entry points of {GROUP}: {', '.join(self.known) or 'none'}"
        )


@dataclass
class BrokenHandler(TheirFault):
    name: str
    why: str

    def __str__(self) -> str:
        return f"handler {self.name!r} cannot be used: {self.why}"


def _load_yaml(text: str) -> object:
    from ackd.formats.yaml_body import load  # noqa: PLC0415 - most handlers of ackd's own never look at a body

    return load(text)


@dataclass(frozen=True)
class Mail:
    """A message, as its handler sees it. ``body`` is parsed at the first access, which may raise BadBody.
    ``automatic``: a program wrote the message (Auto-Submitted), so that an automatic answer could begin a loop."""

    message_id: str
    sender: str
    recipient: str
    type: str
    priority: Priority
    body_text: str
    thread_id: str | None = None
    in_reply_to: str | None = None
    automatic: bool = False
    load: Callable[[str], object] = field(default=_load_yaml, repr=False, compare=False)

    @cached_property
    def body(self) -> Any:
        return self.load(self.body_text)


@dataclass(eq=False)
class Context:
    """The things that a handler can do while it is called for one mail."""

    agent: str
    mail: Mail
    write: Callable[[Draft], Awaitable[None]] = field(repr=False)
    _sent: int = field(default=0, init=False)

    async def reply(self, *, type: str, body: Mapping[str, object], priority: Priority | str | None = None) -> str:  # noqa: A002
        """Answer the mail's sender; durable when this returns. By default the answer has the mail's own priority."""
        return await self._write(self.mail.sender, type, body, priority or self.mail.priority, self.mail.message_id)

    async def reply_automatically(self, *, type: str, body: Mapping[str, object]) -> str | None:  # noqa: A002
        """Answer as ``reply`` does, marked ``Auto-Submitted: auto-replied``. Writes nothing and returns None if the
        mail itself is automatic: two handlers that answer each other would never end."""
        if self.mail.automatic or self.mail.sender == MONITOR:
            return None
        about, auto = (self.mail.priority, self.mail.message_id), AutoSubmitted.REPLIED
        return await self._write(self.mail.sender, type, body, *about, auto)

    async def send(
        self,
        to: str,
        type: str,  # noqa: A002 - the word of the protocol
        body: Mapping[str, object],
        priority: Priority | str = Priority.NORMAL,
    ) -> str:
        """Write to anyone, in the mail's thread; durable when it returns. Returns the new message's id."""
        return await self._write(to, type, body, priority, None)

    async def _write(
        self,
        to: str,
        kind: str,
        body: Mapping[str, object],
        priority: Priority | str,
        reply: str | None,
        auto: AutoSubmitted | None = None,
    ) -> str:
        self._sent += 1
        draft = Draft(
            message_id=derived_id("handler", self.mail.message_id, self.agent, self._sent),
            sender=self.agent,
            recipient=agent_name(to),
            type=kind,
            priority=Priority(priority),
            body=dict(body),
            thread_id=self.mail.thread_id,
            in_reply_to=reply,
            auto=auto,
        )
        await self.write(draft)
        return draft.message_id


class Handler(Protocol):
    def __call__(self, mail: Mail, ctx: Context, /) -> Awaitable[None] | None: ...


def load_handler(name: str) -> Handler:
    """The handler that an installed package calls ``name``."""
    found = _installed(tuple(sys.path))
    if name not in found:
        raise UnknownHandler(name, tuple(sorted(found)))
    try:
        handler = found[name].load()
    except Exception as error:  # importing runs the package's own code, which may raise anything
        raise BrokenHandler(name, f"{found[name].value}: {type(error).__name__}: {error}") from error
    if not callable(handler):
        raise BrokenHandler(name, f"{found[name].value} is no function but a {type(handler).__name__}")
    return handler  # type: ignore[no-any-return]


@lru_cache(maxsize=1)  # looks into every installed package, and a team may have a hundred handlers
def _installed(_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - it brings the email package along

    return {point.name: point for point in entry_points(group=GROUP)}
