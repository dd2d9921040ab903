"""Receipts: which are heard and when, and what becomes of files that are no receipts."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from ackd.core import events
from ackd.core.message import Folder, Place, Receipt, ReceiptKind
from ackd.core.signals import MessageMet
from ackd.runtime.receipts.receipts import LIST_AGAIN_S
from ackd.storage import maildrop
from ackd.storage.checkpoints import CheckpointFiles
from ackd.storage.spool.undeliverable import DeadLetterFolder
from ackd.system.syscalls import identity_of
from tests.acceptance.teams import mime
from tests.live_config import config_with
from tests.nobody import nobodys_directory
from tests.runtime.intake_fixture import SETTLE_S, IntakeSetup, intake_in
from tests.runtime.receipts.test_agent_requests import refuse

if TYPE_CHECKING:
    from pathlib import Path


# --- receipts ---------------------------------------------------------------------------------------------------------
def receipt(setup: IntakeSetup, name: str = "done_1.json", **changes: object) -> str:
    content = {"kind": "done", "message_id": "1.1.a@x", "agent": "leader", **changes}
    setup.spool.receipt_path(name).write_text(json.dumps(content))
    return name


async def test_a_receipt_is_posted_once_its_message_is_known(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.waiting(setup.put(data=mime(message_id="1.1.a@x")))
        setup.receipts.take(receipt(setup))
        (came,) = setup.of(events.ReceiptCame)
        assert came.receipt == Receipt(ReceiptKind.DONE, "1.1.a@x", "leader", "done_1.json")
        path = setup.spool.receipt_path("done_1.json")
        assert came.receipt.which == (*identity_of(str(path)), hash(path.read_bytes()))


async def test_a_receipt_that_is_quicker_than_its_message_waits_for_it(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(receipt(setup))
        setup.receipts.take("done_1.json")
        assert setup.posted == []
        setup.waiting(setup.put(data=mime(message_id="1.1.a@x")))
        await setup.until(lambda: setup.of(events.ReceiptCame))
        await anyio.sleep(3 * SETTLE_S)
        assert len(setup.posted) == 1


async def test_a_receipt_that_waits_is_heard_as_soon_as_its_message_is_met(tmp_path: Path) -> None:
    """The receipt is heard before anything is done with the message; later its command would run."""
    async with intake_in(tmp_path) as setup:
        setup.config.swap(config_with(settle_s=60))
        for number, kind in enumerate(("done", "ack")):  # in the order of their times
            setup.receipts.take(receipt(setup, f"{kind}_{2 - number}.json", kind=kind))
        setup.waiting(setup.put(data=mime(message_id="1.1.a@x")))
        setup.receipts.was_met(MessageMet("1.1.a@x", "leader"))
        assert [came.receipt.name for came in setup.of(events.ReceiptCame)] == ["ack_1.json", "done_2.json"]


async def test_a_receipt_that_waits_outlives_a_message_of_its_id_for_another(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(receipt(setup, agent="user"))
        setup.waiting(setup.put(data=mime(message_id="1.1.a@x")))
        setup.receipts.was_met(MessageMet("1.1.a@x", "leader"))
        assert setup.posted == []
        await setup.until(lambda: setup.of(events.ReceiptCame))
        await anyio.sleep(3 * SETTLE_S)
        assert len(setup.posted) == 1


async def test_ids_that_receipts_name_are_known_before_any_is_heard(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        receipt(setup)
        receipt(setup, "defer_2.json", kind="defer", message_id="<2.2.b@x>")
        receipt(setup, "pause_3.json", kind="pause", message_id=None)
        setup.spool.receipt_path("t").write_text("x")
        assert await setup.receipts.named() == {"1.1.a@x", "2.2.b@x"}
        assert (setup.posted, setup.facts) == ([], [])


async def test_a_receipt_waits_as_long_as_its_messages_writer_is_at_it(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        place = setup.put(data=mime(message_id="1.1.a@x"))
        setup.receipts.take(receipt(setup))
        await anyio.sleep(6 * SETTLE_S)
        assert setup.posted == []
        setup.waiting(place)
        await setup.until(lambda: setup.of(events.ReceiptCame))


async def test_a_receipt_that_waits_is_not_read_at_every_turn_where_nothing_has_to_settle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message may lie unmet until the next scan, which takes minutes where there are no notifications."""
    reads: list[Path] = []
    read_receipt = maildrop.read_receipt

    def counted(path: Path) -> Receipt:
        reads.append(path)
        return read_receipt(path)

    monkeypatch.setattr(maildrop, "read_receipt", counted)
    async with intake_in(tmp_path) as setup:
        setup.config.swap(config_with(settle_s=0))
        place = setup.put(data=mime(message_id="1.1.a@x"))
        setup.receipts.take(receipt(setup))
        await setup.until(lambda: len(reads) > 1)
        begun = time.monotonic()
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        assert len(reads) <= 3 + (time.monotonic() - begun) / LIST_AGAIN_S
        setup.waiting(place)
        await setup.until(lambda: setup.of(events.ReceiptCame))


