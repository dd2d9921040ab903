"""Telling an agent in a real pane, and what is proven of it."""

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
from ackd.ports import Inhabited
from tests.runtime.terminals.stage import ID, PATH, Stage, ask, nudge, probe, tell
from tests.waiting import until

LINE = (
    f"ackd: message {ID} from leader of type task_assignment waits: read {PATH} then run: ackd ack {ID} "
    f"and when finished: ackd done {ID}"
)


@pytest.mark.parametrize("width", [40, 100, 500])
async def test_the_line_is_typed_and_proven_however_it_is_wrapped(stage: Stage, width: int) -> None:
    await stage.agent(width=width)
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell(7, attempt=3))
    assert isinstance(told, Told)
    assert (told.key, told.attempt, told.seen) == (7, 3, False)
    assert told.proof in {"the line stands in its transcript", "the line left its input line"}
    assert stage.submitted() == [LINE]
    assert stage.given() == LINE.encode() + b"\r"


async def test_a_line_of_which_only_the_end_is_shown_is_proven_all_the_same(stage: Stage) -> None:
    await stage.agent("--shown", "80")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert stage.submitted() == [LINE]


async def test_an_agent_that_goes_to_work_has_seen_it(stage: Stage) -> None:
    await stage.agent("--work-s", "60")
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell())
    assert told == Told(1, "the pane went busy", seen=True, attempt=1)


async def test_an_agent_that_goes_to_work_later_has_seen_it_then(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(told, Told)
        stage.control("busy 60")
        seen = await stage.hears(Seen)
    assert seen.key == 1
    assert "went busy" in seen.evidence
    assert len(stage.heard(Seen)) == 1


async def test_it_is_an_inhabited_endpoint(stage: Stage) -> None:
    async with stage.endpoint() as endpoint:
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
    stage: Stage, state: str, why: Absence, reason: str
) -> None:
    await stage.agent("--state", state)
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert away.why is why
        assert away.reason.startswith(reason)
        assert stage.given() == b""
        stage.control("ready")
        await stage.hears(AgentReady)
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert stage.answered() == []


async def test_no_pane_is_gone_and_its_coming_is_told_of(stage: Stage) -> None:
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.reason) == (Absence.GONE, "no pane titled 'worker'")
        await stage.agent()
        started = await stage.hears(AgentStarted)
        assert started.detail == f"pane {stage.pane_id}"
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert stage.heard(AgentDied) == []


async def test_what_an_agent_had_in_hand_fails_with_its_pane(stage: Stage) -> None:
    await stage.agent()
    stage.open("sleep 100", title="other")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(attempt=4)), Told)
        await stage.tmux.kill(str(endpoint.eye.pane_id))
        died = await stage.hears(AgentDied)
    (ended,) = stage.heard(RunEnded)
    assert (ended.key, ended.attempt) == (1, 4)
    assert died.again_in_s is None
    assert stage.events.index(ended) < stage.events.index(died)


async def test_a_pane_is_known_again_by_its_mark_when_its_program_has_changed_the_title(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    stage.control("title another name")
    await until(
        lambda: stage._run("display-message", "-p", "-t", stage.pane_id, "#{pane_title}").strip() == "another name"
    )
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(2)), Told)
    assert stage.facts[-2][1]["by"] == "mark"


async def test_a_pane_of_another_agent_is_never_taken(stage: Stage) -> None:
    await stage.agent()
    await stage.tmux.mark(stage.pane_id, "evaluator")
    async with stage.endpoint(target="0:0.0") as endpoint:
        away = await endpoint.tell(tell())
    assert isinstance(away, EndpointAway)
    assert away.why is Absence.GONE
    assert stage.given() == b""


async def test_a_synchronized_pane_is_not_typed_into(stage: Stage) -> None:
    await stage.agent()
    stage._run("set-option", "-w", "-t", stage.pane_id, "synchronize-panes", "on")
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
    assert isinstance(away, EndpointAway)
    assert "synchronized" in away.reason
    assert stage.given() == b""


async def test_no_tmux_is_gone(stage: Stage) -> None:
    stage.tmux.program = "no-such-tmux"
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
    assert isinstance(away, EndpointAway)
    assert (away.why, "no-such-tmux" in away.reason) == (Absence.GONE, True)


# --- someone else's words
async def test_a_persons_own_words_are_neither_submitted_nor_lost(stage: Stage) -> None:
    await stage.agent()
    stage.control("write my half sentence")
    await stage.shows("> my half sentence")
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.reason) == (Absence.TAKEN, "someone's own words stand on its input line")
        text = await stage.shows("> my half sentence")
    assert "ackd:" not in text
    assert stage.submitted() == []


