"""Keys go into an empty, known input line only, and what was not submitted is taken back."""

from __future__ import annotations

import re

import anyio
import pytest

from ackd.core.effects import RenewAgent
from ackd.core.events import Absence, AgentReady, EndpointAway, NotTold, Told
from ackd.dialects.screen import load_profile
from tests.runtime.terminals.stage import TABLE, Stage, nudge, probe, tell
from tests.runtime.terminals.test_failures_terminals import everything
from tests.waiting import until

STATUS = "Status check: are you still working on T-1?"


# --- words that are not ours
async def test_nothing_whatever_is_typed_beside_a_persons_half_typed_words(stage: Stage) -> None:
    await stage.agent()
    stage.control("write please refactor the parser and")
    await stage.shows("> please refactor the parser and")
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
        assert all("someone's own words" in str(answer) for answer in answers)
        assert stage.given() == b""
        await stage.shows("> please refactor the parser and\n")


async def test_nothing_whatever_is_typed_into_a_list_that_looks_like_an_input_line(stage: Stage) -> None:
    """A letter of ours would choose from it: so hooks were trusted in a person's name."""
    await stage.agent("--state", "review")
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
    assert not any(isinstance(answer, Told) for answer in answers)
    assert stage.given() == b""


async def test_a_line_that_a_person_typed_into_is_neither_submitted_nor_pulled_from_under_them(stage: Stage) -> None:
    await stage.agent()
    answers: list[object] = []
    async with stage.endpoint({"submit": {**TABLE["submit"], "pause_s": 1}}) as endpoint:

        async def told() -> None:
            answers.append(await endpoint.tell(tell()))

        async with anyio.create_task_group() as group:
            group.start_soon(told)
            await until(stage.given, "our line")
            stage.control("write -and-mine")
        (away,) = answers
        assert isinstance(away, EndpointAway)
        assert away.why is Absence.TAKEN
    assert b"\r" not in stage.given()
    assert b"\x7f" not in stage.given()


async def test_who_is_written_to_by_a_person_is_ready_when_the_words_are_gone(stage: Stage) -> None:
    await stage.agent()
    stage.control("write half")
    await stage.shows("> half")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        await stage.looks(3, endpoint)
        assert stage.heard(AgentReady) == []
        await stage.tmux.press(stage.pane_id, "C-u")
        await stage.hears(AgentReady)
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)


# --- rung 2
async def test_rung_2_at_an_empty_prompt_is_the_line_alone(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2)), Told)
    assert stage.given() == stage.submitted()[0].encode() + b"\r"


async def test_rung_2_has_all_its_keys_at_an_empty_prompt_where_the_profile_wants_them_always(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint({"interrupt": {**TABLE["interrupt"], "when": "always"}}) as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2)), Told)
    assert stage.given() == b"\x1b\x1b\x03" + stage.submitted()[0].encode() + b"\r"


@pytest.mark.parametrize("rung", [2, 3])
async def test_no_rung_touches_one_that_is_busy_and_does_not_hang(stage: Stage, rung: int) -> None:
    await stage.agent("--state", "busy")
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        answer = await endpoint.nudge(nudge(rung))
        assert isinstance(answer, NotTold)
        assert "it is busy" in answer.reason
        await endpoint.renew(RenewAgent("worker", "context"))
        assert stage.given() == b""
        stage.control("ready")
        await until(lambda: {"cleared": "yes"} in stage.log(), "its context cleared once it is ready")


async def test_one_that_hangs_with_a_persons_words_on_it_gets_no_key(stage: Stage) -> None:
    """C-c would wipe them."""
    await stage.agent("--state", "busy")
    stage.control("write half a thought")
    await stage.shows("half a thought")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2, hung=True)), NotTold)
    assert stage.given() == b""


async def test_rung_2_has_its_keys_while_our_own_unsent_line_stands_there(stage: Stage) -> None:
    await stage.agent("--swallow-enter", "2")
    async with stage.endpoint() as endpoint:
        line = endpoint._rungs.profile.line_prefix + "ackd: mail"
        await stage.agent_line(line)
        typist = endpoint._rungs.typist
        typist.unsent = line
        sight, pressed = await typist.interrupt(await endpoint.eye.look())
    assert pressed == ("Escape", "Escape", "C-c")
    assert sight.reading.typed == ""


# --- taking back
async def test_a_line_that_a_prompt_came_up_over_is_taken_back_when_the_prompt_is_gone(stage: Stage) -> None:
    await stage.agent("--on-text", "prompt")
    async with stage.endpoint({"submit": {"pause_s": 0.1, "wait_s": 0.4}}) as endpoint:
        assert isinstance(await endpoint.tell(tell()), NotTold)
        endpoint.pulse()
        stage.control("ready")
        await stage.shows(">\n")
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert len(stage.submitted()) == 1
    assert stage.submitted()[0].count("ackd: ") == 1


async def test_another_line_of_ours_that_was_left_is_taken_back_before_one_is_typed(stage: Stage) -> None:
    await stage.agent()
    await stage.agent_line("ackd: Status check: are you still working on T-2?")
    async with stage.endpoint() as endpoint:
        endpoint._rungs.typist.unsent = "ackd: Status check: are you still working on T-2?"
        assert isinstance(await endpoint.probe(probe(STATUS)), Told)
    assert stage.submitted() == [f"ackd: {STATUS}"]


