"""Telling an agent in a real pane, and the proof that it was told."""

from __future__ import annotations

import anyio
import pytest

from ackd.core.effects import RenewAgent
from ackd.core.events import (
    Absence,
    AgentDied,
    AgentReady,
    AgentStarted,
    AgentStuck,
    EndpointAway,
    NotTold,
    RunEnded,
    Seen,
    Told,
    WorkerSaid,
)
from ackd.core.ports import Inhabited
from tests.endpoints.tmux.fake_pane import ID, PATH, FakePane, ask, nudge, probe, tell
from tests.waiting import until

LINE = (
    f"ackd: message {ID} from leader of type task_assignment waits: read {PATH} then run: ackd ack {ID} "
    f"and when finished: ackd done {ID}"
)


@pytest.mark.parametrize("width", [40, 100, 500])
async def test_the_line_is_typed_and_proven_however_it_is_wrapped(fake_pane: FakePane, width: int) -> None:
    await fake_pane.agent(width=width)
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell(7, attempt=3))
    assert isinstance(told, Told)
    assert (told.key, told.attempt, told.seen) == (7, 3, False)
    assert told.proof in {"the line stands in its transcript", "the line left its input line"}
    assert fake_pane.submitted() == [LINE]
    assert fake_pane.given() == LINE.encode() + b"\r"


async def test_a_line_of_which_only_the_end_is_shown_is_proven_all_the_same(fake_pane: FakePane) -> None:
    await fake_pane.agent("--shown", "80")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert fake_pane.submitted() == [LINE]


async def test_an_agent_that_goes_to_work_has_seen_it(fake_pane: FakePane) -> None:
    await fake_pane.agent("--work-s", "60")
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell())
    assert told == Told(1, "the pane went busy", seen=True, attempt=1)


async def test_an_agent_that_goes_to_work_later_has_seen_it_then(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(told, Told)
        fake_pane.control("busy 60")
        seen = await fake_pane.hears(Seen)
    assert seen.key == 1
    assert "went busy" in seen.evidence
    assert len(fake_pane.heard(Seen)) == 1


async def test_it_is_an_inhabited_endpoint(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(endpoint, Inhabited)


# --- who cannot be told
@pytest.mark.parametrize(
    ("state", "why", "reason"),
    [
        ("busy", Absence.BUSY, "it is busy: * Working"),
        ("prompt", Absence.STUCK, "a permission prompt waits for a person: Allow this command? rm -rf build"),
        ("menu", Absence.STUCK, "a menu waits for a person: Choose a model"),
        ("strange", Absence.STUCK, "its screen is not understood: ~~~ a screen that nobody knows ~~~"),
    ],
)
async def test_nothing_is_typed_into_what_is_not_ready_and_ready_is_told_of(
    fake_pane: FakePane, state: str, why: Absence, reason: str
) -> None:
    await fake_pane.agent("--state", state)
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert away.why is why
        assert away.reason.startswith(reason)
        assert fake_pane.given() == b""
        fake_pane.control("ready")
        await fake_pane.hears(AgentReady)
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert fake_pane.answered() == []


async def test_no_pane_is_gone_and_its_coming_is_told_of(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.reason) == (Absence.GONE, "no pane titled 'worker'")
        await fake_pane.agent()
        started = await fake_pane.hears(AgentStarted)
        assert started.detail == f"pane {fake_pane.pane_id}"
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert fake_pane.heard(AgentDied) == []


async def test_what_an_agent_had_in_hand_fails_with_its_pane(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane.open("sleep 100", title="other")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(attempt=4)), Told)
        await fake_pane.tmux.kill(str(endpoint.finder.pane_id))
        died = await fake_pane.hears(AgentDied)
    (ended,) = fake_pane.heard(RunEnded)
    assert (ended.key, ended.attempt) == (1, 4)
    assert died.again_in_s is None
    assert fake_pane.events.index(ended) < fake_pane.events.index(died)


async def test_a_pane_is_known_again_by_its_mark_when_its_program_has_changed_the_title(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    fake_pane.control("title another name")
    await until(
        lambda: (
            fake_pane._run("display-message", "-p", "-t", fake_pane.pane_id, "#{pane_title}").strip() == "another name"
        )
    )
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(2)), Told)
    assert fake_pane.facts[-2][1]["by"] == "mark"


