"""The history of a team that has been at work for months: the lines of its session logs, and the files of its archive.

Written as a daemon would have written them, only much faster: each message was queued, claimed, told, acked and
completed, and lies in the archive if ``archived`` says so. Sessions are of ``SESSION`` messages, at most; the last one
ended moments ago, cleanly. ``compressed``: all logs but the last are, as a daemon leaves them after a day.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from ackd.storage.session_log import keeping
from ackd.storage.session_log import lines as log_lines
from tests.bench import letters

if TYPE_CHECKING:
    from pathlib import Path

#: A message every so many seconds.
PACE_S = 2.0
SESSION = 20_000
_NOW = time.time()
AGENTS = tuple(f"worker_{number}" for number in range(10))


def message_id(number: int, count: int) -> str:
    hash_ = hashlib.sha256(b"%d" % number).hexdigest()[:12]
    return f"{int(_at(number, count))}.{number % 30_000}.{hash_}@ignite.local"


def agent_of(number: int) -> str:
    return AGENTS[number % len(AGENTS)]


def write(root: Path, count: int, *, archived: int = 0, compressed: bool = False) -> list[str]:
    """Write the history of so many messages, the newest of them archived, and return their ids, oldest first."""
    ids = [message_id(number, count) for number in range(count)]
    for directory in ("logs", "state", *(f"queue/{agent}/processed" for agent in AGENTS)):
        (root / directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    for begin in range(0, count, SESSION):
        log = _write_session(root, ids, begin, min(count, begin + SESSION))
        if compressed and begin + SESSION < count:
            keeping.compress(log, lambda _took_s: True)
    for number in range(count - archived, count):
        path = _archive_path(root, number, count)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        letter = letters.letter(number, agent_of(number))
        path.write_bytes(letter.replace(letters.message_id(number).encode(), ids[number].encode()))
    logs = sorted((root / "logs").glob("session-*.ndjson"))  # the last one is plain
    totals = {"completed": count, "log": logs[-1].name, "offset": logs[-1].stat().st_size}
    (root / "state" / "totals.json").write_text(json.dumps(totals))
    return ids


def _at(number: int, count: int) -> float:
    return _NOW - (count - number) * PACE_S


def _archive_path(root: Path, number: int, count: int) -> Path:
    day = time.strftime("%Y%m%d", time.gmtime(_at(number, count)))
    return root / "archive" / day / agent_of(number) / letters.name(number)


def _write_session(root: Path, ids: list[str], begin: int, end: int) -> Path:
    started_at = _at(begin, len(ids))
    stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_at))
    number = 0
    written = root / "logs" / f"session-{stem}.ndjson"
    with written.open("wb") as log:

        def record(type_: str, at: float, **data: Any) -> None:
            nonlocal number
            number += 1
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06d}Z"
            data = {key.rstrip("_"): value for key, value in data.items()}
            log.write(log_lines.encode_line(stamp, stem, number, "daemon", type_, data))

        record("session_start", started_at, version="0", pid=1)
        for each in AGENTS:
            record("agent_state", started_at, agent=each, state="available")
        for one in range(begin, end):
            agent, id_, at = agent_of(one), ids[one], _at(one, len(ids))
            path = str(_archive_path(root, one, len(ids)).relative_to(root))
            queued = {"message_type": "message", "file": f"queue/{agent}/{letters.name(one)}", "priority": "normal"}
            claimed = f"queue/{agent}/processed/{letters.name(one)}"
            record("message_queued", at, message_id=id_, agent=agent, from_="user", **queued)
            record("message_claimed", at + 0.01, message_id=id_, agent=agent, file=claimed)
            record("message_told", at + 0.02, message_id=id_, agent=agent, attempt=1, proof="handler returned")
            record("worker_assign", at + 0.02, message_id=id_, agent=agent, message_type="message")
            if one % 5 == 0:
                record("child_started", at + 0.03, agent=agent, pid=4711)
            record("message_acked", at + 0.04, message_id=id_, agent=agent, by="receipt")
            done = {"message_id": id_, "agent": agent}
            record("message_completed", at + 1.0, **done, by="done", seconds=1.0, file=path)
            record("worker_release", at + 1.0, **done, message_type="message")
        record("session_end", _at(end, len(ids)), completed=end - begin)
    return written
