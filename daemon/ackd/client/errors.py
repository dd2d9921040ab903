"""Conditions that a call of the client can end with, beside those of ``ackd.core.errors``.

    AckdError
    ├── TheirFault
    │   ├── NoSpeaker      nothing says which agent speaks, and it matters
    │   ├── NotHolder      the agent that speaks does not hold the message (message_id, agent, holders)
    │   │   └── NobodyHas  it waits in the queue of a pool (message_id, pool)
    │   ├── NotSender      only its sender and user may cancel a message (message_id, agent, sender)
    │   ├── MessageGone    the message was there a moment ago (path)
    │   ├── MessageOver    the message is completed or dead, and nothing can be said about it (message_id, state)
    │   ├── UnknownType    a message type that the team does not accept (type, nearest)
    │   ├── NotHeld        no held message fits what was named (wanted)
    │   ├── NoRecipient    a dead letter does not say which queue it came from (name)
    │   ├── NotRequeueable a dead letter that is too large, or not a regular file (name, limit_bytes)
    │   ├── BadTime        no time and no duration, or one that is past (option, text, why)
    │   └── BadText        a body or a checkpoint that cannot be sent as it is (why)
    ├── NoSessionLog       no daemon has written a session log here yet (logs_dir)
    ├── NoDaemon           no daemon is running, and this needs one (words)
    ├── NoAnswer           a daemon runs and does not answer (words)
    ├── CannotRead         a directory of the team cannot be read (path, why)
    ├── CannotWrite        the disk, a sandbox or another user's root refuses; nothing was accepted
    ├── NotStopped         a daemon that cannot be stopped from here, and why (pid)
    ├── StillStopping      a daemon that was told to stop, and has not ended in time (pid, agents)
    ├── NoServiceManager   no systemd runs, or none that this user may speak with
    ├── ManagerRefused     a command of systemd failed (command, printed)
    ├── NotInstalled       the team has no service (workspace)
    ├── CannotInstall      a workspace or an account that cannot be a service's
    └── EditedFile         a unit that ackd has not written, or that somebody has changed since (path)

Plain classes, because every `ackd send` imports this module and dataclasses are slow to make.
"""

from __future__ import annotations

from ackd.core.errors import AckdError, Busy, TheirFault

#: Said when a name is needed and nothing gives one.
WHOSE_MAIL = "whose mail? Say --agent NAME, or set ACKD_AGENT"


class NoSpeaker(TheirFault):
    """Neither the caller, nor ACKD_AGENT, nor the pane, nor the message itself says which agent speaks."""

    def __init__(self, message_id: str = "", recipients: tuple[str, ...] = ()) -> None:
        super().__init__(message_id, recipients)
        self.message_id = message_id
        self.recipients = recipients

    def __str__(self) -> str:
        return f"{self.message_id} went to {listed(self.recipients)}: {WHOSE_MAIL}" if self.recipients else WHOSE_MAIL


class NotHolder(TheirFault):
    """``source``: what named the agent, if the caller did not: ACKD_AGENT, or the mark of the pane."""

    def __init__(self, message_id: str, agent: str, holders: tuple[str, ...], source: str = "") -> None:
        super().__init__(message_id, agent, holders, source)
        self.message_id = message_id
        self.agent = agent
        self.holders = holders
        self.source = source

    def __str__(self) -> str:
        has = f"{listed(self.holders)} {'has' if len(self.holders) == 1 else 'have'} it"
        by = f" ({self.source} says who speaks here; --agent NAME says otherwise)" if self.source else ""
        return f"{self.message_id} is not {self.agent}'s mail: {has}{by}"


class NobodyHas(NotHolder):
    """A message lies in the queue of a pool: no member has it."""

    def __init__(self, message_id: str, pool: str) -> None:
        super().__init__(message_id, pool, ())
        self.pool = pool

    def __str__(self) -> str:
        return f"{self.message_id} waits in the queue of the pool {self.pool}: nobody has it yet"


class NotSender(TheirFault):
    """Somebody else than its sender, or a person, wants to cancel a message."""

    def __init__(self, message_id: str, agent: str, sender: str) -> None:
        super().__init__(message_id, agent, sender)
        self.message_id = message_id
        self.agent = agent
        self.sender = sender

    def __str__(self) -> str:
        who = f"{self.sender}, who sent it, and user" if self.sender else "its sender and user"
        return f"{self.message_id} was not sent by {self.agent}: only {who} may cancel it"


class BadTime(TheirFault):
    """``option``: what the time was given for."""

    def __init__(self, option: str, text: str, why: str) -> None:
        super().__init__(option, text, why)
        self.option = option
        self.text = text
        self.why = why

    def __str__(self) -> str:
        return f"{self.option}: {self.text!r} {self.why}"


