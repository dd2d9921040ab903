"""What became of a message, told from its log lines alone.

Owns the derivation: lines → per recipient the state it is in, which receipts were proven, by what and when, and what
happens next. Pure: it reads neither disk nor clock. A receipt that no line proves is missing, never assumed, even when
a later one is there. Lines it does not know change nothing; no order of lines can make it fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ackd.core.message import Folder, identity
from ackd.core.message_files import STRAY_CURE, STRAY_WORDS
from ackd.frontends.facts import clock_time, duration, evidence, short_id, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ackd.adapters.session_log import Line

RECEIPTS: Final = ("queued", "claimed", "told", "seen", "acked", "completed")
#: From the least finished to the most; a message with several recipients is where the least finished of them is.
STATES: Final = ("stray", "queued", "retrying", "processing", "delivered", "acked", "dead", "withdrawn", "completed")
OVER: Final = frozenset({"dead", "withdrawn", "completed"})

#: type → the state it leads to, and the states in which it comes too late to lead anywhere.
_LEADS_TO: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "message_queued": ("queued", frozenset()),
    "message_claimed": ("processing", OVER | {"acked"}),
    "message_told": ("delivered", OVER | {"acked"}),
    "message_acked": ("acked", OVER),
    "message_completed": ("completed", frozenset()),
    "message_retry": ("retrying", OVER),
    "message_dead": ("dead", frozenset({"completed"})),
    "message_withdrawn": ("withdrawn", frozenset({"completed"})),
    "message_requeued": ("queued", frozenset()),
}
_HOLDING: Final = ("message_held", "message_released")
#: A restart tells every message it finds as queued again; these states outlive it (they stand in the file's header).
_OUTLIVE_RESTART: Final = frozenset({"delivered", "acked", "retrying"})
#: receipt → the key of its line's data that names the proof.
_PROOFS: Final[Mapping[str, tuple[str, str]]] = {
    "message_queued": ("queued", "file"),
    "message_claimed": ("claimed", "file"),
    "message_told": ("told", "proof"),
    "message_seen": ("seen", "evidence"),
    "message_acked": ("acked", "by"),
    "message_completed": ("completed", "by"),
}


@dataclass(frozen=True, slots=True)
class Proven:
    """One receipt that a line proves. ``at`` is the line's timestamp."""

    receipt: str
    at: str
    agent: str
    proof: str


@dataclass(frozen=True, slots=True)
class Course:
    """The message's life at one recipient."""

    agent: str
    state: str = "queued"
    receipts: tuple[Proven, ...] = ()
    file: str | None = None  # as its newest line names it
    reason: str | None = None  # why it is retried, dead or withdrawn
    next_retry_after: str | None = None
    held: str = ""  # why it stays in the queue until a person lets it go
    note: str = ""  # what the disk says beyond the log

    @property
    def missing(self) -> tuple[str, ...]:
        proven = {one.receipt for one in self.receipts}
        return tuple(receipt for receipt in RECEIPTS if receipt not in proven)

    def proof_of(self, receipt: str) -> Proven | None:
        return next((one for one in self.receipts if one.receipt == receipt), None)


@dataclass(frozen=True, slots=True)
class Story:
    message_id: str
    courses: tuple[Course, ...] = ()
    events: tuple[Line, ...] = ()
    answers: tuple[str, ...] = ()  # ids of the messages that reply to it
    around: tuple[Line, ...] = ()  # what happened to its agents while they had it (care.py)
    header: Mapping[str, str] = field(default_factory=dict)  # from, type, priority, thread_id, in_reply_to, task_id

    @property
    def state(self) -> str:
        return min((course.state for course in self.courses), key=STATES.index, default="unknown")


def story(lines: Iterable[Line], message_id: str) -> Story:
    """The story that lines of ``find_message_lines`` tell. Lines about other messages only add answers."""
    courses: dict[str, Course] = {}
    before: dict[str, Course] = {}  # as it stood when the newest message_queued came
    events: list[Line] = []
    answers: dict[str, None] = {}
    header: dict[str, str] = {}
    for line in lines:
        if line.data.get("message_id") != message_id:
            if line.data.get("in_reply_to") == message_id:
                answers[str(line.data.get("message_id"))] = None
            elif line.data.get("escalation_id") == message_id:
                events.append(line)
            continue
        events.append(line)
        if line.type == "message_queued":
            header = header or _header(line.data)
        who = _recipient(line)
        if who is None:
            continue
        course = courses.get(who) or Course(str(line.data["agent"]))
        if line.type == "message_queued":
            before[who] = course
        elif line.type == "message_duplicate":  # the queued line was a copy's: the message itself is where it was
            course = before.get(who, course)
        courses[who] = advanced(course, line)
    return Story(message_id, tuple(courses.values()), tuple(events), tuple(answers), header=header)


def _recipient(line: Line) -> str | None:
    """Whose course the line belongs to. A warning about a receipt for nobody's message must not make one up."""
    agent = line.data.get("agent")
    known = line.type in _LEADS_TO or line.type in ("message_seen", "message_duplicate", *_HOLDING)
    return identity(agent) if known and isinstance(agent, str) else None


