"""inotify's limits: no instance, or no watch, is left for this user.

Each daemon lives in a user namespace of its own, whose limits are nobody else's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team
from tests.faults.grip import NOTE_RUN, WORKER, ends, limited, raise_limit, runs, watch

if TYPE_CHECKING:
    from pathlib import Path

POLLED = watch(mode="auto", poll_interval_s=0.1, reconcile_interval_s=0.5)


def team_in(place: Path) -> Team:
    team = Team(place, WORKER, quick=POLLED)
    team.script("work", NOTE_RUN)
    return team


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [("max_inotify_instances", 0, "max_user_instances"), ("max_inotify_watches", 4, "max_user_watches")],
)
def test_at_a_limit_it_polls_says_so_once_and_watches_again_when_it_can(
    tmp_path: Path, setting: str, value: int, words: str
) -> None:
    team = team_in(tmp_path)
    before = team.post("worker")
    with limited(team, setting, value):
        assert words in team.fact("watch_degraded")["reason"]
        team.until(lambda: team.status()["daemon"]["watch"] == "polling")
        ids = [before]
        for _ in range(3):
            ids.append(team.post("worker"))
            team.fact("message_completed", message=ids[-1])
        team.fact("message_told", message=team.post("newcomer"))
        raise_limit(team, setting, 1000)
        team.fact("watch_restored")
        team.until(lambda: team.status()["daemon"]["watch"] == "inotify")
        ids.append(team.post("worker"))
        team.fact("message_completed", message=ids[-1])
    assert len(team.facts("watch_degraded")) == len(team.facts("watch_restored")) == 1
    assert sorted(runs(team)) == sorted(ids)
    assert ends(team) == {one: ["completed"] for one in ids}