class MessageGone(TheirFault):
    """The file was found, and had been moved or removed before it could be read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: has just gone"


class MessageOver(TheirFault):
    """``state``: completed, dead, withdrawn, cancelled or expired. ``why``: what therefore cannot be done."""

    def __init__(self, message_id: str, state: str, why: str) -> None:
        super().__init__(message_id, state, why)
        self.message_id = message_id
        self.state = state
        self.why = why

    def __str__(self) -> str:
        return f"{self.message_id} is {self.state} already: {self.why}"


class UnknownType(TheirFault):
    """``nearest``: the known type that is spelled most like it, or None."""

    def __init__(self, type_: str, nearest: str | None) -> None:
        super().__init__(type_, nearest)
        self.type = type_
        self.nearest = nearest

    def __str__(self) -> str:
        hint = f": did you mean {self.nearest}?" if self.nearest else "; extra_types in ackd.toml adds one"
        return f"unknown type {self.type!r}{hint}"


class BadText(TheirFault):
    """Text that no message or checkpoint can hold."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class NotHeld(TheirFault):
    """No message that is held in a loop fits what was named."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted

    def __str__(self) -> str:
        return f"{self.wanted} is not held: `ackd loop list` shows what is"


class NoRecipient(TheirFault):
    """A dead letter or quarantined file does not say which queue it came from."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} does not say whose it was: move it into a queue by hand"


class NotRequeueable(TheirFault):
    """A dead letter is too large for a message, or not a regular file."""

    def __init__(self, name: str, limit_bytes: int) -> None:
        super().__init__(name, limit_bytes)
        self.name = name
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"{self.name}: not a regular file of at most {self.limit_bytes} bytes"


class NoSessionLog(AckdError):  # noqa: N818 - the tree names the condition
    """No daemon has written a session log here yet."""

    def __init__(self, logs_dir: object) -> None:
        super().__init__(logs_dir)
        self.logs_dir = logs_dir

    def __str__(self) -> str:
        return f"no session log in {self.logs_dir} yet: start the daemon with `ackd run`"


class NoDaemon(AckdError):  # noqa: N818
    """No daemon is running, and what was asked for needs one. The words say what to do."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words

    def __str__(self) -> str:
        return self.words


class NoAnswer(AckdError):  # noqa: N818
    """A daemon holds the root and did not do in time what was asked. The words say what comes of it."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words

    def __str__(self) -> str:
        return self.words


class CannotRead(AckdError):  # noqa: N818 - named after the condition
    """A directory of the team exists and cannot be read, which is not the same as being empty."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"cannot read {self.path}: {self.why}"


class CannotWrite(AckdError):  # noqa: N818
    """Nothing was written, so nothing was accepted; the words say where, why and what to do about it."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words

    def __str__(self) -> str:
        return self.words


def listed(names: tuple[str, ...]) -> str:
    """The names as an English list: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class NotStopped(AckdError):  # noqa: N818
    """A daemon that this caller cannot stop; the words say who can."""

    def __init__(self, pid: int, words: str) -> None:
        super().__init__(pid, words)
        self.pid = pid
        self.words = words

    def __str__(self) -> str:
        return self.words


class StillStopping(Busy):
    """``agents``: those that are let finish what they have in hand, as far as the daemon has said."""

    def __init__(self, pid: int, agents: tuple[str, ...], waited_s: float) -> None:
        super().__init__(pid, agents, waited_s)
        self.pid = pid
        self.agents = agents
        self.waited_s = waited_s

    def __str__(self) -> str:
        whom = f" and lets {listed(self.agents)} finish" if self.agents else ""
        said = f"after {self.waited_s:g} s the daemon (pid {self.pid}) is still stopping{whom}"
        return f"{said}: `ackd stop` waits again, `ackd stop --now` ends it at once"


class NoServiceManager(AckdError):  # noqa: N818
    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words

    def __str__(self) -> str:
        return self.words


class ManagerRefused(AckdError):  # noqa: N818
    """``printed``: by the command, which failed."""

    def __init__(self, command: str, printed: str) -> None:
        super().__init__(command, printed)
        self.command = command
        self.printed = printed

    def __str__(self) -> str:
        return f"{self.command}: {self.printed}"


class NotInstalled(AckdError):  # noqa: N818
    def __init__(self, workspace: str) -> None:
        super().__init__(workspace)
        self.workspace = workspace

    def __str__(self) -> str:
        return f"{self.workspace} has no service: `ackd service install` makes one"


class CannotInstall(TheirFault):
    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words

    def __str__(self) -> str:
        return self.words


class EditedFile(AckdError):  # noqa: N818
    """``is_foreign``: it was never ours."""

    def __init__(self, path: str, *, is_foreign: bool) -> None:
        super().__init__(path, is_foreign)
        self.path = path
        self.is_foreign = is_foreign

    def __str__(self) -> str:
        what = "is not of `ackd service install`" if self.is_foreign else "has been edited"
        return f"{self.path} {what}: nothing was changed; with --force it is kept as {self.path}.bak"
