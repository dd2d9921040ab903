"""Dropped files arrive whole, or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.errors import BadReceipt
from ackd.core.message import Receipt, ReceiptKind
from ackd.core.words import AGENT_REQUESTS
from ackd.storage.maildrop import (
    drop,
    drop_all,
    drop_checkpoint,
    drop_receipt,
    drop_receipts,
    drop_requests,
    make_box,
    read_receipt,
    stage,
)
from ackd.system import syscalls
from tests.nobody import NOBODY, needs_root, nobodys_directory

if TYPE_CHECKING:
    from pathlib import Path


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- dropping -----------------------------------------------------------------------------------------------------------
def test_a_dropped_file_is_whole_and_private(tmp_path: Path) -> None:
    path = drop(tmp_path / "queue" / "leader", "x_1.mime", b"content")
    assert path == tmp_path / "queue" / "leader" / "x_1.mime"
    assert (path.read_bytes(), mode(path)) == (b"content", 0o600)
    assert mode(tmp_path / "queue") == mode(tmp_path / "queue" / "leader") == 0o700
    assert names(path.parent) == ["x_1.mime"]


@needs_root
def test_what_root_drops_is_not_given_away(tmp_path: Path) -> None:
    """Otherwise the owner of the directory would get everything that root writes there, and could lead it elsewhere."""
    os.chown(tmp_path, NOBODY, NOBODY)
    make_box(tmp_path / "queue" / "leader")
    message = drop(tmp_path / "queue" / "leader", "x.mime", b"content")
    receipt = drop_receipt(tmp_path / "receipts", ReceiptKind.ACK, "1@x", "leader")
    for path in (message, message.parent, message.parent / "processed", tmp_path / "queue", receipt, receipt.parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, os.getegid()), path
    assert mode(message) == 0o600


def test_a_receipt_that_we_may_not_read_is_none() -> None:
    with nobodys_directory() as place:
        path = drop_receipt(place, ReceiptKind.ACK, "1@x", "leader")
        path.chmod(0)
        with pytest.raises(BadReceipt, match="may not read it"):
            read_receipt(path)
        place.chmod(0)
        with pytest.raises(PermissionError):  # which says nothing about the receipt
            read_receipt(path)
        place.chmod(0o700)


def test_a_clash_gets_a_number_and_nothing_is_replaced(tmp_path: Path) -> None:
    paths = [drop(tmp_path, "x.mime", str(number).encode()) for number in range(3)]
    assert [path.name for path in paths] == ["x.mime", "x-1.mime", "x-2.mime"]
    assert [path.read_bytes() for path in paths] == [b"0", b"1", b"2"]


def test_many_writers_of_one_name_all_get_their_own(tmp_path: Path) -> None:
    threads = [threading.Thread(target=drop, args=(tmp_path, "x.mime", str(n).encode())) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(path.read_bytes()) for path in tmp_path.iterdir()) == list(range(16))


def test_without_renameat2_the_result_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "_libc_renameat2", lambda: None)
    assert [drop(tmp_path, "x.mime", b"1").name for _ in range(2)] == ["x.mime", "x-1.mime"]
    assert names(tmp_path) == ["x-1.mime", "x.mime"]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        drop(tmp_path, "x.mime", b"content")
    assert names(tmp_path) == []


def test_a_directory_that_cannot_be_flushed_takes_the_file_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fail_on_directories(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fsync", fail_on_directories)
    with pytest.raises(OSError, match="Input/output"):
        drop(tmp_path, "x.mime", b"content")
    assert names(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    assert drop(tmp_path, "x.mime", b"0123456789").read_bytes() == b"0123456789"


def test_of_several_none_is_visible_when_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("a file where a directory should be")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        drop_all([(tmp_path / "a", "x.mime", b"1"), (tmp_path / "b", "x.mime", b"2")])
    assert names(tmp_path / "a") == []


def test_of_several_none_stays_visible_when_one_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender who hears that it failed sends the message to all of them again."""
    rename = syscalls.rename_noreplace

    def refuse_the_second(source: str, target: str, source_dir: int, target_dir: int) -> None:
        if os.fstat(target_dir).st_ino == (tmp_path / "b").stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target, source_dir, target_dir)

    monkeypatch.setattr("ackd.storage.maildrop.rename_noreplace", refuse_the_second)
    with pytest.raises(OSError, match="Input/output"):
        drop_all([(tmp_path / "a", "x.mime", b"1"), (tmp_path / "b", "x.mime", b"2")])
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == ([], [])


