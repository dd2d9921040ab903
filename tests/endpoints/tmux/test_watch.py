"""Events that the watch posts about a pane."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ackd.core.events import AgentReady, AgentStuck, EndpointAway, Seen, Told, TroubleSeen
from tests.endpoints.tmux.fake_pane import FakePane, tell
from tests.waiting import until


async def test_words_of_others_that_stay_are_told_of_once(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane.control("write half a sentence")
    await fake_pane.shows("half a sentence")
    async with fake_pane.endpoint(taken_timeout_s=0.2) as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        trouble = await fake_pane.hears(TroubleSeen)
        await fake_pane.looks(5, endpoint)
    assert (trouble.kind, trouble.agent) == ("taken", "worker")
    assert "someone's own words stand on its input line" in trouble.text
    assert len(fake_pane.heard(TroubleSeen)) == 1
    assert fake_pane.given() == b""


async def test_words_of_others_that_go_again_are_nobodys_business(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint(taken_timeout_s=60) as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control("write half a sentence")
        await fake_pane.shows("half a sentence")
        await fake_pane.looks(3, endpoint)
        await fake_pane.tmux.press(fake_pane.pane_id, "C-u")
        await fake_pane.shows(">\n")
        await fake_pane.looks(2, endpoint)
        assert endpoint._watch._taken_at is None
    assert fake_pane.heard(TroubleSeen) == []


async def test_a_turn_between_two_looks_was_seen(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(told, Told)
        assert not told.seen
        await fake_pane.looks(2, endpoint)
        assert fake_pane.heard(Seen) == []
        fake_pane.control("say tool: ackd read a1b2c3")
        seen = await fake_pane.hears(Seen)
        await fake_pane.looks(2, endpoint)
    assert (seen.key, seen.evidence) == (1, "its own words stand below the line")
    assert len(fake_pane.heard(Seen)) == 1


# --- prompts
async def test_a_prompt_is_quoted_and_another_one_is_another_stall(fake_pane: FakePane) -> None:
    await fake_pane.agent("--work-s", "60")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control("prompt touch x")
        await until(lambda: fake_pane.heard(AgentStuck))
        fake_pane.control("prompt touch y")
        await until(lambda: len(fake_pane.heard(AgentStuck)) == 2)
        await fake_pane.looks(4, endpoint)
        first, second = fake_pane.heard(AgentStuck)
        fake_pane.control("busy")
        await fake_pane.hears(AgentReady)
    assert first.reason == "a permission prompt waits for a person: Bash: touch x"
    assert second.reason == "a permission prompt waits for a person: Bash: touch y"
    assert first.new
    assert second.new
    assert fake_pane.answered() == []


async def test_the_reason_of_a_stall_follows_the_screen(fake_pane: FakePane) -> None:
    """A menu in which a person moves is the same stall with other text."""
    then = datetime.now(UTC) + timedelta(hours=2)
    await fake_pane.agent("--state", f"limit {then:%H:%M} UTC")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        await fake_pane.looks(3, endpoint)
        assert fake_pane.heard(AgentStuck) == []  # said with the answer
        then += timedelta(hours=1)
        fake_pane.control(f"limit {then:%H:%M} UTC")
        stuck = await fake_pane.hears(AgentStuck)
        assert (stuck.reason, stuck.new) == (f"a usage limit: Usage limit reached, resets at {then:%H:%M} UTC", False)
        fake_pane.control("prompt touch x")
        await until(lambda: fake_pane.heard(AgentStuck)[-1].reason.endswith("Bash: touch x"))
        assert fake_pane.heard(AgentStuck)[-1].new


async def test_a_prompt_that_was_met_at_the_telling_and_answered_is_over_when_its_agent_works(
    fake_pane: FakePane,
) -> None:
    await fake_pane.agent("--state", "prompt touch x")
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert away.reason.endswith("Bash: touch x")
        fake_pane.control("busy")
        ready = await fake_pane.hears(AgentReady)
    assert ready.evidence == "it works again"
