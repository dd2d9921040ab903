"""Keys go into an empty, known input line only, and a line that was not submitted is taken back."""

from __future__ import annotations

import re

import anyio
import pytest

from ackd.core.effects import RenewAgent
from ackd.core.events import Absence, AgentReady, EndpointAway, NotTold, Told
from ackd.endpoints.tmux.screen import load_profile
from tests.endpoints.tmux.fake_pane import TABLE, FakePane, nudge, probe, tell
from tests.endpoints.tmux.test_failures_terminals import everything
from tests.waiting import until

STATUS = "Status check: are you still working on T-1?"


# --- words that are not ours
async def test_nothing_whatever_is_typed_beside_a_persons_half_typed_words(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane.control("write please refactor the parser and")
    await fake_pane.shows("> please refactor the parser and")
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
        assert all("someone's own words" in str(answer) for answer in answers)
        assert fake_pane.given() == b""
        await fake_pane.shows("> please refactor the parser and\n")


async def test_nothing_whatever_is_typed_into_a_list_that_looks_like_an_input_line(fake_pane: FakePane) -> None:
    """A letter of ours would choose from the list: in that way hooks were once trusted in a person's name."""
    await fake_pane.agent("--state", "review")
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        answers = await everything(endpoint)
    assert not any(isinstance(answer, Told) for answer in answers)
    assert fake_pane.given() == b""


async def test_a_line_that_a_person_typed_into_is_neither_submitted_nor_pulled_from_under_them(
    fake_pane: FakePane,
) -> None:
    await fake_pane.agent()
    answers: list[object] = []
    async with fake_pane.endpoint({"submit": {**TABLE["submit"], "pause_s": 1}}) as endpoint:

        async def told() -> None:
            answers.append(await endpoint.tell(tell()))

        async with anyio.create_task_group() as group:
            group.start_soon(told)
            await until(fake_pane.given, "our line")
            fake_pane.control("write -and-mine")
        (away,) = answers
        assert isinstance(away, EndpointAway)
        assert away.why is Absence.TAKEN
    assert b"\r" not in fake_pane.given()
    assert b"\x7f" not in fake_pane.given()


async def test_who_is_written_to_by_a_person_is_ready_when_the_words_are_gone(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    fake_pane.control("write half")
    await fake_pane.shows("> half")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), EndpointAway)
        await fake_pane.looks(3, endpoint)
        assert fake_pane.heard(AgentReady) == []
        await fake_pane.tmux.press(fake_pane.pane_id, "C-u")
        await fake_pane.hears(AgentReady)
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)


# --- rung 2
async def test_rung_2_at_an_empty_prompt_is_the_line_alone(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2)), Told)
    assert fake_pane.given() == fake_pane.submitted()[0].encode() + b"\r"


async def test_rung_2_has_all_its_keys_at_an_empty_prompt_where_the_profile_wants_them_always(
    fake_pane: FakePane,
) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint({"interrupt": {**TABLE["interrupt"], "when": "always"}}) as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2)), Told)
    assert fake_pane.given() == b"\x1b\x1b\x03" + fake_pane.submitted()[0].encode() + b"\r"


@pytest.mark.parametrize("rung", [2, 3])
async def test_no_rung_touches_one_that_is_busy_and_does_not_hang(fake_pane: FakePane, rung: int) -> None:
    await fake_pane.agent("--state", "busy")
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        answer = await endpoint.nudge(nudge(rung))
        assert isinstance(answer, NotTold)
        assert "it is busy" in answer.reason
        await endpoint.renew(RenewAgent("worker", "context"))
        assert fake_pane.given() == b""
        fake_pane.control("ready")
        await until(lambda: {"cleared": "yes"} in fake_pane.log(), "its context cleared once it is ready")


async def test_one_that_hangs_with_a_persons_words_on_it_gets_no_key(fake_pane: FakePane) -> None:
    """C-c would delete the person's words."""
    await fake_pane.agent("--state", "busy")
    fake_pane.control("write half a thought")
    await fake_pane.shows("half a thought")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(2, hung=True)), NotTold)
    assert fake_pane.given() == b""


