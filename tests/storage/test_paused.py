"""Pauses on a real disk: durable, under either spelling of a name, and nobody is paused by a file that is not ours."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from ackd.storage.paused import BadPauses, Pause, Pauses

if TYPE_CHECKING:
    from pathlib import Path

PAUSE = Pause("2026-11-16T01:02:03Z", "user")


def loaded(tmp_path: Path) -> Pauses:
    pauses = Pauses(tmp_path)
    pauses.load()
    return pauses


def test_nobody_is_paused_where_nothing_was_written(tmp_path: Path) -> None:
    assert loaded(tmp_path).all() == {}


def test_a_pause_outlives_who_wrote_it(tmp_path: Path) -> None:
    assert loaded(tmp_path).add("worker", PAUSE)
    assert loaded(tmp_path).all() == {"worker": PAUSE}
    assert loaded(tmp_path).remove("worker")
    assert loaded(tmp_path).all() == {}
    assert stat.S_IMODE((tmp_path / "paused.json").stat().st_mode) == 0o600


def test_the_first_pause_stays_and_resuming_twice_is_no_change(tmp_path: Path) -> None:
    pauses = loaded(tmp_path)
    assert pauses.add("worker", PAUSE)
    assert not pauses.add("worker", Pause("later", "leader"))
    assert pauses.all() == {"worker": PAUSE}
    assert pauses.remove("worker")
    assert not pauses.remove("worker")


def test_who_is_stopped_is_paused_too_and_a_later_pause_does_not_start_it(tmp_path: Path) -> None:
    pauses = loaded(tmp_path)
    pauses.add("worker", PAUSE)
    assert not loaded(tmp_path).is_stopped("worker")
    assert pauses.add("worker", PAUSE._replace(stopped=True))
    assert not pauses.add("worker", PAUSE)
    assert loaded(tmp_path).is_stopped("worker")
    assert not pauses.is_stopped("nobody")


def test_two_spellings_are_one_agent(tmp_path: Path) -> None:
    pauses = loaded(tmp_path)
    pauses.add("ignitian-1", PAUSE)
    assert "ignitian_1" in pauses
    assert pauses.remove("ignitian_1")
    assert pauses.all() == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"../x": {"at": "a", "by": "b"}}', '{"worker": 3}'])
def test_what_is_not_ours_is_said_and_kept_when_a_person_says_more(tmp_path: Path, content: str) -> None:
    (tmp_path / "paused.json").write_text(content)
    pauses = Pauses(tmp_path)
    with pytest.raises(BadPauses, match=r"paused\.json.*everybody stays paused"):
        pauses.load()
    pauses.assume("worker", PAUSE)
    pauses.assume("leader", PAUSE)
    assert "worker" in pauses
    assert (tmp_path / "paused.json").read_text() == content
    assert pauses.remove("worker")
    assert loaded(tmp_path).all() == {"leader": PAUSE}
    assert (tmp_path / "paused.json.broken").read_text() == content


def test_what_the_disk_refuses_did_not_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = loaded(tmp_path)
    pauses.add("worker", PAUSE)

    def fail(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        pauses.add("leader", PAUSE)
    with pytest.raises(OSError, match="No space"):
        pauses.remove("worker")
    assert pauses.all() == {"worker": PAUSE}
    assert list(json.loads((tmp_path / "paused.json").read_text())) == ["worker"]
    assert [path.name for path in tmp_path.iterdir()] == ["paused.json"]
