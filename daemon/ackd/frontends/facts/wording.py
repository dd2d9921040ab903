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
_SEEN: Final = "ackd seen"


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
    return f"by {evidence(of['by'])}{of.time('seconds', ', after {}')}{late}"


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
    who = of("why", ": {}") if of.data.get("how") == "over" else of("by", " by {}")
    return f"closed{of('cause', ': {}')}{cases}{of('how', ', {}')}{who}"


def _loop(of: _Values) -> str:
    members = of.data.get("members")
    names = ", ".join(map(visible, members)) if isinstance(members, list) else "?"
    return f"{names} passed {of['about']} around {of['rounds']} times"


def _notice(of: _Values) -> str:
    told = "held back for the summary of the hour, for" if of("held") else "told"
    return f"{of['cause']}: {told} {of['to']}{of('summary', ': {}')}"


def evidence(said: str) -> str:
    """What showed that it was seen (or so completed). A receipt names its kind; the person typed another command."""
    return said.removesuffix(_SEEN) + SEEN_BY_READING if said in (_SEEN, f"seen: {_SEEN}") else said


def _nudge(of: _Values) -> str:
    return "woken by hand, with the first rung" if of("by") else f"silent: rung {of['rung']} of its ladder"


def _worker_state(of: _Values) -> str:
    return f"{of['state']}{of('refused', '; it says {}, which cannot follow: not believed')}"


def _context_threshold(of: _Values) -> str:
    used, allowed = (_percent(of.data.get(key)) for key in ("usage", "threshold"))
    return f"{used} of its context used, {allowed} allowed: a fresh one shall go on"


def _percent(share: object) -> str:
    return f"{share:.0%}" if isinstance(share, int | float) else "?"


def _held_back(of: _Values) -> str:
    return of("held_back", ", and {} like it since the last")


def _agent_request(of: _Values) -> str:
    return f"{of['request']}{of('by', ', asked for by {}')}: {of['answer']}"


def _child_restart(of: _Values) -> str:
    count = of.data.get("count")
    deaths = f", after {count} deaths" if isinstance(count, int) and count > 1 else ""
    when = "at once" if of.data.get("in_s") == 0 else f"in {duration(of.data.get('in_s'))}"
    return f"started again {when}{deaths}{of('why', ': {}')}"


def _child_started(of: _Values) -> str:
    if of("adopted"):
        return f"pid {of['pid']} adopted: it outlived the last daemon"
    return f"pid {of['pid']} started{of('generation', ', generation {}')}"


def _child_ended(of: _Values) -> str:
    if of("why"):
        return f"pid {of['pid']} ended{of.time('seconds', ' after {}')}: {of['why']}"
    code = f", exit {of['exit']}" if "exit" in of.data else ", nobody knows how"
    left = of.data.get("left")
    behind = f"; no KILL ends what it started: pid {', '.join(map(str, left))}" if isinstance(left, list) else ""
    return f"pid {of['pid']} ended{code}{of.time('seconds', ', after {}')}{behind}"


def _how(of: _Values) -> str:
    return {"hand": ", by an edit of locks.json", "line": ", after waiting"}.get(of("by"), "")


def _let_go(of: _Values) -> str:
    return "" if of("reason") == "released" else of("reason", ": {}")


def _bus_message(of: _Values) -> str:
    about = of("task_id", " {}") or of("filepath", " {}") or of("director", " of {}")
    return f"{of['track']}: {of['source']} says {of['bus_type']}{about}{of.mark('recovered', ', read again')}"


def _worker_stale(of: _Values) -> str:
    task = of("task_id", " with {}")
    return f"{of['track']}: {of['worker']} is silent{of.time('silent_s', ' for {}')}, {of['status']}{task}{_told(of)}"


def _told(of: _Values) -> str:
    return of("to", ": told {}")


def _stage(of: _Values, words: str) -> str:
    return f"{of['story']} stage {of['stage']}: {words}"


def _stage_ended(of: _Values) -> str:
    score = of("score", ", score {}")
    return _stage(of, f"{of['result']}{score}{of.time('seconds', ', after {}')}{of('detail', ': {}')}")


def _stage_report(of: _Values) -> str:
    said = f"reports {of['result']}{of('score', ', score {}')}"
    return _stage(of, said + _HEARD.get(str(of.data.get("heard")), of("heard", ", {}")))


#: What was made of a report.
_HEARD: Final = {
    "processed": "",
    "duplicate": ", said before: acknowledged again",
    "late": ", of an old worker: acknowledged, not processed",
}


