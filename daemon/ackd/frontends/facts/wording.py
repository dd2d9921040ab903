"""What happened, in plain English: the words for each type of fact.

Owns the sentences; `ackd run`, `tail` and `explain` share them. Refuses to know how they are drawn. Never fails: a type
it has no words for is shown key by key, and a missing key as ``?``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackd.frontends.facts.harmless import duration, short_id, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackd.adapters.session_log import Line


SEEN_BY_READING: Final = "read through `ackd read`"


def words(line: Line) -> str:
    """What happened, in plain English, without time, kind, id and agent."""
    wording = WORDS.get(line.type)
    return wording(_Values(line.data)) if wording else _generic(line.data)


def agent_of(line: Line) -> str:
    """Whom the line is about: the recipient, or who reports progress."""
    agent = line.data.get("from" if line.type == "progress" else "agent")
    return agent if isinstance(agent, str) else ""


class _Values:
    """A line's data, each value visible; ``of[key]`` is never missing, ``of(key, shape)`` is nothing if the key is."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def __getitem__(self, key: str) -> str:
        return visible(self.data[key]) if key in self.data else "?"

    def __call__(self, key: str, shape: str = "{}") -> str:
        value = self.data.get(key)
        return shape.format(visible(value)) if value not in (None, "", False) else ""

    def mark(self, key: str, words: str) -> str:
        return words if self.data.get(key) else ""

    def time(self, key: str, shape: str) -> str:
        value = self.data.get(key)
        return shape.format(duration(value)) if isinstance(value, int | float) else ""

    def id(self, key: str, shape: str) -> str:
        value = self.data.get(key)
        return shape.format(short_id(value)) if isinstance(value, str) else ""


def _generic(data: Mapping[str, Any]) -> str:
    return " ".join(f"{visible(k)}={visible(v)}" for k, v in data.items() if k not in ("message_id", "agent"))


def _counts(of: _Values, key: str) -> str:
    counts = of.data.get(key)
    if not isinstance(counts, dict):
        return ""
    return ", ".join(f"{visible(count)} {visible(name)}" for name, count in counts.items() if count)


def _session_start(of: _Values) -> str:
    recovered = _counts(of, "recovered")
    return f"ackd {of['version']} started, pid {of['pid']}, on {of['root']}" + (
        f"; found again: {recovered}" if recovered else ""
    )


def _session_end(of: _Values) -> str:
    totals = _counts(of, "totals")
    return f"ended: {of['reason']}" + (f"; {totals}" if totals else "")


def _queued(of: _Values) -> str:
    more = (
        of("task_id", ", task {}") + of.id("in_reply_to", ", in reply to {}") + of.mark("recovered", ", found at start")
    )
    return f"from {of['from']}: {of['message_type']}, {of['priority']}{more}"


def _completed(of: _Values) -> str:
    late = of.mark("late", ", late") + of.mark("recovered", ", while the daemon was away")
    return f"by {of['by']}{of.time('seconds', ', after {}')}{late}"


def _retry(of: _Values) -> str:
    """The count and the time first: the reason may be long, and it is the end of a line that is cut."""
    count = f"{of['retry_count']} of {of['retry_limit']}" if of.data.get("counted", True) else "not counted"
    return f"{count}{of.time('delay_s', ', again in {}')}: {of['reason']}"


def _dead(of: _Values) -> str:
    retries = of.data.get("retry_count")
    tried = (
        f", after {retries} {'retry' if retries == 1 else 'retries'}" if isinstance(retries, int) and retries else ""
    )
    return f"{of['reason']}{tried}{of.mark('recovered', ', found at start')}"


def _task(done: str) -> Callable[[_Values], str]:
    return lambda of: f"{done}{of('task_id', ' {}')}{of('reason', ': {}')}"


def _escalation(of: _Values) -> str:
    counted = of.data.get("counted")
    times = f", {counted} cases by now" if isinstance(counted, int) and counted > 1 else ""
    return f"{of['cause']}: told {of['to']}{times}"


def _escalation_closed(of: _Values) -> str:
    counted = of.data.get("counted")
    cases = f", {counted} cases" if isinstance(counted, int) and counted > 1 else ""
    return f"closed{of('cause', ': {}')}{cases}{of('how', ', {}')}{of('by', ' by {}')}"


