"""The board of one track on a real disk, which the command line and the daemon share."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ackd.coordination.board.rules import answers
from ackd.coordination.board.rules.answers import Answer, Channel
from ackd.coordination.board.rules.meeting import Meeting, Seat, closed, recorded
from ackd.coordination.board.rules.phases import BoardCheckpoint, Phase
from ackd.coordination.board.track_board import TrackBoard
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.rules.words import BusLine, BusType
from ackd.core.errors import BadMeeting, NoMeeting, NotNow

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1769947200.0
SEATS = tuple(Seat(name, name.lower(), name) for name in ("CA", "CPO", "CSO"))


class BoardOnDisk:
    """The board of a track in a directory, with a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.bus = path / ".message-bus"
        self.bus.mkdir()
        self.board = self.bus / "board"
        self.track_board = TrackBoard(Track(str(self.bus), "api"), durable=False)
        self.now = NOON

    def open(self, *, quick: bool = False, rounds: int = 1) -> Meeting:
        self.now += 1
        checkpoint = BoardCheckpoint.QUICK_REVIEW if quick else BoardCheckpoint.PRE_LAUNCH

        def make(meeting_id: str, queue_from: int) -> Meeting:
            return Meeting(meeting_id, checkpoint, "Launch", None, "user", self.now, SEATS, rounds, queue_from)

        return self.track_board.open(self.now, make)

    def say(self, answer: Answer, meeting_id: str | None = None) -> Meeting:
        self.now += 1
        return self.track_board.change(
            meeting_id, lambda meeting: recorded(meeting, answer, Channel.ACKD, self.now), self.now
        )

    def assess(self, *directors: str, meeting_id: str | None = None, verdict: str = "APPROVE") -> Meeting:
        for name in directors or ("CA", "CPO", "CSO"):
            meeting = self.say(answers.assessment(name, {"verdict": verdict}), meeting_id)
        return meeting

    def discuss(self, *directors: str) -> Meeting:
        for name in directors or ("CA", "CPO", "CSO"):
            meeting = self.say(answers.remark(name, {"type": "AGREE", "message": name}))
        return meeting

    def vote(self, *directors: str, verdict: str = "APPROVE") -> Meeting:
        for name in directors or ("CA", "CPO", "CSO"):
            meeting = self.say(answers.vote(name, {"final_verdict": verdict, "conditions": ["the secret"]}))
        return meeting

    def look(self, meeting_id: str | None = None) -> Meeting:
        self.now += 1
        return self.track_board.change(meeting_id, lambda meeting: meeting, self.now)

    def flat(self, name: str) -> Any:
        return json.loads((self.board / name).read_text())

    def edit(self, name: str, **entries: object) -> None:
        path = self.board / name
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, **entries}))
        os.utime(path, (self.now, self.now))

    def lines(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in (self.bus / "queue.jsonl").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def types(self) -> list[str]:
        return [line["type"] for line in self.lines()]


@pytest.fixture
def place(tmp_path: Path) -> BoardOnDisk:
    return BoardOnDisk(tmp_path)


@pytest.mark.parametrize("before", [False, True], ids=["the first one", "after another"])
def test_a_meeting_that_a_full_disk_refuses_leaves_nothing(
    place: BoardOnDisk, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    place.board.mkdir()
    if before:
        place.open()
    else:
        (place.board / "votes.json").write_text("{}")  # left there from before the meeting
    lying = sorted(path.relative_to(place.board) for path in place.board.rglob("*") if path.name != ".lock")
    with monkeypatch.context() as full:
        full.setattr("ackd.coordination.board.files.os.write", refuse)
        with pytest.raises(OSError, match="No space"):
            place.open()
    left = sorted(path.relative_to(place.board) for path in place.board.rglob("*") if path.name != ".lock")
    assert [path for path in left if path not in lying and path.parts[0] not in {one.parts[0] for one in lying}] == []
    place.open()


def refuse(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_votes_are_sealed_in_the_files_and_on_the_bus_until_all_are_in(place: BoardOnDisk) -> None:
    place.open()
    place.assess()
    place.discuss()
    place.vote("CA", "CPO")
    assert place.flat("votes.json") == {}
    assert "BOARD_VOTE" not in place.types()
    assert "secret" not in "".join(path.read_text() for path in place.board.glob("*.*"))
    place.vote("CSO")
    assert set(place.flat("votes.json")) == {"CA", "CPO", "CSO"}
    assert place.types() == [*["BOARD_ASSESS"] * 3, *["BOARD_DISCUSS"] * 3, *["BOARD_VOTE"] * 3, "BOARD_RESOLVE"]
    assert len({line["id"] for line in place.lines()}) == 10


def test_what_a_director_writes_into_the_files_is_adopted_and_a_phase_ends_by_it(place: BoardOnDisk) -> None:
    meeting = place.open()
    place.assess("CA", "CPO")
    place.edit("assessments.json", CSO={"verdict": "CONCERNS"})
    assert place.look().phase is Phase.DISCUSSING
    place.discuss("CA", "CPO")
    with (place.board / "discussion.jsonl").open("a") as log:
        log.write('{"from": "CSO", "to": "CA", "type": "QUESTION", "message": "by hand"}\n')
    assert place.look().phase is Phase.VOTING
    place.edit("votes.json", CSO={"final_verdict": "REJECT"})
    place.vote("CA", "CPO")
    record = place.track_board.read(meeting.meeting_id)
    assert (record.phase, len(record.votes), len(record.remarks)) == (Phase.COMPLETE, 3, 3)
    assert len((place.board / "discussion.jsonl").read_text().splitlines()) == 3, "not repeated for its author"
    assert place.types().count("BOARD_ASSESS") == place.types().count("BOARD_VOTE") == 3


def test_everything_that_lies_there_is_taken_in_at_once_phase_by_phase(place: BoardOnDisk) -> None:
    """The daemon was down, and directors went on with their files."""
    meeting = place.open()
    place.edit("assessments.json", **{name: {"verdict": "APPROVE"} for name in ("CA", "CPO", "CSO")})
    with (place.board / "discussion.jsonl").open("a") as log:
        for name in ("CA", "CPO", "CSO"):
            log.write(json.dumps({"from": name, "to": "ALL", "type": "AGREE", "message": "yes"}) + "\n")
    place.edit("votes.json", **{name: {"final_verdict": "APPROVE"} for name in ("CA", "CPO", "CSO")})
    assert place.look(meeting.meeting_id).phase is Phase.COMPLETE


def test_what_others_keep_in_the_files_stays_there(place: BoardOnDisk) -> None:
    place.open()
    place.edit("assessments.json", CFO={"verdict": "APPROVE"}, note="remember the milk")
    meeting = place.assess("CA")
    assert set(place.flat("assessments.json")) == {"CFO", "note", "CA"}
    assert [one.director for one in meeting.refusals] == ["CFO", "note"]
    assert len(place.look().refusals) == 2


def test_an_edit_after_the_phase_is_reported_and_not_overwritten(place: BoardOnDisk) -> None:
    place.open()
    place.assess()
    place.edit("assessments.json", CA={"verdict": "REJECT", "concerns": ["second thoughts"]})
    meeting = place.discuss("CA")
    assert "too late to assess" in meeting.refusals[0].why
    assert place.flat("assessments.json")["CA"]["verdict"] == "REJECT"
    assert meeting.assessments["CA"][0].verdict is answers.AssessmentVerdict.APPROVE


def test_an_entry_that_a_hand_lost_is_written_again(place: BoardOnDisk) -> None:
    """If two of the seed's directors write at the same time, the file loses one answer; the record does not."""
    place.open()
    place.assess("CA")
    (place.board / "assessments.json").write_text('{"CPO": {"verdict": "APPROVE"}}')
    meeting = place.look()
    assert set(meeting.assessments) == set(place.flat("assessments.json")) == {"CA", "CPO"}


def test_half_a_file_is_left_alone_until_it_is_whole(place: BoardOnDisk) -> None:
    place.open()
    path = place.board / "assessments.json"
    path.write_text('{"CPO": {"verd')
    meeting = place.assess("CA")
    assert path.read_text() == '{"CPO": {"verd'
    assert place.track_board.unsettled
    assert str(path) in place.track_board.unreadable
    path.write_text("")
    os.utime(path, (place.now + 1, place.now + 1))
    place.look()
    assert path.read_text() == "", "somebody may be writing it"
    os.utime(path, (NOON - 60, NOON - 60))
    place.look()
    assert set(place.flat("assessments.json")) == {"CA"}
    assert meeting.phase is Phase.ASSESSING


def test_a_hand_that_writes_while_we_do_is_not_overwritten(place: BoardOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes between our reading and our writing: the change is made again, on top of those words."""
    from ackd.coordination.board import files as board_files

    place.open()
    original, once = board_files.put_flat, iter([True])

    def interrupted(path: str, data: bytes, instead_of: board_files.FlatFile) -> None:
        if path.endswith("assessments.json") and next(once, False):
            place.edit("assessments.json", CPO={"verdict": "REJECT"})
        original(path, data, instead_of)

    monkeypatch.setattr(board_files, "put_flat", interrupted)
    meeting = place.assess("CA")
    assert set(meeting.assessments) == set(place.flat("assessments.json")) == {"CA", "CPO"}
    assert meeting.numbers == 2, "and once"


def test_two_meetings_do_not_mix_and_the_flat_files_are_the_newests(place: BoardOnDisk) -> None:
    first = place.open()
    place.assess("CA")
    place.edit("assessments.json", CPO={"verdict": "REJECT"}, note="of the first")
    second = place.open(quick=True)
    assert place.flat("assessments.json") == {}
    older = place.track_board.read(first.meeting_id)
    assert set(older.assessments) == {"CA", "CPO"}, "what was not read yet is the older one's"
    assert "of the first" in (place.board / first.meeting_id / "assessments.json").read_text()
    place.assess("CSO", meeting_id=first.meeting_id, verdict="REJECT")
    assert set(json.loads((place.board / first.meeting_id / "assessments.json").read_text())) == {
        "CA",
        "CPO",
        "CSO",
        "note",
    }
    assert place.flat("assessments.json") == {}
    place.assess("CA", "CPO", "CSO")
    assert place.track_board.read(second.meeting_id).phase is Phase.COMPLETE
    assert place.track_board.read(first.meeting_id).phase is Phase.DISCUSSING
    assert place.track_board.find(None).meeting_id == first.meeting_id
    (end,) = [line for line in place.lines() if line["type"] == "BOARD_RESOLVE"]
    assert end["payload"]["session_id"] == second.meeting_id


def test_flat_files_of_an_earlier_life_are_kept_and_do_not_vote(place: BoardOnDisk) -> None:
    place.board.mkdir()
    place.edit("votes.json", CA={"final_verdict": "REJECT"})
    place.edit("assessments.json", CA={"verdict": "REJECT"})
    meeting = place.open()
    assert place.track_board.read(meeting.meeting_id).assessments == {}
    assert "REJECT" in (place.board / meeting.meeting_id / "votes.json").read_text()


def bus_line(
    kind: BusType, payload: dict[str, object], message_id: str = "msg-x", *, offset: int = 0, at: float = NOON + 9
) -> BusLine:
    return BusLine(offset, offset + 1, message_id, kind, "CPO", at, payload)


def test_lines_of_the_bus_are_adopted_by_the_meeting_that_was_the_newest_then(place: BoardOnDisk) -> None:
    first = place.open()
    place.assess("CA")
    second = place.open()
    size = (place.bus / "queue.jsonl").stat().st_size
    said: dict[str, object] = {"verdict": "APPROVE"}
    place.track_board.hear(bus_line(BusType.BOARD_ASSESS, said, "old", offset=0, at=NOON + 1.5), place.now)
    place.track_board.hear(bus_line(BusType.BOARD_ASSESS, said, "new", offset=size), place.now)
    place.track_board.hear(bus_line(BusType.BOARD_ASSESS, said, "new", offset=size), place.now)
    named: dict[str, object] = {"director": "CSO", "verdict": "REJECT", "session_id": first.meeting_id}
    place.track_board.hear(bus_line(BusType.BOARD_ASSESS, named, "named", offset=size), place.now)
    assert set(place.track_board.read(second.meeting_id).assessments) == {"CPO"}
    assert set(place.track_board.read(first.meeting_id).assessments) == {"CA", "CPO", "CSO"}
    assert place.types() == ["BOARD_ASSESS"], "theirs are there already"


def test_our_own_lines_and_lines_without_a_meeting_change_nothing(place: BoardOnDisk) -> None:
    place.track_board.hear(bus_line(BusType.BOARD_VOTE, {"final_verdict": "APPROVE"}), place.now)
    meeting = place.open()
    after = place.assess("CA")
    line = place.lines()[0]
    place.track_board.hear(bus_line(BusType.BOARD_ASSESS, line["payload"], line["id"]), place.now)
    place.track_board.hear(bus_line(BusType.PROGRESS, {}), place.now)
    assert place.track_board.read(meeting.meeting_id) == after


def test_a_late_vote_on_the_bus_is_refused_with_words(place: BoardOnDisk) -> None:
    meeting = place.open(quick=True)
    place.assess()
    place.track_board.hear(bus_line(BusType.BOARD_VOTE, {"final_verdict": "REJECT"}), place.now)
    assert "quick review" in place.track_board.read(meeting.meeting_id).refusals[0].why


def test_a_crash_after_the_record_and_before_the_lines_says_them_once(
    place: BoardOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackd.coordination.board import files as board_files

    meeting = place.open(quick=True)
    place.assess("CA", "CPO")
    saves: list[Meeting] = []
    original = TrackBoard._save

    def save(self: TrackBoard, meeting: Meeting) -> None:
        if saves:
            raise InterruptedError("killed before the second save")
        saves.append(meeting)
        original(self, meeting)

    monkeypatch.setattr(TrackBoard, "_save", save)
    with pytest.raises(InterruptedError):
        place.assess("CSO")
    monkeypatch.setattr(TrackBoard, "_save", original)
    assert place.track_board.read(meeting.meeting_id).phase is Phase.RESOLVING
    assert place.look(meeting.meeting_id).phase is Phase.COMPLETE
    assert place.types() == [*["BOARD_ASSESS"] * 3, "BOARD_RESOLVE"]
    assert board_files.newest_first(str(place.board)) == [meeting.meeting_id]


def test_a_record_that_cannot_be_read_is_passed_over_and_named(place: BoardOnDisk) -> None:
    broken = place.open().meeting_id
    (place.board / broken / "meeting.json").write_text("{")
    assert place.open().meeting_id != broken
    assert len(list(place.track_board.every())) == 1
    assert any(broken in path for path in place.track_board.unreadable)
    with pytest.raises(BadMeeting):
        place.look(broken)


def test_meetings_that_are_not_there_and_wrong_times_change_nothing(place: BoardOnDisk) -> None:
    with pytest.raises(NoMeeting, match="ever opened"):
        place.look()
    meeting = place.open()
    with pytest.raises(NotNow):
        place.vote("CA")
    with pytest.raises(NoMeeting, match="no meeting board-20200101000000"):
        place.look("board-20200101000000")
    with pytest.raises(NotNow, match="nothing to count"):
        place.track_board.change(None, lambda one: closed(one, 1.0, "user"), place.now)
    assert place.track_board.read(meeting.meeting_id).numbers == 0


def test_a_session_of_the_seeds_own_orchestrator_is_left_to_it(place: BoardOnDisk) -> None:
    meeting = place.open(quick=True)
    place.assess()
    (place.board / "session-board-20990101000000.json").write_text('{"session_id": "board-20990101000000"}')
    for name in ("assessments.json", "votes.json"):
        (place.board / name).write_text("{}")
    (place.board / "discussion.jsonl").write_text("")
    place.edit("assessments.json", CA={"verdict": "REJECT"})
    before = {path.name: path.read_text() for path in place.board.glob("*.json*")}
    after = place.look(meeting.meeting_id)
    place.track_board.hear(bus_line(BusType.BOARD_ASSESS, {"verdict": "REJECT"}, offset=99999), place.now)
    assert {path.name: path.read_text() for path in place.board.glob("*.json*")} == before
    assert place.track_board.read(meeting.meeting_id) == after
    assert after.refusals == ()


def test_files_that_were_cleared_after_the_end_stay_clear(place: BoardOnDisk) -> None:
    meeting = place.open(quick=True)
    place.assess()
    for name in ("assessments.json", "votes.json", "discussion.jsonl", "resolution.md"):
        (place.board / name).unlink()
    place.look(meeting.meeting_id)
    assert sorted(path.name for path in place.board.glob("*.*") if path.is_file()) == [
        ".lock",
        f"session-{meeting.meeting_id}.json",
    ]


def test_a_flood_of_lines_has_an_end(place: BoardOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    from ackd.coordination.board.rules import imports

    monkeypatch.setattr(imports, "MAX_HEARD", 3)
    meeting = place.open()
    for number in range(6):
        place.track_board.hear(bus_line(BusType.BOARD_ASSESS, {"verdict": "?"}, f"m{number}"), place.now)
    assert len(place.track_board.read(meeting.meeting_id).taken.heard) == 3
