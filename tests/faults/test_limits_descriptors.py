"""A live daemon that has no descriptor left: its limit is lowered under it to what it has open, and raised again."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["./work"]
max_in_flight = 4

[agents.reader]
endpoint = "inbox"
"""


@contextlib.contextmanager
def no_descriptors(team: Team, spare: int = 0) -> Iterator[None]:
    """``spare``: how many it may still open."""
    before = resource.prlimit(team.pid, resource.RLIMIT_NOFILE)
    used = _open_in(team)
    free = (number for number in itertools.count() if number not in used)
    limit = next(itertools.islice(free, spare, None))
    resource.prlimit(team.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(team.pid, resource.RLIMIT_NOFILE, before)


def _open_in(team: Team) -> set[int]:
    return {int(path.name) for path in Path(f"/proc/{team.pid}/fd").iterdir()}


def at_rest(team: Team) -> None:
    """Until it has the same open at every look for a while: what it closes a moment later would be to spare."""
    used, looks, give_up_at = set[int](), 0, time.monotonic() + 60
    while looks < 10:
        now = _open_in(team)
        used, looks = now, looks + 1 if now == used else 0
        assert time.monotonic() < give_up_at, "its descriptors never come to rest"
        time.sleep(0.02)


def team_in(place: Path, work: str = 'until [ -e go ]; do sleep 0.02; done; echo "$ACKD_MESSAGE_ID" >>runs') -> Team:
    team = Team(place, AGENTS)
    team.script("work", work)
    return team


def runs(team: Team) -> list[str]:
    path = team.place / "runs"
    return sorted(path.read_text().split()) if path.exists() else []


def reserve_in_reach(team: Team) -> None:
    """Until the descriptor that the daemon keeps for its page lies below the first free one, as it does where it has run
    out by itself: above the limit that a test sets, it would be of no use. With each page it is the first free one."""

    def in_reach() -> bool:
        kept = [fd for fd in _open_in(team) if fd > 2 and _target(team, fd) == os.devnull]
        used = _open_in(team)
        if kept and set(range(max(kept))) <= used:
            return True
        team.send("reader")
        return False

    team.until(in_reach)


def _target(team: Team, fd: int) -> str:
    with contextlib.suppress(FileNotFoundError):
        return str(Path(f"/proc/{team.pid}/fd/{fd}").readlink())
    return ""


def settled_for(team: Team, seconds: float) -> None:
    """It lives on, whatever its clocks and scans meet."""
    until = time.monotonic() + seconds
    team.until(lambda: time.monotonic() > until)


def test_without_descriptors_it_lives_on_says_so_once_and_serves_when_there_are_some(tmp_path: Path) -> None:
    """Work ends, mail arrives and is acked meanwhile: nothing of it can be read, and nothing of it is lost."""
    team = team_in(tmp_path)
    with running(team):
        read = team.send("reader")
        ids = [team.send("worker") for _ in range(2)]
        team.fact("message_told", message=read)
        team.until(lambda: len(team.facts("message_told", agent="worker")) == 2)
        reserve_in_reach(team)
        with no_descriptors(team):
            ids += [team.send("worker") for _ in range(2)]
            assert team.ackd("ack", read, "--agent", "reader").returncode == 0
            team.fact("io_error")
            (tmp_path / "go").touch()
            team.until(lambda: len(runs(team)) == 2)
            shown = team.until(lambda: team.status()["faults"])
            assert [one["error"] for one in shown] == ["Too many open files"]
            assert "fault: Too many open files" in team.ackd("status").stdout
            settled_for(team, 2.5)
        for message in ids:
            team.fact("message_completed", message=message)
        team.fact("message_acked", message=read)
        team.until(lambda: not team.status()["faults"])
        assert len(team.facts("io_error")) == len(team.facts("io_recovered")) == 1
        assert "LimitNOFILE" in team.facts("io_error")[0]["advice"]
        assert {fact["counted"] for fact in team.facts("message_retry")} <= {False}
        assert not team.facts("message_dead", "message_rejected", "message_withdrawn", "spool_lost", "watch_degraded")
        assert runs(team) == sorted(ids)


def test_with_a_few_descriptors_left_nothing_is_counted_or_run_twice(tmp_path: Path) -> None:
    """Enough to read a message, too few to start its command: the limit is met at every step of the way. Which step
    meets it first depends on what the threads hold at that moment, so that a slow machine may need another round."""
    met = set()
    spares = (1, 2, 3, 4, 5)
    for turn, spare in enumerate(spares * 4):
        if turn >= len(spares) and "tell" in met:
            break
        team = team_in(tmp_path / str(turn))
        (team.place / "go").touch()
        with running(team):
            first = team.send("worker")
            team.fact("message_completed", message=first)
            (team.place / "go").unlink()  # what has started keeps its descriptors, and the next finds fewer
            assert not team.facts("io_error")
            with no_descriptors(team, spare):
                ids = [team.post("worker") for _ in range(4)]
                fault = team.fact("io_error")
                assert "Too many open files" in fault["error"], (spare, fault)
                settled_for(team, 1.0)
                (team.place / "go").touch()
            for message in ids:
                team.fact("message_completed", message=message)
            assert {fact["counted"] for fact in team.facts("message_retry")} <= {False}
            assert runs(team) == sorted([first, *ids])
            met |= {fact["what"] for fact in team.facts("io_error")}
    assert "tell" in met, f"no command was ever refused its start, only {met}"


def test_what_a_run_leaves_behind_is_ended_though_there_was_no_descriptor_to_look_for_it(tmp_path: Path) -> None:
    team = team_in(tmp_path, "sleep 300 & echo $! >left; until [ -e go ]; do sleep 0.02; done")
    with running(team):
        message = team.send("worker")
        left = team.until(lambda: (tmp_path / "left").exists() and (tmp_path / "left").read_text().strip())
        at_rest(team)
        with no_descriptors(team):
            (tmp_path / "go").touch()
            assert "Too many open files" in team.fact("io_error")["error"]
            settled_for(team, 1.0)
        team.fact("message_completed", message=message)
        team.until(lambda: not Path(f"/proc/{left}").exists())
