"""Sessions that others begin with the seed's own functions: met in the board's directory, adopted and driven."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.board.rules.foreign import HAND_S
from ackd.coordination.board.rules.meeting import Driver
from ackd.coordination.board.rules.phases import Phase
from ackd.coordination.bus.rules.words import BusLine, BusType
from ackd.core.escalations import stamp
from tests.coordination.board.fake_daemon import NAMES, FakeDaemon

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.coordination.board.rules.meeting import Meeting

ID = "board-20260201120000"


class SeedTeam:
    """An orchestrator and directors that know nothing of ackd, and write the seed's files."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self.daemon, self.board = daemon, daemon.bus / "board"
        self.board.mkdir(exist_ok=True)

    def creates(self, checkpoint: str = "EVALUATE_PLAN", *, ago_s: float = 0.0) -> None:
        for name in ("assessments.json", "votes.json"):
            (self.board / name).write_text("{}")
        (self.board / "discussion.jsonl").write_text("")
        session = {
            "session_id": ID,
            "checkpoint": checkpoint,
            "status": "ASSESSING",
            "proposal": {"proposal": "Use SQLite", "context": {}},
            "directors": list(NAMES),
            "started_at": stamp(self.daemon.wall - ago_s),
            "phases": {"discuss": {"status": "NOT_STARTED", "rounds": 0, "max_rounds": 1}},
        }
        self.writes(session, ago_s=ago_s)

    def writes(self, session: dict[str, Any], *, ago_s: float = 0.0) -> None:
        path = self.board / f"session-{ID}.json"
        path.write_text(json.dumps(session, indent=2))
        at = self.daemon.wall - ago_s
        os.utime(path, (at, at))

    def session(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.board / f"session-{ID}.json").read_text())
        return found

    def advances(self, status: str) -> None:
        self.writes({**self.session(), "status": status})

    def edits(self, name: str, **entries: dict[str, object]) -> None:
        path = self.board / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


@pytest.fixture
def daemon(tmp_path: Path) -> FakeDaemon:
    return FakeDaemon(tmp_path)


@pytest.fixture
def upstream(daemon: FakeDaemon) -> SeedTeam:
    return SeedTeam(daemon)


APPROVE: dict[str, dict[str, object]] = {name: {"verdict": "APPROVE", "score": 8} for name in NAMES}
VOTES: dict[str, dict[str, object]] = {name: {"final_verdict": "APPROVE", "confidence": 0.9} for name in NAMES}


async def test_a_session_made_by_the_seeds_own_code_is_adopted_and_driven_to_its_end(
    daemon: FakeDaemon, upstream: SeedTeam
) -> None:
    upstream.creates()
    next_look_s = await daemon.gateway.look(None)
    assert next_look_s == pytest.approx(60)
    assert [(draft.recipient, draft.type) for draft in daemon.mails] == [(name, "board_request") for name in NAMES]
    (opened,) = daemon.facts("board_opened")
    assert (opened["meeting"], opened["opener"], opened["by"]) == (ID, "boss", "hand")
    upstream.edits("assessments.json", **APPROVE)
    assert await daemon.gateway.look(None) == pytest.approx(HAND_S), "its maker may go on by itself"
    daemon.pass_time(HAND_S + 1)
    await daemon.gateway.look(frozenset())
    assert upstream.session()["status"] == "DISCUSSING"
    daemon.pass_time(31)
    await daemon.gateway.look(frozenset())
    assert upstream.session()["status"] == "VOTING"
    upstream.edits("votes.json", **VOTES)
    await daemon.gateway.look(None)
    daemon.pass_time(HAND_S + 1)
    await daemon.gateway.look(frozenset())
    (resolved,) = daemon.facts("board_resolved")
    assert (resolved["meeting"], resolved["verdict"], resolved["told"]) == (ID, "APPROVED", "boss")
    assert upstream.session()["status"] == "COMPLETE"
    assert '"BOARD_RESOLVE"' in (daemon.bus / "queue.jsonl").read_text()
    assert (upstream.board / "resolution.md").exists()
    assert (daemon.bus / "events/BOARD_RESOLVE.event").exists()


async def test_a_quick_review_made_by_the_seeds_own_code_ends_with_its_assessments(
    daemon: FakeDaemon, upstream: SeedTeam
) -> None:
    upstream.creates("QUICK_REVIEW")
    upstream.edits("assessments.json", **APPROVE)
    await daemon.gateway.look(None)
    assert daemon.mails == [], "all have spoken"
    daemon.pass_time(HAND_S + 1)
    await daemon.gateway.look(frozenset())
    assert daemon.facts("board_resolved")[0]["verdict"] == "APPROVED"


