from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from ackd.storage.spool.disk import Disk
from ackd.storage.spool.undeliverable import Quarantine, Reason
from tests.nobody import nobodys_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def quarantine(tmp_path: Path) -> Quarantine:
    return Quarantine(str(tmp_path / "corrupt"), Disk(durable=False))


def why(name: str) -> Reason:
    return Reason("leader", "queue", name, "not_utf8", "byte 7 is no UTF-8", "2026-11-16T01:02:03Z")


def test_the_file_is_kept_byte_for_byte_beside_its_reason(tmp_path: Path, quarantine: Quarantine) -> None:
    (tmp_path / "m.mime").write_bytes(b"\xff\x00")
    assert quarantine.keep(str(tmp_path / "m.mime"), why("m.mime")) == "m.mime"
    assert (tmp_path / "corrupt" / "m.mime").read_bytes() == b"\xff\x00"
    assert json.loads((tmp_path / "corrupt" / "m.mime.reason").read_text()) == {
        "queue": "leader",
        "folder": "queue",
        "name": "m.mime",
        "code": "not_utf8",
        "detail": "byte 7 is no UTF-8",
        "at": "2026-11-16T01:02:03Z",
    }
    assert (tmp_path / "corrupt" / "m.mime.reason").stat().st_mode & 0o777 == 0o600


def test_on_a_clash_file_and_reason_stay_in_step(tmp_path: Path, quarantine: Quarantine) -> None:
    for content in (b"first", b"second"):
        (tmp_path / "m.mime").write_bytes(content)
        quarantine.keep(str(tmp_path / "m.mime"), why("m.mime"))
    assert (tmp_path / "corrupt" / "m-1.mime").read_bytes() == b"second"
    assert sorted(name for name, reason in quarantine if reason == why("m.mime")) == ["m-1.mime", "m.mime"]


def test_a_file_that_is_named_like_a_reason_is_not_taken_for_one(tmp_path: Path, quarantine: Quarantine) -> None:
    for name in ("m.mime.reason", "m.mime"):
        (tmp_path / name).write_bytes(name.encode())
        quarantine.keep(str(tmp_path / name), why(name))
    kept = {reason.name: name for name, reason in quarantine if reason}
    assert kept.keys() == {"m.mime", "m.mime.reason"}
    assert (tmp_path / "corrupt" / kept["m.mime.reason"]).read_bytes() == b"m.mime.reason"


def test_a_reason_left_by_a_crash_is_used_again(tmp_path: Path, quarantine: Quarantine) -> None:
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "m.mime.reason").write_text("{half")
    (tmp_path / "m.mime").write_bytes(b"x")
    assert quarantine.keep(str(tmp_path / "m.mime"), why("m.mime")) == "m.mime"
    assert list(quarantine) == [("m.mime", why("m.mime"))]


def test_a_name_of_255_bytes_is_shortened_not_refused(tmp_path: Path, quarantine: Quarantine) -> None:
    name = "é" * 125 + ".mime"
    (tmp_path / name).write_bytes(b"x")
    kept = quarantine.keep(str(tmp_path / name), why(name))
    assert quarantine.reason(kept) == why(name)
    assert kept.endswith(".mime")


def test_a_name_that_is_no_utf8_keeps_its_reason(tmp_path: Path, quarantine: Quarantine) -> None:
    name = os.fsdecode(b"m\xff.mime")
    (tmp_path / name).write_bytes(b"x")
    assert quarantine.reason(quarantine.keep(str(tmp_path / name), why(name))) == why(name)


def test_a_file_that_is_gone_leaves_no_reason_behind(tmp_path: Path, quarantine: Quarantine) -> None:
    with pytest.raises(FileNotFoundError):
        quarantine.keep(str(tmp_path / "m.mime"), why("m.mime"))
    assert not (tmp_path / "corrupt").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"queue": 1}', "[" * 20_000, "\0"])
def test_an_unreadable_reason_is_none_and_the_file_is_still_listed(
    tmp_path: Path, quarantine: Quarantine, content: str
) -> None:
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "m").touch()
    (tmp_path / "corrupt" / "m.reason").write_text(content)
    assert list(quarantine) == [("m", None)]


def test_purging_takes_file_and_reason_and_follows_no_link(tmp_path: Path, quarantine: Quarantine) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    for name in ("dir", "link"):
        quarantine.keep(str(tmp_path / name), why(name))
        quarantine.purge(name)
    assert list((tmp_path / "corrupt").iterdir()) == []
    assert (tmp_path / "precious" / "x").exists()


@pytest.mark.parametrize("name", ["../precious", ".hidden", "", "a/b"])
def test_a_hostile_name_reaches_nothing(tmp_path: Path, quarantine: Quarantine, name: str) -> None:
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "precious").touch()
    with pytest.raises(FileNotFoundError):
        quarantine.purge(name)
    with pytest.raises(FileNotFoundError):
        quarantine.release(name, str(tmp_path), "x")
    assert (tmp_path / "precious").exists()


def test_a_reason_that_may_not_be_read_is_none_and_the_others_are_told() -> None:
    with nobodys_directory() as place:
        quarantine = Quarantine(str(place / "corrupt"), Disk(durable=False))
        for name in ("a.mime", "b.mime"):
            (place / name).write_bytes(b"x")
            quarantine.keep(str(place / name), why(name))
        (place / "corrupt" / "a.mime.reason").chmod(0)
        assert sorted(quarantine, key=str) == [("a.mime", None), ("b.mime", why("b.mime"))]
