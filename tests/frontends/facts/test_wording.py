"""The words of each type, and that none is without."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackd.frontends.facts import render
from ackd.frontends.facts.drawing import LOOKS
from ackd.frontends.facts.wording import WORDS
from tests.frontends.facts.bench import ID, about, line

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[3] / "daemon" / "ackd"
ONE_WORD = {"nudge", "escalation", "progress", "reminder"}

GOLDEN = [
    ("session_start", {"version": "0.1.0", "pid": 42, "root": ".ackd", "config_hash": "ab", "recovered": {"queued": 2, "dead": 0}}, "daemon      ackd 0.1.0 started, pid 42, on .ackd; found again: 2 queued"),
    ("session_end", {"reason": "SIGTERM", "totals": {"completed": 3, "dead": 1}}, "daemon      ended: SIGTERM; 3 completed, 1 dead"),
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
    ("message_rejected", {"file": "x.mime", "agent": "builder", "code": "not_utf8", "reason": "not UTF-8", "kept_as": "corrupt/x.mime"}, "rejected    builder       x.mime: not UTF-8 [not_utf8], kept as corrupt/x.mime"),
    ("message_duplicate", about(of_state="completed", file="f"), "duplicate   1763.42.ab12  builder       came again while completed: not processed twice"),
    ("message_requeued", about(file="f"), "requeued    1763.42.ab12  builder       back in the queue: f"),
    ("message_requeued", {"agent": "builder", "file": "queue/builder/f", "kept_as": "f-1"}, "requeued    builder       back in the queue: queue/builder/f, out of quarantine (f-1)"),
    ("message_purged", {"file": "dead_letter/f", "message_id": ID}, "purged      1763.42.ab12  removed for good by a person: dead_letter/f"),
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
    ("escalation_closed", {"agent": "builder", "cause": "dead_letter", "by": "leader", "how": "withdrawn", "counted": 3}, "escalation  builder       closed: dead_letter, 3 cases, withdrawn by leader"),
    ("loop_detected", {"a": "x", "b": "y", "about": "T1", "count": 6}, "loop        x and y passed T1 back and forth 6 times"),
    ("nudge", about(rung=2), "nudge       1763.42.ab12  builder       silent: rung 2 of its ladder"),
    ("agent_state", {"agent": "builder", "state": "parked", "reason": "program missing", "until": "01:05"}, "agent       builder       parked: program missing, until 01:05"),
    ("child_started", about(pid=77), "child       1763.42.ab12  builder       pid 77 started"),
    ("child_started", about(pid=77, adopted=True), "child       1763.42.ab12  builder       pid 77 adopted: it outlived the last daemon"),
    ("child_ended", about(pid=77, exit=3, outcome="failed", seconds=1.25), "child       1763.42.ab12  builder       pid 77 ended, exit 3, after 1.2 s"),
    (
        "output_cut",
        about(limit_bytes=8388608),
        "child       1763.42.ab12  builder       it prints more than 8388608 bytes: only the end is kept, and it goes on",
    ),
    ("child_ended", about(pid=77, outcome="failed"), "child       1763.42.ab12  builder       pid 77 ended, nobody knows how"),
    ("overslept", {"seconds": 12.5}, "daemon      ackd did not run for 12.5 s and more: receipts and files are read first"),
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
    ("stray_file", {"agent": "builder", "file": "queue/builder/notes.txt", "reason": "not a message"}, "stray       builder       left where it lies: queue/builder/notes.txt: not a message"),
    ("log_gap", {"lost": 12}, "log         12 lines could not be written to this log and are lost"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "data", "expected"), GOLDEN)
def test_each_type_has_its_words(type_: str, data: dict[str, Any], expected: str) -> None:
    assert render(line(type_, **data), colour=False) == f"01:02:03  {expected}"


def test_no_type_was_forgotten_in_either_table() -> None:
    named = {type_ for type_, _, _ in GOLDEN} | {"progress"}
    assert named == set(WORDS)
    assert set(WORDS) <= set(LOOKS)


def test_every_type_that_the_code_records_has_words_and_a_look() -> None:
    recorded = recorded_types()
    assert {"message_queued", "message_told", "task_failed", "log_gap", "stray_file", "reminder"} <= recorded
    assert recorded <= set(WORDS)
    assert recorded <= set(LOOKS)


def recorded_types() -> set[str]:
    """What is handed to a recorder anywhere in the package, also through functions that only pass it on."""
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py") if "frontends" not in path.parts]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    recorders = {"record", "RecordFact", "fact", "show", "_encode"}  # the last: where the log speaks of itself
    while more := {one.name for one in functions if one.name not in recorders and passes_on(one, recorders)}:
        recorders |= more
    handed = {text for tree in trees for call in calls(tree, recorders) for text in texts(call.args)}
    # Recovery answers with the type of line to write.
    answers = (node.value for one in functions for node in ast.walk(one) if isinstance(node, ast.Return))
    handed |= {text for answer in answers if isinstance(answer, ast.Tuple) for text in texts(answer.elts)}
    return {text for text in handed if re.fullmatch(r"[a-z]+(_[a-z]+)+", text) or text in ONE_WORD}


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if name in names:
                yield node


def passes_on(function: ast.FunctionDef, recorders: set[str]) -> bool:
    """Its own parameter is the type that it records."""
    own = {arg.arg for arg in (*function.args.posonlyargs, *function.args.args)}
    firsts = (call.args[0] for call in calls(function, recorders) if call.args)
    return any(isinstance(first, ast.Name) and first.id in own for first in firsts)


def texts(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_progress_that_leaves_something_out_keeps_the_formats_shape() -> None:
    assert render(line("progress", percent=0), colour=False) == "stage=- percent=0 message=-"


def test_an_unknown_type_is_shown_key_by_key() -> None:
    assert (
        render(line("lease_granted", **about(path="a b", n=1)), colour=False)
        == "01:02:03  lease_granted  1763.42.ab12  builder       path=a b n=1"
    )


@pytest.mark.parametrize("type_", sorted(WORDS))
def test_a_line_that_lacks_its_keys_is_shown_all_the_same(type_: str) -> None:
    assert render(line(type_), colour=True)
    assert render(line(type_), colour=False)
