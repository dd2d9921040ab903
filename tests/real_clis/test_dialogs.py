"""What the real programs ask at their start gets no key: a letter of ours would be the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.real_clis.programs import why_missing
from tests.real_clis.stage import staged

if TYPE_CHECKING:
    from pathlib import Path

HOOK = {"type": "command", "command": "true", "timeout": 5}
HOOKS = {"hooks": {"SessionStart": [{"hooks": [HOOK]}], "Stop": [{"hooks": [HOOK]}]}}
DIALOGS: list[tuple[str, str, dict[str, Any], str]] = [
    ("claude", "trust", {}, "I trust this folder"),
    ("claude", "auto mode", {}, "No, keep manual mode"),
    ("codex", "trust", {}, "Trust and continue"),
    ("codex", "", HOOKS, "Trust all and continue"),
    ("gemini", "trust", {}, "Do you trust"),
]


@pytest.mark.parametrize(
    ("name", "asks", "settings", "shows"),
    [
        pytest.param(*row, id=f"{row[0]} {row[1] or 'hooks'}", marks=pytest.mark.xdist_group(f"real {row[0]}"))
        for row in DIALOGS
    ],
)
def test_a_dialog_at_the_start_gets_no_key(
    name: str, asks: str, settings: dict[str, Any], shows: str, tmp_path: Path
) -> None:
    if (why := why_missing(name)) is not None:
        pytest.skip(why)
    with staged(name, tmp_path, asks=asks, settings=settings) as stage:
        before = stage.pane.until(shows)
        before = stage.pane.settled()
        stage.team.send("worker")
        parked = stage.fact("agent_state", agent="worker", state="parked")
        assert any(word in parked["reason"] for word in ("prompt", "menu")), parked
        stage.fact("escalation", agent="worker", cause="stuck")
        assert stage.pane.screen() == before
        assert stage.facts("keys_sent") == []
        assert stage.asked() == []