def test_a_link_in_place_of_the_queue_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "leader").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        drop(tmp_path / "leader", "x.mime", b"1")
    assert names(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("name", ["a/b", "../x", ".hidden"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        stage(tmp_path, name, b"")


def test_no_flush_is_asked_for_when_durability_is_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise AssertionError("fsync was called")

    monkeypatch.setattr(os, "fsync", refuse)
    make_box(tmp_path / "box", fsync=False)
    drop(tmp_path / "box", "x.mime", b"", fsync=False)


def test_file_and_directory_are_flushed_before_the_drop_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(stat.S_ISDIR(os.fstat(fd).st_mode)))
    drop(tmp_path, "x.mime", b"")
    assert flushed == [False, True]


# --- receipts -----------------------------------------------------------------------------------------------------------
def test_a_receipt_comes_back_as_it_went(tmp_path: Path) -> None:
    path = drop_receipt(tmp_path / "receipts", ReceiptKind.REFUSE, "1.2.a@ignite.local", "leader", "no\ttime, ünd …")
    assert read_receipt(path) == Receipt(
        ReceiptKind.REFUSE, "1.2.a@ignite.local", "leader", path.name, "no\ttime, ünd …"
    )
    assert mode(path) == 0o600


def test_a_receipts_name_says_kind_and_time(tmp_path: Path) -> None:
    path = drop_receipt(tmp_path, ReceiptKind.ACK, "x", "leader")
    kind, _, rest = path.stem.partition("_")
    micros, _, unique = rest.partition("-")
    assert (kind, len(micros), len(unique), path.suffix) == ("ack", 16, 6, ".json")
    content = json.loads(path.read_bytes())
    assert content.keys() == {"kind", "message_id", "agent", "reason", "at"}
    assert content["at"].endswith("Z")


@pytest.mark.parametrize("file", ["two\nlines.mime", "caf\udce9.mime", "\x1b[2J.mime", "-rf.mime", "n" * 250 + ".mime"])
def test_a_quarantined_file_bears_whatever_name_it_was_dropped_under(tmp_path: Path, file: str) -> None:
    path = drop_receipt(tmp_path, ReceiptKind.PURGE, None, None, file=file)
    assert read_receipt(path).file == file


def test_a_quarantined_file_is_named_by_its_file(tmp_path: Path) -> None:
    path = drop_receipt(tmp_path, ReceiptKind.REQUEUE, None, None, file="x.mime")
    assert read_receipt(path) == Receipt(ReceiptKind.REQUEUE, "", None, path.name, None, "x.mime")


@pytest.mark.parametrize("reason", ["", "x" * 5000, "\ud800", "\x1b[2J"])
def test_a_receipt_that_nobody_would_read_is_not_written(tmp_path: Path, reason: str) -> None:
    with pytest.raises(BadReceipt):
        drop_receipt(tmp_path, ReceiptKind.DEFER, "x", "leader", reason)
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", sorted(AGENT_REQUESTS, key=str))
def test_a_request_names_an_agent_and_no_message(tmp_path: Path, kind: ReceiptKind) -> None:
    found = drop_requests(tmp_path, kind, ["leader", "worker"], "user")
    assert [read_receipt(path) for path in found.values()] == [
        Receipt(kind, "", agent, path.name, by="user") for agent, path in found.items()
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"kind": kind.value, "agent": "worker", "message_id": "1@x"}))
    with pytest.raises(BadReceipt, match="names an agent and no message"):
        read_receipt(path)
    path.write_text(json.dumps({"kind": kind.value}))
    with pytest.raises(BadReceipt, match="no agent"):
        read_receipt(path)