def _story_done(of: _Values) -> str:
    stages = of.data.get("stages")
    found = [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []
    words = (" ".join(visible(one.get(key, "")) for key in ("stage", "result", "score")).strip() for one in found)
    return f"{of['story']}: all four stages passed{of.time('seconds', ', after {}')}: {', '.join(words)}"


def _spool_lost(of: _Values) -> str:
    files = of.data.get("files")
    number = len(files) if isinstance(files, list) else "?"
    return f"its queue directory was removed, and {number} files with it{of('files', ': {}')}"


def _report_overdue(of: _Values) -> str:
    polled = of.time("poll_s", ": the reports are looked at every {}")
    return f"no report{of('task_id', ' on {}')}{of.time('seconds', ' for {}')}{polled}"


def progress_words(data: Mapping[str, Any]) -> str:
    """The seed's one-line format; what was not said is a dash."""
    return " ".join(f"{key}={visible(data.get(key))}" for key in ("stage", "percent", "message"))


def _board_phase(of: _Values) -> str:
    how = {"complete": "everybody has spoken", "time": "its time is up"}.get(of["by"], f"ended by {of['by']}")
    phase = f"{of['phase']}{of('round', ', round {}')}"
    return f"{of['meeting']}: {phase} after {of['before']}: {how}{_absent(of)}"


def _absent(of: _Values) -> str:
    return of.mark("absent", of("absent", "; absent: {}"))


def _board_answer(of: _Values) -> str:
    if of("refused"):
        return f"{of['meeting']}: {of('director', '{}, ')}{of['what']} not counted: {of['refused']}"
    to = of("talk", ", {}") + of("to", " to {}") + of.mark("changes_my_verdict", ", which changes its verdict")
    return f"{of['meeting']}: {of['director']}, {of['what']}{of('verdict', ': {}')}{to} (by {of['door']})"


def _board_resolved(of: _Values) -> str:
    votes = of.mark("votes", of("votes", "; {}"))
    more = votes + _absent(of) + of("escalated_to", "; told {}") + of("by", " by {}")
    return f"{of['meeting']}: {of['verdict']}{more}"


def _not_made(of: _Values) -> str:
    return f"could not be typed, {of['not_done']}"


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
    "deadlock_detected": lambda of: f"{of['members']} wait in a circle on {of['track']}: {of['youngest']} is to yield",
    "deadlock_broken": lambda of: f"{of['members']} wait no more on {of['track']}{of.time('seconds', ', after {}')}",
    "loop_detected": _loop,
    "message_copied": lambda of: f"{of['of']} names it as well and lay there alone: copied to {of['file']}",
    "message_held": lambda of: f"held in the queue: {of['reason']}{of('release', '; `{}` lets it go')}",
    "message_released": lambda of: f"held no longer{of('by', ': let go by {}')}",
    "nudge": _nudge,
    "nudged": lambda of: f"{of('rung', 'rung {}: ')}{of['done']}",
    "probe": lambda of: f"quiet{of.time('quiet_s', ' for {}')}: “{of['text']}”",
    "probed": lambda of: f"{of['done']}",
    "idle_reminder": lambda of: f"idle at its prompt, reminder {of['number']}: {of('proof') or _not_made(of)}",
    "message_waits": lambda of: (
        f"its agent waits for {of['waits_for']}" if of("waits_for") else "its agent waits no more"
    ),
    "agent_shows": lambda of: f"its screen says: {of['doing']}",
    "liveness": lambda of: f"{of['liveness']}{of('before', ', before: {}')}",
    "agent_state": lambda of: f"{of['state']}{of('reason', ': {}')}{of('until', ', until {}')}",
    "progress": lambda of: progress_words(of.data),
    "child_started": _child_started,
    "child_ended": _child_ended,
    "child_restart": _child_restart,
    "agent_request": _agent_request,
    "worker_state": _worker_state,
    "work_blocked": lambda of: f"cannot go on: {of['reason']}{of('blocker', ', waits for {}')}",
    "context_threshold": _context_threshold,
    "checkpoint": lambda _: "said where it stands: whoever goes on begins there",
    "late_word": lambda of: f"came too late, that is settled or another's by now: {of['text']}{_held_back(of)}",
    "bad_line": lambda of: f"said what is no message ({of['error']}): {of['text']}{_held_back(of)}",
    "naive_time": lambda of: f"writes times without a zone, read as local: {of['text']}",
    "keys_sent": lambda of: f"{of('why', '{}: ')}pressed {of['keys']}{of('seen', '; seen: {}')}",
    "pane_found": lambda of: f"pane {of['pane']}{of('target', ' ({})')} found{of('by', ' by {}')}",
    "pane_gone": lambda of: f"its pane is gone: {of['why']}",
    "pane_stuck": lambda of: f"its pane waits: {of['why']}",
    "signal_ignored": lambda of: f"{of['signal']} means nothing to ackd, which goes on",
    "overslept": lambda of: f"ackd did not run for {of['seconds']} s and more: receipts and files are read first",
    "archive_swept": lambda of: f"older than archive_days, removed: {of['days']}",
    "output_cut": lambda of: f"it prints more than {of['limit_bytes']} bytes: only the end is kept, and it goes on",
    "watch_overflow": lambda _: "the kernel dropped notifications: everything is scanned again",
    "watch_degraded": lambda of: f"{of('mode') or 'polling'} from now on: {of['reason']}",
    "watch_restored": lambda of: f"{of('mode') or 'inotify'} again",
    "spool_lost": _spool_lost,
    "io_error": lambda of: f"{of['what']}: {of['error']}{of('advice', ' → {}')}",
    "io_recovered": lambda of: f"over{of.time('seconds', ' after {}')}: {of['error']}{of('times', ', met {} times')}",
    "lease_granted": lambda of: f"{of['path']} leased{of('lock_type', ', {}')}, token {of['token']}{_how(of)}",
    "lease_renewed": lambda of: f"{of['path']} until {of['until']}",
    "lease_released": lambda of: f"{of['path']} let go{of.mark('by', ', by an edit of locks.json')}{_let_go(of)}",
    "lease_expired": lambda of: f"its time with {of['path']} is over",
    "lease_waiting": lambda of: f"waits for {of['path']}{of('behind', ', behind {}')}",
    "lease_broken": lambda of: f"{of['path']} was taken from it by an edit of locks.json, for {of['taken_by']}",
    "lease_conflict": lambda of: f"{of['path']} is leased on several buses at once: {of['agents']} ({of['tracks']})",
    "lease_refused": lambda of: f"no lease can be about {of['path']}: {of['reason']}",
    "lease_unreadable": lambda of: f"a file of leases could not be read: kept as {of['kept_as']}, taken for empty",
    "reminder": lambda _: "waits unread: reminded",
    "notify_failed": lambda of: f"on_escalation could not be run: {of['error']}{of('command', ' ({})')}",
    "notice": _notice,
    "stray_file": lambda of: f"left where it lies: {of['file']}: {of['reason']}",
    "board_opened": lambda of: f"{of['meeting']}: {of['checkpoint']}, called by {of['opener']}, with {of['directors']}",
    "board_phase": _board_phase,
    "board_answer": _board_answer,
    "board_resolved": _board_resolved,
    "file_taken_in": lambda of: f"{of['file']}, version {of['version']}, became mail{of('from', ' from {}')}",
    "vague_report": lambda of: f"vague words in {of['file']}: {of['words']}",
    "task_passed_over": lambda of: f"not given out: {of['file']}: {of['reason']}",
    "ack_stale": lambda of: f"{of['file']} is {of.time('older_s', '{}')} older than its task: it does not count",
    "report_overdue": _report_overdue,
    "bus_track": lambda of: f"{of['track']}: {of['state']}{of('bus', ', {}')}",
    "bus_message": _bus_message,
    "bus_bad_line": lambda of: f"{of['track']}: byte {of['offset']} is no message ({of['error']}): {of['text']}",
    "bus_bad_file": lambda of: f"{of['track']}: {of['file']}: {of['error']}",
    "bus_restarted": lambda of: f"{of['track']}: {of['file']} is read from its beginning: {of['why']}",
    "bus_events_cleared": lambda of: f"{of['track']}: {of['number']} old event files removed",
    "worker_stale": _worker_stale,
    "worker_back": lambda of: f"{of['track']}: {of['worker']} is heard again, {of['status']}",
    "story_state": lambda of: f"{of['story']}: {of['state']}{of('before', ', before: {}')}{of('reason', ': {}')}",
    "story_done": _story_done,
    "stage_execute": lambda of: _stage(of, f"its worker (try {of['generation']}) is told to begin"),
    "stage_report": _stage_report,
    "stage_ended": _stage_ended,
    "stage_ack": lambda of: _stage(of, "acknowledged"),
    "stage_check": lambda of: _stage(of, f"asked for its status{of('why', ' ({})')}"),
    "stage_status": lambda of: _stage(of, f"{of['doing']}: {of['step']}"),
    "stage_unparsed": lambda of: _stage(of, f"said what is no report ({of['why']}): {of['text']}"),
    "stage_said": lambda of: _stage(of, "its worker printed something for its lead"),
    "stage_worker_ended": lambda of: _stage(of, f"its worker has ended: {of['why']}"),
    "log_gap": lambda of: f"{of['lost']} lines could not be written to this log and are lost",
}
