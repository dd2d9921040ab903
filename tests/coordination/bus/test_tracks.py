from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.coordination.bus.rules.layout import event_name
from ackd.coordination.bus.tracks import find_tracks, own_track, watch_places

if TYPE_CHECKING:
    from pathlib import Path


def test_tracks_are_found_by_glob_each_once_and_the_house_only_if_it_is_there(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "tracks" / name / ".message-bus").mkdir(parents=True)
    (tmp_path / "tracks" / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "tracks" / "one")
    patterns = ("tracks/*", "tracks/one/.message-bus", "link")
    root = tmp_path / ".ackd"
    found = find_tracks(tmp_path, patterns, root)
    assert [track.name for track in found] == ["one", "two"] or [track.name for track in found] == ["two", "one"]
    (root / "bus").mkdir(parents=True)
    assert find_tracks(tmp_path, patterns, root)[0] == own_track(root)


def test_a_track_that_is_still_to_come_is_looked_out_for_at_every_level(tmp_path: Path) -> None:
    root = tmp_path / ".ackd"
    assert watch_places(tmp_path, ("conductor/tracks/*",), root) >= {str(root), str(tmp_path)}
    (tmp_path / "conductor" / "tracks" / "one").mkdir(parents=True)
    places = watch_places(tmp_path, ("conductor/tracks/*",), root)
    assert {str(tmp_path / "conductor"), str(tmp_path / "conductor/tracks/one")} <= places
    assert str(tmp_path.parent) not in places


@pytest.mark.parametrize(
    ("subject", "begins"),
    [("1.1", "X_1.1.event"), ("../../etc/passwd", "X__.._etc_passwd-"), ("a/b", "X_a_b-"), ("", "X_.event")],
)
def test_a_hostile_subject_becomes_a_plain_name(subject: str, begins: str) -> None:
    name = event_name("X", subject)
    assert name.startswith(begins)
    assert "/" not in name


def test_two_subjects_never_share_a_name() -> None:
    assert len({event_name("X", subject) for subject in ("a/b", "a_b", "a//b", "a" * 300, "a" * 301)}) == 5
