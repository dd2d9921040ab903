"""What is fuzzed: every door that bytes come in by, each as a function that fails when the door does.

A target takes bytes, hands them to the real code, and raises for whatever nobody should see: an exception without a
name of ours, a traceback, "a bug in ackd", an escape sequence on the terminal, a file outside the root, too much time or
memory. ``family`` says what the bytes are like; seeds and shapes go by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.coordination.ensemble.drafts import EnsembleDrafts, FileVersion, digest_of
from ackd.coordination.ensemble.saved_state import BadSavedState, SavedEnsemble
from ackd.coordination.ensemble.settings import EnsembleSettings
from ackd.coordination.pipeline import wire as stage_text
from ackd.core.errors import BadBody, BadBusLine, BadLine, BadMessage, BadReceipt
from ackd.core.events import Now
from ackd.core.message import KNOWN_TYPES
from ackd.endpoints.process import wire as worker_json
from ackd.formats import bodies, body_shapes, ignite, yaml_body
from tests.fuzz import command_targets, daemon_targets
from tests.fuzz.limits import bounded
from tests.fuzz.place import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.families import Family


@dataclass(frozen=True)
class Target:
    name: str
    family: Family
    door: Callable[[bytes], None]

    def __call__(self, data: bytes) -> None:
        with bounded():
            self.door(data)


# --- the dialect ------------------------------------------------------------------------------------------------------
def header(data: bytes) -> None:
    """Reading never fails but by name, and what was read can be given a status and read again as the same message."""
    try:
        ignite.headers(data)
        ignite.standing(data)
    except BadMessage:
        return
    try:
        message = ignite.decode(data, "worker")
    except BadMessage:
        return
    with_status = ignite.rewrite(data, [(ignite.STATUS, "retrying"), (ignite.RETRY_COUNT, "1")])
    assert ignite.decode(with_status, "worker") == message
    assert ignite.split(with_status).body == ignite.split(data).body
    assert list(ignite.faults(ignite.split(data))) == []


def yaml(data: bytes) -> None:
    """Whatever loads is written so that it loads as the same value."""
    text = data.decode(errors="surrogatepass" if data.isascii() else "replace")
    try:
        value = yaml_body.load(text)
    except BadBody:
        return
    assert yaml_body.load(yaml_body.dump(value)) == value


def body(data: bytes) -> None:
    """The quick check and the thorough one say the same of every body."""
    text = data.decode(errors="replace")
    try:
        loaded = yaml_body.load(text)
    except BadBody:
        loaded = None
    for kind in KNOWN_TYPES:
        problems = bodies.check(kind, text)
        if loaded is not None:
            assert body_shapes.quick_check(kind, loaded) == (not problems), (kind, problems)


def receipt(data: bytes) -> None:
    from ackd.storage import maildrop

    with place() as at:
        try:
            read = maildrop.read_receipt(at.put("receipts/done_1763254800000000-abcdef.json", data))
        except BadReceipt as error:
            assert str(error)
            return
        assert read.file is None or not re.search(r"[/\0]", read.file)


def worker_line(data: bytes) -> None:
    """What a worker writes is read or refused by name, and either can be answered in one line."""
    try:
        said = worker_json.decode(data)
    except BadLine as bad:
        assert worker_json.error("worker", 0.0, bad, data).count(b"\n") == 1
        return
    if isinstance(said, worker_json.Failed | worker_json.ContextThreshold) and said.checkpoint is not None:
        assert worker_json.read_checkpoint(said.checkpoint.json) == said.checkpoint


def bus_line(data: bytes) -> None:
    """Read or refused by name; what was read is taken, raises events inside its directory, and can be told of."""
    from ackd.coordination.bus import notices as telling
    from ackd.coordination.bus.rules.events import event_names
    from ackd.coordination.bus.rules.track import TrackView
    from ackd.coordination.bus.wire.reading import read

    view = TrackView()
    for offset, raw in enumerate(data.split(b"\n")):
        for said in read(raw, offset, offset + len(raw), 1.7e9):
            if isinstance(said, BadBusLine):
                assert str(said)
                continue
            woken = view.take(said).woken
            for name in event_names(said.type.value, said.message_id, said.payload):
                assert "/" not in name
                assert "\0" not in name
                assert len(name.encode()) < 255
            drafts = [telling.to_orchestrator("login", said, ("x",), "leader")]
            drafts += [telling.to_woken("login", said, ("x",), one, "leader") for one in woken]
            for draft in drafts:
                ignite.decode(ignite.encode_draft(draft, 1.7e9), "leader")
    view.blocked()


def bus_status(data: bytes) -> None:
    from ackd.coordination.bus.rules.track import TrackView
    from ackd.coordination.bus.wire.reading import decode_status

    try:
        found, wrong = decode_status(data, 1.7e9)
    except BadBusLine:
        return
    view = TrackView()
    for one in found.values():
        view.hear_status(one, one.heartbeat or 1.6e9)
    assert all(wrong)


def leases(data: bytes) -> None:
    """A locks.json of anybody's hand: what is there can be leased, let go of and written, and says the same when read."""
    from ackd.coordination.leases.files import shape
    from ackd.leases import LeaseHeld, Leases

    try:
        page = shape.read_locks(data, str, 1.7e9)
    except shape.NotLeases as bad:
        assert str(bad)
        return
    again = shape.read_locks(shape.write_locks(page), str, 1.7e9)
    assert again.held == page.held
    with place() as at:
        at.put("bus/locks.json", data)
        doors = Leases(at.root / "bus", at.home)
        for path in ("src/a.py", "src/b.py"):
            try:
                doors.acquire(path, "worker")
            except LeaseHeld as held:
                assert str(held)
            doors.release(path, "worker")
        doors.look()


