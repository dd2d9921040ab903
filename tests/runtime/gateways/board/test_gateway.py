"""The gateway by itself, on a real directory, with a clock of its own: what it asks, ends and tells."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.board.meeting import Meeting, Seat
from ackd.core.board.phases import Checkpoint, Phase
from ackd.core.bus_layout import Track
from ackd.core.bus_words import BusLine, BusType
from ackd.core.events import AgentWaits
from ackd.core.waits import Wait
from ackd.runtime.board_room import WRITING_S, BoardRoom
from ackd.runtime.gateways.gateway import LookRefused
from tests.runtime.gateways.board.house import NAMES, House

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_directors_are_asked_once_and_the_clock_begins_then(house: House) -> None:
    meeting = house.open()
    assert house.room.read(meeting).deadline_at is None
    wish = await house.gateway.look(None)
    assert [draft.recipient for draft in house.mails] == list(NAMES)
    assert wish == pytest.approx(60)
    assert house.room.read(meeting).deadline_at == house.wall + 60
    await house.gateway.look(None)
    await house.made().look(None)
    assert len(house.mails) == 3
    assert house.gateway.page() == {"api": {meeting: "ASSESSING"}}


async def test_whoever_called_a_meeting_is_said_to_wait_until_it_is_over(house: House) -> None:
    meeting = house.open(quick=True)
    for _ in range(2):  # each change once
        await house.gateway.look(None)
    assert house.posted == [AgentWaits("leader", "board", (Wait(None, f"board meeting {meeting}", "ASSESSING"),))]
    house.assess()
    await house.gateway.look(None)
    assert house.posted[1:] == [AgentWaits("leader", "board", ())]


async def test_a_file_that_stays_unreadable_is_looked_at_once_more_and_then_wakes_nobody(house: House) -> None:
    house.open()
    await house.gateway.look(None)
    (house.bus / "board/assessments.json").write_text("{half")
    assert await house.gateway.look(None) == pytest.approx(WRITING_S)
    house.pass_time(WRITING_S)
    assert await house.gateway.look(frozenset()) == pytest.approx(60 - WRITING_S)
    (house.bus / "board/assessments.json").write_text("{ha")
    assert await house.gateway.look(None) == pytest.approx(WRITING_S)


@pytest.mark.parametrize("what", ["votes.json", ".lock", "meeting.json"])
async def test_a_broken_board_of_one_track_silences_no_other(house: House, what: str) -> None:
    other = BoardRoom(Track(str(house.base / "tracks/a-first/.message-bus"), "a-first"), durable=False)
    seats = (Seat("CA", "all", "CA"),)
    broken = other.open(
        house.wall,
        lambda ident, size: Meeting(ident, Checkpoint.PRE_LAUNCH, "Launch", None, "leader", 0.0, seats, 1, size),
    )
    place = house.base / "tracks/a-first/.message-bus/board"
    path = place / broken.meeting_id / what if what == "meeting.json" else place / what
    path.unlink()
    path.symlink_to("/etc/passwd")
    house.open()
    with pytest.raises(LookRefused, match="track a-first") as refused:
        await house.gateway.look(None)
    assert [draft.recipient for draft in house.mails] == list(NAMES)
    assert refused.value.wish_s == pytest.approx(60)


async def test_a_crash_between_mail_and_note_makes_the_same_mail(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.open()
    with monkeypatch.context() as patch:
        patch.setattr(BoardRoom, "note", lambda *_: (_ for _ in ()).throw(OSError(5, "killed")))
        with pytest.raises(OSError, match="killed"):
            await house.gateway.look(None)
    house.pass_time(5)
    await house.made().look(None)
    first, again = house.mails[:3], house.mails[3:]
    assert [(one.message_id, one.body) for one in first] == [(one.message_id, one.body) for one in again]


async def test_a_phase_ends_by_its_time_and_the_absent_are_named(house: House) -> None:
    meeting = house.open()
    await house.gateway.look(None)
    house.assess("CA")
    house.pass_time(59)
    await house.gateway.look(frozenset())
    assert house.room.read(meeting).phase is Phase.ASSESSING
    house.pass_time(2)
    wish = await house.gateway.look(frozenset())
    assert house.facts("board_phase")[0]["absent"] == ["CPO", "CSO"]
    assert house.room.read(meeting).phase is Phase.DISCUSSING
    assert wish == pytest.approx(30)
    for seconds in (31, 21):
        house.pass_time(seconds)
        await house.gateway.look(frozenset())
    assert house.room.read(meeting).phase is Phase.COMPLETE
    assert [draft.type for draft in house.mails[-2:]] == ["message", "escalation"]
    assert house.mails[-1].recipient == "boss"
    assert await house.gateway.look(None) is None, "nothing is left to wait for"


async def test_a_deadline_survives_a_restart_and_a_wall_clock_that_is_set_ends_no_phase(house: House) -> None:
    meeting = house.open()
    await house.gateway.look(None)
    house.wall += 86_400
    assert await house.gateway.look(None) == pytest.approx(60)
    assert house.room.read(meeting).phase is Phase.ASSESSING
    house.wall -= 86_400
    house.pass_time(40)
    assert await house.made().look(None) == pytest.approx(20)
    house.pass_time(21)
    await house.made().look(None)
    assert house.facts("board_resolved")[0]["verdict"] == "ESCALATE", "nobody has come"


async def test_all_phases_that_are_complete_are_gone_through_at_once(house: House) -> None:
    meeting = house.open(quick=True)
    house.assess()
    await house.gateway.look(None)
    (answer,) = house.mails
    assert (answer.recipient, answer.body["verdict"], answer.body["consensus"]) == ("leader", "APPROVED", True)
    assert [kind for kind, _ in house.lines] == [
        "board_opened",
        *["board_answer"] * 3,
        *["board_phase"] * 2,
        "board_resolved",
    ]
    await house.made().look(None)
    assert (len(house.mails), len(house.lines)) == (1, 7)
    assert house.room.read(meeting).phase is Phase.COMPLETE


async def test_a_director_that_is_no_agent_is_told_of_and_may_answer_all_the_same(house: House) -> None:
    house.unknown = {"CPO", "leader"}
    house.open(quick=True)
    await house.gateway.look(None)
    assert [draft.recipient for draft in house.mails] == ["CA", "CSO"]
    assert "nobody is told" in str(house.facts("board_answer")[0]["refused"])
    house.assess()
    await house.gateway.look(None)
    assert house.mails[-1].recipient == "user", "somebody must hear of the end"


async def test_lines_of_the_bus_are_answers(house: House) -> None:
    meeting, track = house.open(quick=True), Track(str(house.bus), "api")
    for number, name in enumerate(NAMES):
        line = BusLine(number, number + 1, f"m{number}", BusType.BOARD_ASSESS, name, house.wall, {"verdict": "REJECT"})
        await house.gateway.line(track, line)
        await house.gateway.line(track, line)
    await house.gateway.line(track, BusLine(9, 10, "p", BusType.PROGRESS, "CA", house.wall, {}))
    assert house.room.read(meeting).phase is Phase.COMPLETE
    assert house.room.read(meeting).numbers == 3


async def test_a_board_that_is_held_delays_its_track_only_and_a_line_comes_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackd.adapters.board_files import rooms

    house.open()
    monkeypatch.setattr(rooms.held.__wrapped__, "__defaults__", (0.02,))  # type: ignore[attr-defined]
    with (house.bus / "board/.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await house.gateway.look(None) == pytest.approx(1)
        line = BusLine(0, 1, "m", BusType.BOARD_ASSESS, "CA", house.wall, {"verdict": "REJECT"})
        with pytest.raises(OSError, match="held by another"):
            await house.gateway.line(Track(str(house.bus), "api"), line)
    house.pass_time(1)
    await house.gateway.look(frozenset())
    assert len(house.mails) == 3


async def test_what_cannot_be_read_is_told_of_once_and_left_alone(house: House) -> None:
    meeting = house.open()
    (house.bus / "board/assessments.json").write_text("[not json")
    broken = house.open()
    (house.bus / "board" / broken / "meeting.json").write_text("{")
    for _ in range(3):
        await house.gateway.look(None)
    files = [str(data["file"]) for data in house.facts("stray_file")]
    assert [path.rpartition("board/")[2] for path in files] == [f"{broken}/meeting.json", f"{meeting}/assessments.json"]
    assert (house.bus / "board" / broken / "meeting.json").read_text() == "{"


async def test_places_are_boards_and_where_new_ones_would_come(house: House) -> None:
    await house.gateway.look(None)
    assert str(house.bus) in house.gateway.places()
    first, second = house.open(), house.open()
    await house.gateway.look(None)
    places = house.gateway.places()
    assert {str(house.bus / "board"), str(house.bus / "board" / first), str(house.root)} <= places
    assert str(house.bus) not in places, "every line of the bus would wake it"
    house.room.change(second, lambda meeting: meeting, house.wall)
    assert house.gateway.listens == frozenset()
    house.gateway.heard("x", {})


async def test_a_disk_that_refuses_mail_is_tried_again_with_what_is_left(house: House) -> None:
    house.open()
    house.refuse = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space"):
        await house.gateway.look(None)
    house.refuse = None
    await house.gateway.look(None)
    assert len(house.mails) == 3


def test_the_record_is_readable_json(house: House) -> None:
    meeting = house.open()
    found: dict[str, Any] = json.loads((house.bus / "board" / meeting / "meeting.json").read_text())
    assert found["meeting"] == meeting
