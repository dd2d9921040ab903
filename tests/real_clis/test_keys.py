"""Keys in the panes of the real programs: small panes, lines that are not submitted, rungs 2 and 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.endpoints.tmux.client import Tmux
from ackd.endpoints.tmux.screen import load_profile
from ackd.endpoints.tmux.standalone_wake import NamedPane
from ackd.endpoints.tmux.typist import NotSubmitted, Submitted
from ackd.endpoints.tmux.wake_ladder import WakeLadder
from ackd.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.endpoints.tmux.typist import Typed
    from tests.real_clis.stage import Stage

SHORT = "ackd: mail from leader (task_assignment). Run: ackd read 4f2a91c0"
LONG = (
    "ackd: message 1763254800.4242.a1b2c3@ignite.local from leader of type task_assignment waits: read "
    "/srv/team/.ackd/queue/worker/processed/task_assignment_1763254800123456.mime then run: "
    "ackd ack 1763254800.4242.a1b2c3@ignite.local and when finished: ackd done 1763254800.4242.a1b2c3@ignite.local"
)
WHOLE = (120, 40)
SMALL = [(40, 12), (60, 15)]


@pytest.fixture(params=SMALL, ids=["40x12", "60x15"])
def small(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Stage]:
    width, height = request.param
    stage.pane.resize(width, height)
    stage.pane.settled()
    stage.until_idle()
    yield stage
    stage.pane.resize(*WHOLE)
    stage.pane.settled()
    stage.until_idle()


def rungs(stage: Stage, *tries: str) -> WakeLadder:
    """Beside the daemon, which has nothing to type meanwhile. ``tries``: keys that are to submit."""
    profile = load_profile(stage.name)
    if tries:
        submit = profile.submit.model_copy(update={"tries": tries, "wait_s": 1.0})
        profile = profile.model_copy(update={"submit": submit})
    tmux = Tmux(socket_path=stage.pane.terminal.socket)
    return WakeLadder(
        tmux=tmux,
        profile=profile,
        finder=NamedPane(tmux=tmux, profile=profile, clock=SystemClock(), target=stage.pane.pane_id),
    )


class Noted:
    """What was pressed, and what came of it."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def __call__(self, why: str, typed: Typed, *keys: str) -> None:
        self.keys += [*keys, *typed.keys]


def test_mail_is_told_once_and_finished_in_a_small_pane(small: Stage) -> None:
    message_id = small.team.send("worker", body="build it")
    small.fact("message_completed", message_id=message_id)
    short = message_id.partition("@")[0].rpartition(".")[2][:8]
    assert small.lines() == [f"ackd: mail from user (message). Run: ackd read {short}"]
    assert small.facts("nudge", "probe", "message_retry", "escalation") == []


@pytest.mark.parametrize("line", [SHORT, LONG], ids=["short", "long"])
async def test_what_was_not_submitted_is_taken_back_in_a_small_pane(small: Stage, line: str) -> None:
    """By a key that submits nothing."""
    for _ in range(2):
        answer = await rungs(small, "F9").say(line, "tell", Noted())
        assert isinstance(answer, NotSubmitted), answer
        assert small.reading().is_idle, small.pane.screen()
    assert small.asked() == []


async def test_rung_2_at_an_empty_prompt_is_the_line_alone(stage: Stage) -> None:
    noted = Noted()
    answer = await rungs(stage).interrupt_or_reset(2, SHORT, LONG, noted)
    assert isinstance(answer, Submitted)
    assert noted.keys == ["Enter"]
    assert stage.turns() == [SHORT]


async def test_rung_3_clears_the_context_and_the_fresh_line_is_told(stage: Stage) -> None:
    answer = await rungs(stage).interrupt_or_reset(3, SHORT, SHORT, Noted())
    assert isinstance(answer, Submitted), answer
    assert stage.turns() == [SHORT]


async def test_neither_rung_touches_a_persons_words_or_one_that_is_busy(stage: Stage) -> None:
    for rung in (2, 3):
        stage.pane.type("half a thought")
        stage.until(lambda: stage.reading().typed == "half a thought")
        before = stage.pane.settled()
        noted = Noted()
        assert not isinstance(await rungs(stage).interrupt_or_reset(rung, SHORT, LONG, noted, hung=True), Submitted)
        assert (noted.keys, stage.pane.screen()) == ([], before)
        stage.pane.press("C-u")
        stage.until_idle()
    stage.holds()
    stage.pane.type("think")
    stage.until(lambda: stage.reading().typed == "think")
    stage.pane.settled()
    stage.pane.press("Enter")
    stage.until(lambda: type(stage.reading().state).__name__ == "Busy")
    for rung in (2, 3):
        noted = Noted()
        assert not isinstance(await rungs(stage).interrupt_or_reset(rung, SHORT, LONG, noted), Submitted)
        assert noted.keys == []
    assert type(stage.reading().state).__name__ == "Busy"
