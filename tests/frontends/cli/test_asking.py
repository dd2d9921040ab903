"""Asking a daemon about agents: only its own line of the log is an answer."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters import maildrop, root_lock
from ackd.adapters.session_log import SessionLog

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
    """Whoever holds the root and writes the log: answers each receipt with lines, and removes it."""
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


def test_the_daemons_answer_is_printed(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "restarted: pid 4242")]) as heard:
        result = team.ackd("agent", "restart", "coder")
    assert (result.exit_code, result.stdout) == (0, "coder: restarted: pid 4242\n")
    assert [(one.kind.value, one.agent, one.by) for one in heard] == [("restart", "coder", "user")]


def test_with_a_daemon_pauses_are_its_own(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "paused: its mail waits")]) as heard:
        result = team.ackd("agent", "pause", "leader", "worker-1")
    assert result.stdout == "leader: paused: its mail waits\nworker_1: paused: its mail waits\n"
    assert {one.agent for one in heard} == {"leader", "worker_1"}
    assert not (team.root / "state" / "paused.json").exists()


def test_a_refusal_is_no(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "no such program: cat", refused=True)]):
        result = team.ackd("agent", "start", "coder")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "ackd: coder: no such program: cat\n"


def test_somebody_elses_answer_is_none(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "started", receipt="start_1.json")]):
        result = team.ackd("agent", "start", "coder", "--timeout", "0.2")
    assert result.exit_code == 75
    assert result.stdout == "coder: start asked for, no answer yet\n"
    assert "has not answered yet" in result.stderr


def test_who_does_not_wait_is_told_that_it_was_asked_for(team: Team) -> None:
    with daemon(team, lambda _: []):
        assert team.json("agent", "stop", "coder", "--no-wait") == [
            {"agent": "coder", "request": "stop", "result": "asked", "answer": "no answer yet"}
        ]


def test_a_daemon_that_goes_leaves_the_request_to_the_next(team: Team) -> None:
    lock = root_lock.hold(team.root / "run")

    def go_once_it_was_asked() -> None:
        deadline = time.monotonic() + 10
        while all(path.name.startswith(".") for path in team.files("receipts")) and time.monotonic() < deadline:
            time.sleep(0.01)
        lock.release()

    going = threading.Thread(target=go_once_it_was_asked)
    going.start()
    result = team.ackd("agent", "start", "coder", "--timeout", "0.5")
    going.join()
    assert result.exit_code == 69
    assert "the request waits in receipts/ for the next one" in result.stderr
    assert [one["kind"] for one in team.receipts()] == ["start"]


@pytest.mark.parametrize(
    ("done", "code", "said"),
    [
        ("typed", 0, "coder: nudged for 1.1.a@x: typed"),
        ("not done: it is busy", 1, "ackd: coder: not nudged for 1.1.a@x: it is busy"),
    ],
)
def test_a_nudge_is_done_when_it_was_and_not_when_it_was_decided_on(
    team: Team, done: str, code: int, said: str
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
        result = team.ackd("nudge", "coder")
    assert (result.exit_code, result.stdout + result.stderr) == (code, f"{said}\n")


def test_a_nudge_with_nothing_in_hand_is_no(team: Team) -> None:
    words = "not nudged: it has no message in hand"

    def answer(receipt: Receipt) -> list[tuple[str, dict[str, object]]]:
        return [request(receipt, "asked"), ("agent_request", {"agent": "coder", "request": "nudge", "answer": words})]

    with daemon(team, answer):
        result = team.ackd("nudge", "coder")
    assert (result.exit_code, result.stderr) == (1, f"ackd: coder: {words}\n")


def test_an_answer_that_plays_tricks_does_not_reach_the_terminal(team: Team) -> None:
    with daemon(team, lambda receipt: [request(receipt, "\x1b[2Jstarted")]):
        assert "\x1b" not in team.ackd("agent", "start", "coder").stdout
