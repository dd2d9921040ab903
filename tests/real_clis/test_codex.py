"""What only codex has: a sandbox that hides the terminal, and an app-server that two agents would share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, running
from tests.real_clis.model import Model, obedient
from tests.real_clis.programs import Program, terminal, why_missing
from tests.real_clis.stage import DELIVERY, PATIENCE_S, staged
from tests.strays import end_strays

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("real codex")


@pytest.fixture(autouse=True)
def _codex() -> None:
    if (why := why_missing("codex")) is not None:
        pytest.skip(why)


def test_in_codex_sandbox_an_agent_is_known_by_the_messages_one_recipient(tmp_path: Path) -> None:
    """Its commands see neither the tmux socket nor ACKD_AGENT; the root is writable to them."""
    writable = {"writable_roots": [str(tmp_path / ".ackd")]}
    settings = {"sandbox_mode": "workspace-write", "approval_policy": "never", "sandbox_workspace_write": writable}
    with staged("codex", tmp_path, settings=settings) as stage:
        stage.begin()
        message_id = stage.team.send("worker", body="build it")
        stage.fact("message_completed", message_id=message_id)
        assert stage.facts("nudge", "escalation") == []


def test_two_codex_agents_that_ackd_starts_on_one_codex_home_act_under_their_own_names(tmp_path: Path) -> None:
    with Model(obedient) as model:
        program = Program("codex", tmp_path, model, settings={"features": {"daemon_auto_start": True}})
        program.prepare()
        team = Team(tmp_path)
        with terminal(team.environment) as opened:
            start = json.dumps(program.command())
            agents = "".join(
                f'[agents.{name}]\nendpoint = "tmux"\nprofile = "codex"\nstart = {start}\ncwd = "work"\n'
                for name in "ab"
            )
            Team(tmp_path, f"[tmux]\nsocket = {json.dumps(str(opened.socket))}\n{agents}", delivery=DELIVERY)
            try:
                with running(team):
                    for name in ("a", "b"):
                        message_id = team.send(name)
                        team.until(lambda id_=message_id: team.facts("message_completed", message=id_), PATIENCE_S)  # type: ignore[misc]
                    assert team.facts("nudge", "escalation", "receipt_refused") == []
            finally:
                opened.run("kill-server", check=False)
                end_strays(tmp_path)