async def test_rung_2_has_its_keys_while_our_own_unsent_line_stands_there(fake_pane: FakePane) -> None:
    await fake_pane.agent("--swallow-enter", "2")
    async with fake_pane.endpoint() as endpoint:
        line = endpoint._ladder.profile.line_prefix + "ackd: mail"
        await fake_pane.agent_line(line)
        typist = endpoint._ladder.typist
        typist.unsent = line
        view, pressed = await typist.interrupt(await endpoint.finder.look())
    assert pressed == ("Escape", "Escape", "C-c")
    assert view.reading.typed == ""


# --- taking back
async def test_a_line_that_a_prompt_came_up_over_is_taken_back_when_the_prompt_is_gone(fake_pane: FakePane) -> None:
    await fake_pane.agent("--on-text", "prompt")
    async with fake_pane.endpoint({"submit": {"pause_s": 0.1, "wait_s": 0.4}}) as endpoint:
        assert isinstance(await endpoint.tell(tell()), NotTold)
        endpoint.pulse()
        fake_pane.control("ready")
        await fake_pane.shows(">\n")
        assert isinstance(await endpoint.tell(tell(attempt=2)), Told)
    assert len(fake_pane.submitted()) == 1
    assert fake_pane.submitted()[0].count("ackd: ") == 1


async def test_another_line_of_ours_that_was_left_is_taken_back_before_one_is_typed(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    await fake_pane.agent_line("ackd: Status check: are you still working on T-2?")
    async with fake_pane.endpoint() as endpoint:
        endpoint._ladder.typist.unsent = "ackd: Status check: are you still working on T-2?"
        assert isinstance(await endpoint.probe(probe(STATUS)), Told)
    assert fake_pane.submitted() == [f"ackd: {STATUS}"]


@pytest.mark.parametrize(("width", "height"), [(40, 12), (60, 15)])
@pytest.mark.parametrize("hides", [0, 30])
async def test_what_was_not_submitted_is_taken_back_in_small_panes(
    fake_pane: FakePane, width: int, height: int, hides: int
) -> None:
    """``hides``: a text of several rows pushes the mark of its input line out of view."""
    await fake_pane.agent("--swallow-enter", "99", "--hides", str(hides), width=width, height=height)
    async with fake_pane.endpoint({"submit": {"pause_s": 0.1, "wait_s": 0.4}}) as endpoint:
        for attempt in (1, 2):
            assert isinstance(await endpoint.tell(tell(attempt=attempt)), NotTold)
            text = await fake_pane.shows(">\n")
            assert "ackd" not in text
    assert fake_pane.submitted() == []


async def test_a_line_of_which_little_is_shown_is_ours_until_it_is_gone(fake_pane: FakePane) -> None:
    """A line that was taken back is not taken for somebody's words afterwards."""
    await fake_pane.agent("--swallow-enter", "99", "--shown", "20")
    async with fake_pane.endpoint({"submit": {"pause_s": 0.1, "wait_s": 0.3}}) as endpoint:
        answer = await endpoint.tell(tell())
        assert answer == NotTold(1, "the line still stood on its input line after Enter, Enter, CR", attempt=1)
        await fake_pane.shows(">\n")


# --- the command that clears
async def test_the_list_beside_our_own_command_is_no_menu_of_somebodys(fake_pane: FakePane) -> None:
    await fake_pane.agent("--slash-menu")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.nudge(nudge(3)), Told)
    assert {"cleared": "yes"} in fake_pane.log()


async def test_a_command_that_somebody_else_began_is_left_to_them(fake_pane: FakePane) -> None:
    await fake_pane.agent("--slash-menu")
    fake_pane.control("write /clea")
    await fake_pane.shows("Enter runs it")
    async with fake_pane.endpoint(renew_patience_s=0.1) as endpoint:
        assert not any(isinstance(answer, Told) for answer in await everything(endpoint))
    assert fake_pane.given() == b""


