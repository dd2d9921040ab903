"""A board's meeting for the crash sweep: directors in processes that do not die, and what must hold at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Answer, Channel
from ackd.coordination.board.rules.meeting import Meeting as Record
from ackd.coordination.board.rules.meeting import Seat, recorded
from ackd.coordination.board.rules.phases import BoardCheckpoint
from ackd.coordination.board.track_board import TrackBoard
from ackd.coordination.bus.tracks import own_track
from ackd.formats import ignite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.crash_scripts import Stage

SEATS = (Seat("CA", "technical", "leader"), Seat("CPO", "product", "scribe"), Seat("CSO", "security", "worker"))
NAMES = {seat.director for seat in SEATS}


class Meeting:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.track_board = TrackBoard(own_track(stage.root), durable=False)
        self.board = stage.root / "bus/board"
        self.meeting_id = ""
        stage.also_settled.append(self.is_told_of)
        stage.checks.append(self.problems)

    # --- what directors do --------------------------------------------------------------------------------------------
    def open(self) -> None:
        self.stage.root.mkdir(mode=0o700, exist_ok=True)
        (self.stage.root / "bus").mkdir(mode=0o700, exist_ok=True)

        def make(meeting_id: str, queue_from: int) -> Record:
            about = (BoardCheckpoint.PRE_LAUNCH, "Launch", None, "leader", time.time())
            return Record(meeting_id, *about, SEATS, 1, queue_from)

        self.meeting_id = self.track_board.open(time.time(), make).meeting_id

    def assess(self, director: str) -> None:
        self._say(answers.assessment(director, {"verdict": "APPROVE", "score": 8}))

    def vote(self, director: str) -> None:
        self._say(answers.vote(director, {"final_verdict": "APPROVE", "confidence": 0.5}))

    def _say(self, answer: Answer) -> None:
        now = time.time()
        self.track_board.change(self.meeting_id, lambda meeting: recorded(meeting, answer, Channel.ACKD, now), now)

    def assess_by_hand(self, director: str) -> None:
        self._edit("assessments.json", director, {"verdict": "CONCERNS", "score": 6})

    def vote_by_hand(self, director: str) -> None:
        self._edit("votes.json", director, {"final_verdict": "REJECT", "conditions": ["a plan to go back"]})

    def _edit(self, name: str, director: str, entry: dict[str, object]) -> None:
        """Edit a file as the seed does: read, change, write in place. Two writers may cross, and then the seed's own
        directors lose an answer too, so this is repeated until ours is in the file."""
        path = self.board / name
        known = json.loads(path.read_text()) if path.exists() and path.read_text().strip() else {}
        path.write_text(json.dumps({**known, director: entry}, indent=2))

    # --- what is seen -------------------------------------------------------------------------------------------------
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.board / self.meeting_id / "meeting.json").read_text())
        return found

    def phase(self) -> str:
        return str(self.record()["phase"])

    def heard(self, what: str) -> set[str]:
        return set(self.record()["assessments" if what == "assess" else "votes"])

    def is_told_of(self) -> bool:
        record = self.record()
        return record["phase"] == "COMPLETE" and "resolved" in record["done"]

    # --- what must hold -----------------------------------------------------------------------------------------------
    def problems(self) -> Iterator[str]:
        record = self.record()
        if (set(record["assessments"]), set(record["votes"])) != (NAMES, NAMES):
            yield f"the record has lost answers: {record}"
        if (record["resolution"] or {}).get("verdict") != "APPROVED_WITH_REVIEW":
            yield f"resolved as {record['resolution']}"
        if [turn["absent"] for turn in record["turns"] if turn["phase"] == "DISCUSSING"] != [["CA", "CPO", "CSO"]]:
            yield f"the absent are not named: {record['turns']}"
        yield from self._of_files()
        yield from self._of_bus(record)
        yield from self._of_mail()

    def _of_files(self) -> Iterator[str]:
        for name in ("assessments.json", "votes.json"):
            if set(json.loads((self.board / name).read_text())) != NAMES:
                yield f"{name} has {(self.board / name).read_text()}"
        session = json.loads((self.board / f"session-{self.meeting_id}.json").read_text())
        if session["status"] != "COMPLETE":
            yield f"the session file says {session['status']}"
        if "APPROVED_WITH_REVIEW" not in (self.board / "resolution.md").read_text():
            yield "no resolution.md"
        if not (self.stage.root / f"bus/events/BOARD_RESOLVE_{self.meeting_id}.event").exists():
            yield "no event"

    def _of_bus(self, record: dict[str, Any]) -> Iterator[str]:
        said: Counter[str] = Counter()
        for line in (self.stage.root / "bus/queue.jsonl").read_bytes().splitlines():
            try:
                said[json.loads(line)["id"]] += 1
            except ValueError:
                if line and not self.stage.torn_lines_allowed and not self.stage.disk_refused:
                    yield f"a torn line on the bus: {line!r}"
        given = [one["number"] for part in ("assessments", "votes") for one in record[part].values()]
        wanted = Counter([f"msg-{self.meeting_id}-{number}" for number in (*given, "resolve")])
        if said != wanted:
            yield f"the bus has {dict(said)}, not {dict(wanted)}"

    def _of_mail(self) -> Iterator[str]:
        """Check that there is one request for each phase and director that had to be asked, and one answer."""
        queue = self.stage.root / "queue/leader"
        asked = Counter(self._id(path.read_bytes()) for path in queue.rglob("board_request_*.mime"))
        if set(asked.values()) != {1} or not 1 <= len(asked) <= 3:
            yield f"CA was asked {dict(asked)}"
        told = Counter(self._id(path.read_bytes()) for path in queue.rglob("message_*.mime"))
        if list(told.values()) != [1]:
            yield f"whoever called the meeting was told {dict(told)}"

    def _id(self, data: bytes) -> str:
        return ignite.bare_id(dict(ignite.headers(data))["Message-ID"])
