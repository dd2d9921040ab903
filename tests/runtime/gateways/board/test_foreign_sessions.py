"""Sessions that others begin with the seed's own functions: met in the board's directory, adopted and driven."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.board.foreign import HAND_S
from ackd.core.board.meeting import Driver
from ackd.core.board.phases import Phase
from ackd.core.bus_words import BusLine, BusType
from ackd.core.escalations import stamp
from tests.runtime.gateways.board.house import NAMES, House

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.board.meeting import Meeting

ID = "board-20260201120000"


class Upstream:
    """An orchestrator and directors that know nothing of ackd: what they leave on disk, in the seed's shapes."""

    def __init__(self, house: House) -> None:
        self.house, self.board = house, house.bus / "board"
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
            "started_at": stamp(self.house.wall - ago_s),
            "phases": {"discuss": {"status": "NOT_STARTED", "rounds": 0, "max_rounds": 1}},
        }
        self.writes(session, ago_s=ago_s)

    def writes(self, session: dict[str, Any], *, ago_s: float = 0.0) -> None:
        path = self.board / f"session-{ID}.json"
        path.write_text(json.dumps(session, indent=2))
        at = self.house.wall - ago_s
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
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def upstream(house: House) -> Upstream:
    return Upstream(house)


APPROVE: dict[str, dict[str, object]] = {name: {"verdict": "APPROVE", "score": 8} for name in NAMES}
VOTES: dict[str, dict[str, object]] = {name: {"final_verdict": "APPROVE", "confidence": 0.9} for name in NAMES}


async def test_a_session_made_by_the_seeds_own_code_is_adopted_and_driven_to_its_end(
    house: House, upstream: Upstream
) -> None:
    upstream.creates()
    wish = await house.gateway.look(None)
    assert wish == pytest.approx(60)
    assert [(draft.recipient, draft.type) for draft in house.mails] == [(name, "board_request") for name in NAMES]
    (opened,) = house.facts("board_opened")
    assert (opened["meeting"], opened["opener"], opened["by"]) == (ID, "boss", "hand")
    upstream.edits("assessments.json", **APPROVE)
    assert await house.gateway.look(None) == pytest.approx(HAND_S), "its maker may go on by itself"
    house.pass_time(HAND_S + 1)
    await house.gateway.look(frozenset())
    assert upstream.session()["status"] == "DISCUSSING"
    house.pass_time(31)
    await house.gateway.look(frozenset())
    assert upstream.session()["status"] == "VOTING"
    upstream.edits("votes.json", **VOTES)
    await house.gateway.look(None)
    house.pass_time(HAND_S + 1)
    await house.gateway.look(frozenset())
    (resolved,) = house.facts("board_resolved")
    assert (resolved["meeting"], resolved["verdict"], resolved["told"]) == (ID, "APPROVED", "boss")
    assert upstream.session()["status"] == "COMPLETE"
    assert '"BOARD_RESOLVE"' in (house.bus / "queue.jsonl").read_text()
    assert (upstream.board / "resolution.md").exists()
    assert (house.bus / "events/BOARD_RESOLVE.event").exists()


async def test_a_quick_review_made_by_the_seeds_own_code_ends_with_its_assessments(
    house: House, upstream: Upstream
) -> None:
    upstream.creates("QUICK_REVIEW")
    upstream.edits("assessments.json", **APPROVE)
    await house.gateway.look(None)
    assert house.mails == [], "all have spoken"
    house.pass_time(HAND_S + 1)
    await house.gateway.look(frozenset())
    assert house.facts("board_resolved")[0]["verdict"] == "APPROVED"


async def test_an_orchestrator_that_goes_on_by_itself_is_followed_and_not_talked_over(
    house: House, upstream: Upstream
) -> None:
    upstream.creates()
    await house.gateway.look(None)
    house.mails.clear()
    upstream.edits("assessments.json", **APPROVE)
    await house.gateway.look(None)
    before = upstream.session()
    for status in ("DISCUSSING", "VOTING"):
        upstream.advances(status)
        await house.gateway.look(None)
        assert house.room.read(ID).phase is Phase(status)
        assert house.room.read(ID).driver is Driver.ANOTHER
        assert upstream.session() == {**before, "status": status}, "its own file stays its own"
        house.pass_time(HAND_S)
        await house.gateway.look(frozenset())
    assert house.mails == [], "it asks the directors itself"
    upstream.edits("votes.json", **VOTES)
    upstream.advances("RESOLVING")
    await house.gateway.look(None)
    assert house.facts("board_resolved")[0]["verdict"] == "APPROVED"
    assert [draft.recipient for draft in house.mails] == ["boss"]
    queue = house.bus / "queue.jsonl"
    assert '"BOARD_RESOLVE"' not in queue.read_text(), "it says so itself"


async def test_an_orchestrator_that_stops_half_way_is_taken_over_from(house: House, upstream: Upstream) -> None:
    """The seed's ``advance_board_phase`` fails on its way to VOTING."""
    upstream.creates()
    upstream.edits("assessments.json", **APPROVE)
    await house.gateway.look(None)
    upstream.advances("DISCUSSING")
    await house.gateway.look(None)
    assert house.mails == []
    house.pass_time(31)
    await house.gateway.look(frozenset())
    assert [draft.recipient for draft in house.mails] == list(NAMES)
    assert upstream.session()["status"] == "VOTING"


async def test_a_word_of_its_orchestrator_that_comes_while_we_write_is_not_overwritten(
    house: House, upstream: Upstream
) -> None:
    upstream.creates()
    upstream.edits("assessments.json", **APPROVE)
    await house.gateway.look(None)

    def meanwhile(meeting: Meeting) -> Meeting:
        upstream.advances("DISCUSSING")
        return meeting

    house.room.change(ID, meanwhile, house.wall)
    assert upstream.session()["status"] == "DISCUSSING"
    await house.gateway.look(None)
    assert house.room.read(ID).phase is Phase.DISCUSSING


async def test_what_is_said_on_the_bus_before_the_session_was_seen_counts(house: House, upstream: Upstream) -> None:
    upstream.creates()
    line = BusLine(0, 9, "msg-1", BusType.BOARD_ASSESS, "CA", house.wall, {"director": "CA", "verdict": "APPROVE"})
    await house.gateway.line(house.room.track, line)
    assert set(house.room.read(ID).assessments) == {"CA"}


async def test_a_restart_goes_on_with_what_was_adopted(house: House, upstream: Upstream) -> None:
    upstream.creates()
    await house.gateway.look(None)
    await house.made().look(None)
    assert len(house.mails) == 3
    assert len(house.facts("board_opened")) == 1


async def test_an_old_session_that_nobody_drives_is_said_once_and_left_alone(house: House, upstream: Upstream) -> None:
    upstream.creates(ago_s=3600)
    await house.gateway.look(None)
    await house.gateway.look(None)
    assert house.mails == []
    (stray,) = house.facts("stray_file")
    assert "older than its first phase" in str(stray["reason"])
    assert not (upstream.board / ID).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status": "ASSESSING"}', '{"status": "COMPLETE"}'])
async def test_what_is_no_session_is_left_alone(house: House, upstream: Upstream, text: str) -> None:
    path = upstream.board / f"session-{ID}.json"
    path.write_text(text)
    os.utime(path, (house.wall, house.wall))
    await house.gateway.look(None)
    assert (house.mails, path.read_text()) == ([], text)
    assert not (upstream.board / ID).exists()
