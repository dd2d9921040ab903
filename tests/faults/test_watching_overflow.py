"""IN_Q_OVERFLOW: more happens than the kernel keeps. Said once, a scan finds the rest, and hints go on afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ackd.runtime.intake.intake import STORM_S
from tests.acceptance.teams import Team
from tests.faults.grip import NOTE_RUN, WORKER, ends, frozen, queued_events_limited_to, running_on, runs, watch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("sysctl")

EVENTS = 16


def overflowing(place: Path) -> Team:
    """Nothing but the overflow itself makes it scan."""
    team = Team(place, f"{WORKER}max_in_flight = 4\n[agents.reader]\n", quick=watch(mode="inotify"))
    team.script("work", NOTE_RUN)
    with queued_events_limited_to(EVENTS):
        team.start()
    return team


def must_be_one_storm(team: Team, began: float) -> None:
    """Said once. What the daemon moves overflows the queue, too: on a machine so slow that this goes on, again in time."""
    assert 1 <= len(team.facts("watch_overflow")) <= 1 + (time.monotonic() - began) // STORM_S


def test_an_overflow_is_said_once_and_nothing_of_what_was_not_told_is_missed(tmp_path: Path) -> None:
    """Arrivals, deletions and receipts, in queues that are known and in one that is not."""
    team = overflowing(tmp_path)
    with running_on(team):
        deleted, done = team.post("reader"), team.post("reader")
        for one in (deleted, done):
            team.fact("message_told", message=one)
        began = time.monotonic()
        with frozen(team):
            many = [team.post("worker") for _ in range(3 * EVENTS)]
            new = team.post("newcomer")
            next((team.root / "queue/reader/processed").glob("*0001.mime")).unlink()
            assert team.ackd("done", done, "--agent", "reader").returncode == 0
        for one in (*many, deleted, done):
            team.fact("message_completed", message=one)
        team.fact("message_told", message=new)
        late = team.post("worker")
        team.fact("message_completed", message=late)
        must_be_one_storm(team, began)
    assert sorted(runs(team)) == sorted([*many, late])
    assert ends(team) == {one: ["completed"] for one in (*many, late, deleted, done)}


def test_overflow_upon_overflow_is_one_storm_and_one_line(tmp_path: Path) -> None:
    """A storm of files that lasts: every reading finds the queue of events full again."""
    team = overflowing(tmp_path)
    with running_on(team):
        ids, began = [], time.monotonic()
        for _ in range(10):
            with frozen(team):
                ids += [team.post("worker") for _ in range(2 * EVENTS)]
        for one in ids:
            team.fact("message_completed", message=one)
        must_be_one_storm(team, began)
    assert sorted(runs(team)) == sorted(ids)
    assert ends(team) == {one: ["completed"] for one in ids}
