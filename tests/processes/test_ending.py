"""TERM to each once, then KILL, until nothing is left."""

from __future__ import annotations

import subprocess
from errno import EMFILE
from typing import TYPE_CHECKING

import anyio

from ackd.processes import Brood, clear_away, ending

if TYPE_CHECKING:
    import pytest


def brood(mark: str) -> Brood:
    return Brood(f"M={mark}", session=lambda: None, group=lambda: None)


def start(mark: str, script: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(["sh", "-c", script], env={"M": mark}, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


async def test_what_goes_by_term_is_not_killed() -> None:
    child = start("gentle", "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done")
    cleared = await clear_away(brood("gentle"), 20, anyio.CapacityLimiter(1))
    assert (child.wait(60), cleared.gone) == (7, True)
    assert child.pid in cleared.met


async def test_what_stays_is_killed_when_its_time_is_up() -> None:
    child = start("stubborn", "trap '' TERM; echo; while :; do sleep 1; done")
    cleared = await clear_away(brood("stubborn"), 0.05, anyio.CapacityLimiter(1))
    assert (child.wait(60), cleared.gone) == (-9, True)


async def test_nothing_to_end_is_nothing_met() -> None:
    cleared = await clear_away(brood("nobody"), 10, anyio.CapacityLimiter(1))
    assert (cleared.gone, cleared.met) == (True, frozenset())


async def test_who_cannot_look_says_why_once_and_looks_again_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals, said = [EMFILE, EMFILE], list[OSError]()

    def look(*_: object) -> dict[int, int]:
        if refusals:
            raise OSError(refusals.pop(), "Too many open files")
        return {}

    monkeypatch.setattr("ackd.processes.belongings.belongings", look)
    monkeypatch.setattr(ending, "_LOOK_AGAIN_S", 0.001)
    cleared = await clear_away(Brood("ACKD_RUN=x", hindered=said.append), 10, anyio.CapacityLimiter(1))
    assert cleared.gone
    assert [error.errno for error in said] == [EMFILE]


async def test_what_no_kill_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    child = start("undying", "echo; exec sleep 60")
    monkeypatch.setattr(ending, "_kill", lambda *_: None)
    monkeypatch.setattr(ending, "KILLED_WAIT_S", 0.1)
    cleared = await clear_away(brood("undying"), 0, anyio.CapacityLimiter(1))
    assert not cleared.gone
    child.kill()
    child.wait()


async def test_more_than_are_held_at_once_are_ended_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.processes.belongings.AT_A_TIME", 2)
    many = [start("many", "trap '' TERM; echo; while :; do sleep 1; done") for _ in range(5)]
    cleared = await clear_away(brood("many"), 0.05, anyio.CapacityLimiter(1))
    assert [child.wait(60) for child in many] == [-9] * 5
    assert cleared.gone
    assert cleared.met >= {child.pid for child in many}


async def test_who_cannot_look_kills_what_can_be_killed_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the tree itself that has used up what we look with."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)  # noqa: ASYNC220

    def look(*_: object) -> dict[int, int]:
        if child.poll() is None:
            raise OSError(EMFILE, "Too many open files")
        return {}

    monkeypatch.setattr("ackd.processes.belongings.belongings", look)
    await clear_away(Brood("M=none", group=lambda: child.pid), 0.05, anyio.CapacityLimiter(1))
    assert child.wait(60) == -9
