"""What bytes at a door are like: good examples of each kind, and the words that break things.

Seeds begin as what ackd itself writes, so that a fuzzer starts deep inside; ``NASTY`` are the pieces it would take long
to find by itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ackd.coordination.pipeline.rules import record as story_record
from ackd.coordination.pipeline.rules.record import Result, Story, Try
from ackd.coordination.pipeline.rules.story import StoryState
from ackd.facts.table import FACTS

Family: TypeAlias = Literal[
    "message", "yaml", "text", "toml", "log", "journal", "receipt", "reason", "status", "totals", "lock",
    "escalations", "boxes", "run", "worker_line", "checkpoint", "ensemble_register", "bus", "bus_status",
    "stage_text", "leases", "board", "context", "story",
]  # fmt: skip

MESSAGE_ID: Final = "1763254800.4242.a1b2c3@ignite.local"
_AT: Final = "2026-11-16T01:02:03.123456Z"
_WALL: Final = 1_763_254_800.0
_CORPUS: Final = Path(__file__).parents[1] / "formats" / "corpus"
_WORKERS: Final = Path(__file__).parents[1] / "endpoints" / "process" / "wire" / "corpus"

#: Each breaks something somewhere: numbers, times, nesting, aliases, names, terminals, encodings.
NASTY: Final = (
    "\0", "\x1b]0;title\x07", "\x1b[2J", "\u009b31m", "\u202e", "\u2028", "\ufeff", "\r\n", "\r", "\t", "\x7f", "\x85",
    "\ud800", "\udcff", "\U000e0001", "é", "日本", "\u3000", "/", "..", "../../../input-escaped", "a/b", ".hidden", "-rf",
    "%s%n", "{0.__class__}", "\\", '"', "'", "$(id)", "9" * 400, "1" * 5000, "-1", "1e999", "1e400", "-1e308", "1e-400",
    "NaN", "Infinity", "-Infinity", "0x1F", "012", "0b1", "1_000", "190:20:30", "18446744073709551616", "1e16",
    "0001-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59", "9999-12-31T23:59:59-14:00",
    "2026-11-16T01:02:03", "2001-12-14t21:59:43.10-05:00", "1970-01-01", "1900-02-29", "253402300800", "null", "true",
    "~", "[]", "{}", "[" * 3000, "{" * 3000, '{"a":' * 3000, "- " * 3000, "? " * 3000, "[a=" * 500, "&a [*a]",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "<<: *a", "!!python/object/apply:os.system [id]", "!!binary aGk=",
    "%YAML 9.9\n---\n", "---\n---\n", "|+9\n", ">-\n", "# ", "user", "worker", "leader", "system", "queue_monitor",
    MESSAGE_ID, "completed", "retrying", "dead_letter",
)  # fmt: skip


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _line(type_: str, **data: object) -> bytes:
    line = {"timestamp": _AT, "session_id": "20261116-010203", "seq": 1, "writer": "daemon", "type": type_}
    return _json({**line, "data": {"message_id": MESSAGE_ID, "agent": "worker", **data}}) + b"\n"


_LIFE: Final = b"".join(
    [
        _line("message_queued", **{"from": "user", "message_type": "message", "priority": "normal", "file": "x.mime"}),
        _line("message_claimed", file="queue/worker/processed/x.mime"),
        _line("message_told", proof="placed in the inbox", attempt=1),
        _line("message_seen", evidence="ackd seen"),
        _line("message_acked", by="receipt"),
        _line("message_retry", retry_count=1, retry_limit=3, delay_s=5, reason="no", next_retry_after=_AT),
        _line("agent_state", state="parked", reason="away", until=_AT),
        _line("message_completed", by="receipt", seconds=3.5),
    ]
)
_EVERY_TYPE: Final = b"".join(_line(type_, reason="why", counted=2, totals={"dead": 1}) for type_ in FACTS)

_TAKEN: Final = {
    "op": "in", "agent": "worker", "message_id": MESSAGE_ID, "box": "worker", "name": "x.mime", "digest": "ab" * 12,
    "from": "user", "type": "message", "crashes": 0, "at": _WALL,
}  # fmt: skip
_LET_GO: Final = {
    "op": "out", "agent": "worker", "message_id": "1.2.d0@x", "name": "y.mime", "end": "completed", "digest": "cd" * 12,
    "at": _WALL,
}  # fmt: skip
_BUS: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("PROGRESS", {"task_id": "1.1", "progress_pct": 40, "current_subtask": "tests"}),
    (
        "TASK_COMPLETE",
        {"task_id": "1.1", "commit_sha": "abc", "files_modified": ["a.py"], "unblocks": ["1.2", "worker"]},
    ),
    ("TASK_FAILED", {"task_id": "1.1", "error": "no", "stack_trace": "x"}),
    ("FILE_LOCK", {"filepath": "src/a.py", "lock_type": "shared", "expires_at": _AT}),
    ("FILE_UNLOCK", {"filepath": "src/a.py"}),
    ("BLOCKED", {"task_id": "1.2", "waiting_for": "1.1", "resource": "src/a.py"}),
    ("BOARD_ASSESS", {"director": "CA", "verdict": "APPROVE", "score": 8, "concerns": [], "recommendations": []}),
    ("BOARD_DISCUSS", {"from": "CA", "to": "ALL", "type": "AGREE", "message": "yes", "changes_my_verdict": False}),
    ("BOARD_VOTE", {"director": "CA", "final_verdict": "APPROVE", "confidence": 0.9, "conditions": []}),
    ("BOARD_RESOLVE", {"verdict": "APPROVED", "vote_summary": {"CA": "APPROVE"}, "conditions": [], "dissent": []}),
)
_TOML: Final = b"""\
root = ".ackd"
escalate_to = "leader"
on_escalation = ["true"]
extra_types = ["code_review"]
max_message_bytes = 100000
[delivery]
ack_timeout_s = 1.5
retry_limit = 2
[watch]
mode = "polling"
[agents.leader]
[agents.worker_1]
endpoint = "exec"
command = ["true", "x"]
env = { A = "b" }
when = 2026-11-16T01:02:03Z
"""

SEEDS: Final[dict[Family, list[bytes]]] = {
    "message": [path.read_bytes() for path in sorted(_CORPUS.glob("*/*.mime"), key=lambda p: (p.parent.name != "good", p))],
    "yaml": [path.read_bytes() for path in sorted(_CORPUS.glob("bodies/*.yaml"))],
    "text": [
        b"worker finished 3 of 4 tests (75 %), see daemon/x.py:12",
        "ほぼ完了しました。テスト 3件。".encode(),
        b"almost done, mostly works\nsome errors in src/a.py line 4\n",
    ],
    "toml": [_TOML, b""],
    "log": [_LIFE, _EVERY_TYPE, _LIFE[:-20]],
    "journal": [b"\n".join(map(_json, (_TAKEN, _LET_GO))) + b"\n", _json(_TAKEN) + b'\n{"op":"stop"}\n'],
    "receipt": [
        _json({"kind": kind, "message_id": MESSAGE_ID, "agent": "worker", "reason": "no", "at": _AT})
        for kind in ("seen", "ack", "done", "refuse", "defer")
    ]
    + [_json({"kind": kind, "file": "input.mime"}) for kind in ("requeue", "purge")],
    "reason": [
        _json({"queue": "worker", "folder": "queue", "name": "x.mime", "code": "empty", "detail": "no", "at": _AT})
    ],
    "status": [
        _json(
            {
                "daemon": {"pid": 1, "session_id": "s", "watch": "inotify"},
                "agents": {"worker": {"endpoint": "inbox", "state": "parked", "queued": 1, "until": _AT, "reason": "no"}},
                "totals": {"completed": 3, "dead": 1},
                "escalations": [
                    {"escalation_id": "1.0.ab@x", "agent": "worker", "cause": "dead", "to": "leader", "since": _AT, "counted": 2}
                ],
            }
        )
    ],
    "totals": [_json({"completed": 3, "withdrawn": 1, "duplicates": 0, "log": "session-20261116-010203.ndjson", "offset": 9})],
    "lock": [b'{"pid": 4242}\n', b""],
    "escalations": [
        _json({"open": [{"escalation_id": "1.0.ab@x", "agent": "worker", "cause": "dead", "to": "leader", "opened_at": _WALL}]})
    ],
    "boxes": [_json({"worker": [[12, 34], [56, 78]], "leader": None, "gone": [[1, 2], [3, 4]]})],
    "bus": [
        *(
            _json({"id": "msg-1", "type": type_, "source": "worker", "timestamp": _AT, "payload": payload}) + b"\n"
            for type_, payload in _BUS
        ),
        b' {"type": "PROGRESS", "source": "worker", "payload": {"task_i' + _json({"type": "BLOCKED", "source": "a", "payload": {}}) + b"\n",
    ],
    "bus_status": [
        _json({"worker": {"task_id": "1.1", "status": "RUNNING", "progress_pct": 40, "last_heartbeat": _AT}}),
        _json({"a": {"status": "BLOCKED", "waiting_for": ["1.1"], "last_heartbeat": _WALL}, "b": {"status": "COMPLETE"}}),
    ],
    "stage_text": [
        b"Stage 0 COMPLETE for PROJ-42. 5 tasks created. Plan score: 3.5/4.",
        b"Stage 1 COMPLETE for PROJ-42. Verdict: NO-GO. Readiness: 3. Reason: no\ntests",
        b"Stage 3 COMPLETE for PROJ-42. Verdict: FAIL. Quality Score: 31/100. Issues: one\ntwo",
        b"Stage 1 COMPLETE for PROJ-42. Verdict: GO. Readiness: 85. Agents: codex(2/3),gemini(1/2).",
        b"Stage 3 COMPLETE for PROJ-42. Verdict: FAIL. Quality Score: 9/100. Issues: one. Agents: SKIPPED(none).",
        b"**Stage 2 COMPLETE for PROJ-42.** All tasks Done",
        b"Stage 2 ERROR for PROJ-42: build: exit 2",
        b"Status for PROJ-42: Stage 2 EXECUTING. Current step: tests.",
        b"Execute Stage 2 for PROJ-42",
    ],
    "leases": [
        _json({"src/a.py": {"worker_id": "worker", "acquired_at": _AT, "expires_at": "2099-01-01T00:00:00", "token": 7}}),
        _json({
            "./src/b.py": {
                "worker_id": "a", "acquired_at": _AT, "expires_at": _AT, "lock_type": "shared", "token": 3, "ttl_s": 90,
                "holders": {"a": {"expires_at": _AT, "token": 3, "by": "hand"}, "b": {"expires_at": _AT, "ticket": "x"}},
            },
            "../c": "mine",
        }),
    ],
    "board": [
        _json({"CA": {"verdict": "CONCERNS", "score": 7, "concerns": ["slow"]}, "CPO": {"verdict": "REJECT"}}),
        _json({"CSO": {"final_verdict": "APPROVE", "confidence": 0.9, "conditions": ["tests"], "timestamp": _AT}}),
        _json({"from": "CA", "to": "CPO", "type": "CHALLENGE", "message": "why?", "changes_my_verdict": True}) + b"\n",
    ],
    "context": [
        _json({"users": 3, "cost": 1.5e3, "risks": ["slow", None], "who": {"owner": "é", "sure": True}}),
        b"Three users asked for it.\nNobody else did.\n",
        _json("one text"),
    ],
    "story": [
        story_record.encode(
            Story(
                "A-1", StoryState.STAGE_1, _WALL, sequence=1, stage=1, since=_WALL, started_by="leader",
                tries=(
                    Try(1, 0, _WALL, True, ended_at=_WALL, result=Result.COMPLETE, report_id=MESSAGE_ID, settled=True),
                    Try(2, 1, _WALL, True),
                ),
            )
        )
    ],
    "worker_line": [path.read_bytes() for path in sorted(_WORKERS.glob("good/*.json"))],
    "ensemble_register": [
        _json({
            "version": 1,
            "files": {"tasks/a.yaml": [1, "abc", [1, 2, 3, 4], None], "reports/b.yaml": [2, "d", [1, 2, 3, 4], _WALL]},
            "tasks": [
                {
                    "message_id": MESSAGE_ID, "agent": "worker", "names": ["T1"], "file": "queue/tasks/a.yaml",
                    "given_ns": 5, "wall": _WALL, "acked": False, "reported": True, "overdue": False, "end": "completed",
                }
            ],
            "work": {"first": MESSAGE_ID, "given_ns": 5, "wall": _WALL, "told": False},
            "said": ["stale T1"],
        })
    ],
    "checkpoint": [_json({"task_id": "task_007", "current_step": 2, "files_created": ["a"], "data": {"n": 2**70}})],
    "run": [
        _json(
            {
                "message_id": MESSAGE_ID, "agent": "worker", "box": "worker", "name": "x.mime", "digest": "ab" * 12,
                "attempt": 1, "started_at": _WALL, "timeout_s": 600,
            }
        )
    ],
}  # fmt: skip
