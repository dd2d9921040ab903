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

The first root is caught where the input came in; the last is never caught. Plain classes: every command imports this
module, and a dataclass takes longer to make than `ackd send` takes to check its arguments.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
from typing import NamedTuple


class AckdError(Exception):
    """Root of all named conditions."""


class TheirFault(AckdError):  # noqa: N818 - the tree names whose fault, not "error"
    """Input from outside was wrong."""


class OurFault(AckdError):  # noqa: N818
    """ackd broke its own rules."""


class Busy(AckdError):  # noqa: N818
    """Held by someone else; trying again later may work."""


class BadName(TheirFault):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"{self.name!r} cannot be an agent's name: {self.why}"


class BadMessage(TheirFault):
    """``code`` is one word for machines (see ``Rejection`` in core/words.py), ``detail`` is for people."""

    def __init__(self, code: str, detail: str, line: int | None = None) -> None:
        super().__init__(code, detail, line)
        self.code = code
        self.detail = detail
        self.line = line

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line is not None else ""
        return f"{self.detail}{where}"


class Problem(NamedTuple):
    """One thing wrong, where it is, and what would be right."""

    where: str
    what: str
    line: int | None = None

    def __str__(self) -> str:
        at = f"line {self.line}: " if self.line is not None else ""
        return f"{at}{self.where}: {self.what}" if self.where else f"{at}{self.what}"


class BadBody(TheirFault):
    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


class BadReceipt(TheirFault):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"receipt {self.name}: {self.why}"


class BadConfig(TheirFault):
    def __init__(self, path: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(path, problems)
        self.path = path
        self.problems = problems

    def __str__(self) -> str:
        return f"{self.path}: " + "; ".join(map(str, self.problems))


class UnknownAgent(TheirFault):
    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"no agent {self.name!r}"


class UnknownMessage(TheirFault):
    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return f"no message {self.message_id!r}"


class AmbiguousMessage(TheirFault):
    def __init__(self, prefix: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(prefix, candidates)
        self.prefix = prefix
        self.candidates = candidates

    def __str__(self) -> str:
        return f"{self.prefix!r} fits {len(self.candidates)} messages: {', '.join(self.candidates[:5])}"


class RootHeld(Busy):
    def __init__(self, root: str, pid: int | None) -> None:
        super().__init__(root, pid)
        self.root = root
        self.pid = pid

    def __str__(self) -> str:
        who = f"pid {self.pid}" if self.pid else "another process"
        return f"{self.root} is already served by {who}"


class ImpossibleEvent(OurFault):
    def __init__(self, machine: str, state: str, event: str) -> None:
        super().__init__(machine, state, event)
        self.machine = machine
        self.state = state
        self.event = event

    def __str__(self) -> str:
        return f"{self.machine}: {self.event} cannot happen in state {self.state}"
