"""The use cases of message buses, called from a program: values in, values and named errors out, without a daemon."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from ackd.client import Client
from ackd.coordination.bus.rules.defaults import HEARTBEAT_TIMEOUT_S
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.leases.rules.words import DEFAULT_TTL_S
from ackd.core.errors import BadBusLine, NoTrack, WhichTrack

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.delenv("ACKD_TRACK", raising=False)
    (tmp_path / "ackd.toml").write_text('[bus]\ntracks = ["tracks/*"]\n')
    return Client(config=tmp_path / "ackd.toml")


def test_what_is_posted_can_be_read_waited_for_and_seen(team: Client) -> None:
    posted = team.bus.post("TASK_COMPLETE", "worker-1", {"task_id": "1.1"})
    assert posted.track == team.bus.track() == team.bus.tracks()[0]
    team.bus.post("PROGRESS", "worker-2", {"task_id": "1.2", "progress_pct": 40})
    first, second = team.bus.read()
    assert (first.message_id, first.source, dict(first.payload)["task_id"]) == (posted.message_id, "worker-1", "1.1")
    assert [line.source for line in team.bus.read(offset=first.end)] == [second.source] == ["worker-2"]
    assert [line.type.value for line in team.bus.read(type_="PROGRESS")] == ["PROGRESS"]
    assert team.bus.wait("TASK_COMPLETE_1.1", 0)
    assert not team.bus.wait("TASK_COMPLETE_1.1", 0, new=True)
    standing = team.bus.status()
    assert (standing.messages, standing.bad_lines, standing.tasks["1.1"].state) == (2, 0, "COMPLETE")
    assert (standing.workers["worker-2"].progress_pct, standing.workers["worker-2"].is_stale) == (40, False)
    assert team.bus.status(stale_after_s=-1).workers["worker-2"].is_stale


def test_following_goes_on_with_what_comes(team: Client) -> None:
    team.bus.make()
    lines = team.bus.read(follow=True)
    for number in range(3):
        team.bus.post("PROGRESS", f"worker-{number}", {"task_id": "1", "progress_pct": 1})
    assert [line.source for line in itertools.islice(lines, 3)] == ["worker-0", "worker-1", "worker-2"]


def test_a_message_that_must_not_stand_on_a_bus_makes_none(team: Client) -> None:
    for words, payload in (("TASK_COMPLET", {"task_id": "1"}), ("TASK_COMPLETE", {})):
        with pytest.raises(BadBusLine):
            team.bus.post(words, "worker-1", payload)
    with pytest.raises(NoTrack):
        team.bus.read()
    assert team.bus.tracks() == []


def test_of_several_buses_one_is_named(team: Client, tmp_path: Path) -> None:
    one, two = (team.bus.make(str(tmp_path / "tracks" / name)) for name in ("one", "two"))
    assert "" in one.made
    assert team.bus.make(two.track.bus).made == ()
    with pytest.raises(WhichTrack) as unclear:
        team.bus.status()
    assert unclear.value.tracks == ("one", "two")
    assert team.bus.post("PROGRESS", "me", {"task_id": "1", "progress_pct": 1}, track="two").track == two.track


def test_the_quick_defaults_are_those_of_the_settings() -> None:
    settings = BusSettings()
    assert (settings.heartbeat_timeout_s, settings.lease_s) == (HEARTBEAT_TIMEOUT_S, DEFAULT_TTL_S)
