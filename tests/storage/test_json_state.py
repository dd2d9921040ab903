"""State files: values come back as they were saved, and broken files are refused with a reason."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from ackd.storage.json_state import BadState, JsonState, load_or_empty

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize(
    "content",
    [{}, {"a": [1, 2.5, None, True], "b": {"c": "ü"}}, {"name": os.fsdecode(b"x\xff")}, {"large": 1 << 80}],
    ids=["empty", "plain", "not UTF-8", "large integer"],
)
def test_what_is_saved_is_loaded(tmp_path: Path, content: dict[str, object], readable: bool) -> None:
    file = JsonState(tmp_path / "a.json", durable=False, readable=readable)
    assert file.load() is None
    file.save(content)
    assert file.load() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600


def test_what_people_read_has_lines(tmp_path: Path) -> None:
    JsonState(tmp_path / "a.json", durable=False, readable=True).save({"a": 1, "b": 2})
    assert (tmp_path / "a.json").read_text() == '{\n "a": 1,\n "b": 2\n}\n'


@pytest.mark.parametrize("durable", [True, False])
def test_only_what_must_last_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    JsonState(tmp_path / "a.json", durable=durable).save({})
    assert len(flushed) == (2 if durable else 0)


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 99_999, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"x" * 200_000, "more than 100000"),
    ],
    ids=["empty", "torn", "not text", "too deep", "a list", "too large"],
)
def test_what_is_no_object_of_ours_is_named_and_kept(tmp_path: Path, content: bytes, why: str, readable: bool) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    file = JsonState(path, durable=False, readable=readable, max_bytes=100_000)
    with pytest.raises(BadState, match=why) as caught:
        file.load()
    assert caught.value.path == str(path)
    file.keep_aside()
    file.keep_aside()  # the first one stays
    file.save({"a": 1})
    assert (tmp_path / "a.json.broken").read_bytes() == content
    assert file.load() == {"a": 1}


def test_a_link_and_a_fifo_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "fifo.json")
    for name in ("link.json", "fifo.json"):
        with pytest.raises(BadState, match="not a regular file"):
            JsonState(tmp_path / name, durable=False).load()


def test_a_file_that_may_not_be_read_is_not_taken_for_a_bad_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        JsonState(tmp_path / "file" / "a.json", durable=False).load()


@pytest.mark.parametrize(
    "content", [None, b"", b"[]", b'{"a": 1', b"x" * 1_000], ids=["missing", "empty", "a list", "torn", "too large"]
)
def test_what_does_no_harm_by_its_loss_is_empty_then(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    assert load_or_empty(path, 500) == {}
    JsonState(path, durable=False).save({"a": "ü"})
    assert load_or_empty(path, 500) == {"a": "ü"}


def test_a_pipe_in_the_place_of_a_state_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    assert load_or_empty(tmp_path / "a.json") == {}