# --- quick turns
async def test_a_turn_quicker_than_our_eye_was_seen(fake_pane: FakePane) -> None:
    await fake_pane.agent("--answers", "agent: It is done.")
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert told == Told(1, "its own words stand below the line", seen=True, attempt=1)


@pytest.mark.parametrize("words", ["agent: API Error: 529 Overloaded", "agent: Interrupted by a person", "nothing"])
async def test_an_error_or_an_interrupt_below_the_line_is_no_answer(fake_pane: FakePane, words: str) -> None:
    await fake_pane.agent("--answers", words)
    async with fake_pane.endpoint() as endpoint:
        told = await endpoint.tell(tell())
        assert isinstance(told, Told)
        assert not told.seen


async def test_words_below_an_earlier_telling_of_the_same_line_are_no_answer_to_this_one(fake_pane: FakePane) -> None:
    await fake_pane.agent("--answers", "agent: API Error: 529 Overloaded")
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(told := await endpoint.tell(tell()), Told)
        assert not told.seen
        fake_pane.control("say agent: I am back")  # below the first telling
        await fake_pane.shows("I am back")
        assert isinstance(told := await endpoint.nudge(nudge(1)), Told)
        assert not told.seen
    assert len(fake_pane.submitted()) == 2


async def test_every_key_that_was_pressed_is_one_of_the_line_or_enter(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
    assert re.fullmatch(rb"[ -~]+\r", fake_pane.given())


async def test_an_agent_that_is_a_shell_is_told_though_our_line_hides_what_it_is_known_by(fake_pane: FakePane) -> None:
    """A shell is ready if nothing stands after its prompt; if a person's words stand there, it gets no key."""
    fake_pane.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc")
    await fake_pane.shows("me@host:~$")
    async with fake_pane.endpoint() as endpoint:
        shell = load_profile("shell")
        endpoint.profile = endpoint.finder.profile = endpoint._ladder.profile = endpoint._ladder.typist.profile = shell
        assert isinstance(await endpoint.tell(tell()), Told)
        await fake_pane.shows(": ackd: ")
        await fake_pane.tmux.type_text(fake_pane.pane_id, "rm -r")
        await fake_pane.shows("$ rm -r")
        assert not isinstance(await endpoint.tell(tell(2)), Told)
        assert (await fake_pane.shows("$ rm -r")).count("ackd: ") == 1


async def test_an_agent_that_is_a_shell_is_cleared_by_its_own_command(fake_pane: FakePane) -> None:
    """Half of the command also hides the empty prompt by which a shell is recognised."""
    fake_pane.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc")
    await fake_pane.shows("me@host:~$")
    await fake_pane.tmux.type_text(fake_pane.pane_id, "echo before")
    await fake_pane.tmux.press(fake_pane.pane_id, "Enter")
    await fake_pane.shows("\nbefore")
    async with fake_pane.endpoint() as endpoint:
        shell = load_profile("shell")
        endpoint.profile = endpoint.finder.profile = endpoint._ladder.profile = endpoint._ladder.typist.profile = shell
        assert isinstance(await endpoint.nudge(nudge(3)), Told)
        assert "before" not in await fake_pane.shows(": ackd: ")


async def test_a_shell_that_is_told_by_the_short_line_finds_nothing_in_it_to_run(fake_pane: FakePane) -> None:
    fake_pane.open("env -i PATH=/usr/bin:/bin TERM=xterm PS1='me@host:~$ ' bash --norc")
    await fake_pane.shows("me@host:~$")
    async with fake_pane.endpoint() as endpoint:
        shell = load_profile("shell")
        endpoint.profile = endpoint.finder.profile = endpoint._ladder.profile = endpoint._ladder.typist.profile = shell
        endpoint.line = "read"
        assert isinstance(await endpoint.tell(tell()), Told)
        assert "syntax error" not in await fake_pane.shows(": ackd: mail from leader. Run: ackd read ")
