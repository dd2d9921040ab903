"""The agents that a [pipeline] brings: the lead watches over its workers, so the engine does not."""

from __future__ import annotations

from ackd.coordination.pipeline.own_agents import PipelineAgents
from ackd.coordination.pipeline.settings import PipelineSettings
from ackd.core.policy import NEVER, AgentPolicy


def policy_of(endpoint: str) -> AgentPolicy:
    worker = (
        {"endpoint": endpoint, "start": "claude"} if endpoint == "tmux" else {"endpoint": endpoint, "command": ["x"]}
    )
    found = PipelineAgents(PipelineSettings.model_validate({"worker": worker})).policy("story-PROJ-42-s1")
    assert found is not None
    return found


def test_no_time_of_the_engine_ends_for_a_worker_and_nobody_wakes_asks_or_reminds_it() -> None:
    policy = policy_of("tmux")
    assert {policy.processing_timeout_s, policy.task_timeout_s, policy.busy_timeout_s} == {NEVER}
    assert (policy.rungs, policy.heartbeat_timeout_s, policy.shows, policy.reminds) == (None, None, False, False)


def test_only_a_pane_keeps_what_it_was_told_when_the_daemon_dies() -> None:
    assert [policy_of(kind).volatile for kind in ("exec", "process", "tmux")] == [True, True, False]


def test_the_policy_of_every_other_agent_follows_from_its_table() -> None:
    agents = PipelineAgents(PipelineSettings.model_validate({"worker": {"command": ["x"]}}))
    assert (agents.policy("pipeline-lead"), agents.policy("worker"), agents.table("worker")) == (None, None, None)