@pytest.mark.parametrize("text", ["half way\n\tthere", "ü" * 32_768, "\U0001f600" * 16_384, '"\\' * 32_768])
def test_a_checkpoint_comes_back_as_it_went_up_to_its_limit(tmp_path: Path, text: str) -> None:
    path = drop_checkpoint(tmp_path, "1@x", "worker", text, 3)
    assert read_receipt(path) == Receipt(ReceiptKind.CHECKPOINT, "1@x", "worker", path.name, text=text, step=3)
    assert read_receipt(drop_checkpoint(tmp_path, "1@x", "worker", text)).step is None


@pytest.mark.parametrize(
    ("text", "step", "why"),
    [
        ("", None, "text must be"),
        ("x" * 65_537, None, "text must be"),
        ("ü" * 32_769, None, "larger than 65536 bytes"),
        ("\x1b[2J", None, "control characters"),
        ("x", -1, "step must be"),
        ("x", True, "step must be"),
        ("x", 10**10, "step must be"),
    ],
)
def test_a_checkpoint_that_nobody_would_read_is_not_written(
    tmp_path: Path, text: str, step: int | None, why: str
) -> None:
    with pytest.raises(BadReceipt, match=why):
        drop_checkpoint(tmp_path, "1@x", "worker", text, step)
    assert names(tmp_path) == []


def test_only_a_checkpoint_may_be_large(tmp_path: Path) -> None:
    content = json.dumps({"kind": "checkpoint", "message_id": "1@x", "agent": "worker", "text": "x" * 60_000})
    (tmp_path / "checkpoint_1.json").write_text(content)
    (tmp_path / "other_1.json").write_text(content)
    assert read_receipt(tmp_path / "checkpoint_1.json").text == "x" * 60_000
    with pytest.raises(BadReceipt, match="larger than 16384"):
        read_receipt(tmp_path / "other_1.json")


GOOD: dict[str, Any] = {"kind": "ack", "message_id": "1@x", "agent": "leader"}


def test_what_an_agent_writes_by_hand_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**GOOD, "message_id": "<1@x>"}))
    assert read_receipt(path) == Receipt(ReceiptKind.ACK, "1@x", "leader", "mine.json")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "thanks"}, "unknown kind"),
        ({"kind": ["ack"]}, "unknown kind"),
        ({"message_id": None}, "no message_id"),
        ({"message_id": ""}, "message_id must be"),
        ({"message_id": 7}, "message_id must be"),
        ({"message_id": "a\nb"}, "control characters"),
        ({"agent": None}, "no agent"),
        ({"agent": "../../etc"}, "cannot be an agent's name"),
        ({"reason": {"a": 1}}, "reason must be"),
        ({"file": "../x", "kind": "purge"}, "plain file name"),
        ({"mood": "fine"}, "unknown key 'mood'"),
        ({"kind": "checkpoint"}, "no text"),
        ({"text": "x"}, "no text and no step"),
        ({"step": 1}, "no text and no step"),
        ({"by": "../x"}, "cannot be an agent's name"),
    ],
)
def test_what_is_no_receipt_is_named(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(BadReceipt, match=why):
        read_receipt(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"\xff\xfe", b'{"kind":"ack","kind":"done"}', b"[" * 9000, b" " * 20_000, b'{"kind":NaN}'],
)
def test_bytes_that_are_no_receipt(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(BadReceipt):
        read_receipt(tmp_path / "x.json")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text(json.dumps(GOOD))
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "dir.json").mkdir()
    for name in ("link.json", "fifo.json", "dir.json"):
        with pytest.raises(BadReceipt, match="regular file"):
            read_receipt(tmp_path / name)


def test_of_several_receipts_a_full_disk_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, fsync = [], os.fsync

    def third_is_too_many(fd: int) -> None:
        written.append(fd)
        if len(written) == 4:  # the directory is made first
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", third_is_too_many)
    with pytest.raises(OSError, match="No space left"):
        drop_receipts(tmp_path / "receipts", ReceiptKind.ACK, dict.fromkeys(["a@x", "b@x", "c@x"], "worker"))
    assert list((tmp_path / "receipts").iterdir()) == []
