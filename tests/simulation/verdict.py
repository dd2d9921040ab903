"""In the end: the world's own account against the disk and the log.

Each file that was handed over is where the log says it is, with exactly one end for each of its lives; every dead
letter has its escalation and its notice; the log is whole; nothing of ours is left lying about.

A power cut may take lines of the log, and may undo moves: of such a run only what lies on the disk is judged, and the
form of the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.core.message import MONITOR, Folder, Place
from ackd.storage import session_log

if TYPE_CHECKING:
    from ackd.storage.session_log import Line
    from tests.simulation.people import Letter
    from tests.simulation.simulation import Simulation

ENDS: Final = frozenset({"message_completed", "message_dead", "message_withdrawn"})


class Broken(AssertionError):  # noqa: N818 - a promise is, not the code
    """A promise was."""


@dataclass
class Verdict:
    run: Simulation
    last_start: float
    power_cuts: int

    def speak(self) -> None:
        lines = self._lines()
        self._judge_log(lines)
        found = self._places()
        told = defaultdict(list)
        for line in lines:
            told[str(line.data.get("message_id")), str(line.data.get("agent"))].append(line)
        for key, letter in self.run.ledger.letters.items():
            self.run.counts["letters"] += 1
            self._judge_letter(letter, found.get(key, []), told[key])
        self._judge_deaths(lines, told)
        self._judge_leavings()

    def _judge_letter(self, letter: Letter, places: list[Place], lines: list[Line]) -> None:
        name = f"{letter.message_id} from {letter.sender} to {letter.to}"
        if not places and not letter.removed:
            if letter.doubtful and self.power_cuts:
                return
            raise Broken(f"lost: {name}; the log says {_story(lines)}")
        if len(places) > letter.copies:
            raise Broken(f"twice: {name} lies at {', '.join(map(str, places))}")
        if self.power_cuts:
            return
        if not any(line.type == "message_queued" for line in lines) and places:
            raise Broken(f"unseen: {name} lies at {places[0]}, and the log does not know it")
        if letter.copies == 1:
            self._judge_only(letter, name, places, lines)
        elif not letter.removed and {place.folder for place in places} == {Folder.ARCHIVE}:
            self._must_be_completed(name, lines)

    def _must_be_completed(self, name: str, lines: list[Line]) -> None:
        if not any(line.type == "message_completed" for line in lines):
            raise Broken(f"{name} lies in the archive, and the log says {_story(lines)}")

    def _judge_only(self, letter: Letter, name: str, places: list[Place], lines: list[Line]) -> None:
        """A message that was sent once: its last line about an end agrees with where it is."""
        ends: list[str] = []
        open_ = False
        for line in lines:
            if line.type in ("message_queued", "message_requeued"):
                open_ = True
            elif line.type in ENDS:
                late = line.type == "message_completed" and ends[-1:] == ["message_dead"]
                if not open_ and not late:
                    raise Broken(f"ended twice: {name}: {_story(lines)}")
                ends.append(line.type)
                open_ = False
        last = ends[-1] if ends and not open_ else None
        if places:
            wanted = {Folder.ARCHIVE: "message_completed", Folder.DEAD: "message_dead"}.get(places[0].folder)
            if last != wanted and not (letter.removed and places[0].folder is not Folder.ARCHIVE):
                raise Broken(f"{name} lies at {places[0]}, and the log says {_story(lines)}")
        elif last is None and open_ and "operator" not in letter.removed:  # what never was met has no end
            raise Broken(f"{name} was removed by {letter.removed}, and the log says {_story(lines)}")

    def _judge_deaths(self, lines: list[Line], told: dict[tuple[str, str], list[Line]]) -> None:
        if self.power_cuts:
            return
        escalated = {str(line.data.get("message_id")) for line in lines if line.type == "escalation"}
        noticed = Counter(
            str(line.data.get("in_reply_to")) for line in lines
            if line.type == "message_queued" and line.data.get("message_type") == "dead_letter"
        )  # fmt: skip
        left = {str(body.get("message_id")) for body in map(_kept_body, lines)}
        words = self._escalations()
        for line in lines:
            if line.type != "message_dead" or line.data.get("from") == MONITOR:
                continue
            self.run.counts["deaths"] += 1
            message_id = str(line.data["message_id"])
            counted_in = (
                line.data.get("recovered") and f"agent: {line.data['agent']}\n" in words
            )  # its line died with us
            if message_id not in escalated and message_id not in words and not counted_in:
                raise Broken(f"{message_id} died, and nobody was told: no escalation")
            met = noticed[message_id] or message_id in self.run.ledger.notices_removed or message_id in left
            if line.data.get("from") != "stranger" and not met:
                raise Broken(f"{message_id} died, and its sender was not told")

    def _judge_log(self, lines: list[Line]) -> None:
        before: dict[str, int] = {}
        for line in lines:
            seq = before.get(line.session_id, 0)
            if line.seq != seq + 1 and not self.power_cuts:
                raise Broken(f"the log of {line.session_id} has a hole: {seq} is followed by {line.seq}")
            before[line.session_id] = line.seq
        self.run.counts["lines"] += len(lines)

    def _judge_leavings(self) -> None:
        """Files of ours that nobody will come back for. Those of the last hours are the next sweep's."""
        horizon = (self.run.timeline.wall - 3 * 3600) * 1e9
        for path, node in self.run.disk.walk(str(self.run.site.queue)):
            if "/.ackd-" in path and node.ctime_ns < horizon:
                raise Broken(f"left behind: {path}")
        for path, node in self.run.disk.walk(str(self.run.site.receipts)):
            if "/." not in path and node.ctime_ns < horizon:
                raise Broken(f"a receipt that nobody hears: {path}: {bytes(node.data)!r}")

    def _escalations(self) -> str:
        """All that was ever written to people, in one text."""
        tops = (self.run.site.queue, self.run.site.archive)
        files = (
            bytes(node.data) for top in tops for path, node in self.run.disk.walk(str(top)) if "/escalation_" in path
        )
        return b"\n".join(files).decode("utf-8", "replace")

    def _lines(self) -> list[Line]:
        """As they were written: by their names, sessions are out of order once the clock was set back."""
        files = session_log.session_files(self.run.site.logs)
        files.sort(key=lambda path: self.run.disk.look(str(path)).ino)
        return [line for path in files for line in session_log.read_lines(path)]

    def _places(self) -> dict[tuple[str, str], list[Place]]:
        found: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for top in (self.run.site.queue, self.run.site.archive):
            for path, _ in self.run.disk.walk(str(top)):
                if "/." not in path and (read := self.run.ledger.read(path)) is not None:
                    message, place = read
                    found[message.message_id, message.recipient].append(place)
        return found


def _story(lines: list[Line]) -> str:
    return " → ".join(f"{line.type}{'*' if line.data.get('recovered') else ''}" for line in lines) or "nothing"


def _kept_body(line: Line) -> dict[str, object]:
    """Of a notice that no queue would take, not even a person's: the line is all that is left of it."""
    body = line.data.get("body") if line.type == "message_warning" else None
    return body if isinstance(body, dict) else {}
