"""Deleting the folder of an endpoint kind deletes the kind, and nothing else.

Each test copies the package, deletes one kind with the capabilities whose folders import it, and shows that what is
left imports, passes `ackd check` and delivers a message with a real daemon; its history can be explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.coordination.registry import CAPABILITIES
from ackd.endpoints.registry import DEFAULT, INSIDE, KINDS
from tests.acceptance.teams import Team
from tests.deleting import assert_checks, assert_imports, copy_without, with_dependents
from tests.test_layers import REQUIRES

if TYPE_CHECKING:
    from pathlib import Path

#: The demo shows panes, and is nothing without them.
DEMO = {"tmux": ("ackd.cli.demo_story", "ackd.cli.demo")}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (DEFAULT, INSIDE)])
def test_what_is_left_without_an_endpoint_kind_imports_checks_and_delivers(kind: str, tmp_path: Path) -> None:
    gone = with_dependents([one.name for one in CAPABILITIES if kind in REQUIRES.get(one.name, ())])
    copy = copy_without(gone, {kind}, tmp_path / "copy")
    team = Team(tmp_path / "team", "[agents.reader]")
    team.extra_env["PYTHONPATH"] = str(copy)
    assert_imports(copy, team, but=DEMO.get(kind, ()))
    assert_checks(team)
    team.start()
    message_id = team.send("reader", body="hello")
    team.fact("message_told", message=message_id)
    assert team.ackd("done", message_id, "--agent", "reader").returncode == 0
    team.fact("message_completed", message=message_id)
    explained = team.ackd("explain", message_id)
    assert explained.returncode == 0, explained.stderr
    assert "completed" in explained.stdout
    assert team.stop() == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (DEFAULT, INSIDE)])
def test_an_agent_of_a_kind_that_was_deleted_is_refused(kind: str, tmp_path: Path) -> None:
    gone = with_dependents([one.name for one in CAPABILITIES if kind in REQUIRES.get(one.name, ())])
    team = Team(tmp_path / "team", f'[agents.reader]\nendpoint = "{kind}"\ncommand = ["true"]')
    team.extra_env["PYTHONPATH"] = str(copy_without(gone, {kind}, tmp_path / "copy"))
    refused = team.ackd("check")
    assert refused.returncode != 0
    assert "endpoint" in refused.stdout + refused.stderr