async def test_an_orchestrator_that_goes_on_by_itself_is_followed_and_not_talked_over(
    daemon: FakeDaemon, upstream: SeedTeam
) -> None:
    upstream.creates()
    await daemon.gateway.look(None)
    daemon.mails.clear()
    upstream.edits("assessments.json", **APPROVE)
    await daemon.gateway.look(None)
    before = upstream.session()
    for status in ("DISCUSSING", "VOTING"):
        upstream.advances(status)
        await daemon.gateway.look(None)
        assert daemon.track_board.read(ID).phase is Phase(status)
        assert daemon.track_board.read(ID).driver is Driver.ANOTHER
        assert upstream.session() == {**before, "status": status}, "its own file stays its own"
        daemon.pass_time(HAND_S)
        await daemon.gateway.look(frozenset())
    assert daemon.mails == [], "it asks the directors itself"
    upstream.edits("votes.json", **VOTES)
    upstream.advances("RESOLVING")
    await daemon.gateway.look(None)
    assert daemon.facts("board_resolved")[0]["verdict"] == "APPROVED"
    assert [draft.recipient for draft in daemon.mails] == ["boss"]
    queue = daemon.bus / "queue.jsonl"
    assert '"BOARD_RESOLVE"' not in queue.read_text(), "it says so itself"


async def test_an_orchestrator_that_stops_half_way_is_taken_over_from(daemon: FakeDaemon, upstream: SeedTeam) -> None:
    """The seed's ``advance_board_phase`` fails on its way to VOTING."""
    upstream.creates()
    upstream.edits("assessments.json", **APPROVE)
    await daemon.gateway.look(None)
    upstream.advances("DISCUSSING")
    await daemon.gateway.look(None)
    assert daemon.mails == []
    daemon.pass_time(31)
    await daemon.gateway.look(frozenset())
    assert [draft.recipient for draft in daemon.mails] == list(NAMES)
    assert upstream.session()["status"] == "VOTING"


async def test_a_word_of_its_orchestrator_that_comes_while_we_write_is_not_overwritten(
    daemon: FakeDaemon, upstream: SeedTeam
) -> None:
    upstream.creates()
    upstream.edits("assessments.json", **APPROVE)
    await daemon.gateway.look(None)

    def meanwhile(meeting: Meeting) -> Meeting:
        upstream.advances("DISCUSSING")
        return meeting

    daemon.track_board.change(ID, meanwhile, daemon.wall)
    assert upstream.session()["status"] == "DISCUSSING"
    await daemon.gateway.look(None)
    assert daemon.track_board.read(ID).phase is Phase.DISCUSSING


async def test_what_is_said_on_the_bus_before_the_session_was_seen_counts(
    daemon: FakeDaemon, upstream: SeedTeam
) -> None:
    upstream.creates()
    line = BusLine(0, 9, "msg-1", BusType.BOARD_ASSESS, "CA", daemon.wall, {"director": "CA", "verdict": "APPROVE"})
    await daemon.gateway.line(daemon.track_board.track, line)
    assert set(daemon.track_board.read(ID).assessments) == {"CA"}


async def test_a_restart_goes_on_with_what_was_adopted(daemon: FakeDaemon, upstream: SeedTeam) -> None:
    upstream.creates()
    await daemon.gateway.look(None)
    await daemon.made().look(None)
    assert len(daemon.mails) == 3
    assert len(daemon.facts("board_opened")) == 1


async def test_an_old_session_that_nobody_drives_is_said_once_and_left_alone(
    daemon: FakeDaemon, upstream: SeedTeam
) -> None:
    upstream.creates(ago_s=3600)
    await daemon.gateway.look(None)
    await daemon.gateway.look(None)
    assert daemon.mails == []
    (stray,) = daemon.facts("stray_file")
    assert "older than its first phase" in str(stray["reason"])
    assert not (upstream.board / ID).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status": "ASSESSING"}', '{"status": "COMPLETE"}'])
async def test_what_is_no_session_is_left_alone(daemon: FakeDaemon, upstream: SeedTeam, text: str) -> None:
    path = upstream.board / f"session-{ID}.json"
    path.write_text(text)
    os.utime(path, (daemon.wall, daemon.wall))
    await daemon.gateway.look(None)
    assert (daemon.mails, path.read_text()) == ([], text)
    assert not (upstream.board / ID).exists()
