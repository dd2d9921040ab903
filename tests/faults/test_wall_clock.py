"""The wall clock jumps by a day, ahead or back, under a live daemon: only its own clock is set, by a library.

Deadlines go by the clock that cannot jump; so nobody is called silent or overdue for a day that never was, no retry
waits for one, and what was completed a minute ago is not forgotten. The log shows the time as it was shown.
"""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.faults.preloads import needs_compiler, preload
from tests.waiting import crowd

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_compiler

DAY_S = 86_400
AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["./work"]

[agents.reader]
endpoint = "inbox"
"""
#: Fails until the test says otherwise.
WORK = 'echo "$ACKD_MESSAGE_ID" >>runs; [ -e go ]'
either_way = pytest.mark.parametrize("shift_s", [DAY_S, -DAY_S], ids=["ahead", "back"])


class ShiftedTeam(Team):
    """A team whose daemon and commands read a clock that the test can set."""

    def __init__(self, place: Path, delivery: str = "") -> None:
        super().__init__(place, AGENTS, delivery=delivery)
        self.script("work", WORK)
        self.extra_env = preload("shifted_clock", place) | {"SHIFTED_CLOCK": str(place / "shift")}
        self.shift(0)

    def shift(self, seconds: int) -> None:
        temp = self.place / ".shift"
        temp.write_text(str(seconds))
        temp.rename(self.place / "shift")

    def runs(self) -> list[str]:
        path = self.place / "runs"
        return path.read_text().split() if path.exists() else []

    def clock(self, line: dict[str, Any]) -> float:
        """How far ahead of ours the daemon's clock was when it wrote the line, to the hour."""
        return round((datetime.fromisoformat(line["timestamp"]).timestamp() - time.time()) / 3600) * 3600

    def scanned_twice(self) -> None:
        over = time.monotonic() + 2.5
        self.until(lambda: time.monotonic() > over)


@either_way
def test_a_retry_is_neither_lost_nor_put_off_by_a_day(tmp_path: Path, shift_s: int) -> None:
    team = ShiftedTeam(tmp_path, "backoff_base_s = 3\nbackoff_cap_s = 3\nretry_limit = 50\n")
    with running(team):
        message = team.send("worker")
        team.fact("message_retry", message=message)
        team.shift(shift_s)
        (tmp_path / "go").touch()
        team.fact("message_completed", message=message)
        last = team.lines()[-1]
        assert team.clock(last) == shift_s, "the log says what the clock says"
        assert team.clock(team.lines()[0]) == 0


@either_way
def test_nor_by_a_restart_after_the_jump(tmp_path: Path, shift_s: int) -> None:
    """Next-Retry-After was written by the other clock: it is believed within reason."""
    team = ShiftedTeam(tmp_path, "backoff_base_s = 2\nbackoff_cap_s = 2\nretry_limit = 50\n")
    with running(team):
        message = team.send("worker")
        team.fact("message_retry", message=message)
        team.kill()
        team.shift(shift_s)
        (tmp_path / "go").touch()
        team.start()
        team.fact("message_completed", message=message)
        assert not team.facts("message_dead")


@either_way
def test_nobody_is_silent_overdue_or_reminded_of_for_a_day_that_never_was(tmp_path: Path, shift_s: int) -> None:
    team = ShiftedTeam(tmp_path)
    with running(team):
        unread, at_work = team.send("reader"), team.send("reader")
        for message in (unread, at_work):
            team.fact("message_told", message=message)
        assert team.ackd("ack", at_work, "--agent", "reader").returncode == 0
        team.fact("message_acked", message=at_work)
        team.shift(shift_s)
        later = team.send("reader")
        team.fact("message_told", message=later)
        team.scanned_twice()
        assert not team.facts("reminder", "message_overdue", "message_dead", "escalation", "nudge", "message_retry")
        assert not team.facts("message_withdrawn", "message_rejected", "spool_lost", "io_error", "stray_file")
        assert team.ackd("status", "--json").returncode == 0
        for message in (unread, at_work, later):
            assert team.ackd("done", message, "--agent", "reader").returncode == 0
            assert team.fact("message_completed", message=message)["seconds"] >= 0


