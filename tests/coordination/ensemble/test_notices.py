from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.coordination.ensemble.rules import plain_words
from tests.coordination.ensemble.ensemble_team import EnsembleTeam

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("escalate_to", "told"), [("leader", "leader"), ("dispatch", "user"), ("nobody", "user"), ("worker_1", "worker-1")]
)
async def test_who_is_told_is_not_whom_it_is_about_and_exists(tmp_path: Path, escalate_to: str, told: str) -> None:
    team = EnsembleTeam(tmp_path, escalate_to=escalate_to)
    team.put("tasks/T-1.yaml")
    await team.look()
    assert team.summary() == [("queue_monitor", told, "escalation")]
    (line,) = team.said("escalation")
    assert (line["cause"], line["to"], line["agent"]) == ("task_for_nobody", told, "dispatch")
    assert plain_words.vague_words(str(team.mail[0].body["summary"])) == []


async def test_a_summary_is_said_to_be_about_no_task(tmp_path: Path) -> None:
    team = EnsembleTeam(tmp_path)
    team.put("reports/completion-summary.yaml")
    team.put("reports/T-1.yaml", "task_id: T-1\n")
    await team.look()
    assert [line.get("task_id") for line in team.said("file_taken_in")] == [None, "T-1"]
