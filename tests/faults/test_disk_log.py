"""A session log that cannot be written, on a file system of its own; queues and journal are well."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.acceptance.teams import Team, running
from tests.faults.mounts import full, mounted, needs_root

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_root

AGENTS = '[agents.worker]\nendpoint = "exec"\ncommand = ["true"]\nmax_in_flight = 4\n'


def said_by_daemon(team: Team, type_: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in team.output().splitlines() if line.startswith("{"))
    return [line["data"] for line in lines if line["event"] == type_]


def completed_by_output(team: Team) -> set[str]:
    return {fact["message_id"] for fact in said_by_daemon(team, "message_completed")}


def test_a_log_that_cannot_be_written_stops_no_delivery_and_has_every_line_afterwards(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    (team.root / "logs").mkdir(parents=True)
    with mounted(team.root / "logs", "512k"), running(team):
        with full(team.root / "logs"):
            ids = {team.post("worker") for _ in range(20)}
            team.until(lambda: completed_by_output(team) == ids)
            assert len(team.facts("message_completed")) < 20, "the log was full"
            [trouble] = said_by_daemon(team, "io_error")
            assert (trouble["what"], "No space left" in trouble["error"]) == ("session log", True)
            faults = team.until(lambda: team.status()["faults"])
            assert [fault["what"] for fault in faults] == ["session log"]
        team.fact("io_recovered")
        assert {fact["message_id"] for fact in team.facts("message_completed")} == ids
        numbers = [line["seq"] for line in team.lines()]
        assert numbers == sorted(set(numbers)), "in order, and none twice"
        assert numbers == list(range(1, len(numbers) + 1)), "none is missing"
        assert len(team.facts("io_error")) == 1
        team.until(lambda: not team.status()["faults"])


def test_an_end_that_the_log_could_not_take_before_a_crash_is_told_by_the_next_daemon(tmp_path: Path) -> None:
    """The journal is on a disk that is well: it must not let go of what nothing tells of."""
    team = Team(tmp_path, AGENTS)
    (team.root / "logs").mkdir(parents=True)
    with mounted(team.root / "logs", "512k"), running(team):
        with full(team.root / "logs"):
            ids = {team.post("worker") for _ in range(10)}
            team.until(lambda: completed_by_output(team) == ids)
            team.kill()
        team.start()
        team.until(lambda: {fact["message_id"] for fact in team.facts("message_completed")} == ids)
        assert len(team.facts("message_completed")) == 10
        assert len(list((team.root / "archive").rglob("*.mime"))) == 10


def test_a_clean_stop_with_a_full_log_is_told_by_the_next_daemon_too(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    (team.root / "logs").mkdir(parents=True)
    with mounted(team.root / "logs", "512k"), running(team):
        with full(team.root / "logs"):
            ids = {team.post("worker") for _ in range(10)}
            team.until(lambda: completed_by_output(team) == ids)
            assert team.stop() == 0
        team.start()
        team.until(lambda: {fact["message_id"] for fact in team.facts("message_completed")} == ids)
        assert len(team.facts("message_completed")) == 10
        team.until(lambda: team.status()["totals"]["completed"] == 10)
