"""A snapshot of a root: what is in it, what is not, and what it says of the archive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.storage.backup import snapshot
from ackd.storage.backup.snapshot import Snapshot

if TYPE_CHECKING:
    from pathlib import Path


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("queue/ann/processed", "queue/dead_letter", "receipts", "run", "state/gateways", "logs"):
        (tmp_path / name).mkdir(parents=True)
    put(tmp_path, "queue/ann/a.mime")
    put(tmp_path, "queue/ann/processed/b.mime")
    put(tmp_path, "archive/20260101/ann/c.mime")
    return tmp_path


def put(root: Path, path: str, content: str = "x") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def files_of(one: Snapshot) -> set[str]:
    return {path for path, place, _ in one.files() if place.is_file()}


def test_every_file_of_the_moment_is_in_it_and_no_later_one(root: Path) -> None:
    one = Snapshot.new(root)
    put(root, "archive/20260101/ann/d.mime")  # after the archive was listed, before the moment
    put(root, "archive/20260102/bob/e.mime")
    assert one.take(1.0) == 2
    put(root, "queue/ann/later.mime")
    put(root, "archive/20260101/ann/later.mime")
    (root / "queue/ann/a.mime").rename(root / "archive/20260101/ann/a.mime")
    again = Snapshot(root, one.name)  # as the command learns of it, when the daemon has taken it
    again._before = one._before
    assert again.is_taken()
    for seen in (one, again):
        assert files_of(seen) == {
            "queue/ann/a.mime",
            "queue/ann/processed/b.mime",
            "archive/20260101/ann/c.mime",
            "archive/20260101/ann/d.mime",
            "archive/20260102/bob/e.mime",
        }
    one.remove()
    assert names_in(root / "run") == []


def test_what_belongs_to_the_old_root_or_to_nobody_yet_is_left_out(root: Path) -> None:
    for path in ("state/boxes.json", "state/log_index.sqlite", "state/log_index.sqlite-wal", "state/restored.json"):
        put(root, path)
    put(root, "receipts/snapshot_1.json")
    put(root, "run/status.json")
    put(root, f"queue/ann/.new.mime.{os.getpid()}.0123abcd")
    os.mkfifo(root / "state/pipe")
    (root / "state/link").symlink_to("/etc/passwd")
    put(root, "state/journal.ndjson")
    one = Snapshot.new(root)
    assert one.take(1.0) == 3
    assert "state/journal.ndjson" in files_of(one)


def test_a_file_that_is_appended_to_is_read_up_to_its_size_at_the_moment(root: Path) -> None:
    put(root, "logs/session.ndjson", "one\n")
    one = Snapshot.new(root)
    one.take(1.0)
    with (root / "logs/session.ndjson").open("a") as log:
        log.write("two\n")
    assert next(size for path, _, size in one.files() if path == "logs/session.ndjson") == 4


def test_a_file_that_cannot_be_linked_is_copied(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_links)
    one = Snapshot.new(root)
    assert one.take(1.0) == 2
    assert files_of(one) >= {"queue/ann/a.mime", "queue/ann/processed/b.mime"}


def test_only_what_nobody_waits_for_is_swept(root: Path) -> None:
    mine = Snapshot.new(root)
    (root / "run/snapshot-0123456789abcdef").mkdir()
    (root / "run/snapshot-of-mine").mkdir()
    assert [path.name for path in snapshot.left_behind(root / "run")] == ["snapshot-0123456789abcdef"]
    snapshot.sweep(root / "run")
    assert names_in(root / "run") == sorted([mine.name, "snapshot-of-mine"])
    mine.remove()