def board(data: bytes) -> None:
    """Files of a meeting that a hand has written: heard or refused in words, kept, read again, and shown."""
    from ackd.coordination.board.rules import encoding, exports, imports
    from ackd.coordination.board.rules.answers import AnswerKind as Kind
    from ackd.coordination.board.rules.meeting import advanced
    from ackd.coordination.board.track_board import _json_lines
    from ackd.core.errors import BadMeeting
    from tests.coordination.board.rules.sample_meetings import assessed, called, voting

    try:
        encoding.decode(data, "meeting.json")
    except BadMeeting as bad:
        assert str(bad)
    lines = _json_lines(data + b"\n")
    entries = [one for one in lines if isinstance(one, dict)]
    for begun, kind in ((called(), Kind.ASSESS), (assessed(called()), Kind.DISCUSS), (voting(), Kind.VOTE)):
        meeting = begun
        for entry in entries:
            meeting = imports.take_entries(meeting, kind, entry, 5.0)
            meeting = imports.take_bus_line(meeting, kind, "CA", entry, "msg-1", 5.0)
        meeting = advanced(imports.take_lines(meeting, lines, 5.0), 6.0)
        assert encoding.encode(encoding.decode(encoding.encode(meeting), "meeting.json")) == encoding.encode(meeting)
        for shown in (exports.session(meeting), exports.assessments(meeting), exports.votes(meeting)):
            exports.as_json(shown)


def story(data: bytes) -> None:
    """A story's record is read as what it was written as, or refused by name."""
    from ackd.coordination.pipeline.rules import record as story_record

    try:
        found = story_record.decode(data, "A-1")
    except story_record.BadStoryRecord as bad:
        assert str(bad)
        return
    assert story_record.decode(story_record.encode(found), "A-1") == found


def checkpoint(data: bytes) -> None:
    """One that was kept is handed on as it was, or refused by name."""
    try:
        kept = worker_json.read_checkpoint(data)
    except BadLine:
        return
    work = worker_json.Assignment("t", "/s", "/w", 1, "1.2@x", "user", "message", "low", 0, 0, None, kept)
    assert worker_json.assign("worker", 0.0, work).count(b"\n") == 1


def ensemble_file(data: bytes) -> None:
    """Whatever lies in tasks/ or reports/ becomes a message that can be written, read and delivered."""
    letters = EnsembleDrafts(EnsembleSettings(), lambda name: name if name in ("worker", "dispatch") else None, 65_536)
    for name in ("worker-T1.yaml", "T1.yaml", "T1-completed.yaml", "escalation-T1.yaml", "T1-review.yaml"):
        sheet = FileVersion(f"reports/{name}", name, f"queue/reports/{name}", 1, digest_of(data), data[: letters.limit])
        task = letters.task(sheet)
        for draft in (letters.report(sheet, (), 0).draft, *([task.draft] if task is not None else [])):
            written = ignite.encode_draft(draft, 0.0)
            assert len(written) <= 65_536
            assert ignite.decode(written, "worker").message_id == draft.message_id


def ensemble_register(data: bytes) -> None:
    with place() as at:
        register = SavedEnsemble(at.put("state/gateways/ensemble.json", data), durable=False)
        try:
            register.load(Now(5.0, 1_763_254_800.0))
        except BadSavedState as bad:
            assert str(bad)
            return
        register._file.save(register._content(Now(6.0, 1_763_254_801.0)))


def stage_report(data: bytes) -> None:
    """A stage text is read, and written as what it was read as, or refused with the place where it differs."""
    text = data.decode(errors="replace")
    stage_text.last_report(text)
    stage_text.word_in(text)
    for reader in (stage_text.read, stage_text.read_command):
        try:
            word = reader(text)
        except stage_text.BadStageText as bad:
            assert 0 <= bad.at <= len(text)
            assert str(bad)
            continue
        assert reader(stage_text.write(word)) == word


TARGETS: Final = {
    target.name: target
    for target in (
        Target("header", "message", header),
        Target("yaml", "yaml", yaml),
        Target("body", "yaml", body),
        Target("receipt", "receipt", receipt),
        Target("worker_line", "worker_line", worker_line),
        Target("stage_text", "stage_text", stage_report),
        Target("checkpoint", "checkpoint", checkpoint),
        Target("ensemble_file", "yaml", ensemble_file),
        Target("ensemble_register", "ensemble_register", ensemble_register),
        Target("bus_line", "bus", bus_line),
        Target("bus_status", "bus_status", bus_status),
        Target("leases", "leases", leases),
        Target("board", "board", board),
        Target("story", "story", story),
        *(Target(name, family, door) for name, family, door in command_targets.DOORS),
        *(Target(name, family, door) for name, family, door in daemon_targets.DOORS),
    )
}
