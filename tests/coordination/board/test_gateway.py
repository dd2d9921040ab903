"""The board's gateway on a real directory, with a fake daemon: its requests, ends of phases, and notices."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.board.rules.meeting import Meeting, Seat
from ackd.coordination.board.rules.phases import BoardCheckpoint, Phase
from ackd.coordination.board.track_board import WRITING_S, TrackBoard
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.rules.words import BusLine, BusType
from ackd.coordination.gateway import LookRefused
from ackd.core.events import AgentWaits
from ackd.core.signals import Signal
from ackd.core.waits import Wait
from tests.coordination.board.fake_daemon import NAMES, FakeDaemon

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def daemon(tmp_path: Path) -> FakeDaemon:
    return FakeDaemon(tmp_path)


async def test_directors_are_asked_once_and_the_clock_begins_then(daemon: FakeDaemon) -> None:
    meeting = daemon.open()
    assert daemon.track_board.read(meeting).deadline_at is None
    next_look_s = await daemon.gateway.look(None)
    assert [draft.recipient for draft in daemon.mails] == list(NAMES)
    assert next_look_s == pytest.approx(60)
    assert daemon.track_board.read(meeting).deadline_at == daemon.wall + 60
    await daemon.gateway.look(None)
    await daemon.made().look(None)
    assert len(daemon.mails) == 3
    assert daemon.gateway.page() == {"api": {meeting: "ASSESSING"}}


async def test_whoever_called_a_meeting_is_said_to_wait_until_it_is_over(daemon: FakeDaemon) -> None:
    meeting = daemon.open(quick=True)
    for _ in range(2):  # each change is posted once
        await daemon.gateway.look(None)
    assert daemon.posted == [AgentWaits("leader", "board", (Wait(None, f"board meeting {meeting}", "ASSESSING"),))]
    daemon.assess()
    await daemon.gateway.look(None)
    assert daemon.posted[1:] == [AgentWaits("leader", "board", ())]


async def test_a_file_that_stays_unreadable_is_looked_at_once_more_and_then_wakes_nobody(daemon: FakeDaemon) -> None:
    daemon.open()
    await daemon.gateway.look(None)
    (daemon.bus / "board/assessments.json").write_text("{half")
    assert await daemon.gateway.look(None) == pytest.approx(WRITING_S)
    daemon.pass_time(WRITING_S)
    assert await daemon.gateway.look(frozenset()) == pytest.approx(60 - WRITING_S)
    (daemon.bus / "board/assessments.json").write_text("{ha")
    assert await daemon.gateway.look(None) == pytest.approx(WRITING_S)


@pytest.mark.parametrize("what", ["votes.json", ".lock", "meeting.json"])
async def test_a_broken_board_of_one_track_silences_no_other(daemon: FakeDaemon, what: str) -> None:
    other = TrackBoard(Track(str(daemon.base / "tracks/a-first/.message-bus"), "a-first"), durable=False)
    seats = (Seat("CA", "all", "CA"),)
    broken = other.open(
        daemon.wall,
        lambda ident, size: Meeting(ident, BoardCheckpoint.PRE_LAUNCH, "Launch", None, "leader", 0.0, seats, 1, size),
    )
    place = daemon.base / "tracks/a-first/.message-bus/board"
    path = place / broken.meeting_id / what if what == "meeting.json" else place / what
    path.unlink()
    path.symlink_to("/etc/passwd")
    daemon.open()
    with pytest.raises(LookRefused, match="track a-first") as refused:
        await daemon.gateway.look(None)
    assert [draft.recipient for draft in daemon.mails] == list(NAMES)
    assert refused.value.next_look_s == pytest.approx(60)


async def test_a_crash_between_mail_and_note_makes_the_same_mail(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.open()
    with monkeypatch.context() as patch:
        patch.setattr(TrackBoard, "note", lambda *_: (_ for _ in ()).throw(OSError(5, "killed")))
        with pytest.raises(OSError, match="killed"):
            await daemon.gateway.look(None)
    daemon.pass_time(5)
    await daemon.made().look(None)
    first, again = daemon.mails[:3], daemon.mails[3:]
    assert [(one.message_id, one.body) for one in first] == [(one.message_id, one.body) for one in again]


async def test_a_phase_ends_by_its_time_and_the_absent_are_named(daemon: FakeDaemon) -> None:
    meeting = daemon.open()
    await daemon.gateway.look(None)
    daemon.assess("CA")
    daemon.pass_time(59)
    await daemon.gateway.look(frozenset())
    assert daemon.track_board.read(meeting).phase is Phase.ASSESSING
    daemon.pass_time(2)
    next_look_s = await daemon.gateway.look(frozenset())
    assert daemon.facts("board_phase")[0]["absent"] == ["CPO", "CSO"]
    assert daemon.track_board.read(meeting).phase is Phase.DISCUSSING
    assert next_look_s == pytest.approx(30)
    for seconds in (31, 21):
        daemon.pass_time(seconds)
        await daemon.gateway.look(frozenset())
    assert daemon.track_board.read(meeting).phase is Phase.COMPLETE
    assert [draft.type for draft in daemon.mails[-2:]] == ["message", "escalation"]
    assert daemon.mails[-1].recipient == "boss"
    assert await daemon.gateway.look(None) is None, "nothing is left to wait for"


async def test_a_deadline_survives_a_restart_and_a_wall_clock_that_is_set_ends_no_phase(daemon: FakeDaemon) -> None:
    meeting = daemon.open()
    await daemon.gateway.look(None)
    daemon.wall += 86_400
    assert await daemon.gateway.look(None) == pytest.approx(60)
    assert daemon.track_board.read(meeting).phase is Phase.ASSESSING
    daemon.wall -= 86_400
    daemon.pass_time(40)
    assert await daemon.made().look(None) == pytest.approx(20)
    daemon.pass_time(21)
    await daemon.made().look(None)
    assert daemon.facts("board_resolved")[0]["verdict"] == "ESCALATE", "nobody has come"


async def test_all_phases_that_are_complete_are_gone_through_at_once(daemon: FakeDaemon) -> None:
    meeting = daemon.open(quick=True)
    daemon.assess()
    await daemon.gateway.look(None)
    (answer,) = daemon.mails
    assert (answer.recipient, answer.body["verdict"], answer.body["consensus"]) == ("leader", "APPROVED", True)
    assert [kind for kind, _ in daemon.lines] == [
        "board_opened",
        *["board_answer"] * 3,
        *["board_phase"] * 2,
        "board_resolved",
    ]
    await daemon.made().look(None)
    assert (len(daemon.mails), len(daemon.lines)) == (1, 7)
    assert daemon.track_board.read(meeting).phase is Phase.COMPLETE


async def test_a_director_that_is_no_agent_is_told_of_and_may_answer_all_the_same(daemon: FakeDaemon) -> None:
    daemon.unknown = {"CPO", "leader"}
    daemon.open(quick=True)
    await daemon.gateway.look(None)
    assert [draft.recipient for draft in daemon.mails] == ["CA", "CSO"]
    assert "nobody is told" in str(daemon.facts("board_answer")[0]["refused"])
    daemon.assess()
    await daemon.gateway.look(None)
    assert daemon.mails[-1].recipient == "user", "somebody must hear of the end"


async def test_lines_of_the_bus_are_answers(daemon: FakeDaemon) -> None:
    meeting, track = daemon.open(quick=True), Track(str(daemon.bus), "api")
    for number, name in enumerate(NAMES):
        line = BusLine(number, number + 1, f"m{number}", BusType.BOARD_ASSESS, name, daemon.wall, {"verdict": "REJECT"})
        await daemon.gateway.line(track, line)
        await daemon.gateway.line(track, line)
    await daemon.gateway.line(track, BusLine(9, 10, "p", BusType.PROGRESS, "CA", daemon.wall, {}))
    assert daemon.track_board.read(meeting).phase is Phase.COMPLETE
    assert daemon.track_board.read(meeting).numbers == 3


async def test_a_board_that_is_held_delays_its_track_only_and_a_line_comes_again(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackd.coordination.board import files as board_files

    daemon.open()
    monkeypatch.setattr(board_files.locked.__wrapped__, "__defaults__", (0.02,))  # type: ignore[attr-defined]
    with (daemon.bus / "board/.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await daemon.gateway.look(None) == pytest.approx(1)
        line = BusLine(0, 1, "m", BusType.BOARD_ASSESS, "CA", daemon.wall, {"verdict": "REJECT"})
        with pytest.raises(OSError, match="held by another"):
            await daemon.gateway.line(Track(str(daemon.bus), "api"), line)
    daemon.pass_time(1)
    await daemon.gateway.look(frozenset())
    assert len(daemon.mails) == 3


async def test_what_cannot_be_read_is_told_of_once_and_left_alone(daemon: FakeDaemon) -> None:
    meeting = daemon.open()
    (daemon.bus / "board/assessments.json").write_text("[not json")
    broken = daemon.open()
    (daemon.bus / "board" / broken / "meeting.json").write_text("{")
    for _ in range(3):
        await daemon.gateway.look(None)
    files = [str(data["file"]) for data in daemon.facts("stray_file")]
    assert [path.rpartition("board/")[2] for path in files] == [f"{broken}/meeting.json", f"{meeting}/assessments.json"]
    assert (daemon.bus / "board" / broken / "meeting.json").read_text() == "{"


async def test_places_are_boards_and_where_new_ones_would_come(daemon: FakeDaemon) -> None:
    await daemon.gateway.look(None)
    assert str(daemon.bus) in daemon.gateway.places()
    first, second = daemon.open(), daemon.open()
    await daemon.gateway.look(None)
    places = daemon.gateway.places()
    assert {str(daemon.bus / "board"), str(daemon.bus / "board" / first), str(daemon.root)} <= places
    assert str(daemon.bus) not in places, "every line of the bus would wake it"
    daemon.track_board.change(second, lambda meeting: meeting, daemon.wall)
    assert daemon.gateway.listens == frozenset()
    daemon.gateway.heard(Signal())


async def test_a_disk_that_refuses_mail_is_tried_again_with_what_is_left(daemon: FakeDaemon) -> None:
    daemon.open()
    daemon.refuse = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space"):
        await daemon.gateway.look(None)
    daemon.refuse = None
    await daemon.gateway.look(None)
    assert len(daemon.mails) == 3


def test_the_record_is_readable_json(daemon: FakeDaemon) -> None:
    meeting = daemon.open()
    found: dict[str, Any] = json.loads((daemon.bus / "board" / meeting / "meeting.json").read_text())
    assert found["meeting"] == meeting