async def test_a_receipt_for_no_message_is_handed_on_all_the_same(tmp_path: Path) -> None:
    """The engine logs that the receipt means nothing, and has its file removed."""
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(receipt(setup))
        await setup.until(lambda: setup.of(events.ReceiptCame))


@pytest.mark.parametrize("kind", ["requeue", "purge"])
async def test_an_operators_receipt_is_operated(tmp_path: Path, kind: str) -> None:
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(receipt(setup, kind=kind, agent=None))
        await setup.until(lambda: setup.dead_letter_requests)
        assert [one.kind.value for one in setup.dead_letter_requests] == [kind]
        assert setup.posted == []


async def test_a_bad_receipt_is_put_away_once_nobody_writes_to_it(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        path = setup.spool.receipt_path("done_1.json")
        with path.open("w") as file:
            file.write('{"kind": "do')
            file.flush()
            setup.receipts.take(path.name)
            await anyio.sleep(3 * SETTLE_S)
            assert path.exists()
        await setup.until(lambda: setup.said("message_rejected"))
        assert not path.exists()
        assert (tmp_path / "queue/corrupt/done_1.json").read_text() == '{"kind": "do'


async def test_a_receipt_that_we_may_not_read_is_put_away() -> None:
    with nobodys_directory() as root:
        async with intake_in(root) as setup:
            path = root / "receipts/ack_1.json"
            path.write_text("{}")
            path.chmod(0)
            setup.receipts.take(path.name)
            await setup.until(lambda: setup.said("message_rejected"))
            (refused,) = setup.said("message_rejected")
            assert "may not read it" in str(refused["reason"])
            assert (root / "queue/corrupt" / str(refused["kept_as"])).exists()
            assert setup.said("io_error") == []


async def test_a_receipt_that_was_half_written_is_heard_when_it_is_whole(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        path = setup.spool.receipt_path("done_1.json")
        whole = json.dumps({"kind": "done", "message_id": "1.1.a@x", "agent": "leader"})
        with path.open("w") as file:
            file.write(whole[:10])
            file.flush()
            for _ in range(2):
                setup.receipts.take(path.name)
            file.write(whole[10:])
        await setup.until(lambda: setup.of(events.ReceiptCame))
        await anyio.sleep(2 * SETTLE_S)
        assert len(setup.posted) == 1


async def test_a_bad_receipt_that_vanishes_while_it_is_looked_at_is_nobodys_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        path = setup.spool.receipt_path("t")
        read_receipt = maildrop.read_receipt

        def read_and_lose(path: Path) -> Receipt:
            try:
                return read_receipt(path)
            finally:
                path.unlink()

        monkeypatch.setattr(maildrop, "read_receipt", read_and_lose)
        path.write_text("x")
        setup.receipts.take("t")
        assert (setup.posted, setup.facts) == ([], [])


async def test_a_bad_receipt_that_cannot_be_looked_at_is_said_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:

        def broken(*_: object) -> bool:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(setup.spool, "receipt_settled", broken)
        path = setup.spool.receipt_path("t")
        path.write_text("x")
        setup.receipts.take("t")
        assert len(setup.said("io_error")) == 1
        assert path.exists()


async def test_without_a_dead_letter_directory_receipts_are_heard_all_the_same(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        (tmp_path / "queue/dead_letter").rmdir()
        setup.receipts.take(receipt(setup))
        await setup.until(lambda: setup.of(events.ReceiptCame))


async def test_a_receipt_that_cannot_be_acted_on_is_said_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:

        def broken(_: DeadLetterFolder) -> Any:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(DeadLetterFolder, "files", broken)
        setup.receipts.take(receipt(setup))
        await setup.until(lambda: setup.said("io_error"))
        assert setup.posted == []
        assert setup.spool.receipt_path("done_1.json").exists()


# --- dead letters -----------------------------------------------------------------------------------------------------
def bury(setup: IntakeSetup, name: str, *, to: str = "leader", message_id: str = "1.1.a@x", extra: str = "") -> None:
    text = mime(to=to, message_id=message_id, extra=f"{extra}X-IGNITE-Recipient: {to}\n")
    setup.spool.path(Place(to, Folder.DEAD, name)).write_bytes(text)


async def test_a_late_done_finds_its_dead_letter(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        bury(setup, "x.mime", extra="In-Reply-To: <0.0.z@x>\n")
        found = setup.receipts.dead_letters.reopen(Receipt(ReceiptKind.DONE, "1.1.a@x", "leader", "r"))
        assert found == ("1.1.a@x", "leader")
        (arrived,) = setup.of(events.Arrived)
        assert arrived.place == Place("leader", Folder.DEAD, "x.mime")
        assert setup.receipts.dead_letters.reopen(Receipt(ReceiptKind.DONE, "0.0.z@x", "leader", "r")) is None
        assert setup.receipts.dead_letters.reopen(Receipt(ReceiptKind.DONE, "1.1.a@x", "user", "r")) is None


async def test_a_word_of_nobody_we_know_digs_nothing_up(tmp_path: Path) -> None:
    """The engine knows no such agent, and would keep the letter open for ever."""
    async with intake_in(tmp_path) as setup:
        bury(setup, "x.mime")
        setup.receipts.take(receipt(setup, agent="nobody"))
        await setup.until(lambda: setup.of(events.ReceiptCame))
        assert setup.of(events.Arrived) == []
        assert setup.receipts.dead_letters.reopen(Receipt(ReceiptKind.REQUEUE, "1.1.a@x", "nobody", "r")) is None


@pytest.mark.parametrize("wanted", ["a.mime", "b.mime", "c.mime"])
async def test_a_dead_letter_that_is_named_is_the_one_that_is_meant(tmp_path: Path, wanted: str) -> None:
    async with intake_in(tmp_path) as setup:
        for name, to in (("a.mime", "leader"), ("b.mime", "user"), ("c.mime", "leader")):
            bury(setup, name, to=to)
        setup.receipts.dead_letters.reopen(Receipt(ReceiptKind.REQUEUE, "1.1.a@x", None, "r", file=wanted))
        (arrived,) = setup.of(events.Arrived)
        assert arrived.place.name == wanted


# --- very many of both ------------------------------------------------------------------------------------------------
async def test_receipts_that_mean_nothing_do_not_read_the_dead_letters_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are a thousand of each: a letter's header is read once, however many receipts ask for it."""
    async with intake_in(tmp_path) as setup:
        for n in range(1000):
            bury(setup, f"{n}.mime", message_id=f"{n}.0.dead@x")
        heads: list[str] = []
        whole = DeadLetterFolder.head

        def head(folder: DeadLetterFolder, name: str) -> bytes | None:
            heads.append(name)
            return whole(folder, name)

        monkeypatch.setattr(DeadLetterFolder, "head", head)
        names = [receipt(setup, f"done_{n}.json", message_id=f"{n}.9.unknown@x") for n in range(1000)]
        for name in names:
            setup.receipts.take(name)
        await setup.until(lambda: len(setup.of(events.ReceiptCame)) == len(names))
        assert sorted(heads) == sorted(f"{n}.mime" for n in range(1000))


async def test_receipts_that_mean_nothing_do_not_list_their_queue_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        lists: list[str] = []
        whole = setup.spool.scan

        def scan(box: str) -> Any:
            lists.append(box)
            return whole(box)

        monkeypatch.setattr(setup.spool, "scan", scan)
        began = time.monotonic()
        for n in range(300):
            setup.receipts.take(receipt(setup, f"done_{n}.json", message_id=f"{n}.9.unknown@x"))
        await setup.until(lambda: len(setup.of(events.ReceiptCame)) == 300)
        assert len(lists) <= 1 + (time.monotonic() - began) / LIST_AGAIN_S


async def test_a_letter_that_came_or_was_replaced_since_is_found(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        letters = setup.receipts.dead_letters
        bury(setup, "a.mime", message_id="1.1.a@x")
        assert letters.named("1.1.a@x") == ["a.mime"]
        bury(setup, "b.mime", message_id="1.1.a@x")
        bury(setup, "new", message_id="2.2.b@x")
        (tmp_path / "queue/dead_letter/new").rename(tmp_path / "queue/dead_letter/a.mime")
        assert letters.named("1.1.a@x") == ["b.mime"]
        assert letters.named("2.2.b@x") == ["a.mime"]
        (tmp_path / "queue/dead_letter/b.mime").unlink()
        assert letters.named("1.1.a@x") == []
        assert letters.named("1.1.a@x", "b.mime") == []
        assert letters.named("", "a.mime") == ["a.mime"]


def say(
    setup: IntakeSetup, text: str, step: int | None = None, *, message_id: str = "1.1.a@x", agent: str = "leader"
) -> str:
    return maildrop.drop_checkpoint(setup.root / "receipts", message_id, agent, text, step).name


def kept(root: Path) -> Any:
    return CheckpointFiles(root / "state" / "checkpoints").read("leader", "1.1.a@x")


def receipts(setup: IntakeSetup) -> list[str]:
    return [entry.name for entry in setup.spool.scan_receipts()]


async def test_it_is_kept_before_it_is_told_and_told_before_its_receipt_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        setup.told(data=mime(message_id="1.1.a@x"))
        name = say(setup, "half way", 3)
        seen: list[Any] = []
        watched = replace(setup.services, post=lambda event: seen.append((event, kept(tmp_path), receipts(setup))))
        monkeypatch.setattr(setup.receipts.checkpoints, "services", watched)
        setup.receipts.take(name)
        await setup.until(lambda: receipts(setup) == [])
        key = setup.engine.state.deliveries.of_id("1.1.a@x", "leader")[0].key
        assert seen == [(events.CheckpointCame(key), {"text": "half way", "current_step": 3}, [name])]


async def test_the_later_word_stays(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.told(data=mime(message_id="1.1.a@x"))
        for number in range(8):
            setup.receipts.take(say(setup, f"step {number}"))
        await setup.until(lambda: receipts(setup) == [])
        assert kept(tmp_path) == {"text": "step 7"}


async def test_one_that_is_quicker_than_its_message_waits_for_it(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(say(setup, "half way"))
        assert kept(tmp_path) is None
        setup.told(data=mime(message_id="1.1.a@x"))
        await setup.until(lambda: receipts(setup) == [])
        assert kept(tmp_path) == {"text": "half way"}


@pytest.mark.parametrize("agent", ["leader", "nobody"])
async def test_for_a_message_that_is_not_open_nothing_is_kept(tmp_path: Path, agent: str) -> None:
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(say(setup, "half way", agent=agent))
        await setup.until(lambda: setup.said("message_warning"))
        assert (kept(tmp_path), receipts(setup), setup.posted) == (None, [], [])


async def test_what_the_disk_refuses_is_kept_by_the_next_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with intake_in(tmp_path) as setup:
        setup.told(data=mime(message_id="1.1.a@x"))
        name = say(setup, "half way")
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", refuse)
            setup.receipts.take(name)
            await setup.until(lambda: setup.said("io_error"))
        assert (setup.posted, receipts(setup)) == ([], [name])
        await setup.receipts.scan()
        await setup.until(lambda: receipts(setup) == [])
        assert kept(tmp_path) == {"text": "half way"}
