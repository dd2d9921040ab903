"""The use cases of leases, called from a program: values in, values and named errors out, without a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.client import Client
from ackd.coordination.leases.rules.words import Denied, Granted, Queued
from ackd.core.errors import BadName, BadPath, NoTrack

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.delenv("ACKD_TRACK", raising=False)
    (tmp_path / "ackd.toml").write_text("[bus]\nlease_s = 60\n[agents.worker_1]\n")
    return Client(config=tmp_path / "ackd.toml")


def test_a_lease_is_granted_denied_waited_for_renewed_and_released(team: Client) -> None:
    first = team.leases.acquire("src/app.py", "worker-1")
    assert first.is_granted
    assert isinstance(first.answer, Granted)
    lease = first.answer.lease
    assert (first.answer.path, lease.agent, lease.ttl_s) == ("src/app.py", "worker_1", 60)
    denied = team.leases.acquire("src/app.py", "other").answer
    assert isinstance(denied, Denied)
    assert [one.agent for one in denied.holders] == ["worker_1"]
    queued = team.leases.acquire("src/app.py", "other", later=True).answer
    assert isinstance(queued, Queued)
    assert queued.behind == ("worker_1",)
    listed = team.leases.list()
    assert ([path for path, _ in listed.held], listed.waiting_for) == (["src/app.py"], {"src/app.py": 1})
    assert team.leases.list("nobody").held == ()
    renewed = team.leases.renew("worker-1", "src/app.py", ttl_s=600)
    assert renewed.leases[0][1].expires_at > lease.expires_at
    released = team.leases.release("worker-1")
    assert (released.agent, [path for path, _ in released.leases]) == ("worker_1", ["src/app.py"])
    assert team.leases.release("worker-1", "src/app.py").leases == ()
    assert released.trouble == ((), None)


def test_what_cannot_be_asked_has_named_errors(team: Client) -> None:
    with pytest.raises(NoTrack):
        team.leases.release("worker_1")
    assert team.leases.list().held == ()
    with pytest.raises(BadName):
        team.leases.acquire("src/app.py", "a\nb")
    assert team.bus.tracks() == []
    with pytest.raises(BadPath):
        team.leases.acquire("../elsewhere", "worker_1")


def test_a_file_of_leases_that_cannot_be_read_is_told_of(team: Client) -> None:
    bus = team.bus.make().track
    with open(bus.locks, "w") as file:  # noqa: PTH123
        file.write("{")
    answer = team.leases.acquire("src/app.py", "worker_1")
    assert answer.is_granted
    assert len(answer.trouble.set_aside) == 1
