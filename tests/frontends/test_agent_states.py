"""How an agent stands, by the last word of the session log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.adapters.session_log import SessionLog
from ackd.frontends.agent_states import last_agent_state

if TYPE_CHECKING:
    from pathlib import Path


def session(logs: Path, at: float, *states: tuple[str, str]) -> None:
    log = SessionLog.open(logs, started_at=at)
    for agent, state in states:
        log.record("agent_state", {"agent": agent, "state": state}, at)
    log.close()


def test_the_last_word_of_the_newest_session_counts_in_any_spelling(tmp_path: Path) -> None:
    session(tmp_path, 1e9, ("worker_1", "parked"), ("leader", "down"))
    session(tmp_path, 2e9, ("worker-1", "parked"), ("worker-1", "available"))
    found = last_agent_state(tmp_path, "worker_1")
    assert found is not None
    assert found.data["state"] == "available"
    assert last_agent_state(tmp_path, "leader") is None  # only an older session knew


def test_without_logs_nothing_is_known(tmp_path: Path) -> None:
    assert last_agent_state(tmp_path / "absent", "leader") is None
