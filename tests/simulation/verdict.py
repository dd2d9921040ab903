"""In the end: the world's own account against the disk and the log.

Each file that was handed over is where the log says it is, with exactly one end for each of its lives; every dead
letter has its escalation and its notice; the log is whole; nothing of ours is left lying about.

A power cut may take lines of the log, and may undo moves: of such a run only what lies on the disk is judged, and the
form of the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ackd.core.message import MONITOR, Folder, Place
from ackd.formats import ignite, yaml_body
from ackd.storage import session_log
from ackd.storage.session_log.stored import state

if TYPE_CHECKING:
    from pathlib import Path

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
            told[str(line.data.get("message_id")), _addressee(line)].append(line)
        for key, letter in self.run.ledger.letters.items():
            self.run.counts["letters"] += 1
            self._judge_letter(letter, found.get(key, []), told[key])
        self._judge_deaths(lines, told)
        self._judge_parts(lines, found)
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
        if letter.cancelled and not letter.removed and not any(_of_its_end(line) for line in lines):
            raise Broken(f"{name} was to be cancelled, and the log does not say what came of that")
        if letter.copies == 1:
            self._judge_only(letter, name, places, lines)
        elif not letter.removed and {place.folder for place in places} == {Folder.ARCHIVE}:
            self._must_have_ended(letter, name, lines)

    def _must_have_ended(self, letter: Letter, name: str, lines: list[Line]) -> None:
        """Of several copies all lie in the archive: one was completed, or withdrawn by the word of its sender."""
        wanted = ("message_completed", "message_withdrawn") if letter.cancelled else ("message_completed",)
        if not any(line.type in wanted for line in lines):
            raise Broken(f"{name} lies in the archive, and the log says {_story(lines)}")

    def _judge_only(self, letter: Letter, name: str, places: list[Place], lines: list[Line]) -> None:
        """A message that was sent once: its last line about an end agrees with where it is."""
        ends: list[str] = []
        open_ = was_cancelled = False
        for line in lines:
            if line.type in ("message_queued", "message_requeued"):
                open_ = True
            elif line.type in ENDS:
                late = line.type == "message_completed" and ends[-1:] == ["message_dead"] and not was_cancelled
                was_cancelled = line.data.get("end") == "cancelled"
                if not open_ and not late:
                    raise Broken(f"ended twice: {name}: {_story(lines)}")
                ends.append(line.type)
                open_ = False
        last = ends[-1] if ends and not open_ else None
        if places:
            wanted = {Folder.ARCHIVE: "message_completed", Folder.DEAD: "message_dead"}.get(places[0].folder)
            if letter.cancelled and places[0].folder is Folder.ARCHIVE and last == "message_withdrawn":
                wanted = last
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
            if line.type == "message_queued" and line.data.get("message_type") in ("dead_letter", "escalation")
        )  # fmt: skip
        left = {str(body.get("message_id")) for body in map(_kept_body, lines)}
        words = self._escalations()
        for line in lines:
            if line.type != "message_dead" or line.data.get("from") == MONITOR:
                continue
            self.run.counts["deaths"] += 1
            message_id = str(line.data["message_id"])
            end = line.data.get("end")
            met = noticed[message_id] or message_id in self.run.ledger.notices_removed or message_id in left
            given_up = end == "cancelled" or (end == "expired" and met)  # a stranger with a queue is told like an agent
            counted_in = line.data.get("recovered") and f"agent: {_addressee(line)}\n" in words  # its line died with us
            if message_id not in escalated and message_id not in words and not counted_in and not given_up:
                raise Broken(f"{message_id} died, and nobody was told: no escalation")
            if line.data.get("end") == "cancelled" and line.data.get("from") == "stranger":
                continue  # whoever cancelled it knows, and its sender is nobody here
            if line.data.get("from") != "stranger" and not met:
                raise Broken(f"{message_id} died, and its sender was not told")

    def _judge_parts(self, lines: list[Line], places: dict[tuple[str, str], list[Place]]) -> None:
        """Whoever sent parts was told of each when all had ended, and of no end twice. The line that tells of it may come
        before the line of the last end, which waits for its turn in another agent's lane."""
        if self.power_cuts:
            return
        ended: dict[tuple[str, str], list[int]] = defaultdict(list)
        said: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for number, line in enumerate(lines):
            about = (str(line.data.get("message_id")), _addressee(line))
            if line.type in ENDS:
                ended[about].append(number)
            elif line.type == "parts_ended":
                said[about][str(line.data["notice_id"])] = int(line.data["parts"])
        notices = self._notices_of_parts()
        told = Counter(part for parts in notices.values() for part in parts)
        for family, letters in self._families().items():
            parts = [(one.message_id, one.to) for one in letters]
            if _any_waits([family, *parts], places) or not all(ended[part] for part in parts):
                continue
            self.run.counts["families"] += 1
            if sum(said[family].values()) < len(parts):
                raise Broken(f"{family[1]} was not told that the parts of {family[0]} have ended")
            untold = [part for part in parts if not told[part]]
            if untold and said[family].keys() <= notices.keys():  # else somebody removed one
                raise Broken(f"{family[1]} was told that the parts of {family[0]} have ended, and not of {untold}")
        for part, times in told.items():
            if times > len(ended[part]):
                raise Broken(f"{part[0]} for {part[1]} ended {len(ended[part])} times, and was told of {times} times")

    def _families(self) -> dict[tuple[str, str], list[Letter]]:
        """By the parent's id and whoever sent its parts."""
        families: dict[tuple[str, str], list[Letter]] = defaultdict(list)
        for letter in self.run.ledger.letters.values():
            if letter.part_of is not None and letter.sender != "stranger":
                families[letter.part_of, letter.sender].append(letter)
        return families

    def _notices_of_parts(self) -> dict[str, list[tuple[str, str]]]:
        """By its id, the parts that each notice tells of. One that was written twice is one."""
        notices: dict[str, list[tuple[str, str]]] = {}
        for top in (self.run.site.queue, self.run.site.archive):
            for path, node in self.run.disk.walk(str(top)):
                if "/notification_" not in path or b"cause: parts_ended" not in (data := bytes(node.data)):
                    continue
                body: Any = yaml_body.load(ignite.split(data).body.decode())
                ident = ignite.bare_id(dict(ignite.headers(data))["Message-ID"])
                notices[ident] = [(part["message_id"], part["to"]) for part in body["parts"]]
        return notices

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
        files.sort(key=_made_as)
        return [line for path in files for line in session_log.read_lines(path)]

    def _places(self) -> dict[tuple[str, str], list[Place]]:
        found: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for top in (self.run.site.queue, self.run.site.archive):
            for path, _ in self.run.disk.walk(str(top)):
                if "/." not in path and (read := self.run.ledger.read(path)) is not None:
                    message, place = read
                    found[message.message_id, message.recipient].append(place)
        return found


