"""A disk that takes for ever to flush: the loop waits for none of it, and who needs no flush is served meanwhile.

The flush hangs until the test opens a gate, so what is shown is an order, not a time: others come to their end while it
hangs. How long they take meanwhile is measured, and held against how long the flush may hang.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running
from tests.faults.mounts import mounted, needs_root
from tests.faults.preloads import needs_compiler, preload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = needs_compiler

AGENTS = """
[agents.slow]
endpoint = "inbox"

[agents.reader]
endpoint = "inbox"

[agents.quick]
endpoint = "exec"
command = ["sh", "-c", "sleep 0.2"]
"""
#: More than there are threads to flush in.
MANY = 40
#: A flush that hangs is let go after so long, and the gate opens when all are served: whoever had to wait for a flush has
#: waited for nearly all of this, and who had not, for a small part of it on any machine.
HANG_S = 20.0
SAMPLES, INTERVAL_S = 15, 0.2


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
        # All of them are offered in one turn: a status that is due 50 ms after a telling has its flush before the next.
        assert team.ackd("agent", "pause", "slow").returncode == 0
        slow = [team.post("slow") for _ in range(MANY)]
        team.until(lambda: len(team.facts("message_queued", agent="slow")) == MANY)
        with hanging(team):
            assert team.ackd("agent", "resume", "slow").returncode == 0
            team.until((tmp_path / "gate.met").exists)
            for _ in range(20):
                team.fact("message_completed", message=monitor_mail(team))
            team.until(lambda: len(team.facts("message_told", agent="slow")) == MANY)
            assert team.ackd("done", slow[0], "--agent", "slow").returncode == 0
            assert not team.facts("message_completed", agent="slow")
        team.fact("message_completed", message=slow[0])
        assert not team.facts("io_error", "message_retry", "message_dead")


def test_while_flushes_hang_others_are_served_as_quickly_as_ever(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """From the rename of a file to the line that its agent was told, or that it is completed. Every time there is a new
    file to be flushed, so that each flush of ours hangs once: one that the loop waits for stops all that come then."""
    team = team_in(tmp_path, "/slow")
    team.extra_env["SLOW_FLUSH_S"] = str(HANG_S)
    sent: dict[str, tuple[str, float]] = {}
    with running(team):
        with hanging(team):
            team.post("slow")
            team.until((tmp_path / "gate.met").exists)
            for _ in range(SAMPLES):
                team.post("slow")
                at = time.time()
                sent[team.post("reader")] = ("message_told", at)
                at = time.time()
                sent[monitor_mail(team)] = ("message_completed", at)
                time.sleep(INTERVAL_S)
            team.until(lambda: all(team.facts(type_, message=message) for message, (type_, _) in sent.items()))
        team.until(lambda: len(team.facts("message_told", agent="slow")) == SAMPLES + 1)
    spans = [(at, said_at(team, type_, message)) for message, (type_, at) in sent.items()]
    held = [tuple(map(float, line.split())) for line in (tmp_path / "gate.held").read_text().splitlines()]
    took = sorted(end - begin for begin, end in spans)
    measured = f"{len(took)} messages while flushes hung, from renamed in to served: "
    measured += f"p50 {1000 * statistics.median(took):.1f} ms, worst {1000 * took[-1]:.1f} ms"
    waited = [span for span in spans if not any(begin < span[0] and span[1] < end for begin, end in held)]
    assert not waited, f"{measured}; {len(waited)} were not served before the flush of that moment went on"
    assert took[-1] < HANG_S / 2, measured
    record_property("told", measured)


def said_at(team: Team, type_: str, message: str) -> float:
    stamps = [
        line["timestamp"]
        for line in team.lines()
        if line["type"] == type_ and line["data"].get("message_id") == message
    ]
    return datetime.fromisoformat(stamps[0]).timestamp()


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
