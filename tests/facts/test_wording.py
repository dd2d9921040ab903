"""The words of each type, and that none is without."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.facts import render
from ackd.facts.table import FACTS
from tests.facts.bench import ID, about, line

GOLDEN = [
    ("session_start", {"version": "0.1.0", "pid": 42, "root": ".ackd", "config_hash": "ab", "recovered": {"queued": 2, "dead": 0}}, "daemon      ackd 0.1.0 started, pid 42, on .ackd; found again: 2 queued"),
    ("session_start", {"version": "0.1.0", "pid": 42, "root": ".ackd", "config_hash": "ab", "recovered": {}, "restored": "restored from a backup of /a, taken 2026-11-19"}, "daemon      ackd 0.1.0 started, pid 42, on .ackd; restored from a backup of /a, taken 2026-11-19: every agent is paused until `ackd agent resume`"),
    ("snapshot_taken", {"receipt": "snapshot_1.json", "files": 40, "seconds": 0.012}, "snapshot    snapshot of 40 files for a backup: nothing was moved for 0.012 s"),
    ("snapshot_taken", {"receipt": "snapshot_1.json", "files": 0, "seconds": 0.0, "error": "run: No space left on device"}, "snapshot    no snapshot for a backup: run: No space left on device"),
    ("session_end", {"reason": "SIGTERM", "totals": {"completed": 3, "dead": 1}}, "daemon      ended: SIGTERM; 3 completed, 1 dead"),
    ("session_stopping", {"agents": ["coder"], "seconds": 20}, "daemon      stopping: coder may finish its message, for at most 20 s; Ctrl-C again stops at once"),
    ("session_stopping", {"agents": ["coder", "tester"], "seconds": 90}, "daemon      stopping: coder, tester may finish their messages, for at most 90 s; Ctrl-C again stops at once"),
    ("session_stopping", {"agents": ["coder", "tester"], "seconds": 20, "asked": ["coder"]}, "daemon      stopping: coder, tester may finish their messages, for at most 20 s; coder is asked for a checkpoint; Ctrl-C again stops at once"),
    ("session_stopping", {"agents": [], "seconds": 20, "left": ["tester"]}, "daemon      stopping: commands of tester run on, and the next daemon takes them up; Ctrl-C again stops at once"),
    ("message_queued", about(**{"from": "leader"}, message_type="task_assignment", priority="high", file="f.mime"), "queued      1763.42.ab12  builder       from leader: task_assignment, high"),
    ("message_queued", about(**{"from": "a"}, message_type="message", priority="low", file="f", task_id="T1", in_reply_to="9.9.ff@x", recovered=True), "queued      1763.42.ab12  builder       from a: message, low, task T1, in reply to 9.9.ff, found at start"),
    ("message_claimed", about(file="f.mime"), "claimed     1763.42.ab12  builder       taken up: f.mime"),
    ("message_told", about(attempt=2, proof="child started"), "told        1763.42.ab12  builder       attempt 2, proof: child started"),
    ("message_seen", about(evidence="child runs"), "seen        1763.42.ab12  builder       child runs"),
    ("message_acked", about(by="reply"), "acked       1763.42.ab12  builder       by reply"),
    ("message_completed", about(by="exit 0", seconds=3.21), "completed   1763.42.ab12  builder       by exit 0, after 3.2 s"),
    ("message_completed", about(by="deletion", recovered=True), "completed   1763.42.ab12  builder       by deletion, while the daemon was away"),
    ("message_retry", about(reason="exit 3: no such file", counted=True, retry_count=2, retry_limit=3, delay_s=7.0), "retry       1763.42.ab12  builder       2 of 3, again in 7 s: exit 3: no such file"),
    ("message_retry", about(reason="stopped", counted=False, retry_count=0, retry_limit=3, delay_s=0), "retry       1763.42.ab12  builder       not counted, again in 0 s: stopped"),
    ("message_dead", about(**{"from": "leader"}, reason="exit 3", retry_count=3, file="f"), "dead        1763.42.ab12  builder       exit 3, after 3 retries"),
    ("message_dead", about(reason="refused", retry_count=0), "dead        1763.42.ab12  builder       refused"),
    ("message_withdrawn", about(reason="deleted before it was told"), "withdrawn   1763.42.ab12  builder       deleted before it was told"),
    ("message_queued", about(**{"from": "a"}, message_type="message", priority="low", file="f", expires="2026-11-19T02:00:00Z", deadline="2026-11-19T03:00:00Z"), "queued      1763.42.ab12  builder       from a: message, low, expires 2026-11-19 02:00:00, due 2026-11-19 03:00:00"),
    ("message_cancel", about(by="leader", state="delivered", reason="no need"), "cancel      1763.42.ab12  builder       cancelled by leader: no need (it is delivered)"),
    ("message_cancel", about(by="leader", state="queued", of="9.9.ff@x"), "cancel      1763.42.ab12  builder       cancelled by leader with 9.9.ff (it is queued)"),
    ("message_let_go", about(how="its command was ended"), "let go      1763.42.ab12  builder       its agent has let go of it: its command was ended"),
    ("message_late", about(by="ackd done"), "late        1763.42.ab12  builder       completed by ackd done after it was cancelled: it stays cancelled"),
    ("deadline_near", about(deadline="2026-11-19T03:00:00Z", how="by mail"), "deadline    1763.42.ab12  builder       due at 2026-11-19 03:00:00: its agent is reminded by mail"),
    ("deadline_passed", about(deadline="2026-11-19T03:00:00Z", state="acked", then="tell"), "deadline    1763.42.ab12  builder       not completed by 2026-11-19 03:00:00: it is acked"),
    ("deadline_passed", about(deadline="2026-11-19T03:00:00Z", state="acked", then="cancel"), "deadline    1763.42.ab12  builder       not completed by 2026-11-19 03:00:00: it is acked, and is cancelled"),
    ("message_rejected", {"file": "x.mime", "agent": "builder", "code": "not_utf8", "reason": "not UTF-8", "kept_as": "corrupt/x.mime"}, "rejected    builder       x.mime: not UTF-8 [not_utf8], kept as corrupt/x.mime"),
    ("message_duplicate", about(of_state="completed", file="f"), "duplicate   1763.42.ab12  builder       came again while completed: not processed twice"),
    ("message_handed_back", about(pool="builders", reason="exit 1", file="f"), "returned    1763.42.ab12  builder       back in the queue of builders: exit 1"),
    ("message_requeued", about(file="f"), "requeued    1763.42.ab12  builder       back in the queue: f"),
    ("message_requeued", {"agent": "builder", "file": "queue/builder/f", "kept_as": "f-1"}, "requeued    builder       back in the queue: queue/builder/f, out of quarantine (f-1)"),
    ("message_purged", {"file": "dead_letter/f", "message_id": ID}, "purged      1763.42.ab12  removed for good by a person: dead_letter/f"),
    (
        "message_completed",
        about(by="seen: ackd seen"),
        "completed   1763.42.ab12  builder       by seen: read through `ackd read`",
    ),
    ("message_seen", about(evidence="ackd seen"), "seen        1763.42.ab12  builder       read through `ackd read`"),
    ("message_warning", about(warning="same id, other content"), "warning     1763.42.ab12  builder       same id, other content"),
    ("message_overdue", about(seconds=1800), "overdue     1763.42.ab12  builder       still no result after 30 min"),
    ("worker_assign", about(message_type="task_assignment", task_id="T1"), "assign      1763.42.ab12  builder       works on task_assignment T1"),
    ("worker_release", about(message_type="task_assignment", reason="completed"), "release     1763.42.ab12  builder       free again: completed"),
    ("task_start", about(task_id="T1"), "task        1763.42.ab12  builder       started T1"),
    ("task_complete", about(), "task        1763.42.ab12  builder       complete"),
    ("task_failed", about(task_id="T1", reason="exit 3"), "task        1763.42.ab12  builder       failed T1: exit 3"),
    ("review_start", about(task_id="T1"), "review      1763.42.ab12  builder       review asked for T1"),
    ("review_result", about(**{"from": "evaluator"}, task_id="T1", result="pass"), "review      1763.42.ab12  builder       review from evaluator of T1: pass"),
    ("escalation", about(cause="dead_letter", to="leader", escalation_id="e@x", counted=1), "escalation  1763.42.ab12  builder       dead_letter: told leader"),
    ("escalation", about(cause="dead_letter", to="leader", escalation_id="e@x", counted=4), "escalation  1763.42.ab12  builder       dead_letter: told leader, 4 cases by now"),
    ("escalation_closed", {"agent": "builder", "cause": "dead_letter", "by": "leader", "how": "completed", "counted": 1}, "escalation  builder       closed: dead_letter, completed by leader"),
    ("escalation_closed", {"agent": "builder", "cause": "stuck", "by": "queue_monitor", "how": "over", "why": "it goes on", "counted": 1}, "escalation  builder       closed: stuck, over: it goes on"),
    ("escalation_closed", {"agent": "builder", "cause": "dead_letter", "by": "leader", "how": "withdrawn", "counted": 3}, "escalation  builder       closed: dead_letter, 3 cases, withdrawn by leader"),
    ("loop_detected", {"members": ["x", "y"], "about": "T1", "rounds": 6}, "loop        x, y passed T1 around 6 times"),
    ("message_copied", about(file="queue/builder/a.mime", of="queue/leader/a.mime"), "copied      1763.42.ab12  builder       queue/leader/a.mime names it as well and lay there alone: copied to queue/builder/a.mime"),
    ("message_held", about(reason="a and b answered each other", release="ackd loop release 1"), "held        1763.42.ab12  builder       held in the queue: a and b answered each other; `ackd loop release 1` lets it go"),
    ("message_released", about(by="a person"), "released    1763.42.ab12  builder       held no longer: released by a person"),
    ("deadlock_detected", {"track": "auth", "members": ["w1", "w2"], "youngest": "w2", "told": ["w1"]}, "deadlock    w1, w2 wait in a circle on auth: w2 is to yield"),
    ("deadlock_broken", {"track": "auth", "members": ["w1", "w2"], "seconds": 62}, "deadlock    w1, w2 wait no more on auth, after 62 s"),
    ("nudge", about(rung=2), "nudge       1763.42.ab12  builder       silent: rung 2 of its ladder"),
    ("nudged", about(rung=2, done="keys sent, the pane went busy"), "nudge       1763.42.ab12  builder       rung 2: keys sent, the pane went busy"),
    ("nudge", about(rung=1, by="hand"), "nudge       1763.42.ab12  builder       woken by hand, with the first rung"),
    ("probe", about(text="Status check: are you still working on T1?", quiet_s=120), "check       1763.42.ab12  builder       quiet for 2 min: “Status check: are you still working on T1?”"),
    ("probed", about(done="not done: it is busy"), "check       1763.42.ab12  builder       not done: it is busy"),
    ("idle_reminder", about(number=1, proof="the pane went busy"), "reminder    1763.42.ab12  builder       idle at its prompt, reminder 1: the pane went busy"),
    ("idle_reminder", about(number=2, not_done="it is busy"), "reminder    1763.42.ab12  builder       idle at its prompt, reminder 2: could not be typed, it is busy"),
    ("message_waits", about(waits_for=["coder", "tester"]), "waits       1763.42.ab12  builder       its agent waits for coder, tester"),
    ("message_waits", about(), "waits       1763.42.ab12  builder       its agent waits no more"),
    ("parts_ended", about(notice_id="n1", parts=3, ends={"completed": 2, "dead": 1}), "parts       1763.42.ab12  builder       all 3 parts have ended, its holder is told: 2 completed, 1 dead"),
    ("agent_shows", {"agent": "builder", "doing": "idle"}, "screen      builder       its screen says: idle"),
    ("liveness", {"agent": "builder", "liveness": "down", "before": "alive"}, "liveness    builder       down, before: alive"),
    ("worker_state", about(state="executing"), "worker      1763.42.ab12  builder       executing"),
    ("worker_state", about(state="verifying", passed=True), "worker      1763.42.ab12  builder       verifying, passed on the way to what follows; nobody reported it"),
    ("worker_state", about(state="idle", refused="complete"), "worker      1763.42.ab12  builder       idle; it says complete, which cannot follow: not believed"),
    ("work_blocked", about(reason="no key", blocker="leader"), "blocked     1763.42.ab12  builder       cannot go on: no key, waits for leader"),
    ("context_threshold", about(usage=0.734, threshold=0.7), "context     1763.42.ab12  builder       73% of its context used, 70% allowed: a fresh one shall go on"),
    ("checkpoint", about(), "checkpoint  1763.42.ab12  builder       said where it stands: whoever goes on begins there"),
    ("agent_request", {"agent": "builder", "request": "stop", "by": "user", "answer": "stopped", "receipt": "r"}, "request     builder       stop, asked for by user: stopped"),
    ("agent_request", {"agent": "builder", "request": "nudge", "answer": "not nudged: idle"}, "request     builder       nudge: not nudged: idle"),
    ("child_restart", {"agent": "builder", "in_s": 2.5, "count": 3, "why": "exit 1"}, "restart     builder       started again in 2.5 s, after 3 deaths: exit 1"),
    ("child_restart", {"agent": "builder", "in_s": 0, "why": "by hand"}, "restart     builder       started again at once: by hand"),
    ("late_word", {"agent": "builder", "text": "{}"}, "late        builder       came too late, that is settled or another's by now: {}"),
    ("bad_line", {"agent": "builder", "text": "hello", "error": "not JSON", "held_back": 3}, "bad line    builder       said what is no message (not JSON): hello, and 3 like it since the last"),
    ("naive_time", {"agent": "builder", "text": "x"}, "warning     builder       writes times without a zone, read as local: x"),
    ("keys_sent", about(keys=["Escape", "C-c"], why="rung 2", seen="ready"), "keys        1763.42.ab12  builder       rung 2: pressed Escape, C-c; seen: ready"),
    ("pane_found", {"agent": "builder", "pane": "%3", "target": "team:0.1", "by": "title"}, "pane        builder       pane %3 (team:0.1) found by title"),
    ("pane_gone", {"agent": "builder", "why": "killed"}, "pane        builder       its pane is gone: killed"),
    ("pane_stuck", {"agent": "builder", "why": "usage limit"}, "pane        builder       its pane waits: usage limit"),
    ("agent_state", {"agent": "builder", "state": "parked", "reason": "program missing", "until": "01:05"}, "agent       builder       parked: program missing, until 01:05"),
    ("child_started", about(pid=77), "child       1763.42.ab12  builder       pid 77 started"),
    ("child_started", {"agent": "builder", "pid": 77, "generation": 2}, "child       builder       pid 77 started, generation 2"),
    ("child_ended", {"agent": "builder", "pid": 77, "exit": 1, "seconds": 3, "why": "exit 1"}, "child       builder       pid 77 ended after 3 s: exit 1"),
    ("child_started", about(pid=77, adopted=True), "child       1763.42.ab12  builder       pid 77 adopted: it outlived the last daemon"),
    ("child_ended", about(pid=77, exit=3, outcome="failed", seconds=1.25), "child       1763.42.ab12  builder       pid 77 ended, exit 3, after 1.2 s"),
    (
        "output_cut",
        about(limit_bytes=8388608),
        "child       1763.42.ab12  builder       it prints more than 8388608 bytes: only the end is kept, and it goes on",
    ),
    ("child_ended", about(pid=77, outcome="failed"), "child       1763.42.ab12  builder       pid 77 ended, nobody knows how"),
    ("config_reloaded", {"by": "SIGHUP", "config_hash": "ab"}, "config      ackd.toml is read again (SIGHUP): nothing is different"),
    (
        "config_reloaded",
        {"by": "user", "config_hash": "ab", "added": ["a", "b"], "changed": ["c"], "removed": ["d"], "settings": ["archive_days"], "waiting": ["c", "d"], "not_live": ["root"], "mail": {"d": 3}, "receipt": "r.json"},
        "config      ackd.toml is read again (user): added a, b; changed c; removed d; set archive_days; once they have finished: c, d; not before the next start: root; mail of who was removed stays: 3 d",
    ),
    ("config_refused", {"by": "user", "problems": ["line 3: agents.a: what", "other"]}, "config      ackd.toml was not read again (user), and nothing has changed: line 3: agents.a: what, other"),
    ("endpoint_replaced", {"agent": "builder", "before": "exec", "endpoint": "inbox"}, "endpoint    builder       inbox from now on, before: exec"),
    ("signal_ignored", {"signal": "SIGUSR1"}, "daemon      SIGUSR1 means nothing to ackd, which goes on"),
    ("overslept", {"seconds": 12.5}, "daemon      ackd did not run for 12.5 s and more: receipts and files are read first"),
    ("archive_swept", {"days": ["20261001", "20261002"]}, "archive     older than archive_days, removed: 20261001, 20261002"),
    ("vague_report", {"message_id": "1763.42.ab12cd@ignite.local", "agent": "builder", "file": "queue/reports/T-1.yaml", "words": ["line 1"]}, "report      1763.42.ab12cd  builder       vague words in queue/reports/T-1.yaml: line 1"),
    ("watch_overflow", {}, "watch       the kernel dropped notifications: everything is scanned again"),
    ("watch_degraded", {"reason": "no inotify"}, "watch       polling from now on: no inotify"),
    ("watch_restored", {"mode": "inotify"}, "watch       inotify again"),
    ("spool_lost", {"agent": "builder", "files": ["a.mime", "b.mime"]}, "lost        builder       its queue directory was removed, and 2 files with it: a.mime, b.mime"),
    ("io_error", {"what": "archive", "error": "No space left on device"}, "disk        archive: No space left on device"),
    (
        "io_recovered",
        {"error": "No space left on device", "seconds": 62.0, "times": 14},
        "disk        over after 62 s: No space left on device, met 14 times",
    ),
    ("reminder", about(), "reminder    1763.42.ab12  builder       waits unread: reminded"),
    ("watch_degraded", {"reason": "no inotify", "mode": "polling"}, "watch       polling from now on: no inotify"),
    ("notify_failed", {"message_id": ID, "command": ["./ring.sh", "-x"], "error": "exit 3"}, "notify      1763.42.ab12  on_escalation could not be run: exit 3 (./ring.sh, -x)"),
    ("notice", {"agent": "builder", "cause": "quarantine", "about": "queue/builder/a.mime", "summary": "unreadable", "to": "leader"}, "notice      builder       quarantine: told leader: unreadable"),
    ("notice", {"cause": "stray", "summary": "a.eml", "to": "leader", "held": True}, "notice      stray: held back for the summary of the hour, for leader: a.eml"),
    ("stray_file", {"agent": "builder", "file": "queue/builder/notes.txt", "reason": "not a message"}, "stray       builder       left where it lies: queue/builder/notes.txt: not a message"),
    ("board_opened", {"meeting": "board-1", "track": "t", "checkpoint": "PRE_LAUNCH", "opener": "leader", "directors": ["CA", "CPO"]}, "board       board-1: PRE_LAUNCH, called by leader, with CA, CPO"),
    ("board_phase", {"meeting": "board-1", "phase": "DISCUSSING", "round": 2, "before": "DISCUSSING", "by": "time", "absent": ["CA"]}, "board       board-1: DISCUSSING, round 2 after DISCUSSING: its time is up; absent: CA"),
    ("board_phase", {"meeting": "board-1", "phase": "RESOLVING", "before": "VOTING", "by": "leader", "absent": []}, "board       board-1: RESOLVING after VOTING: ended by leader"),
    ("board_answer", {"meeting": "board-1", "agent": "builder", "director": "CA", "what": "assess", "verdict": "REJECT", "door": "ackd"}, "board       builder       board-1: CA, assess: REJECT (by ackd)"),
    ("board_answer", {"meeting": "board-1", "agent": "builder", "director": "CA", "what": "discuss", "talk": "AGREE", "to": "ALL", "changes_my_verdict": True, "door": "bus"}, "board       builder       board-1: CA, discuss, AGREE to ALL, which changes its verdict (by bus)"),
    ("board_answer", {"meeting": "board-1", "director": "CX", "what": "vote", "refused": "too late", "door": "file"}, "board       board-1: CX, vote not counted: too late"),
    ("board_resolved", {"meeting": "board-1", "verdict": "ESCALATE", "votes": {"CA": "REJECT"}, "absent": ["CPO"], "escalated_to": "leader"}, "board       board-1: ESCALATE; CA=REJECT; absent: CPO; told leader"),
    (
        "file_taken_in",
        about(file="queue/reports/T1-completed.yaml", version=2, task_id="T1", **{"from": "worker-1"}),
        "file        1763.42.ab12  builder       queue/reports/T1-completed.yaml, version 2, became mail from worker-1",
    ),
    ("task_passed_over", {"file": "queue/tasks/w1.yaml", "task_id": "T1", "reason": "it has its report already"}, "task        not given out: queue/tasks/w1.yaml: it has its report already"),
    ("ack_stale", about(task_id="T1", file="queue/ack/T1.ack", older_s=62.0), "stale ack   1763.42.ab12  builder       queue/ack/T1.ack is 62 s older than its task: it does not count"),
    (
        "report_overdue",
        about(task_id="T1", file="queue/tasks/w1.yaml", seconds=180.0, poll_s=30),
        "overdue     1763.42.ab12  builder       no report on T1 for 3 min: the reports are looked at every 30 s",
    ),
    ("lease_granted", {"track": "house", "agent": "builder", "path": "src/a.py", "token": 7, "lock_type": "shared", "by": "line"}, "lease       builder       src/a.py leased, shared, token 7, after waiting"),
    ("lease_granted", {"track": "house", "agent": "builder", "path": "src/a.py", "token": 7, "by": "hand"}, "lease       builder       src/a.py leased, token 7, by an edit of locks.json"),
    ("lease_renewed", {"agent": "builder", "path": "src/a.py", "until": "2026-11-16T01:32:03Z"}, "lease       builder       src/a.py until 2026-11-16 01:32:03"),
    ("lease_released", {"agent": "builder", "path": "src/a.py", "token": 7, "reason": "released"}, "lease       builder       src/a.py released"),
    ("lease_released", {"agent": "builder", "path": "src/a.py", "reason": "its process is gone"}, "lease       builder       src/a.py released: its process is gone"),
    ("lease_released", {"agent": "builder", "path": "src/a.py", "by": "hand"}, "lease       builder       src/a.py released, by an edit of locks.json"),
    ("lease_expired", {"agent": "builder", "path": "src/a.py"}, "lease       builder       its lease on src/a.py has expired"),
    ("lease_waiting", {"agent": "builder", "path": "src/a.py", "behind": ["w2", "w3"]}, "lease       builder       waits for src/a.py, behind w2, w3"),
    ("lease_broken", {"agent": "builder", "path": "src/a.py", "taken_by": "w2"}, "lease       builder       src/a.py was taken from it by an edit of locks.json, for w2"),
    ("lease_conflict", {"path": "src/a.py", "tracks": ["t1", "t2"], "agents": ["w1", "w2"]}, "lease       src/a.py is leased on several buses at once: w1, w2 (t1, t2)"),
    ("lease_refused", {"agent": "builder", "path": "../x", "reason": "outside"}, "lease       builder       no lease can be about ../x: outside"),
    ("lease_unreadable", {"track": "house", "kept_as": "locks.json.x"}, "lease       a file of leases could not be read: kept as locks.json.x, taken for empty"),
    ("bus_track", {"track": "login", "bus": "/p/.message-bus", "state": "found"}, "bus         login: found, /p/.message-bus"),
    ("bus_message", {"track": "login", "message_id": ID, "bus_type": "TASK_COMPLETE", "source": "w1", "task_id": "1.1", "offset": 3}, "bus         1763.42.ab12  login: w1 says TASK_COMPLETE 1.1"),
    ("bus_message", {"track": "login", "message_id": ID, "bus_type": "FILE_LOCK", "source": "w1", "filepath": "a.py", "recovered": True}, "bus         1763.42.ab12  login: w1 says FILE_LOCK a.py, read again"),
    ("bus_bad_line", {"track": "login", "offset": 7, "code": "not_json", "error": "not JSON", "text": "{"}, "bad line    login: byte 7 is no message (not JSON): {"),
    ("bus_bad_file", {"track": "login", "file": "worker-status.json", "error": "not JSON"}, "bus         login: worker-status.json: not JSON"),
    ("bus_restarted", {"track": "login", "file": "queue.jsonl", "why": "it was cut short", "offset": 9}, "bus         login: queue.jsonl is read from its beginning: it was cut short"),
    ("bus_events_cleared", {"track": "login", "number": 3}, "bus         login: 3 old event files removed"),
    ("worker_stale", {"track": "login", "worker": "w1", "status": "RUNNING", "task_id": "1.1", "silent_s": 620, "to": "leader"}, "silent      login: w1 is silent for 10 min, RUNNING with 1.1: told leader"),
    ("worker_back", {"track": "login", "worker": "w1", "status": "RUNNING"}, "heard       login: w1 is heard again, RUNNING"),
    ("story_state", {"story": "A-1", "state": "paused", "before": "stage_1", "reason": "NO-GO"}, "story       A-1: paused, before: stage_1: NO-GO"),
    ("story_done", {"story": "A-1", "seconds": 62.0, "tries": 4, "stages": [{"stage": 0, "result": "COMPLETE", "score": "4"}, {"stage": 2, "result": "COMPLETE", "score": ""}]}, "story       A-1: all four stages passed, after 62 s: 0 COMPLETE 4, 2 COMPLETE"),
    ("stage_execute", about(story="A-1", stage=2, generation=3), "stage       1763.42.ab12  builder       A-1 stage 2: its worker (try 3) is told to begin"),
    ("stage_report", about(story="A-1", stage=1, result="GO", score="8", heard="processed"), "stage       1763.42.ab12  builder       A-1 stage 1: reports GO, score 8"),
    ("stage_report", about(story="A-1", stage=1, result="GO", heard="late"), "stage       1763.42.ab12  builder       A-1 stage 1: reports GO, of an old worker: acknowledged, not processed"),
    ("stage_ended", about(story="A-1", stage=1, result="NO-GO", score="2", seconds=3.0, detail="no tests"), "stage       1763.42.ab12  builder       A-1 stage 1: NO-GO, score 2, after 3 s: no tests"),
    ("stage_ack", about(story="A-1", stage=1), "stage       1763.42.ab12  builder       A-1 stage 1: acknowledged"),
    ("stage_check", about(story="A-1", stage=1, why="quiet"), "stage       1763.42.ab12  builder       A-1 stage 1: asked for its status (quiet)"),
    ("stage_status", about(story="A-1", stage=1, doing="WAITING", step="for a lock"), "stage       1763.42.ab12  builder       A-1 stage 1: WAITING: for a lock"),
    ("stage_unparsed", about(story="A-1", stage=1, why="closest is …", text="done!"), "stage       1763.42.ab12  builder       A-1 stage 1: said what is no report (closest is …): done!"),
    ("stage_said", {"agent": "builder", "story": "A-1", "stage": 1}, "stage       builder       A-1 stage 1: its worker printed something for its lead"),
    ("stage_worker_ended", {"agent": "builder", "story": "A-1", "stage": 1, "why": "exit 1"}, "stage       builder       A-1 stage 1: its worker has ended: exit 1"),
    ("log_gap", {"lost": 12}, "log         12 lines could not be written to this log and are lost"),
    ("room_low", {"where": "/d", "what": "space", "free": 1_200_000, "least": 64_000_000}, "disk        1.2 MB free on /d, less than 64.0 MB: no message is taken up until there is room again; what is in hand goes on"),
    ("room_low", {"where": "/d", "what": "inodes", "free": 12, "least": 1000}, "disk        12 inodes free on /d, less than 1000 inodes: no message is taken up until there is room again; what is in hand goes on"),
    ("room_back", {"seconds": 62.0}, "disk        room again after 62 s: messages are taken up"),
    ("log_continued", {"before": "session-a.ndjson", "needed_from": "session-a.ndjson"}, "log         goes on from session-a.ndjson"),
    ("log_compressed", {"file": "session-a.ndjson", "bytes": 640, "stored_bytes": 64}, "log         session-a.ndjson compressed: 640 bytes in 64"),
    ("logs_swept", {"files": ["session-a.ndjson"]}, "log         older than log_keep_days, removed: session-a.ndjson"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "data", "expected"), GOLDEN)
def test_each_type_has_its_words(type_: str, data: dict[str, Any], expected: str) -> None:
    assert render(line(type_, **data), colour=False) == f"01:02:03  {expected}"


def test_every_declared_type_has_its_example() -> None:
    named = {type_ for type_, _, _ in GOLDEN} | {"progress"}
    assert named == set(FACTS)


def test_progress_that_leaves_something_out_keeps_the_formats_shape() -> None:
    assert render(line("progress", percent=0), colour=False) == "stage=- percent=0 message=-"


def test_an_unknown_type_is_shown_key_by_key() -> None:
    assert (
        render(line("cache_warmed", **about(path="a b", n=1)), colour=False)
        == "01:02:03  cache_warmed  1763.42.ab12  builder       path=a b n=1"
    )


@pytest.mark.parametrize("type_", sorted(FACTS))
def test_a_line_that_lacks_its_keys_is_shown_all_the_same(type_: str) -> None:
    assert render(line(type_), colour=True)
    assert render(line(type_), colour=False)
