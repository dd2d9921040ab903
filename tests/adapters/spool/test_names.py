from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.adapters.spool.disk import Disk
from ackd.adapters.spool.names import by_chance, in_a_row, numbered, plain, temporary, writer_of

if TYPE_CHECKING:
    from pathlib import Path


def first(name: str, count: int = 3, room_bytes: int = 0) -> list[str]:
    return list(itertools.islice(numbered(name, room_bytes), count))


def test_the_number_stands_before_the_extension() -> None:
    assert first("task_1.mime") == ["task_1.mime", "task_1-1.mime", "task_1-2.mime"]
    assert first("noext") == ["noext", "noext-1", "noext-2"]
    assert first("a.b.mime") == ["a.b.mime", "a.b-1.mime", "a.b-2.mime"]


@given(st.binary(min_size=1, max_size=255), st.integers(0, 20))
def test_every_candidate_fits_and_they_all_differ(raw: bytes, room_bytes: int) -> None:
    candidates = first(os.fsdecode(raw), 12, room_bytes)
    assert len(set(candidates)) == len(candidates)
    assert all(0 < len(os.fsencode(one)) <= 255 - room_bytes for one in candidates)


@given(st.binary(min_size=1, max_size=255))
def test_a_name_is_one_of_those_in_a_row_or_known_as_one_by_chance(raw: bytes) -> None:
    name = os.fsdecode(raw)
    row, candidates = list(in_a_row(name)), first(name, 30)
    assert candidates[: len(row)] == row
    assert all(by_chance(name).fullmatch(one) for one in candidates[len(row) :])
    assert not any(by_chance(name).fullmatch(one) for one in row if one != name)


@pytest.mark.parametrize("other", ["task-1.mime", "task.mime", "other-0123456789abcdef.mime", "task-0123456789abcdef.txt",
                                   "task-0123456789abcdeg.mime", "task-0123456789abcdef.mime.x"])  # fmt: skip
def test_what_was_not_given_by_chance_is_not_taken_for_it(other: str) -> None:
    assert not by_chance("task.mime").fullmatch(other)


def test_it_gives_up_in_the_end() -> None:
    with pytest.raises(FileExistsError):
        list(numbered("x.mime"))


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../x", "/etc/passwd", "nul\0", "\ud800", "x" * 256, "é" * 128]
)
def test_a_name_that_leads_elsewhere_is_not_there(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        plain(name)


def test_our_temporary_names_and_the_droppers_are_recognised() -> None:
    assert writer_of(temporary()) == os.getpid()
    assert writer_of(".task_1.mime.4711.0a1b2c3d") == 4711
    assert temporary() != temporary()


@pytest.mark.parametrize("name", [".gitkeep", ".nfs000012", "task_1.mime", ".task_1.mime", ".x.tmp", "ackd-1-0.tmp"])
def test_what_others_hide_is_not_ours(name: str) -> None:
    assert writer_of(name) is None


def test_of_thousands_of_one_name_each_is_given_a_free_one_soon(tmp_path: Path) -> None:
    disk = Disk(durable=False)
    tries: list[str] = []
    for _ in range(200):
        (tmp_path / "new").touch()
        tries.append(disk.move(f"{tmp_path}/new", f"{tmp_path}/archive", "task.mime"))
    assert len(set(tries)) == 200
    assert tries[:3] == ["task.mime", "task-1.mime", "task-2.mime"]
    free = (number for number, name in enumerate(numbered("task.mime")) if not (tmp_path / "archive" / name).exists())
    assert next(free) < 20
