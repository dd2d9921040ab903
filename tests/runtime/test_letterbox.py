"""Receipts: which are heard, when, and what becomes of those that are none."""

from __future__ import annotations

import errno
import json
import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from ackd.adapters import maildrop
from ackd.adapters.spool.graves import Graves
from ackd.core import events
from ackd.core.message import Folder, Place, Receipt, ReceiptKind
from ackd.runtime.letterbox import LIST_AGAIN_S
from ackd.syscalls import identity_of
from tests.acceptance.teams import mime
from tests.nobody import nobodys_directory
from tests.runtime.desks import SETTLE_S, Desk, desk_in

if TYPE_CHECKING:
    from pathlib import Path


# --- receipts -----------------------------------------------------------------------------------------------------------
def receipt(desk: Desk, name: str = "done_1.json", **changes: object) -> str:
    content = {"kind": "done", "message_id": "1.1.a@x", "agent": "leader", **changes}
    desk.spool.receipt_path(name).write_text(json.dumps(content))
    return name


async def test_a_receipt_is_posted_once_its_message_is_known(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.waiting(desk.put(data=mime(message_id="1.1.a@x")))
        desk.letterbox.take(receipt(desk))
        (came,) = desk.of(events.ReceiptCame)
        assert came.receipt == Receipt(ReceiptKind.DONE, "1.1.a@x", "leader", "done_1.json")
        path = desk.spool.receipt_path("done_1.json")
        assert came.receipt.which == (*identity_of(str(path)), hash(path.read_bytes()))


async def test_a_receipt_that_is_quicker_than_its_message_waits_for_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(receipt(desk))
        desk.letterbox.take("done_1.json")
        assert desk.posted == []
        desk.waiting(desk.put(data=mime(message_id="1.1.a@x")))
        await desk.until(lambda: desk.of(events.ReceiptCame))
        await anyio.sleep(3 * SETTLE_S)
        assert len(desk.posted) == 1


async def test_a_receipt_that_waits_is_heard_as_soon_as_its_message_is_met(tmp_path: Path) -> None:
    """Before anything is done with it: later its command would run."""
    async with desk_in(tmp_path) as desk:
        desk.letterbox.settle_s = 60.0
        for number, kind in enumerate(("done", "ack")):  # in the order of their times
            desk.letterbox.take(receipt(desk, f"{kind}_{2 - number}.json", kind=kind))
        desk.waiting(desk.put(data=mime(message_id="1.1.a@x")))
        desk.letterbox.was_met("message_queued", {"message_id": "1.1.a@x"})
        assert [came.receipt.name for came in desk.of(events.ReceiptCame)] == ["ack_1.json", "done_2.json"]


async def test_a_receipt_that_waits_outlives_a_message_of_its_id_for_another(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(receipt(desk, agent="user"))
        desk.waiting(desk.put(data=mime(message_id="1.1.a@x")))
        desk.letterbox.was_met("message_queued", {"message_id": "1.1.a@x"})
        assert desk.posted == []
        await desk.until(lambda: desk.of(events.ReceiptCame))
        await anyio.sleep(3 * SETTLE_S)
        assert len(desk.posted) == 1


async def test_ids_that_receipts_name_are_known_before_any_is_heard(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        receipt(desk)
        receipt(desk, "defer_2.json", kind="defer", message_id="<2.2.b@x>")
        receipt(desk, "pause_3.json", kind="pause", message_id=None)
        desk.spool.receipt_path("t").write_text("x")
        assert await desk.letterbox.named() == {"1.1.a@x", "2.2.b@x"}
        assert (desk.posted, desk.facts) == ([], [])


async def test_a_receipt_waits_as_long_as_its_messages_writer_is_at_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        place = desk.put(data=mime(message_id="1.1.a@x"))
        desk.letterbox.take(receipt(desk))
        await anyio.sleep(6 * SETTLE_S)
        assert desk.posted == []
        desk.waiting(place)
        await desk.until(lambda: desk.of(events.ReceiptCame))


async def test_a_receipt_that_waits_is_not_read_at_every_turn_where_nothing_has_to_settle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message may lie unmet until the next scan, and that is minutes where there are no notifications."""
    reads: list[Path] = []
    read_receipt = maildrop.read_receipt

    def counted(path: Path) -> Receipt:
        reads.append(path)
        return read_receipt(path)

    monkeypatch.setattr(maildrop, "read_receipt", counted)
    async with desk_in(tmp_path) as desk:
        monkeypatch.setattr(desk.letterbox, "settle_s", 0.0)
        place = desk.put(data=mime(message_id="1.1.a@x"))
        desk.letterbox.take(receipt(desk))
        await desk.until(lambda: len(reads) > 1)
        begun = time.monotonic()
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        assert len(reads) <= 3 + (time.monotonic() - begun) / LIST_AGAIN_S
        desk.waiting(place)
        await desk.until(lambda: desk.of(events.ReceiptCame))


async def test_a_receipt_for_no_message_is_handed_on_all_the_same(tmp_path: Path) -> None:
    """The engine says that it means nothing, and lets its file go."""
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(receipt(desk))
        await desk.until(lambda: desk.of(events.ReceiptCame))


@pytest.mark.parametrize("kind", ["requeue", "purge"])
async def test_an_operators_receipt_is_operated(tmp_path: Path, kind: str) -> None:
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(receipt(desk, kind=kind, agent=None))
        await desk.until(lambda: desk.operated)
        assert [one.kind.value for one in desk.operated] == [kind]
        assert desk.posted == []


async def test_a_bad_receipt_is_put_away_once_nobody_writes_to_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        path = desk.spool.receipt_path("done_1.json")
        with path.open("w") as file:
            file.write('{"kind": "do')
            file.flush()
            desk.letterbox.take(path.name)
            await anyio.sleep(3 * SETTLE_S)
            assert path.exists()
        await desk.until(lambda: desk.said("message_rejected"))
        assert not path.exists()
        assert (tmp_path / "queue/corrupt/done_1.json").read_text() == '{"kind": "do'


async def test_a_receipt_that_we_may_not_read_is_put_away() -> None:
    with nobodys_directory() as root:
        async with desk_in(root) as desk:
            path = root / "receipts/ack_1.json"
            path.write_text("{}")
            path.chmod(0)
            desk.letterbox.take(path.name)
            await desk.until(lambda: desk.said("message_rejected"))
            (refused,) = desk.said("message_rejected")
            assert "may not read it" in str(refused["reason"])
            assert (root / "queue/corrupt" / str(refused["kept_as"])).exists()
            assert desk.said("io_error") == []


async def test_a_receipt_that_was_half_written_is_heard_when_it_is_whole(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        path = desk.spool.receipt_path("done_1.json")
        whole = json.dumps({"kind": "done", "message_id": "1.1.a@x", "agent": "leader"})
        with path.open("w") as file:
            file.write(whole[:10])
            file.flush()
            for _ in range(2):
                desk.letterbox.take(path.name)
            file.write(whole[10:])
        await desk.until(lambda: desk.of(events.ReceiptCame))
        await anyio.sleep(2 * SETTLE_S)
        assert len(desk.posted) == 1


async def test_a_bad_receipt_that_vanishes_while_it_is_looked_at_is_nobodys_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        path = desk.spool.receipt_path("t")
        read_receipt = maildrop.read_receipt

        def read_and_lose(path: Path) -> Receipt:
            try:
                return read_receipt(path)
            finally:
                path.unlink()

        monkeypatch.setattr(maildrop, "read_receipt", read_and_lose)
        path.write_text("x")
        desk.letterbox.take("t")
        assert (desk.posted, desk.facts) == ([], [])


async def test_a_bad_receipt_that_cannot_be_looked_at_is_said_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:

        def broken(*_: object) -> bool:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(desk.spool, "receipt_settled", broken)
        path = desk.spool.receipt_path("t")
        path.write_text("x")
        desk.letterbox.take("t")
        assert len(desk.said("io_error")) == 1
        assert path.exists()


async def test_without_a_dead_letter_directory_receipts_are_heard_all_the_same(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        (tmp_path / "queue/dead_letter").rmdir()
        desk.letterbox.take(receipt(desk))
        await desk.until(lambda: desk.of(events.ReceiptCame))


async def test_a_receipt_that_cannot_be_acted_on_is_said_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:

        def broken(_: Graves) -> Any:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Graves, "files", broken)
        desk.letterbox.take(receipt(desk))
        await desk.until(lambda: desk.said("io_error"))
        assert desk.posted == []
        assert desk.spool.receipt_path("done_1.json").exists()


# --- dead letters -------------------------------------------------------------------------------------------------------
def bury(desk: Desk, name: str, *, to: str = "leader", message_id: str = "1.1.a@x", extra: str = "") -> None:
    text = mime(to=to, message_id=message_id, extra=f"{extra}X-IGNITE-Recipient: {to}\n")
    desk.spool.path(Place(to, Folder.DEAD, name)).write_bytes(text)


async def test_a_late_done_finds_its_dead_letter(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        bury(desk, "x.mime", extra="In-Reply-To: <0.0.z@x>\n")
        found = desk.letterbox.dig_up(Receipt(ReceiptKind.DONE, "1.1.a@x", "leader", "r"))
        assert found == ("1.1.a@x", "leader")
        (arrived,) = desk.of(events.Arrived)
        assert arrived.place == Place("leader", Folder.DEAD, "x.mime")
        assert desk.letterbox.dig_up(Receipt(ReceiptKind.DONE, "0.0.z@x", "leader", "r")) is None
        assert desk.letterbox.dig_up(Receipt(ReceiptKind.DONE, "1.1.a@x", "user", "r")) is None


async def test_a_word_of_nobody_we_know_digs_nothing_up(tmp_path: Path) -> None:
    """The engine has nobody to ask about it, and would keep the letter open for ever."""
    async with desk_in(tmp_path) as desk:
        bury(desk, "x.mime")
        desk.letterbox.take(receipt(desk, agent="nobody"))
        await desk.until(lambda: desk.of(events.ReceiptCame))
        assert desk.of(events.Arrived) == []
        assert desk.letterbox.dig_up(Receipt(ReceiptKind.REQUEUE, "1.1.a@x", "nobody", "r")) is None


@pytest.mark.parametrize("wanted", ["a.mime", "b.mime", "c.mime"])
async def test_a_dead_letter_that_is_named_is_the_one_that_is_meant(tmp_path: Path, wanted: str) -> None:
    async with desk_in(tmp_path) as desk:
        for name, to in (("a.mime", "leader"), ("b.mime", "user"), ("c.mime", "leader")):
            bury(desk, name, to=to)
        desk.letterbox.dig_up(Receipt(ReceiptKind.REQUEUE, "1.1.a@x", None, "r", file=wanted))
        (arrived,) = desk.of(events.Arrived)
        assert arrived.place.name == wanted


# --- very many of both --------------------------------------------------------------------------------------------------
async def test_receipts_that_mean_nothing_do_not_read_the_dead_letters_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of each: a letter's head is read once, however many ask."""
    async with desk_in(tmp_path) as desk:
        for n in range(1000):
            bury(desk, f"{n}.mime", message_id=f"{n}.0.dead@x")
        heads: list[str] = []
        whole = Graves.head

        def head(graves: Graves, name: str) -> bytes | None:
            heads.append(name)
            return whole(graves, name)

        monkeypatch.setattr(Graves, "head", head)
        names = [receipt(desk, f"done_{n}.json", message_id=f"{n}.9.unknown@x") for n in range(1000)]
        for name in names:
            desk.letterbox.take(name)
        await desk.until(lambda: len(desk.of(events.ReceiptCame)) == len(names))
        assert sorted(heads) == sorted(f"{n}.mime" for n in range(1000))


async def test_receipts_that_mean_nothing_do_not_list_their_queue_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        lists: list[str] = []
        whole = desk.spool.scan

        def scan(box: str) -> Any:
            lists.append(box)
            return whole(box)

        monkeypatch.setattr(desk.spool, "scan", scan)
        began = time.monotonic()
        for n in range(300):
            desk.letterbox.take(receipt(desk, f"done_{n}.json", message_id=f"{n}.9.unknown@x"))
        await desk.until(lambda: len(desk.of(events.ReceiptCame)) == 300)
        assert len(lists) <= 1 + (time.monotonic() - began) / LIST_AGAIN_S


async def test_a_letter_that_came_or_was_replaced_since_is_found(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        letters = desk.letterbox.letters
        bury(desk, "a.mime", message_id="1.1.a@x")
        assert letters.named("1.1.a@x") == ["a.mime"]
        bury(desk, "b.mime", message_id="1.1.a@x")
        bury(desk, "new", message_id="2.2.b@x")
        (tmp_path / "queue/dead_letter/new").rename(tmp_path / "queue/dead_letter/a.mime")
        assert letters.named("1.1.a@x") == ["b.mime"]
        assert letters.named("2.2.b@x") == ["a.mime"]
        (tmp_path / "queue/dead_letter/b.mime").unlink()
        assert letters.named("1.1.a@x") == []
        assert letters.named("1.1.a@x", "b.mime") == []
        assert letters.named("", "a.mime") == ["a.mime"]
