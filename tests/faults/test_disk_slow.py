"""A disk that takes for ever to flush: the loop waits for none of it, and who needs no flush is served meanwhile.

The flush hangs until the test opens a gate, so what is shown is an order, not a time: others come to their end while it
hangs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running
from tests.faults.mounts import mounted, needs_root
from tests.faults.preloads import needs_compiler, preload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_compiler

AGENTS = """
[agents.slow]
endpoint = "inbox"

[agents.quick]
endpoint = "exec"
command = ["sh", "-c", "sleep 0.2"]
"""
#: More than there are threads to flush in.
MANY = 40


def team_in(place: Path, part: str) -> Team:
    team = Team(place, AGENTS)
    team.extra_env = preload("slow_flush", place) | {"SLOW_FLUSH_GATE": str(place / "gate"), "SLOW_FLUSH_PART": part}
    return team


@contextlib.contextmanager
def hanging(team: Team) -> Iterator[None]:
    """Inside, the flush hangs: some have met it, and it has not ended."""
    gate = team.place / "gate"
    gate.touch()
    try:
        yield
        assert (team.place / "gate.met").exists(), "nothing was flushed there"
    finally:
        gate.unlink()


def monitor_mail(team: Team) -> str:
    """For an agent inside the daemon, which is through with it at once: nothing of it waits for a flush."""
    return team.post("queue_monitor", extra="In-Reply-To: <1.1.a@x>\n")


def test_a_disk_that_hangs_keeps_nobody_waiting_who_needs_no_flush(tmp_path: Path) -> None:
    team = team_in(tmp_path, "/queue/slow/")
    with running(team):
        before = monitor_mail(team)
        team.fact("message_completed", message=before)
        with hanging(team):
            slow = [team.post("slow") for _ in range(MANY)]
            team.until((tmp_path / "gate.met").exists)
            for _ in range(20):
                team.fact("message_completed", message=monitor_mail(team))
            team.until(lambda: len(team.facts("message_told", agent="slow")) == MANY)
            assert team.ackd("done", slow[0], "--agent", "slow").returncode == 0
            assert not team.facts("message_completed", agent="slow")
        team.fact("message_completed", message=slow[0])
        assert not team.facts("io_error", "message_retry", "message_dead")


@needs_root
def test_a_mount_that_hangs_keeps_nobody_waiting_whose_mail_is_elsewhere(tmp_path: Path) -> None:
    """Quick's commands take long enough for a status to be written, and flushed, before they end."""
    team = team_in(tmp_path, "/queue/slow/")
    with mounted(team.root / "queue/slow"), running(team):
        with hanging(team):
            for _ in range(MANY):
                team.post("slow")
            team.until((tmp_path / "gate.met").exists)
            for _ in range(3):
                team.fact("message_completed", message=team.post("quick"))
            assert not team.facts("message_completed", agent="slow")
        assert not team.facts("io_error", "message_retry", "message_dead")


@pytest.mark.parametrize("part", ["/archive", "/queue"])
def test_making_a_directory_waits_for_no_flush(tmp_path: Path, part: str) -> None:
    """The first message of a day makes one in archive/; the first of an agent, one in queue/."""
    team = team_in(tmp_path, part)
    with running(team), hanging(team):
        team.fact("message_completed", message=monitor_mail(team))
        new = team.post("newcomer")
        team.fact("message_told", message=new)
        team.until((tmp_path / "gate.met").exists)
        team.fact("message_completed", message=monitor_mail(team))


@needs_root
def test_a_move_to_a_mount_that_hangs_keeps_its_own_agent_waiting_and_no_other(tmp_path: Path) -> None:
    team = team_in(tmp_path, "/archive")
    with mounted(team.root / "archive"), running(team):
        with hanging(team):
            finished = team.post("quick")
            team.until((tmp_path / "gate.met").exists)
            assert not team.facts("message_completed", message=finished)
            for _ in range(5):
                team.fact("message_told", message=team.post("slow"))
        team.fact("message_completed", message=finished)
