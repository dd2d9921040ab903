"""The table of capabilities: which agents end their work in a way of their own."""

from __future__ import annotations

import pytest

from ackd.coordination.registry import next_commands


def test_a_stage_worker_is_told_to_report() -> None:
    assert set(next_commands("story-PROJ-42-s3").values()) == {"ackd stage report", "ackd stage status"}


@pytest.mark.parametrize("agent", ["worker", "pipeline-lead", "story-PROJ-42-s4", "a story-PROJ-42-s3"])
def test_every_other_agent_ends_its_work_as_agents_do(agent: str) -> None:
    assert next_commands(agent) == {}
