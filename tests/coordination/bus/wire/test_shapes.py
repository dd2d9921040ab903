from __future__ import annotations

import pytest

from ackd.coordination.bus.wire import from_text


@pytest.mark.parametrize(
    ("type_", "key", "text", "value"),
    [
        ("TASK_COMPLETE", "task_id", "1.1", "1.1"),
        ("TASK_COMPLETE", "unblocks", "1.2, 1.3", ["1.2", "1.3"]),
        ("TASK_COMPLETE", "unblocks", '["1.2"]', ["1.2"]),
        ("BLOCKED", "waiting_for", "1.2", "1.2"),
        ("BLOCKED", "waiting_for", "1.2,w3", ["1.2", "w3"]),
        ("PROGRESS", "progress_pct", "40", 40),
        ("PROGRESS", "progress_pct", "many", "many"),
        ("BOARD_DISCUSS", "changes_my_verdict", "yes", True),
        ("BOARD_DISCUSS", "changes_my_verdict", "0", False),
        ("BOARD_RESOLVE", "vote_summary", '{"CA": "APPROVE"}', {"CA": "APPROVE"}),
        ("PROGRESS", "of_its_own", "[1]", [1]),
        ("PROGRESS", "of_its_own", "words", "words"),
        ("PROGRESS", "current_subtask", "[1]", "[1]"),
    ],
)
def test_a_typed_value_is_what_its_key_is_for(type_: str, key: str, text: str, value: object) -> None:
    assert from_text(type_, key, text) == value