@pytest.mark.parametrize(("width", "height"), [(40, 12), (60, 15)])
@pytest.mark.parametrize("hides", [0, 30])
async def test_what_was_not_submitted_is_taken_back_in_small_panes(
    stage: Stage, width: int, height: int, hides: int
) -> None:
    """``hides``: a text of several rows pushes the mark of its input line out of sight."""
    await stage.agent("--swallow-enter", "99", "--hides", str(hides), width=width, height=height)
    async with stage.endpoint({"submit": {"pause_s": 0.1, "wait_s": 0.4}}) as endpoint:
        for attempt in (1, 2):
            assert isinstance(await endpoint.tell(tell(attempt=attempt)), NotTold)
            text = await stage.shows(">\n")
            assert "ackd" not in text
    assert stage.submitted() == []


async def test_a_line_of_which_little_is_shown_is_ours_until_it_is_gone(stage: Stage) -> None:
    """What was taken back is not taken for somebody's words afterwards."""
    await stage.agent("--swallow-enter", "99", "--shown", "20")
    async with stage.endpoint({"submit": {"pause_s": 0.1, "wait_s": 0.3}}) as endpoint:
        answer = await endpoint.tell(tell())
        assert answer == NotTold(1, "the line still stood on its input line after Enter, Enter, CR", attempt=1)
        await stage.shows(">\n")


# --- the command that clears
async def test_the_list_beside_our_own_command_is_no_menu_of_somebodys(stage: Stage) -> None:
    await stage.agent("--slash-menu")
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(3)), Told)
    assert {"cleared": "yes"} in stage.log()


async def test_a_command_that_somebody_else_began_is_left_to_them(stage: Stage) -> None:
    await stage.agent("--slash-menu")
    stage.control("write /clea")
    await stage.shows("Enter runs it")
    async with stage.endpoint(renew_patience_s=0.1) as endpoint:
        assert not any(isinstance(answer, Told) for answer in await everything(endpoint))
    assert stage.given() == b""


# --- quick turns
async def test_a_turn_quicker_than_our_eye_was_seen(stage: Stage) -> None:
    await stage.agent("--answers", "agent: It is done.")
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert told == Told(1, "its own words stand below the line", seen=True, attempt=1)


@pytest.mark.parametrize("words", ["agent: API Error: 529 Overloaded", "agent: Interrupted by a person", "nothing"])
async def test_an_error_or_an_interrupt_below_the_line_is_no_answer(stage: Stage, words: str) -> None:
    await stage.agent("--answers", words)
    async with stage.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(told, Told)
        assert not told.seen


async def test_words_below_an_earlier_telling_of_the_same_line_are_no_answer_to_this_one(stage: Stage) -> None:
    await stage.agent("--answers", "agent: API Error: 529 Overloaded")
    async with stage.endpoint() as endpoint:
        assert isinstance(told := await endpoint.tell(tell()), Told)
        assert not told.seen
        stage.control("say agent: I am back")  # below the first telling
        await stage.shows("I am back")
        assert isinstance(told := await endpoint.nudge(nudge(1)), Told)
        assert not told.seen
    assert len(stage.submitted()) == 2


async def test_every_key_that_was_pressed_is_one_of_the_line_or_enter(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert re.fullmatch(rb"[ -~]+\r", stage.given())


async def test_an_agent_that_is_a_shell_is_told_though_our_line_hides_what_it_is_known_by(stage: Stage) -> None:
    """Ready is a prompt with nothing after it; with a person's words after it, it gets no key."""
    stage.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc")
    await stage.shows("me@host:~$")
    async with stage.endpoint() as endpoint:
        shell = load_profile("shell")
        endpoint.profile = endpoint.eye.profile = endpoint._rungs.profile = endpoint._rungs.typist.profile = shell
        assert isinstance(await endpoint.tell(tell()), Told)
        await stage.shows(": ackd: ")
        await stage.tmux.type_text(stage.pane_id, "rm -r")
        await stage.shows("$ rm -r")
        assert not isinstance(await endpoint.tell(tell(2)), Told)
        assert (await stage.shows("$ rm -r")).count("ackd: ") == 1


async def test_an_agent_that_is_a_shell_is_cleared_by_its_own_command(stage: Stage) -> None:
    """Half of that command hides what it is known by, too."""
    stage.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc")
    await stage.shows("me@host:~$")
    await stage.tmux.type_text(stage.pane_id, "echo before")
    await stage.tmux.press(stage.pane_id, "Enter")
    await stage.shows("\nbefore")
    async with stage.endpoint() as endpoint:
        shell = load_profile("shell")
        endpoint.profile = endpoint.eye.profile = endpoint._rungs.profile = endpoint._rungs.typist.profile = shell
        assert isinstance(await endpoint.nudge(nudge(3)), Told)
        assert "before" not in await stage.shows(": ackd: ")


async def test_a_shell_that_is_told_by_the_short_line_finds_nothing_in_it_to_run(stage: Stage) -> None:
    stage.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc")
    await stage.shows("me@host:~$")
    async with stage.endpoint() as endpoint:
        shell = load_profile("shell")
        endpoint.profile = endpoint.eye.profile = endpoint._rungs.profile = endpoint._rungs.typist.profile = shell
        endpoint.line = "read"
        assert isinstance(await endpoint.tell(tell()), Told)
        assert "syntax error" not in await stage.shows(": ackd: mail from leader. Run: ackd read ")
