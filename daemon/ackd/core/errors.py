"""The tree of named errors of ackd.

    AckdError
    ├── TheirFault                what came in is wrong: answer, quarantine, go on
    │   ├── BadName               a name that cannot be an agent's
    │   ├── BadMessage            a file or text that is no message (code, detail, line)
    │   ├── BadBody               a body that its type does not allow (problems)
    │   ├── BadReceipt            a receipt file that cannot be read
    │   ├── BadLabels             a text that is no list of labels
    │   ├── BadLine               a worker's line that says nothing we know (code, detail)
    │   ├── BadBusLine            a line of a message bus that says nothing we know (code, detail, offset)
    │   ├── BadStageText          a text that is no stage report, and where it differs (coordination/pipeline/wire)
    │   ├── BadStory              an id that cannot be a story's (coordination/pipeline/rules/stage_names)
    │   ├── UnknownStory          no story of that id, or no such worker of it (story, stage, generation)
    │   ├── WrongStage            a worker's report that is none of its own stage (worker, story, stage)
    │   ├── CheckpointTooLarge    what an agent says of its work is no page but a store (storage/checkpoints)
    │   ├── BadSessionId          a name that cannot be a log's (ackd/log)
    │   ├── BadConfig             ackd.toml is wrong (problems)
    │   │   └── NoTeam            neither an ackd.toml nor a root here or above
    │   ├── NoRoot                a team's directory that was named and is not there (path, named_by)
    │   ├── NewerState            state/ was written by a newer ackd (path, version, known, by)
    │   ├── BadPath               a path that no lease can be about (path, why)
    │   ├── UnknownAgent          nobody of that name
    │   │   └── NotOneAgent       a group or a pool where one agent is needed (name, kind, members)
    │   ├── UnknownMessage        no message of that id
    │   ├── AmbiguousMessage      an id prefix that fits several
    │   ├── NoTrack               no message bus of that name, or none at all (wanted, known, own_bus)
    │   ├── WhichTrack            several message buses fit: one has to be named (wanted, tracks)
    │   ├── BadAnswer             what a director says that makes no sense (key, why)
    │   ├── BadMeeting            a meeting's record that cannot be read
    │   ├── NotOnBoard            no director of that meeting
    │   ├── NotNow                a meeting in another phase
    │   └── NoMeeting             no meeting of that id, or none open
    ├── CannotStart               a child or pane that cannot be started (why)
    ├── Busy                      someone else holds it: come again
    │   ├── FileLockTimeout       a file's lock was not to be had in time (ackd/files)
    │   ├── StoriesHeld           another process changes the stories (coordination/pipeline/files)
    │   ├── RootHeld              another daemon runs on this root (pid)
    │   └── LeaseHeld             another has the lease (path, holder, since, until)
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


class CannotStart(AckdError):  # noqa: N818
    """A child or pane could not be started; trying again later may work.

    ``nobodys``: the machine refused (no descriptors, no processes), which says nothing about the agent.
    """

    def __init__(self, why: str, *, nobodys: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.nobodys = nobodys

    def __str__(self) -> str:
        return self.why


class BadName(TheirFault):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"{self.name!r} cannot be an agent's name: {self.why}"


class BadMessage(TheirFault):
    """A file that is no message. ``code``: one word for machines (``Rejection`` in words.py), ``detail`` for people."""

    def __init__(self, code: str, detail: str, line: int | None = None) -> None:
        super().__init__(code, detail, line)
        self.code = code
        self.detail = detail
        self.line = line

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line is not None else ""
        return f"{self.detail}{where}"


class Problem(NamedTuple):
    """A mistake in a text: where it is, and what would be right."""

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


class BadLabels(TheirFault):
    """A text that is no list of labels (core/labels.py)."""


class BadReceipt(TheirFault):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name = name
        self.why = why

    def __str__(self) -> str:
        return f"receipt {self.name}: {self.why}"


class BadLine(TheirFault):
    """A line of a worker that cannot be read. ``code``: one word for machines (``Flaw``), ``detail`` for people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class BadBusLine(TheirFault):
    """A line that is no bus line. ``code`` as in ``BadLine``; ``offset``: where the line begins in the file."""

    def __init__(self, code: str, detail: str, offset: int = 0, end: int = 0) -> None:
        super().__init__(code, detail, offset, end)
        self.code = code
        self.detail = detail
        self.offset = offset
        self.end = end

    def __str__(self) -> str:
        return self.detail


class NoTrack(TheirFault):
    """No message bus of the name that was given, or, without one (``wanted`` None), no message bus at all.

    ``own_bus``: the path of the team's own bus, which could be made.
    """

    def __init__(self, wanted: str | None, known: tuple[str, ...], own_bus: str) -> None:
        super().__init__(wanted, known, own_bus)
        self.wanted, self.known, self.own_bus = wanted, known, own_bus

    def __str__(self) -> str:
        if self.wanted is None:
            return f"no message bus here: `ackd bus init` makes one ({self.own_bus})"
        there = f"; there are: {', '.join(self.known)}" if self.known else ""
        return f"no track {self.wanted!r}{there}"


class WhichTrack(TheirFault):
    """Several message buses could be meant: all of the team's, or (``wanted``) those that share the name."""

    def __init__(self, wanted: str | None, tracks: tuple[str, ...]) -> None:
        super().__init__(wanted, tracks)
        self.wanted, self.tracks = wanted, tracks

    def __str__(self) -> str:
        if self.wanted is None:
            return f"which track? Say --track, or set ACKD_TRACK: {', '.join(self.tracks)}"
        return f"several tracks are called {self.wanted!r}: {', '.join(self.tracks)}"