def evidence(said: str) -> str:
    """What showed that it was seen. A receipt names its kind; the person typed another command."""
    return SEEN_BY_READING if said == "ackd seen" else said


def _child_started(of: _Values) -> str:
    return f"pid {of['pid']} adopted: it outlived the last daemon" if of("adopted") else f"pid {of['pid']} started"


def _child_ended(of: _Values) -> str:
    code = f", exit {of['exit']}" if "exit" in of.data else ", nobody knows how"
    return f"pid {of['pid']} ended{code}{of.time('seconds', ', after {}')}"


def _spool_lost(of: _Values) -> str:
    files = of.data.get("files")
    number = len(files) if isinstance(files, list) else "?"
    return f"its queue directory was removed, and {number} files with it{of('files', ': {}')}"


def progress_words(data: Mapping[str, Any]) -> str:
    """The seed's one-line format; what was not said is a dash."""
    return " ".join(f"{key}={visible(data.get(key))}" for key in ("stage", "percent", "message"))


WORDS: Final[Mapping[str, Callable[[_Values], str]]] = {
    "session_start": _session_start,
    "session_end": _session_end,
    "message_queued": _queued,
    "message_claimed": lambda of: f"taken up{of('file', ': {}')}",
    "message_told": lambda of: f"attempt {of['attempt']}, proof: {of['proof']}",
    "message_seen": lambda of: evidence(of["evidence"]),
    "message_acked": lambda of: f"by {of['by']}",
    "message_completed": _completed,
    "message_retry": _retry,
    "message_dead": _dead,
    "message_withdrawn": lambda of: of["reason"],
    "message_rejected": lambda of: f"{of['file']}: {of['reason']} [{of['code']}], kept as {of['kept_as']}",
    "message_duplicate": lambda of: f"came again while {of['of_state']}: not processed twice",
    "message_requeued": lambda of: f"back in the queue{of('file', ': {}')}{of('kept_as', ', out of quarantine ({})')}",
    "message_purged": lambda of: f"removed for good by a person{of('file', ': {}')}",
    "message_warning": lambda of: of["warning"],
    "message_overdue": lambda of: f"still no result{of.time('seconds', ' after {}')}",
    "worker_assign": lambda of: f"works on {of['message_type']}{of('task_id', ' {}')}",
    "worker_release": lambda of: f"free again{of('task_id', ' of {}')}{of('reason', ': {}')}",
    "task_start": _task("started"),
    "task_complete": _task("complete"),
    "task_failed": _task("failed"),
    "review_start": _task("review asked for"),
    "review_result": lambda of: f"review{of('from', ' from {}')}{of('task_id', ' of {}')}{of('result', ': {}')}",
    "escalation": _escalation,
    "escalation_closed": _escalation_closed,
    "loop_detected": lambda of: f"{of['a']} and {of['b']} passed {of['about']} back and forth {of['count']} times",
    "nudge": lambda of: f"silent: rung {of['rung']} of its ladder",
    "agent_state": lambda of: f"{of['state']}{of('reason', ': {}')}{of('until', ', until {}')}",
    "progress": lambda of: progress_words(of.data),
    "child_started": _child_started,
    "child_ended": _child_ended,
    "overslept": lambda of: f"ackd did not run for {of['seconds']} s and more: receipts and files are read first",
    "output_cut": lambda of: f"it prints more than {of['limit_bytes']} bytes: only the end is kept, and it goes on",
    "watch_overflow": lambda _: "the kernel dropped notifications: everything is scanned again",
    "watch_degraded": lambda of: f"{of('mode') or 'polling'} from now on: {of['reason']}",
    "watch_restored": lambda of: f"{of('mode') or 'inotify'} again",
    "spool_lost": _spool_lost,
    "io_error": lambda of: f"{of['what']}: {of['error']}{of('advice', ' → {}')}",
    "io_recovered": lambda of: f"over{of.time('seconds', ' after {}')}: {of['error']}{of('times', ', met {} times')}",
    "reminder": lambda _: "waits unread: reminded",
    "notify_failed": lambda of: f"on_escalation could not be run: {of['error']}{of('command', ' ({})')}",
    "stray_file": lambda of: f"left where it lies: {of['file']}: {of['reason']}",
    "log_gap": lambda of: f"{of['lost']} lines could not be written to this log and are lost",
}
