"""What is posted of a pane that somebody looks at now and then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ackd.core.events import AgentReady, AgentStuck, EndpointAway, Seen, Told, TroubleSeen
from tests.runtime.terminals.stage import Stage, tell
from tests.waiting import until


async def test_words_of_others_that_stay_are_told_of_once(stage: Stage) -> None:
    await stage.agent()
    stage.control("write half a sentence")
    await stage.shows("half a sentence")
    async with stage.endpoint(taken_timeout_s=0.2) as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        trouble = await stage.hears(TroubleSeen)
        await stage.looks(5, endpoint)
    assert (trouble.kind, trouble.agent) == ("taken", "worker")
    assert "someone's own words stand on its input line" in trouble.text
    assert len(stage.heard(TroubleSeen)) == 1
    assert stage.given() == b""


async def test_words_of_others_that_go_again_are_nobodys_business(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint(taken_timeout_s=60) as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control("write half a sentence")
        await stage.shows("half a sentence")
        await stage.looks(3, endpoint)
        await stage.tmux.press(stage.pane_id, "C-u")
        await stage.shows(">\n")
        await stage.looks(2, endpoint)
        assert endpoint._watch._taken_at is None
    assert stage.heard(TroubleSeen) == []


async def test_a_turn_between_two_looks_was_seen(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(told, Told)
        assert not told.seen
        await stage.looks(2, endpoint)
        assert stage.heard(Seen) == []
        stage.control("say tool: ackd read a1b2c3")
        seen = await stage.hears(Seen)
        await stage.looks(2, endpoint)
    assert (seen.key, seen.evidence) == (1, "its own words stand below the line")
    assert len(stage.heard(Seen)) == 1


# --- prompts
async def test_a_prompt_is_quoted_and_another_one_is_another_stall(stage: Stage) -> None:
    await stage.agent("--work-s", "60")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control("prompt touch x")
        await until(lambda: stage.heard(AgentStuck))
        stage.control("prompt touch y")
        await until(lambda: len(stage.heard(AgentStuck)) == 2)
        await stage.looks(4, endpoint)
        first, second = stage.heard(AgentStuck)
        stage.control("busy")
        await stage.hears(AgentReady)
    assert first.reason == "a permission prompt waits for a person: Bash: touch x"
    assert second.reason == "a permission prompt waits for a person: Bash: touch y"
    assert first.new
    assert second.new
    assert stage.answered() == []


async def test_the_reason_of_a_stall_follows_the_screen(stage: Stage) -> None:
    """A menu that a person moves in is the same stall in other words."""
    then = datetime.now(UTC) + timedelta(hours=2)
    await stage.agent("--state", f"limit {then:%H:%M} UTC")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        await stage.looks(3, endpoint)
        assert stage.heard(AgentStuck) == []  # said with the answer
        then += timedelta(hours=1)
        stage.control(f"limit {then:%H:%M} UTC")
        stuck = await stage.hears(AgentStuck)
        assert (stuck.reason, stuck.new) == (f"a usage limit: Usage limit reached, resets at {then:%H:%M} UTC", False)
        stage.control("prompt touch x")
        await until(lambda: stage.heard(AgentStuck)[-1].reason.endswith("Bash: touch x"))
        assert stage.heard(AgentStuck)[-1].new


async def test_a_prompt_that_was_met_at_the_telling_and_answered_is_over_when_its_agent_works(stage: Stage) -> None:
    await stage.agent("--state", "prompt touch x")
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert away.reason.endswith("Bash: touch x")
        stage.control("busy")
        ready = await stage.hears(AgentReady)
    assert ready.evidence == "it works again"