def advanced(course: Course, line: Line) -> Course:
    """The course after one more line."""
    file = _text(line.data, "file") or course.file
    match line.type:
        case "message_duplicate":
            return course
        case "message_held":
            return replace(course, held=_text(line.data, "reason") or "a loop")
        case "message_released" | "message_claimed":
            course = replace(course, held="")
        case "message_requeued":  # a new life: what was proven in the last one proves nothing now
            return Course(
                course.agent, receipts=(Proven("queued", line.timestamp, course.agent, "requeued"),), file=file
            )
        case "message_retry" | "message_dead" | "message_withdrawn":
            course = replace(
                course,
                reason=_text(line.data, "reason"),
                next_retry_after=_text(line.data, "next_retry_after"),
            )
    return replace(course, state=_state_after(course, line), receipts=_receipts_after(course, line), file=file)


def _state_after(course: Course, line: Line) -> str:
    state, too_late_in = _LEADS_TO.get(line.type, (course.state, frozenset()))
    if line.type == "message_queued" and line.data.get("recovered"):
        too_late_in = _OUTLIVE_RESTART
    return course.state if course.state in too_late_in else state


def _receipts_after(course: Course, line: Line) -> tuple[Proven, ...]:
    """The newest proof of each receipt, but the first of "queued": being found again is not being queued again."""
    receipt, key = _PROOFS.get(line.type, ("", ""))
    if not receipt or (receipt == "queued" and course.receipts):
        return course.receipts
    proof = _text(line.data, key) or "not said"
    if receipt in ("seen", "completed"):
        proof = evidence(proof)
    if receipt == "told" and "attempt" in line.data:
        proof = f"{proof} (attempt {line.data['attempt']})"
    proven = {one.receipt: one for one in course.receipts} | {
        receipt: Proven(receipt, line.timestamp, course.agent, proof)
    }
    return tuple(proven[name] for name in RECEIPTS if name in proven)


def _header(data: Mapping[str, Any]) -> dict[str, str]:
    names = {"message_type": "type"}
    wanted = ("from", "message_type", "priority", "thread_id", "in_reply_to", "task_id")
    return {names.get(key, key): text for key in wanted if (text := _text(data, key)) is not None}


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return str(value) if value is not None else None


# --- what the disk adds -----------------------------------------------------------------------------------------------
#: Where a file lies → the state that alone is known from it.
_STATE_IN: Final[Mapping[Folder, str]] = {
    Folder.QUEUE: "queued",
    Folder.PROCESSED: "processing",
    Folder.DEAD: "dead",
    Folder.ARCHIVE: "completed",
}


def from_disk_alone(agent: str, folder: Folder) -> Course:
    """A message that no log tells of: the daemon has not met it, or its logs are gone."""
    met = "" if folder is not Folder.QUEUE else ": no daemon has picked it up yet"
    return Course(agent, state=_STATE_IN.get(folder, "queued"), note=f"the logs know nothing of it{met}")


def stray(agent: str) -> Course:
    """A message that lies in a queue under a name that nobody reads: it was never queued."""
    return Course(agent, state="stray", note=STRAY_WORDS)


def corrected(course: Course, folder: Folder | None) -> Course:
    """The directory is the state: a dead letter that lies in a queue was dug up while nobody wrote a log."""
    if folder is Folder.QUEUE and course.state in ("dead", "withdrawn"):
        return Course(course.agent, file=course.file, note="it was put back into the queue after the last log line")
    return course


# --- what comes next --------------------------------------------------------------------------------------------------
def next_step(course: Course, message_id: str, *, now: float, agent_state: Line | None, daemon_runs: bool) -> str:
    """One sentence; empty when nothing more is to come."""
    if course.state == "dead":
        return f"nothing, unless someone digs it up: ackd dead requeue {short_id(message_id)}"
    if course.state in OVER:
        return ""
    if course.state == "stray":
        return STRAY_CURE
    who = visible(course.agent)
    step = {
        "queued": _waiting(course, message_id, who),
        "processing": f"{who} is being told",
        "delivered": _awaited(course, who),
        "acked": f"waiting for {who} to complete it",
        "retrying": _again(course, now),
    }[course.state]
    if course.state in ("queued", "retrying") and not course.held and agent_state is not None:
        step += hindrance(agent_state, who)
    return step if daemon_runs else f"{step}; no daemon is running: start it with `ackd run`"


def _waiting(course: Course, message_id: str, who: str) -> str:
    if not course.held:
        return f"waits until {who} can take it"
    return f"held, for {visible(course.held)}: `ackd loop release {short_id(message_id)}` lets it go"


def _awaited(course: Course, who: str) -> str:
    return f"{who} has it: waiting for its result" if course.proof_of("seen") else f"waiting for {who} to ack it"


def _again(course: Course, now: float) -> str:
    try:
        at = datetime.fromisoformat(course.next_retry_after or "").timestamp()
    except (ValueError, OverflowError):
        return "tried again"
    return f"tried again at {clock_time(at)}, " + (f"in {duration(at - now)}" if at > now else "which is now")


def hindrance(agent_state: Line, who: str) -> str:
    """Why its agent takes nothing, as the end of a sentence; empty if it does."""
    state, reason = agent_state.data.get("state"), agent_state.data.get("reason")
    if state not in ("parked", "paused", "down"):
        return ""
    return f"; {who} is {state}" + (f": {visible(reason)}" if reason else "")
