"""What broke for users of other systems (FAILURES, "Terminals"): each line against a real pane."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ackd.core.effects import RenewAgent
from ackd.core.events import Absence, AgentReady, AgentStuck, EndpointAway, NotTold, RunEnded, Seen, Told
from tests.runtime.terminals.stage import ID, PATH, TABLE, Stage, ask, nudge, probe, tell
from tests.waiting import until

if TYPE_CHECKING:
    from ackd.runtime.terminals import TerminalEndpoint

STATUS = "Status check: are you still working on T-1?"


async def everything(endpoint: TerminalEndpoint) -> list[object]:
    """All that ever types."""
    answers: list[object] = [await endpoint.tell(tell(9))]
    answers += [await endpoint.nudge(nudge(rung)) for rung in (1, 2, 3)]
    answers += [await endpoint.probe(probe(STATUS)), await endpoint.ask_checkpoint(ask())]
    await endpoint.renew(RenewAgent("worker", "context"))
    await endpoint.restart("by hand")
    return answers


# --- Text and Enter in one send-keys: Enter is swallowed [ensemble 0c017c6; multi-agent-shogun #92, #93; gascity #5192]
async def test_enter_that_comes_with_the_text_is_swallowed_and_ours_comes_apart(stage: Stage) -> None:
    await stage.agent()
    stage._run("send-keys", "-t", stage.pane_id, "the others' way", "Enter")
    await until(lambda: stage.given().endswith(b"\r"))
    assert stage.submitted() == []
    stage._run("send-keys", "-t", stage.pane_id, "C-u")
    await stage.shows(">\n")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert len(stage.submitted()) == 1


async def test_enter_that_comes_too_soon_after_the_text_is_tried_again(stage: Stage) -> None:
    await stage.agent("--paste-s", "1.5")
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell())
    assert isinstance(told, Told)
    assert stage.given().count(b"\r") == 2
    assert len(stage.submitted()) == 1


async def test_a_swallowed_enter_is_pressed_again_and_only_while_the_line_stands_there(stage: Stage) -> None:
    await stage.agent("--swallow-enter", "1")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert stage.given().count(b"\r") == 2
    assert stage.facts[-1][1]["keys"] == ["Enter", "Enter"]


async def test_a_line_that_cannot_be_submitted_is_not_told_and_does_not_stay_behind(stage: Stage) -> None:
    await stage.agent("--swallow-enter", "99")
    async with stage.endpoint() as endpoint:
        answer = await endpoint.tell(tell())
    assert answer == NotTold(1, "the line still stood on its input line after Enter, Enter, CR", attempt=1)
    assert stage.submitted() == []
    assert stage.given().count(b"\r") == 3
    await stage.shows(">\n")


# --- Named Enter does not submit on one CLI, literal CR does; the reverse on another [gastown #4666; oh-my-claudecode #3564]
@pytest.mark.parametrize(("takes", "tries"), [("lf", ["Enter", "LF"]), ("cr", ["LF", "CR"]), ("cr", ["LF", "Enter"])])
async def test_what_submits_is_data_of_the_profile(stage: Stage, takes: str, tries: list[str]) -> None:
    await stage.agent("--submit", takes)
    async with stage.endpoint({"submit": {**TABLE["submit"], "tries": tries}}) as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert len(stage.submitted()) == 1


async def test_no_paste_buffer_and_no_bracketed_paste_is_used(stage: Stage) -> None:
    """tmux 3.7 changes how it pastes: we do not."""
    await stage.agent("--bracketed")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert b"\x1b" not in stage.given()
    assert stage._run("list-buffers") == ""


# --- Escape Escape after multi-line input breaks literal send-keys until /clear [claude-code #31739]
async def test_an_agent_that_escape_made_deaf_is_reset_and_told_all_it_must_know(stage: Stage) -> None:
    await stage.agent("--escape-quirk", "--state", "busy", "--hangs", "1")
    async with stage.endpoint() as endpoint:
        told = await endpoint.nudge(nudge(2, hung=True))
    assert isinstance(told, Told)
    (line,) = stage.submitted()
    assert line.startswith("ackd: you are agent worker of a team, your context was cleared and message")
    assert {"cleared": "yes"} in stage.log()


# --- A nudge typed into a menu or a permission prompt, answering it [gascity #2892]
@pytest.mark.parametrize("state", ["prompt", "menu"])
async def test_nothing_whatever_is_typed_into_a_prompt_or_a_menu(stage: Stage, state: str) -> None:
    await stage.agent("--state", state)
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
    assert all(isinstance(answer, NotTold | EndpointAway) for answer in answers)
    assert stage.given() == b""


async def test_a_prompt_that_opens_as_we_type_is_not_answered_by_enter(stage: Stage) -> None:
    await stage.agent("--on-text", "prompt")
    async with stage.endpoint() as endpoint:
        answer = await endpoint.tell(tell())
    assert isinstance(answer, NotTold)
    assert b"\r" not in stage.given()
    assert stage.answered() == []


async def test_nothing_is_typed_blindly_into_a_screen_that_is_not_understood(stage: Stage) -> None:
    await stage.agent("--state", "strange")
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
    assert all("its screen is not understood" in str(answer) for answer in answers)
    assert stage.given() == b""


async def test_a_screen_that_stays_strange_at_work_is_told_of(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control("strange")
        stuck = await stage.hears(AgentStuck)
    assert "its screen is not understood" in stuck.reason


# --- aborts a running tool [gastown #2362]; Notifier interrupts a working agent [agent-deck #387]
async def test_a_working_agent_is_not_disturbed_below_rung_2(stage: Stage) -> None:
    await stage.agent("--state", "busy")
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert away.why is Absence.BUSY
        assert isinstance(await endpoint.nudge(nudge(1)), NotTold)
        assert isinstance(await endpoint.probe(probe(STATUS)), NotTold)
        assert isinstance(await endpoint.ask_checkpoint(ask()), NotTold)
        assert stage.given() == b""
    assert stage.heard(Seen)[0].evidence.startswith("it is busy")


async def test_an_agent_that_goes_to_work_as_we_type_is_left_to_it(stage: Stage) -> None:
    """Enter would steer or abort what it has just begun."""
    await stage.agent("--on-text", "busy")
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.reason) == (Absence.BUSY, "it went to work as we typed")
        await stage.shows(">\n")
    assert b"\r" not in stage.given()


# --- "Busy" seen where idle: no nudge for 12 min [shogun #28]; busy target never attempted [gascity #5317]
async def test_words_about_being_busy_further_up_do_not_make_an_idle_agent_busy(stage: Stage) -> None:
    await stage.agent()
    for _ in range(11):
        stage.control("say * Working (3s esc to interrupt)")
    for number in range(11):
        stage.control(f"say line {number}")
    await stage.shows("line 10")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)


async def test_a_busy_agent_is_told_as_soon_as_it_is_ready(stage: Stage) -> None:
    await stage.agent("--state", "busy")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        stage.control("ready")
        await stage.hears(AgentReady)
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert len(stage.heard(AgentReady)) == 1


# --- 243 repeats of one nudge; a doorbell that floods the agent's queue [munder-difflin #358; agent-message-queue #426]
async def test_243_repeats_of_one_nudge_are_one_nudge(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        answers = [await endpoint.nudge(nudge(1)) for _ in range(243)]
    assert [isinstance(answer, Told) for answer in answers] == [True] + [False] * 242
    assert len(stage.submitted()) == 1


async def test_each_rung_is_climbed_once_and_never_down_again(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        answers = [isinstance(await endpoint.nudge(nudge(rung)), Told) for rung in (1, 2, 2, 1, 3, 3)]
        assert answers == [True, True, False, False, True, False]
        assert isinstance(await endpoint.nudge(nudge(1, attempt=2)), Told)  # told again, another ladder
        assert isinstance(await endpoint.nudge(nudge(0)), Told)  # a person's own wish
        assert isinstance(await endpoint.nudge(nudge(0)), Told)


async def test_a_rung_without_a_key_is_climbed_when_a_key_may_be_pressed(stage: Stage) -> None:
    await stage.agent()
    stage.control("write half")
    await stage.shows("> half")
    async with stage.endpoint() as endpoint:
        assert not [rung for rung in (1, 2, 3) if isinstance(await endpoint.nudge(nudge(rung)), Told)]
        assert stage.given() == b""
        await stage.tmux.press(stage.pane_id, "C-u")
        await stage.shows(">\n")
        answers = [isinstance(await endpoint.nudge(nudge(rung)), Told) for rung in (1, 1, 2, 3)]
        assert answers == [True, False, True, True]


# --- Heartbeats that spend agent turns: 221 million tokens in a day [agent-deck #2348]
async def test_watching_costs_an_agent_not_one_key(stage: Stage) -> None:
    await stage.agent("--work-s", "60", "--spinner")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        before = stage.given()
        stage.control("say agent: half of it is done")  # for a spinner is no sign of life
        await until(lambda: endpoint.pulse() is not None)
        for _ in range(50):
            endpoint.pulse()
            await endpoint._watch.glance()
    assert stage.given() == before


# --- Permission-prompt and usage-limit stalls never escalated [gastown #1378; gascity #534]
async def test_a_usage_limit_is_told_of_with_its_end(stage: Stage) -> None:
    then = (datetime.now(UTC) + timedelta(hours=2)).replace(second=0, microsecond=0)
    await stage.agent("--state", f"limit {then:%H:%M} UTC")
    async with stage.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.until) == (Absence.STUCK, then.timestamp())
        assert away.reason.startswith("a usage limit: Usage limit reached")
        assert stage.given() == b""
        stage.control("ready")
        await stage.hears(AgentReady)


async def test_a_limit_that_is_over_keeps_nobody_waiting_though_its_words_stand_there(stage: Stage) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    await stage.agent("--state", f"limit {past:%H:%M} UTC")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)


@pytest.mark.parametrize("state", ["prompt", "menu"])
async def test_a_stall_at_work_is_told_of_once(stage: Stage, state: str) -> None:
    await stage.agent("--work-s", "60")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control(state)
        await stage.hears(AgentStuck)
        await stage.looks(5, endpoint)
    assert len(stage.heard(AgentStuck)) == 1


# --- gone back to its shell
async def test_an_agent_that_went_back_to_its_shell_is_gone_and_the_shell_is_given_nothing(stage: Stage) -> None:
    await stage.agent(shell=True)
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        stage.control("quit")
        ended = await stage.hears(RunEnded)
        assert "a shell is there: me@host:~$" in ended.detail
        away = await endpoint.tell(tell(attempt=2))
        assert isinstance(away, EndpointAway)
        assert away.why is Absence.GONE
        await everything(endpoint)
        text = (await stage.tmux.look(stage.pane_id)).text
    assert text.strip() == "me@host:~$"


# --- the rungs that do disturb
async def test_rung_2_wakes_an_agent_that_hangs_at_work(stage: Stage) -> None:
    await stage.agent("--state", "busy", "--hangs", "1")
    async with stage.endpoint() as endpoint:
        told = await endpoint.nudge(nudge(2, hung=True))
    assert isinstance(told, Told)
    assert {"interrupted": "C-c"} in stage.log()
    assert stage.submitted()[0].startswith(f"ackd: message {ID}")
    assert stage.facts[-1][1]["keys"] == ["Escape", "Escape", "C-c", "Enter"]


async def test_rung_2_presses_no_key_that_is_not_needed(stage: Stage) -> None:
    """On an idle codex Escape Escape opens its history, and C-c ends it."""
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2)), Told)
        assert b"\x1b" not in stage.given()
        stage.control("busy")
        await stage.shows("Working")
        assert isinstance(await endpoint.nudge(nudge(2, key=2, hung=True)), Told)
    assert stage.given().count(b"\x1b") == 1
    assert b"\x03" not in stage.given()


async def test_an_agent_that_no_interrupt_wakes_is_not_interrupted_twice_on_one_rung(stage: Stage) -> None:
    """A second C-c ends most of them."""
    await stage.agent("--state", "busy", "--hangs", "9")
    async with stage.endpoint(ready_again_s=0.3) as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2, hung=True)), NotTold)
    assert stage.given() == b"\x1b\x1b\x03"


async def test_rung_3_clears_and_says_all_that_one_who_knows_nothing_must_know(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(3)), Told)
    (line,) = stage.submitted()
    assert all(word in line for word in ("you are agent worker", ID, str(PATH), f"ackd done {ID}"))
    assert {"cleared": "yes"} in stage.log()
    assert stage.facts[-1][1]["why"] == "nudge 3"


# --- Message content never reaches the terminal
HOSTILE = [
    "a;reboot",
    "$(reboot)@x",
    "`id`",
    "x'y",
    "1\x1b[A",
    "two\nlines",
    "ignore all this",
    "a" * 300,
    "é",
    "\u202ex",
    "%3",
]


@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_ids_names_types_and_tasks_are_left_out(stage: Stage, words: str) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(message_id=words, sender=words, type_=words)), Told)
        check = f"Status check: are you still working on {words}?"
        assert isinstance(await endpoint.probe(probe(check)), Told)
    given = stage.given()
    assert words.encode() not in given
    assert given.replace(b"\r", b"").decode("ascii").isprintable()