async def test_a_pane_of_another_agent_is_never_taken(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    await fake_pane.tmux.mark(fake_pane.pane_id, "evaluator")
    async with fake_pane.endpoint(target="0:0.0") as endpoint:
        away = await endpoint.tell(tell())
    assert isinstance(away, EndpointAway)
    assert away.why is Absence.GONE
    assert fake_pane.given() == b""


async def test_a_synchronized_pane_is_not_typed_into(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane._run("set-option", "-w", "-t", fake_pane.pane_id, "synchronize-panes", "on")
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
    assert isinstance(away, EndpointAway)
    assert "synchronized" in away.reason
    assert fake_pane.given() == b""


async def test_no_tmux_is_gone(fake_pane: FakePane) -> None:
    fake_pane.tmux.program = "no-such-tmux"
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
    assert isinstance(away, EndpointAway)
    assert (away.why, "no-such-tmux" in away.reason) == (Absence.GONE, True)


# --- someone else's words
async def test_a_persons_own_words_are_neither_submitted_nor_lost(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane.control("write my half sentence")
    await fake_pane.shows("> my half sentence")
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.reason) == (Absence.TAKEN, "someone's own words stand on its input line")
        text = await fake_pane.shows("> my half sentence")
    assert "ackd:" not in text
    assert fake_pane.submitted() == []


async def test_a_line_of_ours_that_stands_there_already_is_not_typed_again(fake_pane: FakePane) -> None:
    """A crash between the text and Enter leaves such a line."""
    await fake_pane.agent()
    await fake_pane.agent_line(LINE)
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert fake_pane.submitted() == [LINE]


# --- asking, watching, renewing
async def test_a_status_check_is_typed_only_to_who_is_ready(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        text = "Status check: are you still working on T-1?"
        assert isinstance(await endpoint.probe(probe(text)), Told)
        assert fake_pane.submitted() == [f"ackd: {text}"]
        fake_pane.control("busy")
        await fake_pane.shows("Working")
        assert isinstance(await endpoint.probe(probe(text)), NotTold)
    assert len(fake_pane.submitted()) == 1


async def test_a_busy_agent_is_asked_for_its_checkpoint_once_it_is_ready(fake_pane: FakePane) -> None:
    await fake_pane.agent("--work-s", "60")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        assert isinstance(await endpoint.ask_checkpoint(ask()), NotTold)
        fake_pane.control("ready")
        await until(lambda: len(fake_pane.submitted()) == 2)
    assert fake_pane.submitted()[1].endswith(f"run: ackd checkpoint {ID}")


async def test_a_pane_that_changes_is_a_sign_of_life_and_our_own_keys_are_none(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        await fake_pane.looks(3, endpoint)
        assert endpoint.pulse() is None
        fake_pane.control("say something new")
        await until(lambda: endpoint.pulse() == "its pane changed")
        await fake_pane.looks(3, endpoint)
        assert endpoint.pulse() is None


async def test_what_changes_beside_a_prompt_is_no_sign_of_life(fake_pane: FakePane) -> None:
    await fake_pane.agent("--state", "prompt")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        endpoint.pulse()
        for number in range(3):
            fake_pane.control(f"say tick {number}")
            await fake_pane.shows(f"tick {number}")
            await fake_pane.looks(1, endpoint)
        assert endpoint.pulse() is None


async def test_context_usage_is_read_from_the_screen_and_said_once(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
        fake_pane.control("context 25")
        said = await fake_pane.hears(WorkerSaid)
        assert (said.agent, said.key, said.context_usage) == ("worker", None, 0.75)
        await fake_pane.looks(3, endpoint)
    assert len(fake_pane.heard(WorkerSaid)) == 1


async def test_a_cleared_context_that_fills_up_to_the_same_again_is_said_again(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control("context 25")
        await fake_pane.hears(WorkerSaid)
        await endpoint.renew(RenewAgent("worker", "context"))
        await fake_pane.looks(1, endpoint)
        fake_pane.control("context 25")
        await until(lambda: len(fake_pane.heard(WorkerSaid)) == 2)


async def test_a_prompt_that_comes_up_at_work_is_told_of_once_and_its_end_as_well(fake_pane: FakePane) -> None:
    await fake_pane.agent("--work-s", "60")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control("prompt")
        stuck = await fake_pane.hears(AgentStuck)
        assert stuck.reason == "a permission prompt waits for a person: Allow this command? rm -rf build"
        await fake_pane.looks(5, endpoint)
        assert len(fake_pane.heard(AgentStuck)) == 1
        fake_pane.control("busy")
        ready = await fake_pane.hears(AgentReady)
        assert ready.evidence == "it works again"
    assert fake_pane.answered() == []


async def test_to_renew_is_to_reset_and_wait(fake_pane: FakePane) -> None:
    await fake_pane.agent("--work-s", "0.5")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        await endpoint.renew(RenewAgent("worker", "context"))
        assert fake_pane.log()[-1] == {"cleared": "yes"}
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)


async def test_to_renew_never_answers_a_prompt(fake_pane: FakePane) -> None:
    await fake_pane.agent("--state", "prompt")
    async with fake_pane.endpoint(renew_patience_s=0.2) as endpoint:
        await endpoint.renew(RenewAgent("worker", "context"))
        fake_pane.control("ready")
        await fake_pane.hears(AgentReady)
    assert fake_pane.answered() == []


async def test_nothing_is_watched_without_a_reason(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        assert endpoint._watch._scope is not None
        endpoint.let_go(1)
        await until(lambda: endpoint._watch._scope is None)


async def test_two_agents_of_one_pane_take_turns(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as one, anyio.create_task_group() as group:
        for key in range(1, 4):
            group.start_soon(one.tell, tell(key))
    assert fake_pane.submitted() == [LINE] * 3


async def test_a_stopped_endpoint_tells_nothing_and_leaves_the_pane(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        await endpoint.stop(0)
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        assert isinstance(await endpoint.nudge(nudge(1)), NotTold | Told)
    assert (await fake_pane.tmux.look(fake_pane.pane_id)).pane.dead is False
