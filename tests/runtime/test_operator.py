"""Digging up and removing: the file that was meant, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters.spool import Spool
from ackd.core import events
from ackd.core.message import Folder, Place, Receipt, ReceiptKind
from ackd.runtime.dead_letters import DeadLetters
from ackd.runtime.operator import Operator
from tests.acceptance.teams import mime

if TYPE_CHECKING:
    from pathlib import Path

NAME = "purge_1.json"


class Desk:
    def __init__(self, root: Path) -> None:
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.spool.ensure_layout()
        self.spool.ensure_box("leader")
        self.posted: list[events.Event] = []
        self.facts: list[tuple[str, dict[str, object]]] = []
        self.counted: list[Folder] = []
        self.dug: list[Receipt] = []
        self.letter: tuple[str, str] | None = None
        self.operator = Operator(
            self.spool,
            self.posted.append,
            lambda type_, data: self.facts.append((type_, data)),
            self.dig_up,
            self.counted.append,
            DeadLetters(self.spool).named,
        )

    def dig_up(self, receipt: Receipt) -> tuple[str, str] | None:
        self.dug.append(receipt)
        return self.letter

    def operate(self, kind: ReceiptKind, message_id: str = "", file: str | None = None, **more: Any) -> None:
        self.spool.receipt_path(NAME).write_text("{}")
        self.operator.operate(Receipt(kind, message_id, more.pop("agent", None), NAME, file=file, **more))

    @property
    def receipt_is_left(self) -> bool:
        return self.spool.receipt_path(NAME).exists()

    def bury(self, name: str, message_id: str = "1.1.a@x", extra: str = "") -> Path:
        path = self.spool.path(Place("", Folder.DEAD, name))
        path.write_bytes(mime(message_id=message_id, extra=extra))
        return path

    def quarantine(self, name: str) -> Path:
        place = Place("leader", Folder.QUEUE, name)
        self.spool.path(place).write_bytes(b"bad")
        return self.spool.path(Place("", Folder.CORRUPT, self.spool.quarantine(place, "empty", "why", "now")))

    def words(self) -> list[str]:
        return [type_ for type_, _ in self.facts]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- purge --------------------------------------------------------------------------------------------------------------
def test_a_dead_letter_is_purged_by_its_id(desk: Desk) -> None:
    path = desk.bury("x.mime")
    desk.operate(ReceiptKind.PURGE, "1.1.a@x")
    assert not path.exists()
    assert desk.counted == [Folder.DEAD]
    assert desk.words() == ["message_purged"]
    assert [type(one) for one in desk.posted] == [events.LetterPurged]
    assert not desk.receipt_is_left


def test_of_two_with_one_id_the_file_that_was_named_goes(desk: Desk) -> None:
    paths = [desk.bury(f"{name}.mime") for name in "abc"]
    desk.operate(ReceiptKind.PURGE, "1.1.a@x", file="b.mime")
    assert [path.exists() for path in paths] == [True, False, True]


def test_an_id_that_another_letter_only_answers_to_is_not_its_id(desk: Desk) -> None:
    path = desk.bury("x.mime", extra="In-Reply-To: <9.9.z@x>\n")
    desk.operate(ReceiptKind.PURGE, "9.9.z@x")
    assert path.exists()
    assert desk.words() == ["message_warning"]
    assert not desk.receipt_is_left


def test_a_letter_that_another_has_replaced_is_not_the_one(desk: Desk) -> None:
    path = desk.bury("x.mime", message_id="2.2.b@x")
    desk.operate(ReceiptKind.PURGE, "1.1.a@x", file="x.mime")
    assert path.exists()


def test_a_quarantined_file_and_a_letter_of_one_name_are_told_apart(desk: Desk) -> None:
    bad, letter = desk.quarantine("x.mime"), desk.bury("x.mime")
    desk.operate(ReceiptKind.PURGE, "1.1.a@x", file="x.mime")
    assert bad.exists()
    assert not letter.exists()
    desk.bury("x.mime")
    desk.operate(ReceiptKind.PURGE, file="x.mime")
    assert not bad.exists()
    assert not bad.with_name("x.mime.reason").exists()
    assert letter.exists()
    assert desk.counted == [Folder.DEAD, Folder.CORRUPT]


def test_what_is_no_message_any_more_can_be_purged_by_name(desk: Desk) -> None:
    path = desk.bury("x.mime")
    path.write_text("rubbish")
    desk.operate(ReceiptKind.PURGE, file="x.mime", folder=Folder.DEAD)
    assert not path.exists()


def test_a_purge_that_is_heard_again_after_a_crash_removes_nothing_else(desk: Desk) -> None:
    """The quarantined file was removed, and we died before its receipt was."""
    letter = desk.bury("x.mime")
    for folder in (Folder.CORRUPT, None):
        desk.operate(ReceiptKind.PURGE, file="x.mime", folder=folder)
        assert letter.exists()
        assert not desk.receipt_is_left
    assert desk.words() == ["message_warning", "message_warning"]


def test_of_a_letter_and_a_quarantined_file_the_one_in_the_folder_that_is_said_goes(desk: Desk) -> None:
    bad, letter = desk.quarantine("x.mime"), desk.bury("x.mime")
    letter.write_text("no message any more")
    desk.operate(ReceiptKind.PURGE, file="x.mime", folder=Folder.DEAD)
    assert (bad.exists(), letter.exists()) == (True, False)


@pytest.mark.parametrize("kind", [ReceiptKind.PURGE, ReceiptKind.REQUEUE])
def test_an_id_that_died_at_two_recipients_means_neither(desk: Desk, kind: ReceiptKind) -> None:
    paths = [desk.bury(f"{to}.mime", extra=f"X-IGNITE-Recipient: {to}\n") for to in ("leader", "worker-1")]
    desk.letter = ("1.1.a@x", "leader")
    desk.operate(kind, "1.1.a@x")
    assert (desk.dug, all(path.exists() for path in paths)) == ([], True)
    (said,) = desk.facts
    assert "2 dead letters have that id: name the file" in str(said[1]["warning"])
    assert not desk.receipt_is_left
    desk.operate(ReceiptKind.PURGE, "1.1.a@x", agent="worker_1")
    assert [path.exists() for path in paths] == [True, False]


@pytest.mark.parametrize("file", ["nothing.mime", "../../x", None])
def test_nothing_there_is_said_and_the_receipt_goes(desk: Desk, file: str | None) -> None:
    desk.operate(ReceiptKind.PURGE, "1.1.a@x" if file is None else "", file=file)
    assert desk.words() == ["message_warning"]
    assert not desk.receipt_is_left


# --- requeue ------------------------------------------------------------------------------------------------------------
def test_a_dead_letter_goes_back_through_the_engine(desk: Desk) -> None:
    """The receipt stays until the engine has acted on it."""
    desk.letter = ("1.1.a@x", "leader")
    desk.operate(ReceiptKind.REQUEUE, "1.1.a@x", file="x.mime")
    (came,) = desk.posted
    assert isinstance(came, events.ReceiptCame)
    assert (came.receipt.message_id, came.receipt.agent, came.receipt.file) == ("1.1.a@x", "leader", "x.mime")
    assert desk.receipt_is_left


def test_a_quarantined_file_goes_back_as_it_is(desk: Desk) -> None:
    desk.quarantine("x.mime")
    desk.letter = ("1.1.a@x", "leader")  # a letter of the same name, which nobody means
    desk.operate(ReceiptKind.REQUEUE, file="x.mime")
    assert desk.dug == []
    assert desk.spool.path(Place("leader", Folder.QUEUE, "x.mime")).read_bytes() == b"bad"
    assert desk.words() == ["message_requeued"]
    assert desk.counted == [Folder.CORRUPT]
    assert not desk.receipt_is_left


def test_a_quarantined_receipt_has_no_queue_to_go_back_to(desk: Desk) -> None:
    desk.spool.receipt_path("odd.json").write_text("x")
    kept = desk.spool.quarantine_receipt("odd.json", "bad_receipt", "why", "now")
    desk.operate(ReceiptKind.REQUEUE, file=kept)
    assert desk.words() == ["message_warning"]
    assert desk.spool.exists(Place("", Folder.CORRUPT, kept))
    assert not desk.receipt_is_left


def test_a_letter_that_is_gone_is_no_quarantined_file_of_its_name(desk: Desk) -> None:
    bad = desk.quarantine("x.mime")
    desk.operate(ReceiptKind.REQUEUE, "1.1.a@x", file="x.mime")
    desk.operate(ReceiptKind.REQUEUE, file="x.mime", folder=Folder.DEAD)
    assert bad.exists()
    assert desk.words() == ["message_warning", "message_warning"]
    assert not desk.receipt_is_left


def test_no_such_dead_letter(desk: Desk) -> None:
    desk.operate(ReceiptKind.REQUEUE, "1.1.a@x")
    assert desk.words() == ["message_warning"]
    assert not desk.receipt_is_left
