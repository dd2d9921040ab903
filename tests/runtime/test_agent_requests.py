"""What a person asks of an agent: done in order, answered in the log, and its receipt kept until then."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.adapters import maildrop
from ackd.core import events
from ackd.core.errors import CannotStart
from ackd.core.message import ReceiptKind
from ackd.runtime.agent_requests import NoLives
from ackd.runtime.pauses import Pause, Pauses
from tests.runtime.desks import INBOX, Desk, desk_in

if TYPE_CHECKING:
    from pathlib import Path

K = ReceiptKind


def ask(desk: Desk, kind: ReceiptKind, agent: str = "leader", by: str = "user") -> str:
    (path,) = maildrop.drop_requests(desk.root / "receipts", kind, [agent], by).values()
    desk.letterbox.take(path.name)
    return path.name


async def answer(desk: Desk, number: int = 1) -> dict[str, object]:
    await desk.until(lambda: len(desk.said("agent_request")) >= number and receipts(desk) == [])
    return desk.said("agent_request")[number - 1]


def receipts(desk: Desk) -> list[str]:
    return sorted(entry.name for entry in desk.spool.scan_receipts())


def live(desk: Desk, name: str = "worker_1", endpoint: str = "process") -> None:
    desk.handle(events.AgentJoined(name, INBOX, endpoint))


# --- pause and resume ---------------------------------------------------------------------------------------------------
async def test_a_pause_is_on_disk_before_anyone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk_in(tmp_path) as desk:
        on_disk: list[Any] = []
        monkeypatch.setattr(desk.requests, "post", lambda event: on_disk.append((event, stored(tmp_path))))
        name = ask(desk, K.PAUSE, by="leader")
        said = await answer(desk)
        assert on_disk == [(events.AgentPaused("leader"), ["leader"])]
        assert said == {
            "agent": "leader",
            "request": "pause",
            "by": "leader",
            "answer": "paused: its mail waits",
            "receipt": name,
        }


def stored(root: Path) -> list[str]:
    pauses = Pauses(root / "state")
    pauses.load()
    return list(pauses.all())


async def test_who_is_answered_finds_it_on_the_status_page(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        for number, (kind, posted) in enumerate([(K.PAUSE, events.AgentPaused), (K.RESUME, events.AgentResumed)], 1):
            ask(desk, kind)
            await answer(desk, number)
            (_, page), (said, _) = desk.facts[-2:]
            assert (page["says"], said) == (posted("leader"), "agent_request")


async def test_a_resume_forgets_the_pause(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        ask(desk, K.PAUSE)
        await answer(desk)
        desk.handle(desk.posted[-1])
        ask(desk, K.RESUME)
        assert (await answer(desk, 2))["answer"] == "resumed: it was paused"
        assert desk.posted == [events.AgentPaused("leader"), events.AgentResumed("leader")]
        assert stored(tmp_path) == []


async def test_asking_again_says_that_it_was_so_already(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        for number in (1, 2):
            ask(desk, K.PAUSE)
            said = await answer(desk, number)
        assert said["answer"] == "was paused already"


async def test_one_that_is_not_paused_may_be_resumed_from_what_holds_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        ask(desk, K.RESUME)
        assert (await answer(desk))["answer"] == "resumed: it was available"


async def test_requests_about_one_agent_keep_their_order(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        for kind in (K.PAUSE, K.RESUME, K.PAUSE):
            ask(desk, kind)
        await answer(desk, 3)
        assert [type(event) for event in desk.posted] == [
            events.AgentPaused,
            events.AgentResumed,
            events.AgentPaused,
        ]
        assert stored(tmp_path) == ["leader"]


async def test_requests_that_a_start_finds_are_heard_in_the_order_they_were_written(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        for kind in (K.RESUME, K.PAUSE):  # by name the other way round
            maildrop.drop_requests(desk.root / "receipts", kind, ["leader"], "user")
        await desk.letterbox.scan()
        await answer(desk, 2)
        assert stored(tmp_path) == ["leader"]


async def test_a_receipt_that_is_met_twice_is_one_request(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(ask(desk, K.PAUSE))
        await answer(desk)
        assert len(desk.posted) == len(desk.said("agent_request")) == 1


async def test_what_the_disk_refuses_is_asked_for_again_by_the_next_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        (path,) = maildrop.drop_requests(desk.root / "receipts", K.PAUSE, ["leader"], "user").values()
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", refuse)
            desk.letterbox.take(path.name)
            await desk.until(lambda: desk.said("io_error"))
        assert (desk.posted, receipts(desk)) == ([], [path.name])
        await desk.letterbox.scan()
        assert (await answer(desk))["answer"] == "paused: its mail waits"


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_receipt_that_cannot_be_removed_is_not_obeyed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        with monkeypatch.context() as broken:
            broken.setattr(desk.spool, "remove_receipt", refuse)
            ask(desk, K.PAUSE)
            await desk.until(lambda: desk.said("io_error"))
        assert len(receipts(desk)) == 1
        await desk.letterbox.scan()
        assert receipts(desk) == []
        assert len(desk.posted) == len(desk.said("agent_request")) == 1


async def test_an_agent_has_one_turn_however_it_is_spelled_and_nobody_has_none(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        desk.lives.go = anyio.Event()
        ask(desk, K.START, "worker-1")
        await desk.until(lambda: desk.lives.asked)
        ask(desk, K.RESTART, "worker_1")
        for number in range(3):
            ask(desk, K.PAUSE, f"stranger_{number}")
        await desk.until(lambda: len(desk.said("agent_request")) == 3)
        assert desk.lives.asked == ["start worker_1"]
        desk.lives.go.set()
        await answer(desk, 5)
        assert desk.lives.asked == ["start worker_1", "restart worker_1 by hand"]
        assert list(desk.requests._turns) == ["worker_1"]


# --- at start -----------------------------------------------------------------------------------------------------------
async def test_whoever_was_paused_is_paused_when_it_joins_and_once(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(parents=True)
    Pauses(tmp_path / "state").add("leader", Pause("then", "user"))
    async with desk_in(tmp_path) as desk:
        desk.pauses.load()
        desk.requests.joined("leader")
        assert desk.posted == []  # there is no log yet
        desk.requests.load()
        for agent in ("leader", "user", "leader"):
            desk.requests.joined(agent)
        assert desk.posted == [events.AgentPaused("leader")]


async def test_a_file_that_is_not_ours_is_told_of_and_everybody_is_paused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(parents=True)
    (tmp_path / "state" / "paused.json").write_text("{")
    async with desk_in(tmp_path) as desk:
        desk.requests.load()
        assert "everybody stays paused" in str(desk.said("io_error")[0]["error"])
        live(desk)
        for name in ("worker_1", "user"):
            desk.requests.joined(name)
        assert ("worker_1" in desk.pauses, "user" in desk.pauses) == (True, False)


# --- lives --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "asked", "words"),
    [
        (K.START, "start worker_1", "started: pid 4242"),
        (K.STOP, "stop worker_1", "stopped: its mail waits"),
        (K.RESTART, "restart worker_1 by hand", "restarted: pid 4242"),
    ],
)
async def test_a_life_is_changed_by_who_keeps_it(tmp_path: Path, kind: ReceiptKind, asked: str, words: str) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        ask(desk, kind, "worker-1")
        said = await answer(desk)
        assert (said["agent"], said["answer"], "refused" in said) == ("worker_1", words, False)
        assert desk.lives.asked == [asked]


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        desk.lives.cannot = "no such program: worker.py"
        ask(desk, K.START, "worker_1")
        said = await answer(desk)
        assert (said["answer"], said["refused"]) == ("no such program: worker.py", True)


async def test_one_slow_agent_holds_up_nobody_else(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        desk.lives.go = anyio.Event()
        slow = ask(desk, K.STOP, "worker_1")
        ask(desk, K.PAUSE, "leader")
        await desk.until(lambda: desk.said("agent_request"))
        assert [said["agent"] for said in desk.said("agent_request")] == ["leader"]
        assert receipts(desk) == [slow]  # not before it has ended
        desk.lives.go.set()
        await answer(desk, 2)


@pytest.mark.parametrize("kind", [K.START, K.STOP, K.RESTART, K.NUDGE])
async def test_where_nothing_lives_nothing_is_started(tmp_path: Path, kind: ReceiptKind) -> None:
    async with desk_in(tmp_path) as desk:
        ask(desk, kind, "leader")
        said = await answer(desk)
        assert str(said["answer"]).startswith("nothing to")
        assert (said["refused"], desk.lives.asked, desk.posted) == (True, [], [])


async def test_a_nudge_is_the_engines(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk, endpoint="tmux")
        ask(desk, K.NUDGE, "worker_1")
        assert (await answer(desk))["answer"] == "asked"
        assert desk.posted == [events.NudgeAsked("worker_1")]


async def test_nobody_of_that_name_is_an_answer_too(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        ask(desk, K.PAUSE, "nobody")
        said = await answer(desk)
        assert (said["agent"], said["answer"], said["refused"]) == ("nobody", "no agent of that name", True)
        assert stored(tmp_path) == []


async def test_a_team_that_nobody_keeps_alive_says_so(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        desk.requests.lives = NoLives()
        for number, kind in enumerate((K.START, K.STOP, K.RESTART), 1):
            ask(desk, kind, "worker_1")
            assert str((await answer(desk, number))["answer"]).startswith("ackd did not start worker_1")
        for change in (NoLives().start("x"), NoLives().stop("x"), NoLives().restart("x", "why", wanted=True)):
            with pytest.raises(CannotStart, match="nobody keeps x alive"):
                await change


# --- stopped is paused, too ---------------------------------------------------------------------------------------------
async def test_who_is_stopped_is_paused_before_its_end_and_goes_on_when_it_is_started(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        desk.lives.go = anyio.Event()
        ask(desk, K.STOP, "worker_1")
        await desk.until(lambda: desk.lives.asked)
        assert desk.posted == [events.AgentPaused("worker_1")]
        assert stored(tmp_path) == ["worker_1"]
        assert desk.pauses.is_stopped("worker_1")
        desk.lives.go.set()
        await answer(desk)
        ask(desk, K.START, "worker_1")
        assert (await answer(desk, 2))["answer"] == "started: pid 4242"
        assert desk.posted[1:] == [events.AgentResumed("worker_1")]
        assert stored(tmp_path) == []


@pytest.mark.parametrize("kind", [K.RESUME, K.RESTART])
async def test_a_stopped_one_comes_back_by_resuming_or_restarting_too(tmp_path: Path, kind: ReceiptKind) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        for number, request in enumerate((K.STOP, kind), 1):
            ask(desk, request, "worker_1")
            await answer(desk, number)
        assert desk.lives.asked[1].split()[0] == ("start" if kind is K.RESUME else "restart")
        assert stored(tmp_path) == []


async def test_who_was_paused_and_is_started_stays_paused_and_that_is_said(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        for number, request in enumerate((K.PAUSE, K.START), 1):
            ask(desk, request, "worker_1")
            said = await answer(desk, number)
        assert said["answer"] == "started: pid 4242; it is paused still"
        assert stored(tmp_path) == ["worker_1"]


async def test_one_that_cannot_be_started_stays_stopped(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk)
        ask(desk, K.STOP, "worker_1")
        await answer(desk)
        desk.lives.cannot = "no such program"
        ask(desk, K.RESUME, "worker_1")
        assert (await answer(desk, 2))["refused"] is True
        assert desk.pauses.is_stopped("worker_1")


async def test_a_pane_that_was_found_is_not_ours_to_end(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        live(desk, "found", "tmux")
        ask(desk, K.STOP, "found")
        said = await answer(desk)
        assert (said["refused"], stored(tmp_path), desk.lives.asked) == (True, [], [])
