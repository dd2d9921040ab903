"""A person's requests about an agent: carried out in order, answered in the log, and the receipt kept until then."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.core import events
from ackd.core.errors import CannotStart
from ackd.core.message import ReceiptKind
from ackd.runtime.receipts.agent_requests import NoSupervision
from ackd.storage import maildrop
from ackd.storage.paused import Pause, Pauses
from tests.runtime.intake_fixture import INBOX, IntakeSetup, intake_in

if TYPE_CHECKING:
    from pathlib import Path

K = ReceiptKind


def ask(setup: IntakeSetup, kind: ReceiptKind, agent: str = "leader", by: str = "user") -> str:
    (path,) = maildrop.drop_requests(setup.root / "receipts", kind, [agent], by).values()
    setup.receipts.take(path.name)
    return path.name


async def answer(setup: IntakeSetup, number: int = 1) -> dict[str, object]:
    await setup.until(lambda: len(setup.said("agent_request")) >= number and receipts(setup) == [])
    return setup.said("agent_request")[number - 1]


def receipts(setup: IntakeSetup) -> list[str]:
    return sorted(entry.name for entry in setup.spool.scan_receipts())


def live(setup: IntakeSetup, name: str = "worker_1", endpoint: str = "process") -> None:
    setup.handle(events.AgentJoined(name, INBOX, endpoint))


# --- pause and resume -------------------------------------------------------------------------------------------------
async def test_a_pause_is_on_disk_before_anyone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with intake_in(tmp_path) as setup:
        on_disk: list[Any] = []
        watched = replace(setup.services, post=lambda event: on_disk.append((event, stored(tmp_path))))
        monkeypatch.setattr(setup.requests, "services", watched)
        name = ask(setup, K.PAUSE, by="leader")
        said = await answer(setup)
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
    async with intake_in(tmp_path) as setup:
        for number, (kind, posted) in enumerate([(K.PAUSE, events.AgentPaused), (K.RESUME, events.AgentResumed)], 1):
            ask(setup, kind)
            await answer(setup, number)
            (_, page), (said, _) = setup.facts[-2:]
            assert (page["says"], said) == (posted("leader"), "agent_request")


async def test_a_resume_forgets_the_pause(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        ask(setup, K.PAUSE)
        await answer(setup)
        setup.handle(setup.posted[-1])
        ask(setup, K.RESUME)
        assert (await answer(setup, 2))["answer"] == "resumed: it was paused"
        assert setup.posted == [events.AgentPaused("leader"), events.AgentResumed("leader")]
        assert stored(tmp_path) == []


async def test_asking_again_says_that_it_was_so_already(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        for number in (1, 2):
            ask(setup, K.PAUSE)
            said = await answer(setup, number)
        assert said["answer"] == "was paused already"


async def test_one_that_is_not_paused_may_be_resumed_from_what_holds_it(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        ask(setup, K.RESUME)
        assert (await answer(setup))["answer"] == "resumed: it was available"


async def test_requests_about_one_agent_keep_their_order(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        for kind in (K.PAUSE, K.RESUME, K.PAUSE):
            ask(setup, kind)
        await answer(setup, 3)
        assert [type(event) for event in setup.posted] == [
            events.AgentPaused,
            events.AgentResumed,
            events.AgentPaused,
        ]
        assert stored(tmp_path) == ["leader"]


async def test_requests_that_a_start_finds_are_heard_in_the_order_they_were_written(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        for kind in (K.RESUME, K.PAUSE):  # their file names sort the other way round
            maildrop.drop_requests(setup.root / "receipts", kind, ["leader"], "user")
        await setup.receipts.scan()
        await answer(setup, 2)
        assert stored(tmp_path) == ["leader"]


async def test_a_receipt_that_is_met_twice_is_one_request(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.receipts.take(ask(setup, K.PAUSE))
        await answer(setup)
        assert len(setup.posted) == len(setup.said("agent_request")) == 1


async def test_what_the_disk_refuses_is_asked_for_again_by_the_next_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        (path,) = maildrop.drop_requests(setup.root / "receipts", K.PAUSE, ["leader"], "user").values()
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", refuse)
            setup.receipts.take(path.name)
            await setup.until(lambda: setup.said("io_error"))
        assert (setup.posted, receipts(setup)) == ([], [path.name])
        await setup.receipts.scan()
        assert (await answer(setup))["answer"] == "paused: its mail waits"


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_receipt_that_cannot_be_removed_is_not_obeyed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with intake_in(tmp_path) as setup:
        with monkeypatch.context() as broken:
            broken.setattr(setup.spool, "remove_receipt", refuse)
            ask(setup, K.PAUSE)
            await setup.until(lambda: setup.said("io_error"))
        assert len(receipts(setup)) == 1
        await setup.receipts.scan()
        assert receipts(setup) == []
        assert len(setup.posted) == len(setup.said("agent_request")) == 1


async def test_an_agent_has_one_turn_however_it_is_spelled_and_nobody_has_none(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        setup.supervisor.go = anyio.Event()
        ask(setup, K.START, "worker-1")
        await setup.until(lambda: setup.supervisor.asked)
        ask(setup, K.RESTART, "worker_1")
        for number in range(3):
            ask(setup, K.PAUSE, f"stranger_{number}")
        await setup.until(lambda: len(setup.said("agent_request")) == 3)
        assert setup.supervisor.asked == ["start worker_1"]
        setup.supervisor.go.set()
        await answer(setup, 5)
        assert setup.supervisor.asked == ["start worker_1", "restart worker_1 by hand"]
        assert list(setup.requests._turns) == ["worker_1"]


# --- at start ---------------------------------------------------------------------------------------------------------
async def test_whoever_was_paused_is_paused_when_it_joins_and_once(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(parents=True)
    Pauses(tmp_path / "state").add("leader", Pause("then", "user"))
    async with intake_in(tmp_path) as setup:
        setup.pauses.load()
        setup.requests.joined("leader")
        assert setup.posted == []  # there is no log yet
        setup.requests.load()
        for agent in ("leader", "user", "leader"):
            setup.requests.joined(agent)
        assert setup.posted == [events.AgentPaused("leader")]


async def test_a_file_that_is_not_ours_is_told_of_and_everybody_is_paused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(parents=True)
    (tmp_path / "state" / "paused.json").write_text("{")
    async with intake_in(tmp_path) as setup:
        setup.requests.load()
        assert "everybody stays paused" in str(setup.said("io_error")[0]["error"])
        live(setup)
        for name in ("worker_1", "user"):
            setup.requests.joined(name)
        assert ("worker_1" in setup.pauses, "user" in setup.pauses) == (True, False)


# --- start, stop, restart ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "asked", "words"),
    [
        (K.START, "start worker_1", "started: pid 4242"),
        (K.STOP, "stop worker_1", "stopped: its mail waits"),
        (K.RESTART, "restart worker_1 by hand", "restarted: pid 4242"),
    ],
)
async def test_a_life_is_changed_by_who_keeps_it(tmp_path: Path, kind: ReceiptKind, asked: str, words: str) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        ask(setup, kind, "worker-1")
        said = await answer(setup)
        assert (said["agent"], said["answer"], "refused" in said) == ("worker_1", words, False)
        assert setup.supervisor.asked == [asked]


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        setup.supervisor.cannot = "no such program: worker.py"
        ask(setup, K.START, "worker_1")
        said = await answer(setup)
        assert (said["answer"], said["refused"]) == ("no such program: worker.py", True)


async def test_one_slow_agent_holds_up_nobody_else(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        setup.supervisor.go = anyio.Event()
        slow = ask(setup, K.STOP, "worker_1")
        ask(setup, K.PAUSE, "leader")
        await setup.until(lambda: setup.said("agent_request"))
        assert [said["agent"] for said in setup.said("agent_request")] == ["leader"]
        assert receipts(setup) == [slow]  # it stays until the request is carried out
        setup.supervisor.go.set()
        await answer(setup, 2)


@pytest.mark.parametrize("kind", [K.START, K.STOP, K.RESTART, K.NUDGE])
async def test_where_nothing_lives_nothing_is_started(tmp_path: Path, kind: ReceiptKind) -> None:
    async with intake_in(tmp_path) as setup:
        ask(setup, kind, "leader")
        said = await answer(setup)
        assert str(said["answer"]).startswith("nothing to")
        assert (said["refused"], setup.supervisor.asked, setup.posted) == (True, [], [])


async def test_a_nudge_is_the_engines(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup, endpoint="tmux")
        ask(setup, K.NUDGE, "worker_1")
        assert (await answer(setup))["answer"] == "asked"
        assert setup.posted == [events.NudgeAsked("worker_1")]


async def test_nobody_of_that_name_is_an_answer_too(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        ask(setup, K.PAUSE, "nobody")
        said = await answer(setup)
        assert (said["agent"], said["answer"], said["refused"]) == ("nobody", "no agent of that name", True)
        assert stored(tmp_path) == []


async def test_a_team_that_nobody_keeps_alive_says_so(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        setup.requests.supervisor = NoSupervision()
        for number, kind in enumerate((K.START, K.STOP, K.RESTART), 1):
            ask(setup, kind, "worker_1")
            assert str((await answer(setup, number))["answer"]).startswith("ackd did not start worker_1")
        for change in (
            NoSupervision().start("x"),
            NoSupervision().stop("x"),
            NoSupervision().restart("x", "why", wanted=True),
        ):
            with pytest.raises(CannotStart, match="nobody keeps x alive"):
                await change


# --- stopped is paused, too -------------------------------------------------------------------------------------------
async def test_who_is_stopped_is_paused_before_its_end_and_goes_on_when_it_is_started(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        setup.supervisor.go = anyio.Event()
        ask(setup, K.STOP, "worker_1")
        await setup.until(lambda: setup.supervisor.asked)
        assert setup.posted == [events.AgentPaused("worker_1")]
        assert stored(tmp_path) == ["worker_1"]
        assert setup.pauses.is_stopped("worker_1")
        setup.supervisor.go.set()
        await answer(setup)
        ask(setup, K.START, "worker_1")
        assert (await answer(setup, 2))["answer"] == "started: pid 4242"
        assert setup.posted[1:] == [events.AgentResumed("worker_1")]
        assert stored(tmp_path) == []


@pytest.mark.parametrize("kind", [K.RESUME, K.RESTART])
async def test_a_stopped_one_comes_back_by_resuming_or_restarting_too(tmp_path: Path, kind: ReceiptKind) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        for number, request in enumerate((K.STOP, kind), 1):
            ask(setup, request, "worker_1")
            await answer(setup, number)
        assert setup.supervisor.asked[1].split()[0] == ("start" if kind is K.RESUME else "restart")
        assert stored(tmp_path) == []


async def test_who_was_paused_and_is_started_stays_paused_and_that_is_said(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        for number, request in enumerate((K.PAUSE, K.START), 1):
            ask(setup, request, "worker_1")
            said = await answer(setup, number)
        assert said["answer"] == "started: pid 4242; it is paused still"
        assert stored(tmp_path) == ["worker_1"]


async def test_one_that_cannot_be_started_stays_stopped(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup)
        ask(setup, K.STOP, "worker_1")
        await answer(setup)
        setup.supervisor.cannot = "no such program"
        ask(setup, K.RESUME, "worker_1")
        assert (await answer(setup, 2))["refused"] is True
        assert setup.pauses.is_stopped("worker_1")


async def test_a_pane_that_was_found_is_not_ours_to_end(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        live(setup, "found", "tmux")
        ask(setup, K.STOP, "found")
        said = await answer(setup)
        assert (said["refused"], stored(tmp_path), setup.supervisor.asked) == (True, [], [])
