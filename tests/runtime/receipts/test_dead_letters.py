"""Requeue and purge of dead letters and quarantined files: they concern the file that was meant, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from ackd.core import events
from ackd.core.message import Folder, Place, Receipt, ReceiptKind
from ackd.core.ports import Services
from ackd.core.state import Deliveries
from ackd.runtime.receipts.dead_letters import DeadLetterRequests, DeadLetters
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock
from tests.acceptance.teams import mime
from tests.live_config import live_config

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.ports import Tasks

NAME = "purge_1.json"


class ReopenedLetters(DeadLetters):
    """Real dead letters; the test says which message is found when one is reopened."""

    def __init__(self, setup: DeadLetterSetup) -> None:
        super().__init__(
            spool=setup.spool,
            deliveries=Deliveries(),
            called=lambda name: name,
            post=setup.posted.append,
            config=live_config(),
        )
        self.setup = setup

    def reopen(self, receipt: Receipt) -> tuple[str, str] | None:
        self.setup.reopened.append(receipt)
        return self.setup.letter


class DeadLetterSetup:
    def __init__(self, root: Path) -> None:
        self.spool = Spool(root, max_message_bytes=100_000, durable=False)
        self.spool.ensure_layout()
        self.spool.ensure_box("leader")
        self.posted: list[events.Event] = []
        self.facts: list[tuple[str, dict[str, object]]] = []
        self.counted: list[Folder] = []
        self.reopened: list[Receipt] = []
        self.letter: tuple[str, str] | None = None
        self.requests = DeadLetterRequests(
            spool=self.spool,
            services=Services(
                clock=SystemClock(),
                post=self.posted.append,
                record=self.facts.append,
                tasks=cast("Tasks", None),  # no task is started
            ),
            dead_letters=ReopenedLetters(self),
            purged=self.counted.append,
        )

    def operate(self, kind: ReceiptKind, message_id: str = "", file: str | None = None, **more: Any) -> None:
        self.spool.receipt_path(NAME).write_text("{}")
        self.requests.take(Receipt(kind, message_id, more.pop("agent", None), NAME, file=file, **more))

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
def setup(tmp_path: Path) -> DeadLetterSetup:
    return DeadLetterSetup(tmp_path)


# --- purge ------------------------------------------------------------------------------------------------------------
def test_a_dead_letter_is_purged_by_its_id(setup: DeadLetterSetup) -> None:
    path = setup.bury("x.mime")
    setup.operate(ReceiptKind.PURGE, "1.1.a@x")
    assert not path.exists()
    assert setup.counted == [Folder.DEAD]
    assert setup.words() == ["message_purged"]
    assert [type(one) for one in setup.posted] == [events.LetterPurged]
    assert not setup.receipt_is_left


def test_of_two_with_one_id_the_file_that_was_named_goes(setup: DeadLetterSetup) -> None:
    paths = [setup.bury(f"{name}.mime") for name in "abc"]
    setup.operate(ReceiptKind.PURGE, "1.1.a@x", file="b.mime")
    assert [path.exists() for path in paths] == [True, False, True]


def test_an_id_that_another_letter_only_answers_to_is_not_its_id(setup: DeadLetterSetup) -> None:
    path = setup.bury("x.mime", extra="In-Reply-To: <9.9.z@x>\n")
    setup.operate(ReceiptKind.PURGE, "9.9.z@x")
    assert path.exists()
    assert setup.words() == ["message_warning"]
    assert not setup.receipt_is_left


def test_a_letter_that_another_has_replaced_is_not_the_one(setup: DeadLetterSetup) -> None:
    path = setup.bury("x.mime", message_id="2.2.b@x")
    setup.operate(ReceiptKind.PURGE, "1.1.a@x", file="x.mime")
    assert path.exists()


def test_a_quarantined_file_and_a_letter_of_one_name_are_told_apart(setup: DeadLetterSetup) -> None:
    bad, letter = setup.quarantine("x.mime"), setup.bury("x.mime")
    setup.operate(ReceiptKind.PURGE, "1.1.a@x", file="x.mime")
    assert bad.exists()
    assert not letter.exists()
    setup.bury("x.mime")
    setup.operate(ReceiptKind.PURGE, file="x.mime")
    assert not bad.exists()
    assert not bad.with_name("x.mime.reason").exists()
    assert letter.exists()
    assert setup.counted == [Folder.DEAD, Folder.CORRUPT]


def test_what_is_no_message_any_more_can_be_purged_by_name(setup: DeadLetterSetup) -> None:
    path = setup.bury("x.mime")
    path.write_text("rubbish")
    setup.operate(ReceiptKind.PURGE, file="x.mime", folder=Folder.DEAD)
    assert not path.exists()


def test_a_purge_that_is_heard_again_after_a_crash_removes_nothing_else(setup: DeadLetterSetup) -> None:
    """The daemon crashed after it removed the quarantined file, and before it removed the receipt."""
    letter = setup.bury("x.mime")
    for folder in (Folder.CORRUPT, None):
        setup.operate(ReceiptKind.PURGE, file="x.mime", folder=folder)
        assert letter.exists()
        assert not setup.receipt_is_left
    assert setup.words() == ["message_warning", "message_warning"]


def test_of_a_letter_and_a_quarantined_file_the_one_in_the_folder_that_is_said_goes(setup: DeadLetterSetup) -> None:
    bad, letter = setup.quarantine("x.mime"), setup.bury("x.mime")
    letter.write_text("no message any more")
    setup.operate(ReceiptKind.PURGE, file="x.mime", folder=Folder.DEAD)
    assert (bad.exists(), letter.exists()) == (True, False)


@pytest.mark.parametrize("kind", [ReceiptKind.PURGE, ReceiptKind.REQUEUE])
def test_an_id_that_died_at_two_recipients_means_neither(setup: DeadLetterSetup, kind: ReceiptKind) -> None:
    paths = [setup.bury(f"{to}.mime", extra=f"X-IGNITE-Recipient: {to}\n") for to in ("leader", "worker-1")]
    setup.letter = ("1.1.a@x", "leader")
    setup.operate(kind, "1.1.a@x")
    assert (setup.reopened, all(path.exists() for path in paths)) == ([], True)
    (said,) = setup.facts
    assert "2 dead letters have that id: name the file" in str(said[1]["warning"])
    assert not setup.receipt_is_left
    setup.operate(ReceiptKind.PURGE, "1.1.a@x", agent="worker_1")
    assert [path.exists() for path in paths] == [True, False]


@pytest.mark.parametrize("file", ["nothing.mime", "../../x", None])
def test_nothing_there_is_said_and_the_receipt_goes(setup: DeadLetterSetup, file: str | None) -> None:
    setup.operate(ReceiptKind.PURGE, "1.1.a@x" if file is None else "", file=file)
    assert setup.words() == ["message_warning"]
    assert not setup.receipt_is_left


# --- requeue ----------------------------------------------------------------------------------------------------------
def test_a_dead_letter_goes_back_through_the_engine(setup: DeadLetterSetup) -> None:
    """The receipt stays until the engine has acted on it."""
    setup.letter = ("1.1.a@x", "leader")
    setup.operate(ReceiptKind.REQUEUE, "1.1.a@x", file="x.mime")
    (came,) = setup.posted
    assert isinstance(came, events.ReceiptCame)
    assert (came.receipt.message_id, came.receipt.agent, came.receipt.file) == ("1.1.a@x", "leader", "x.mime")
    assert setup.receipt_is_left


def test_a_quarantined_file_goes_back_as_it_is(setup: DeadLetterSetup) -> None:
    setup.quarantine("x.mime")
    setup.letter = ("1.1.a@x", "leader")  # a letter of the same name, which nobody means
    setup.operate(ReceiptKind.REQUEUE, file="x.mime")
    assert setup.reopened == []
    assert setup.spool.path(Place("leader", Folder.QUEUE, "x.mime")).read_bytes() == b"bad"
    assert setup.words() == ["message_requeued"]
    assert setup.counted == [Folder.CORRUPT]
    assert not setup.receipt_is_left


def test_a_quarantined_receipt_has_no_queue_to_go_back_to(setup: DeadLetterSetup) -> None:
    setup.spool.receipt_path("odd.json").write_text("x")
    kept = setup.spool.quarantine_receipt("odd.json", "bad_receipt", "why", "now")
    setup.operate(ReceiptKind.REQUEUE, file=kept)
    assert setup.words() == ["message_warning"]
    assert setup.spool.exists(Place("", Folder.CORRUPT, kept))
    assert not setup.receipt_is_left


def test_a_letter_that_is_gone_is_no_quarantined_file_of_its_name(setup: DeadLetterSetup) -> None:
    bad = setup.quarantine("x.mime")
    setup.operate(ReceiptKind.REQUEUE, "1.1.a@x", file="x.mime")
    setup.operate(ReceiptKind.REQUEUE, file="x.mime", folder=Folder.DEAD)
    assert bad.exists()
    assert setup.words() == ["message_warning", "message_warning"]
    assert not setup.receipt_is_left


def test_no_such_dead_letter(setup: DeadLetterSetup) -> None:
    setup.operate(ReceiptKind.REQUEUE, "1.1.a@x")
    assert setup.words() == ["message_warning"]
    assert not setup.receipt_is_left