def _addressee(line: Line) -> str:
    """The agent or pool that the message of a line was sent to."""
    return str(line.data.get("pool") or line.data.get("agent"))


def _of_its_end(line: Line) -> bool:
    """Whether it says what came of a cancellation: that it was heard, or that it came too late."""
    heard = line.type == "message_cancel" or (line.type == "message_warning" and "cancel" in str(line.data["warning"]))
    return heard or line.type in ENDS


def _any_waits(keys: list[tuple[str, str]], places: dict[tuple[str, str], list[Place]]) -> bool:
    waiting = (Folder.QUEUE, Folder.PROCESSED)
    return any(place.folder in waiting for key in keys for place in places.get(key, ()))


def _story(lines: list[Line]) -> str:
    return " → ".join(f"{line.type}{'*' if line.data.get('recovered') else ''}" for line in lines) or "nothing"


def _kept_body(line: Line) -> dict[str, object]:
    """Of a notice that no queue would take, not even a person's: the line is all that is left of it."""
    body = line.data.get("body") if line.type == "message_warning" else None
    return body if isinstance(body, dict) else {}


def _made_as(log: Path) -> int:
    """Return the number of the log's plain file, which a compressed one has noted: they are given in ascending order."""
    now = state(log)
    return now.inode if now is not None else 0