class BadConfig(TheirFault):
    def __init__(self, path: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(path, problems)
        self.path = path
        self.problems = problems

    def __str__(self) -> str:
        return f"{self.path}: " + "; ".join(map(str, self.problems))


class NoTeam(BadConfig):
    """Neither an ackd.toml nor a root was found in the directory ``path`` or above."""

    def __init__(self, path: str) -> None:
        super().__init__(path, (Problem("", "no ackd.toml or .ackd/ here or above: run `ackd init`"),))


class NoRoot(TheirFault):
    """``named_by``: ``--root`` or ``ACKD_ROOT``."""

    def __init__(self, path: str, named_by: str) -> None:
        super().__init__(path, named_by)
        self.path = path
        self.named_by = named_by

    def __str__(self) -> str:
        return f"{self.named_by} names {self.path}, which is no directory: `ackd init --root {self.path}` makes a team"


class NewerState(TheirFault):
    """State that a newer ackd wrote. ``version``: None if it cannot be read. ``known``: the newest it can read."""

    def __init__(self, path: str, version: int | None, known: int, by: str) -> None:
        super().__init__(path, version, known, by)
        self.path = path
        self.version = version
        self.known = known
        self.by = by

    def __str__(self) -> str:
        if self.version is None:
            return (
                f"{self.path} cannot be understood, so a newer ackd may have written this state: use that one, or "
                f"remove the file if none has ever run here"
            )
        who = f"ackd {self.by}" if self.by else "a newer ackd"
        return (
            f"{self.path}: this state is of version {self.version}, written by {who}; this ackd reads up to "
            f"{self.known}: use {who} or a newer one here, or another root"
        )


class BadPath(TheirFault):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path!r}: {self.why}"


class UnknownAgent(TheirFault):
    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"no agent {self.name!r}"


class NotOneAgent(UnknownAgent):
    """A group or a pool where one agent is needed. ``kind``: "group" or "pool"."""

    def __init__(self, name: str, kind: str, members: tuple[str, ...]) -> None:
        super().__init__(name, members)
        self.kind = kind
        self.members = members

    def __str__(self) -> str:
        whose = f"of {', '.join(self.members)}" if self.members else "without members"
        return f"{self.name!r} is a {self.kind} {whose}, not an agent: name one"


class UnknownMessage(TheirFault):
    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return f"no message {self.message_id!r}"


class UnknownStory(TheirFault):
    """A story that does not exist, or a worker (``stage``, ``generation``) that it never had."""

    def __init__(self, story: str, stage: int | None = None, generation: int | None = None) -> None:
        super().__init__(story, stage, generation)
        self.story = story
        self.stage = stage
        self.generation = generation

    def __str__(self) -> str:
        if self.stage is None:
            return f"there is no story {self.story} here"
        number = f" {self.generation}" if self.generation is not None else ""
        return f"stage {self.stage} of {self.story} has no worker{number}"


class WrongStage(TheirFault):
    def __init__(self, worker: str, story: str, stage: int) -> None:
        super().__init__(worker, story, stage)
        self.worker = worker
        self.story = story
        self.stage = stage

    def __str__(self) -> str:
        return f"{self.worker} cannot report of stage {self.stage} for {self.story}"


class AmbiguousMessage(TheirFault):
    def __init__(self, prefix: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(prefix, candidates)
        self.prefix = prefix
        self.candidates = candidates

    def __str__(self) -> str:
        return f"{self.prefix!r} fits {len(self.candidates)} messages: {', '.join(self.candidates[:5])}"


class BadAnswer(TheirFault):
    def __init__(self, key: str, why: str) -> None:
        super().__init__(key, why)
        self.key = key
        self.why = why

    def __str__(self) -> str:
        return f"{self.key} {self.why}"


class BadMeeting(TheirFault):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class NotOnBoard(TheirFault):
    def __init__(self, name: str, directors: tuple[str, ...] = ()) -> None:
        super().__init__(name, directors)
        self.name = name
        self.directors = directors

    def __str__(self) -> str:
        return f"{self.name!r} is no director of this meeting; it has {', '.join(self.directors)}"


class NotNow(TheirFault):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class NoMeeting(TheirFault):
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class RootHeld(Busy):
    def __init__(self, root: str, pid: int | None) -> None:
        super().__init__(root, pid)
        self.root = root
        self.pid = pid

    def __str__(self) -> str:
        who = f"pid {self.pid}" if self.pid else "another process"
        return f"{self.root} is already served by {who}"


class LeaseHeld(Busy):
    """A lease that another agent holds, or is next in line for (``holder``). Times are wall seconds.

    ``waited_s``: how long the caller waited for it; None if it did not.
    """

    def __init__(self, path: str, holder: str, since: float, until: float, waited_s: float | None = None) -> None:
        super().__init__(path, holder, since, until, waited_s)
        self.path = path
        self.holder = holder
        self.since = since
        self.until = until
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"{self.path} is held by {self.holder}"


class ImpossibleEvent(OurFault):
    def __init__(self, machine: str, state: str, event: str) -> None:
        super().__init__(machine, state, event)
        self.machine = machine
        self.state = state
        self.event = event

    def __str__(self) -> str:
        return f"{self.machine}: {self.event} cannot happen in state {self.state}"
