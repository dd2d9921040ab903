from __future__ import annotations

from ackd.config.live import LiveConfig, announcement
from tests.live_config import config_with


def test_a_config_that_was_swapped_in_is_the_one_in_force() -> None:
    before, after = config_with(settle_s=1), config_with(settle_s=2)
    live = LiveConfig(before)
    assert live.now is before
    live.swap(after)
    assert live.now is after


def test_an_agent_is_announced_with_the_policy_and_endpoint_of_its_table() -> None:
    config = config_with(agents={"reader": {"endpoint": "inbox", "retry_limit": 7}})
    said = announcement(config, "reader")
    assert (said.agent, said.policy.retry_limit, said.endpoint) == ("reader", 7, "inbox")
