"""Failures that users of other systems met (FAILURES, "Terminals"): each is tested with a real pane."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ackd.core.effects import RenewAgent
from ackd.core.events import Absence, AgentReady, AgentStuck, EndpointAway, NotTold, RunEnded, Seen, Told
from tests.endpoints.tmux.fake_pane import ID, PATH, TABLE, FakePane, ask, nudge, probe, tell
from tests.waiting import until

if TYPE_CHECKING:
    from ackd.endpoints.tmux.endpoint import TerminalEndpoint

STATUS = "Status check: are you still working on T-1?"


async def everything(endpoint: TerminalEndpoint) -> list[object]:
    """Call every operation that types."""
    answers: list[object] = [await endpoint.tell(tell(9))]
    answers += [await endpoint.nudge(nudge(rung)) for rung in (1, 2, 3)]
    answers += [await endpoint.probe(probe(STATUS)), await endpoint.ask_checkpoint(ask())]
    await endpoint.renew(RenewAgent("worker", "context"))
    await endpoint.restart("by hand")
    return answers


# --- Text and Enter in one send-keys: Enter is swallowed [ensemble 0c017c6; multi-agent-shogun #92, #93; gascity #5192]
async def test_enter_that_comes_with_the_text_is_swallowed_and_ours_comes_apart(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane._run("send-keys", "-t", fake_pane.pane_id, "the others' way", "Enter")
    await until(lambda: fake_pane.given().endswith(b"\r"))
    assert fake_pane.submitted() == []
    fake_pane._run("send-keys", "-t", fake_pane.pane_id, "C-u")
    await fake_pane.shows(">\n")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert len(fake_pane.submitted()) == 1


async def test_enter_that_comes_too_soon_after_the_text_is_tried_again(fake_pane: FakePane) -> None:
    await fake_pane.agent("--paste-s", "1.5")
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell())
    assert isinstance(told, Told)
    assert fake_pane.given().count(b"\r") == 2
    assert len(fake_pane.submitted()) == 1


async def test_a_swallowed_enter_is_pressed_again_and_only_while_the_line_stands_there(fake_pane: FakePane) -> None:
    await fake_pane.agent("--swallow-enter", "1")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert fake_pane.given().count(b"\r") == 2
    assert fake_pane.facts[-1][1]["keys"] == ["Enter", "Enter"]


async def test_a_line_that_cannot_be_submitted_is_not_told_and_does_not_stay_behind(fake_pane: FakePane) -> None:
    await fake_pane.agent("--swallow-enter", "99")
    async with fake_pane.endpoint() as endpoint:
        answer = await endpoint.tell(tell())
    assert answer == NotTold(1, "the line still stood on its input line after Enter, Enter, CR", attempt=1)
    assert fake_pane.submitted() == []
    assert fake_pane.given().count(b"\r") == 3
    await fake_pane.shows(">\n")


# --- Named Enter does not submit on one CLI, literal CR does; the reverse on another [gastown #4666; oh-my-claudecode #3564]
@pytest.mark.parametrize(("takes", "tries"), [("lf", ["Enter", "LF"]), ("cr", ["LF", "CR"]), ("cr", ["LF", "Enter"])])
async def test_what_submits_is_data_of_the_profile(fake_pane: FakePane, takes: str, tries: list[str]) -> None:
    await fake_pane.agent("--submit", takes)
    async with fake_pane.endpoint({"submit": {**TABLE["submit"], "tries": tries}}) as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert len(fake_pane.submitted()) == 1


async def test_no_paste_buffer_and_no_bracketed_paste_is_used(fake_pane: FakePane) -> None:
    """tmux 3.7 changes how it pastes, which does not affect us."""
    await fake_pane.agent("--bracketed")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert b"\x1b" not in fake_pane.given()
    assert fake_pane._run("list-buffers") == ""


# --- Escape Escape after multi-line input breaks literal send-keys until /clear [claude-code #31739]
async def test_an_agent_that_escape_made_deaf_is_reset_and_told_all_it_must_know(fake_pane: FakePane) -> None:
    await fake_pane.agent("--escape-quirk", "--state", "busy", "--hangs", "1")
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.nudge(nudge(2, hung=True))
    assert isinstance(told, Told)
    (line,) = fake_pane.submitted()
    assert line.startswith("ackd: you are agent worker of a team, your context was cleared and message")
    assert {"cleared": "yes"} in fake_pane.log()


# --- A nudge typed into a menu or a permission prompt, answering it [gascity #2892]
@pytest.mark.parametrize("state", ["prompt", "menu"])
async def test_nothing_whatever_is_typed_into_a_prompt_or_a_menu(fake_pane: FakePane, state: str) -> None:
    await fake_pane.agent("--state", state)
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
    assert all(isinstance(answer, NotTold | EndpointAway) for answer in answers)
    assert fake_pane.given() == b""


async def test_a_prompt_that_opens_as_we_type_is_not_answered_by_enter(fake_pane: FakePane) -> None:
    await fake_pane.agent("--on-text", "prompt")
    async with fake_pane.endpoint() as endpoint:
        answer = await endpoint.tell(tell())
    assert isinstance(answer, NotTold)
    assert b"\r" not in fake_pane.given()
    assert fake_pane.answered() == []


async def test_nothing_is_typed_blindly_into_a_screen_that_is_not_understood(fake_pane: FakePane) -> None:
    await fake_pane.agent("--state", "strange")
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
    assert all("its screen is not understood" in str(answer) for answer in answers)
    assert fake_pane.given() == b""


async def test_a_screen_that_stays_strange_at_work_is_told_of(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control("strange")
        stuck = await fake_pane.hears(AgentStuck)
    assert "its screen is not understood" in stuck.reason


# --- aborts a running tool [gastown #2362]; Notifier interrupts a working agent [agent-deck #387]
async def test_a_working_agent_is_not_disturbed_below_rung_2(fake_pane: FakePane) -> None:
    await fake_pane.agent("--state", "busy")
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert away.why is Absence.BUSY
        assert isinstance(await endpoint.nudge(nudge(1)), NotTold)
        assert isinstance(await endpoint.probe(probe(STATUS)), NotTold)
        assert isinstance(await endpoint.ask_checkpoint(ask()), NotTold)
        assert fake_pane.given() == b""
    assert fake_pane.heard(Seen)[0].evidence.startswith("it is busy")


async def test_an_agent_that_goes_to_work_as_we_type_is_left_to_it(fake_pane: FakePane) -> None:
    """Enter would steer or abort the work that it has just begun."""
    await fake_pane.agent("--on-text", "busy")
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.reason) == (Absence.BUSY, "it went to work as we typed")
        await fake_pane.shows(">\n")
    assert b"\r" not in fake_pane.given()


# --- "Busy" seen where idle: no nudge for 12 min [shogun #28]; busy target never attempted [gascity #5317]
async def test_words_about_being_busy_further_up_do_not_make_an_idle_agent_busy(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    for _ in range(11):
        fake_pane.control("say * Working (3s esc to interrupt)")
    for number in range(11):
        fake_pane.control(f"say line {number}")
    await fake_pane.shows("line 10")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)


async def test_a_busy_agent_is_told_as_soon_as_it_is_ready(fake_pane: FakePane) -> None:
    await fake_pane.agent("--state", "busy")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        fake_pane.control("ready")
        await fake_pane.hears(AgentReady)
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert len(fake_pane.heard(AgentReady)) == 1


# --- 243 repeats of one nudge; a doorbell that floods the agent's queue [munder-difflin #358; agent-message-queue #426]
async def test_243_repeats_of_one_nudge_are_one_nudge(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        answers = [await endpoint.nudge(nudge(1)) for _ in range(243)]
    assert [isinstance(answer, Told) for answer in answers] == [True] + [False] * 242
    assert len(fake_pane.submitted()) == 1


async def test_each_rung_is_climbed_once_and_never_down_again(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        answers = [isinstance(await endpoint.nudge(nudge(rung)), Told) for rung in (1, 2, 2, 1, 3, 3)]
        assert answers == [True, True, False, False, True, False]
        assert isinstance(await endpoint.nudge(nudge(1, attempt=2)), Told)  # told again, another ladder
        assert isinstance(await endpoint.nudge(nudge(0)), Told)  # a person's own wish
        assert isinstance(await endpoint.nudge(nudge(0)), Told)


async def test_a_rung_without_a_key_is_climbed_when_a_key_may_be_pressed(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane.control("write half")
    await fake_pane.shows("> half")
    async with fake_pane.endpoint() as endpoint:
        assert not [rung for rung in (1, 2, 3) if isinstance(await endpoint.nudge(nudge(rung)), Told)]
        assert fake_pane.given() == b""
        await fake_pane.tmux.press(fake_pane.pane_id, "C-u")
        await fake_pane.shows(">\n")
        answers = [isinstance(await endpoint.nudge(nudge(rung)), Told) for rung in (1, 1, 2, 3)]
        assert answers == [True, False, True, True]


# --- Heartbeats that spend agent turns: 221 million tokens in a day [agent-deck #2348]
async def test_watching_costs_an_agent_not_one_key(fake_pane: FakePane) -> None:
    await fake_pane.agent("--work-s", "60", "--spinner")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        before = fake_pane.given()
        fake_pane.control("say agent: half of it is done")  # for a spinner is no sign of life
        await until(lambda: endpoint.pulse() is not None)
        for _ in range(50):
            endpoint.pulse()
            await endpoint._watch.look_once()
    assert fake_pane.given() == before


# --- Permission-prompt and usage-limit stalls never escalated [gastown #1378; gascity #534]
async def test_a_usage_limit_is_told_of_with_its_end(fake_pane: FakePane) -> None:
    then = (datetime.now(UTC) + timedelta(hours=2)).replace(second=0, microsecond=0)
    await fake_pane.agent("--state", f"limit {then:%H:%M} UTC")
    async with fake_pane.endpoint() as endpoint:
        away = await endpoint.tell(tell())
        assert isinstance(away, EndpointAway)
        assert (away.why, away.until) == (Absence.STUCK, then.timestamp())
        assert away.reason.startswith("a usage limit: Usage limit reached")
        assert fake_pane.given() == b""
        fake_pane.control("ready")
        await fake_pane.hears(AgentReady)


async def test_a_limit_that_is_over_keeps_nobody_waiting_though_its_words_stand_there(fake_pane: FakePane) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    await fake_pane.agent("--state", f"limit {past:%H:%M} UTC")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)


@pytest.mark.parametrize("state", ["prompt", "menu"])
async def test_a_stall_at_work_is_told_of_once(fake_pane: FakePane, state: str) -> None:
    await fake_pane.agent("--work-s", "60")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control(state)
        await fake_pane.hears(AgentStuck)
        await fake_pane.looks(5, endpoint)
    assert len(fake_pane.heard(AgentStuck)) == 1


# --- gone back to its shell
async def test_an_agent_that_went_back_to_its_shell_is_gone_and_the_shell_is_given_nothing(fake_pane: FakePane) -> None:
    await fake_pane.agent(shell=True)
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        fake_pane.control("quit")
        ended = await fake_pane.hears(RunEnded)
        assert "a shell is there: me@host:~$" in ended.detail
        away = await endpoint.tell(tell(attempt=2))
        assert isinstance(away, EndpointAway)
        assert away.why is Absence.GONE
        await everything(endpoint)
        text = (await fake_pane.tmux.look(fake_pane.pane_id)).text
    assert text.strip() == "me@host:~$"


# --- the rungs that do disturb
async def test_rung_2_wakes_an_agent_that_hangs_at_work(fake_pane: FakePane) -> None:
    await fake_pane.agent("--state", "busy", "--hangs", "1")
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.nudge(nudge(2, hung=True))
    assert isinstance(told, Told)
    assert {"interrupted": "C-c"} in fake_pane.log()
    assert fake_pane.submitted()[0].startswith(f"ackd: message {ID}")
    assert fake_pane.facts[-1][1]["keys"] == ["Escape", "Escape", "C-c", "Enter"]


async def test_rung_2_presses_no_key_that_is_not_needed(fake_pane: FakePane) -> None:
    """On an idle codex Escape Escape opens its history, and C-c ends it."""
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2)), Told)
        assert b"\x1b" not in fake_pane.given()
        fake_pane.control("busy")
        await fake_pane.shows("Working")
        assert isinstance(await endpoint.nudge(nudge(2, key=2, hung=True)), Told)
    assert fake_pane.given().count(b"\x1b") == 1
    assert b"\x03" not in fake_pane.given()


async def test_an_agent_that_no_interrupt_wakes_is_not_interrupted_twice_on_one_rung(fake_pane: FakePane) -> None:
    """A second C-c ends most of them."""
    await fake_pane.agent("--state", "busy", "--hangs", "9")
    async with fake_pane.endpoint(ready_again_s=0.3) as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2, hung=True)), NotTold)
    assert fake_pane.given() == b"\x1b\x1b\x03"


async def test_rung_3_clears_and_says_all_that_one_who_knows_nothing_must_know(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(3)), Told)
    (line,) = fake_pane.submitted()
    assert all(word in line for word in ("you are agent worker", ID, str(PATH), f"ackd done {ID}"))
    assert {"cleared": "yes"} in fake_pane.log()
    assert fake_pane.facts[-1][1]["why"] == "nudge 3"


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
async def test_hostile_ids_names_types_and_tasks_are_left_out(fake_pane: FakePane, words: str) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell(message_id=words, sender=words, type_=words)), Told)
        check = f"Status check: are you still working on {words}?"
        assert isinstance(await endpoint.probe(probe(check)), Told)
    given = fake_pane.given()
    assert words.encode() not in given
    assert given.replace(b"\r", b"").decode("ascii").isprintable()
