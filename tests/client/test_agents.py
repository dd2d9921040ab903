"""Asking something of agents: with a daemon only its own line of the log is an answer; without one, pauses work."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import agents
from ackd.client.errors import NoDaemon
from ackd.config.site import find_site
from ackd.core.errors import UnknownAgent
from ackd.core.words import ReceiptKind as K
from ackd.storage import maildrop, root_lock
from ackd.storage.paused import BadPauses, Pauses
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.core.message import Receipt

Team = Any  # conftest.py's: test files do not import each other

LIVING = '\n[agents.coder]\nendpoint = "process"\ncommand = ["cat"]\n'


@pytest.fixture
def team(team: Team) -> Team:
    with (team.home / "ackd.toml").open("a") as config:
        config.write(LIVING)
    return team


@contextlib.contextmanager
def daemon(team: Team, answer: Callable[[Receipt], list[tuple[str, dict[str, object]]]]) -> Iterator[list[Receipt]]:
    """Hold the root and write the log as a daemon does: answer each receipt with lines, and remove it."""
    lock, log = root_lock.hold(team.root / "run"), SessionLog.open(team.root / "logs", started_at=time.time())
    heard: list[Receipt] = []
    over = threading.Event()

    def serve() -> None:
        while not over.wait(0.005):
            for path in team.files("receipts"):
                if path.name.startswith("."):
                    continue
                heard.append(maildrop.read_receipt(path))
                path.unlink()
                for type_, data in answer(heard[-1]):
                    log.record(type_, data, time.time())
                log.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()
        log.close()
        lock.release()


def request(receipt: Receipt, answer: str, /, **more: object) -> tuple[str, dict[str, object]]:
    data = {"agent": receipt.agent, "request": receipt.kind.value, "by": receipt.by, "answer": answer}
    return "agent_request", {**data, "receipt": receipt.name, **more}


def ask(team: Team, kind: K, *names: str, **more: Any) -> list[tuple[str, str, str]]:
    answers = agents.ask(find_site(config=team.home / "ackd.toml"), kind, names, **more)
    assert {one.request for one in answers} == {kind.value}
    return [(one.agent, one.result, one.answer) for one in answers]


# --- with a daemon ------------------------------------------------------------------------------------------------------
def test_the_daemons_answer_is_the_answer(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "restarted: pid 4242")]) as heard:
        assert ask(team, K.RESTART, "coder") == [("coder", agents.DONE, "restarted: pid 4242")]
    assert [(one.kind.value, one.agent, one.by) for one in heard] == [("restart", "coder", "user")]


def test_with_a_daemon_pauses_are_its_own(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "paused: its mail waits")]) as heard:
        answers = ask(team, K.PAUSE, "leader", "worker-1")
    assert answers == [(name, agents.DONE, "paused: its mail waits") for name in ("leader", "worker_1")]
    assert {one.agent for one in heard} == {"leader", "worker_1"}
    assert not (team.root / "state" / "paused.json").exists()


def test_a_refusal_is_an_answer_too(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "no such program: cat", refused=True)]):
        assert ask(team, K.START, "coder") == [("coder", agents.REFUSED, "no such program: cat")]


def test_the_answer_to_another_request_is_none(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "started", receipt="start_1.json")]):
        assert ask(team, K.START, "coder", timeout_s=0.2) == [("coder", agents.ASKED, "no answer yet")]


def test_a_caller_that_does_not_wait_learns_that_it_was_asked_for(team: Team) -> None:
    with daemon(team, lambda _: []):
        assert ask(team, K.STOP, "coder", wait=False) == [("coder", agents.ASKED, "no answer yet")]


@pytest.mark.parametrize(
    ("done", "result", "said"),
    [
        ("typed", agents.DONE, "nudged for 1.1.a@x: typed"),
        ("not done: it is busy", agents.REFUSED, "not nudged for 1.1.a@x: it is busy"),
    ],
)
def test_a_nudge_is_done_when_it_was_carried_out_and_not_when_it_was_decided_on(
    team: Team, done: str, result: str, said: str
) -> None:
    def answer(receipt: Receipt) -> list[tuple[str, dict[str, object]]]:
        others = ("nudged", {"agent": "other", "message_id": "1.1.z@x", "rung": 0, "done": "typed"})
        ladder = ("nudged", {"agent": "coder", "message_id": "1.1.y@x", "rung": 1, "done": "typed"})
        return [
            request(receipt, "asked"),
            others,
            ladder,
            ("nudge", {"agent": "coder", "message_id": "1.1.b@x", "rung": 0, "by": "hand"}),
            ("nudged", {"agent": "coder", "message_id": "1.1.a@x", "rung": 0, "done": done}),
        ]

    with daemon(team, answer):
        assert ask(team, K.NUDGE, "coder") == [("coder", result, said)]


def test_a_nudge_with_nothing_in_hand_is_refused(team: Team) -> None:
    words = "not nudged: it has no message in hand"

    def answer(receipt: Receipt) -> list[tuple[str, dict[str, object]]]:
        return [request(receipt, "asked"), ("agent_request", {"agent": "coder", "request": "nudge", "answer": words})]

    with daemon(team, answer):
        assert ask(team, K.NUDGE, "coder") == [("coder", agents.REFUSED, words)]


# --- without a daemon ---------------------------------------------------------------------------------------------------
def paused(team: Team) -> dict[str, str]:
    pauses = Pauses(team.root / "state")
    pauses.load()
    return {name: pause.by for name, pause in pauses.all().items()}


def test_pausing_and_resuming_need_no_daemon(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKD_AGENT", "leader")
    none = "(no daemon is running)"
    assert ask(team, K.PAUSE, "coder", "worker-1") == [
        ("coder", agents.DONE, f"paused: its mail waits {none}"),
        ("worker_1", agents.DONE, f"paused: its mail waits {none}"),
    ]
    assert paused(team) == {"coder": "leader", "worker_1": "leader"}
    assert ask(team, K.PAUSE, "coder") == [("coder", agents.DONE, f"was paused already {none}")]
    assert ask(team, K.RESUME, "coder") == [("coder", agents.DONE, f"resumed: it was paused {none}")]
    assert ask(team, K.RESUME, "coder") == [("coder", agents.DONE, f"was not paused {none}")]
    assert (paused(team), team.files("receipts")) == ({"worker_1": "leader"}, [])


def test_pauses_that_cannot_be_read_are_not_written_over(team: Team) -> None:
    (team.root / "state").mkdir(parents=True)
    (team.root / "state" / "paused.json").write_text("{")
    with pytest.raises(BadPauses):
        ask(team, K.PAUSE, "coder")
    assert (team.root / "state" / "paused.json").read_text() == "{"


@pytest.mark.parametrize("kind", [K.START, K.STOP, K.RESTART, K.NUDGE])
def test_all_else_needs_one_unless_it_means_nothing_to_the_agent(team: Team, kind: K) -> None:
    with pytest.raises(NoDaemon):
        ask(team, kind, "coder")
    ((agent, result, why),) = ask(team, kind, "leader")
    assert (agent, result, why[:10]) == ("leader", agents.REFUSED, "nothing to")
    assert team.files("receipts") == []


def test_one_unknown_name_and_nobody_is_asked(team: Team) -> None:
    with pytest.raises(UnknownAgent):
        ask(team, K.PAUSE, "coder", "nobody")
    assert (paused(team), team.files("receipts")) == ({}, [])