@either_way
def test_no_time_of_a_message_comes_sooner_or_later_for_a_day_that_never_was(tmp_path: Path, shift_s: int) -> None:
    """What is due or expires in an hour stays, and what is due or expires soon is not put off."""
    team = ShiftedTeam(tmp_path)
    with running(team):
        soon = f"{3 * math.ceil(crowd())}s"
        later = [team.send("reader", "--deadline", "1h")]
        due = team.send("reader", "--deadline", soon)
        for message in (*later, due):
            team.fact("message_told", message=message)
        assert team.ackd("agent", "pause", "worker").returncode == 0
        later.append(team.send("worker", "--expires", "1h"))
        expires = team.send("worker", "--expires", soon)
        for message in (later[1], expires):
            team.fact("message_queued", message=message)
        team.shift(shift_s)
        team.fact("deadline_passed", message=due)
        assert team.fact("message_dead", message=expires)["end"] == "expired"
        team.scanned_twice()
        for message in later:
            assert not team.facts("deadline_near", "deadline_passed", "message_dead", message=message)


@either_way
def test_what_was_completed_before_the_jump_is_known_after_it(tmp_path: Path, shift_s: int) -> None:
    team = ShiftedTeam(tmp_path)
    (tmp_path / "go").touch()
    with running(team):
        again = mime(to="worker", message_id="1.1.a@x")
        team.drop("worker", again, "message_1.mime")
        team.fact("message_completed", message="1.1.a@x")
        for number, shift in enumerate((shift_s, 0, 2 * shift_s), start=2):
            team.shift(shift)
            team.drop("worker", again, f"message_{number}.mime")
            team.until(lambda: team.files("queue/worker") == ["processed"])
        team.until(lambda: len(team.facts("message_completed", "message_duplicate")) == 4)
        assert len(team.facts("message_duplicate", message="1.1.a@x")) == 3
        assert team.runs() == ["1.1.a@x"]


@either_way
def test_a_run_keeps_its_time_and_the_root_its_holder(tmp_path: Path, shift_s: int) -> None:
    """timeout_s is ten minutes; the lock is no lease that could run out."""
    team = ShiftedTeam(tmp_path)
    team.script("work", "until [ -e go ]; do sleep 0.02; done")
    with running(team):
        message = team.send("worker")
        team.fact("message_told", message=message)
        team.shift(shift_s)
        team.scanned_twice()
        second = team.ackd("run")
        assert (second.returncode, str(team.pid) in second.stderr) == (75, True)
        (tmp_path / "go").touch()
        assert team.fact("child_ended", message=message)["seconds"] < 60
        team.fact("message_completed", message=message)
        assert not team.facts("message_retry")


def test_ids_and_names_are_told_apart_though_the_same_time_comes_again(tmp_path: Path) -> None:
    """The clock is set back between any two of them."""
    team = ShiftedTeam(tmp_path)
    (tmp_path / "go").touch()
    with running(team):
        ids = []
        for number in range(6):
            team.shift(-number)
            ids.append(team.send("worker"))
        for message in ids:
            team.fact("message_completed", message=message)
        assert len(set(ids)) == 6
        assert sorted(team.runs()) == sorted(ids)
        assert len(list((team.root / "archive").rglob("*.mime"))) == 6


@either_way
def test_a_lease_is_neither_over_nor_longer_and_no_worker_of_a_bus_is_stale(tmp_path: Path, shift_s: int) -> None:
    """Commands read the same clock as the daemon: nobody takes what another still has."""
    team = ShiftedTeam(tmp_path)
    with running(team):
        assert team.ackd("lock", "acquire", "a.py", "--agent", "w1").returncode == 0
        assert team.ackd("bus", "post", "PROGRESS", "--source", "w1", "--task", "1.1").returncode == 0
        team.fact("lease_granted")
        team.until(lambda: [fact["bus_type"] for fact in team.facts("bus_message")] == ["FILE_LOCK", "PROGRESS"])
        team.scanned_twice()  # whoever has something to do for the two has done it
        said = len(team.lines())
        team.shift(shift_s)
        team.scanned_twice()
        assert team.lines()[said:] == [], "nothing was said of it"
        held = team.ackd("lock", "acquire", "a.py", "--agent", "w2")
        assert (held.returncode, "w1" in held.stderr) == (1, True)
        assert not team.facts("lease_expired", "lease_released", "lease_renewed", "worker_stale")
        assert team.ackd("lock", "release", "a.py", "--agent", "w1").returncode == 0
        team.fact("lease_released")
