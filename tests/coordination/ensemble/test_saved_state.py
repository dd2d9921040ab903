from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.ensemble.rules.dispatches import Dispatch, End, OpenWork
from ackd.coordination.ensemble.saved_state import REMEMBER_S, BadSavedState, KnownFile, SavedEnsemble
from ackd.core.events import Now

if TYPE_CHECKING:
    from pathlib import Path

TASK = Dispatch(
    "m1", "worker-1", ("T-1",), "queue/tasks/w.yaml", 5, since=40.0, wall=1040.0, acked=True, end=End.COMPLETED
)
WORK = OpenWork("m1", 5, since=40.0, wall=1040.0, told=True)
NOW = Now(mono=100.0, wall=1100.0)


def register(place: Path, *, durable: bool = False) -> SavedEnsemble:
    return SavedEnsemble(place / "ensemble.json", durable)


def files(place: Path) -> list[str]:
    return [path.name for path in place.iterdir()]


@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_kept_comes_back_with_its_clocks_running_on(tmp_path: Path, durable: bool) -> None:
    old = register(tmp_path, durable=durable)
    old.note("tasks/\udcff.yaml", KnownFile(2, "abc", (1, 2, 3, 4), gone_at=1050.5))
    old.change((TASK,))
    old.set_work(WORK)
    old.is_news("stale T-1")
    await old.save(NOW)
    new = register(tmp_path)
    assert new.load(Now(mono=7.0, wall=1110.0)) is True
    assert (new.files, list(new.said)) == (old.files, ["stale T-1"])
    assert new.tasks == (replace(TASK, since=7.0 - 70.0),)
    assert new.work == replace(WORK, since=7.0 - 70.0)
    assert not new.is_news("stale T-1")
    assert (tmp_path / "ensemble.json").stat().st_mode & 0o777 == 0o600
    assert files(tmp_path) == ["ensemble.json"]


async def test_what_began_in_the_future_began_now(tmp_path: Path) -> None:
    old = register(tmp_path)
    old.set_work(WORK)
    await old.save(NOW)
    new = register(tmp_path)
    new.load(Now(mono=7.0, wall=3.0))
    assert new.work is not None
    assert new.work.since == 7.0


async def test_nothing_is_written_where_nothing_changed(tmp_path: Path) -> None:
    one = register(tmp_path)
    await one.save(NOW)
    one.change(())
    one.set_work(None)
    await one.save(NOW)
    assert files(tmp_path) == []


async def test_a_disk_that_refuses_is_tried_again(tmp_path: Path) -> None:
    one = register(tmp_path / "missing")
    one.set_work(WORK)
    with pytest.raises(FileNotFoundError):
        await one.save(NOW)
    assert one.dirty
    (tmp_path / "missing").mkdir()
    await one.save(NOW)
    assert register(tmp_path / "missing").load(NOW)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {"a": [1]}, "tasks": [], "work": null, "said": []}'])
def test_what_is_no_register_is_named_and_forgotten(tmp_path: Path, text: str) -> None:
    (tmp_path / "ensemble.json").write_text(text)
    one = register(tmp_path)
    with pytest.raises(BadSavedState, match="not a register"):
        one.load(NOW)
    assert (one.files, one.tasks, one.work) == ({}, (), None)


def test_there_may_be_none_yet(tmp_path: Path) -> None:
    assert register(tmp_path).load(NOW) is False


async def test_what_went_is_missed_once_and_remembered_for_long(tmp_path: Path) -> None:
    one = register(tmp_path)
    for name in ("tasks/a.yaml", "tasks/b.yaml", "reports/a.yaml"):
        one.note(name, KnownFile(1, "x", (1, 2, 3, 4)))
    one.miss("tasks", {"tasks/b.yaml"}, 500.0)
    one.miss("tasks", {"tasks/b.yaml"}, 600.0)
    assert [key for key, known in one.files.items() if known.gone_at is not None] == ["tasks/a.yaml"]
    assert one.files["tasks/a.yaml"].gone_at == 500.0
    await one.save(Now(mono=0.0, wall=501.0 + REMEMBER_S))
    after = register(tmp_path)
    after.load(NOW)
    assert sorted(after.files) == ["reports/a.yaml", "tasks/b.yaml"]


def test_what_was_said_is_not_remembered_without_end(tmp_path: Path) -> None:
    one = register(tmp_path)
    for number in range(3000):
        assert one.is_news(str(number))
    assert len(one.said) == 2000