async def test_a_line_of_ours_that_stands_there_already_is_not_typed_again(stage: Stage) -> None:
    """As a crash between text and Enter leaves it."""
    await stage.agent()
    await stage.agent_line(LINE)
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert stage.submitted() == [LINE]


# --- asking, watching, renewing
async def test_a_status_check_is_typed_only_to_who_is_ready(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        text = "Status check: are you still working on T-1?"
        assert isinstance(await endpoint.probe(probe(text)), Told)
        assert stage.submitted() == [f"ackd: {text}"]
        stage.control("busy")
        await stage.shows("Working")
        assert isinstance(await endpoint.probe(probe(text)), NotTold)
    assert len(stage.submitted()) == 1


async def test_a_busy_agent_is_asked_for_its_checkpoint_once_it_is_ready(stage: Stage) -> None:
    await stage.agent("--work-s", "60")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        assert isinstance(await endpoint.ask_checkpoint(ask()), NotTold)
        stage.control("ready")
        await until(lambda: len(stage.submitted()) == 2)
    assert stage.submitted()[1].endswith(f"run: ackd checkpoint {ID}")


async def test_a_pane_that_changes_is_a_sign_of_life_and_our_own_keys_are_none(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        await stage.looks(3, endpoint)
        assert endpoint.pulse() is None
        stage.control("say something new")
        await until(lambda: endpoint.pulse() == "its pane changed")
        await stage.looks(3, endpoint)
        assert endpoint.pulse() is None


async def test_what_changes_beside_a_prompt_is_no_sign_of_life(stage: Stage) -> None:
    await stage.agent("--state", "prompt")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        endpoint.pulse()
        for number in range(3):
            stage.control(f"say tick {number}")
            await stage.shows(f"tick {number}")
            await stage.looks(1, endpoint)
        assert endpoint.pulse() is None


async def test_context_usage_is_read_from_the_screen_and_said_once(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
        stage.control("context 25")
        said = await stage.hears(WorkerSaid)
        assert (said.agent, said.key, said.context_usage) == ("worker", None, 0.75)
        await stage.looks(3, endpoint)
    assert len(stage.heard(WorkerSaid)) == 1


async def test_a_cleared_context_that_fills_up_to_the_same_again_is_said_again(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control("context 25")
        await stage.hears(WorkerSaid)
        await endpoint.renew(RenewAgent("worker", "context"))
        await stage.looks(1, endpoint)
        stage.control("context 25")
        await until(lambda: len(stage.heard(WorkerSaid)) == 2)


async def test_a_prompt_that_comes_up_at_work_is_told_of_once_and_its_end_as_well(stage: Stage) -> None:
    await stage.agent("--work-s", "60")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control("prompt")
        stuck = await stage.hears(AgentStuck)
        assert stuck.reason == "a permission prompt waits for a person: Allow this command? rm -rf build"
        await stage.looks(5, endpoint)
        assert len(stage.heard(AgentStuck)) == 1
        stage.control("busy")
        ready = await stage.hears(AgentReady)
        assert ready.evidence == "it works again"
    assert stage.answered() == []


async def test_to_renew_is_to_reset_and_wait(stage: Stage) -> None:
    await stage.agent("--work-s", "0.5")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        await endpoint.renew(RenewAgent("worker", "context"))
        assert stage.log()[-1] == {"cleared": "yes"}
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)


async def test_to_renew_never_answers_a_prompt(stage: Stage) -> None:
    await stage.agent("--state", "prompt")
    async with stage.endpoint(renew_patience_s=0.2) as endpoint:
        await endpoint.renew(RenewAgent("worker", "context"))
        stage.control("ready")
        await stage.hears(AgentReady)
    assert stage.answered() == []


async def test_nothing_is_watched_without_a_reason(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        assert endpoint._watch._scope is not None
        endpoint.forget(1)
        await until(lambda: endpoint._watch._scope is None)


async def test_two_agents_of_one_pane_take_turns(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as one, anyio.create_task_group() as group:
        for key in range(1, 4):
            group.start_soon(one.tell, tell(key))
    assert stage.submitted() == [LINE] * 3


async def test_a_stopped_endpoint_tells_nothing_and_leaves_the_pane(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        await endpoint.stop(0)
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        assert isinstance(await endpoint.nudge(nudge(1)), NotTold | Told)
    assert (await stage.tmux.look(stage.pane_id)).pane.dead is False
