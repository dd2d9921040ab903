"""The rule by which all commands choose the message bus that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.config.site import Site, find_site
from ackd.coordination.bus.rules.layout import Track
from ackd.coordination.bus.tracks import choose_track
from ackd.core.errors import NoTrack, WhichTrack

if TYPE_CHECKING:
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def site(team: Team, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("ACKD_TRACK", raising=False)
    (team.home / "ackd.toml").write_text('[bus]\ntracks = ["tracks/*"]\n')
    return find_site()


def made(team: Team, *names: str) -> None:
    for name in names:
        (team.home / "tracks" / name / ".message-bus").mkdir(parents=True)


def test_the_only_one_is_meant_whether_there_is_a_house_or_not(team: Team, site: Site) -> None:
    made(team, "one")
    (site.root / "bus").mkdir(parents=True)
    assert choose_track(site, None, make=False) == Track(f"{team.home}/tracks/one/.message-bus", "one")


def test_without_any_the_house_is_made_by_who_writes_and_missed_by_who_reads(team: Team, site: Site) -> None:
    with pytest.raises(NoTrack) as failure:
        choose_track(site, None, make=False)
    assert failure.value.own_bus == f"{site.root}/bus"
    assert team.ackd("bus", "status").exit_code == 66
    assert choose_track(site, None, make=True).bus == f"{site.root}/bus"
    assert (site.root / "bus").stat().st_mode & 0o777 == 0o700
    assert choose_track(site, None, make=False).name == "house"


def test_a_list_of_what_was_never_used_is_empty_and_makes_nothing(team: Team, site: Site) -> None:
    assert choose_track(site, None, make=False, listing=True).bus == f"{site.root}/bus"
    for line in ("lock list", "board list"):
        assert team.ackd(*line.split()).exit_code == 0
    assert not (site.root / "bus").exists()


def test_of_several_one_has_to_be_named(team: Team, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made(team, "one", "two")
    with pytest.raises(WhichTrack, match="one, two"):
        choose_track(site, None, make=True)
    assert choose_track(site, "two", make=True).name == "two"
    monkeypatch.setenv("ACKD_TRACK", "one")
    assert choose_track(site, None, make=True).name == "one"
    assert choose_track(site, "two", make=True).name == "two"


def test_a_path_names_one_too_and_one_that_the_config_does_not(team: Team, site: Site, tmp_path: Path) -> None:
    made(team, "one")
    (tmp_path / "elsewhere/.message-bus").mkdir(parents=True)
    assert choose_track(site, "tracks/one", make=False).name == "one"
    assert choose_track(site, "tracks/one/.message-bus/", make=False).name == "one"
    assert choose_track(site, str(tmp_path / "elsewhere"), make=False).bus == f"{tmp_path}/elsewhere/.message-bus"
    (site.root / "bus").mkdir(parents=True)
    assert choose_track(site, str(site.root / "bus"), make=False).name == "house"


def test_what_is_none_is_said_with_those_there_are(team: Team, site: Site) -> None:
    made(team, "one")
    with pytest.raises(NoTrack, match="no track 'tow'; there are: one"):
        choose_track(site, "tow", make=True)
    assert choose_track(site, "house", make=True).name == "house"
