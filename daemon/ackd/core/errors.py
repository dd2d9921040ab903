"""Every condition ackd names, in one tree.

    AckdError
    ├── TheirFault                what came in is wrong: answer, quarantine, go on
    │   ├── BadName               a name that cannot be an agent's
    │   ├── BadMessage            a file or text that is no message (code, detail, line)
    │   ├── BadBody               a body that its type does not allow (problems)
    │   ├── BadReceipt            a receipt file that cannot be read
    │   ├── BadConfig             ackd.toml is wrong (problems)
    │   ├── UnknownAgent          nobody of that name
    │   ├── UnknownMessage        no message of that id
    │   └── AmbiguousMessage      an id prefix that fits several
    ├── Busy                      someone else holds it: come again
    │   └── RootHeld              another daemon runs on this root (pid)
    └── OurFault                  a bug: crash loudly, the service manager restarts us, recovery copes
        └── ImpossibleEvent       a machine was told something that cannot happen in its state

The first root is caught where the input came in; the last is never caught.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class AckdError(Exception):
    """Root of all named conditions."""


class TheirFault(AckdError):  # noqa: N818 - the tree names whose fault, not "error"
    """Input from outside was wrong."""


class OurFault(AckdError):  # noqa: N818
    """ackd broke its own rules."""


class Busy(AckdError):  # noqa: N818
    """Held by someone else; trying again later may work."""


@dataclass
class BadName(TheirFault):
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name!r} cannot be an agent's name: {self.why}"


@dataclass
class BadMessage(TheirFault):
    """``code`` is one word for machines (see ``Rejection`` in core/message.py), ``detail`` is for people."""

    code: str
    detail: str
    line: int | None = None

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line is not None else ""
        return f"{self.detail}{where}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong, where it is, and what would be right."""

    where: str
    what: str
    line: int | None = None

    def __str__(self) -> str:
        at = f"line {self.line}: " if self.line is not None else ""
        return f"{at}{self.where}: {self.what}" if self.where else f"{at}{self.what}"


@dataclass
class BadBody(TheirFault):
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


@dataclass
class BadReceipt(TheirFault):
    name: str
    why: str

    def __str__(self) -> str:
        return f"receipt {self.name}: {self.why}"


@dataclass
class BadConfig(TheirFault):
    path: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.path}: " + "; ".join(map(str, self.problems))


@dataclass
class UnknownAgent(TheirFault):
    name: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"no agent {self.name!r}"


@dataclass
class UnknownMessage(TheirFault):
    message_id: str

    def __str__(self) -> str:
        return f"no message {self.message_id!r}"


@dataclass
class AmbiguousMessage(TheirFault):
    prefix: str
    candidates: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.prefix!r} fits {len(self.candidates)} messages: {', '.join(self.candidates[:5])}"


@dataclass
class RootHeld(Busy):
    root: str
    pid: int | None

    def __str__(self) -> str:
        who = f"pid {self.pid}" if self.pid else "another process"
        return f"{self.root} is already served by {who}"


@dataclass
class ImpossibleEvent(OurFault):
    machine: str
    state: str
    event: str

    def __str__(self) -> str:
        return f"{self.machine}: {self.event} cannot happen in state {self.state}"
