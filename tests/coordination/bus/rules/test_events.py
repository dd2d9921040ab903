from __future__ import annotations

import fnmatch

import pytest

from ackd.coordination.bus.rules.events import event_names, is_passing, wanted_names


@pytest.mark.parametrize(
    ("type_", "payload", "names"),
    [
        ("TASK_COMPLETE", {"task_id": "1.1"}, {"TASK_COMPLETE_1.1.event"}),
        ("TASK_COMPLETE", {"task_id": "1.1", "unblocks": ["1.2"]}, {"TASK_COMPLETE_1.1.event", "UNBLOCKED_1.2.event"}),
        ("TASK_FAILED", {"task_id": "1.1"}, {"TASK_FAILED_1.1.event"}),
        ("BOARD_RESOLVE", {"verdict": "APPROVED"}, {"BOARD_RESOLVE.event", "BOARD_RESOLVE_all.event"}),
        ("FILE_UNLOCK", {"filepath": "a.py"}, {"FILE_UNLOCK_all.event", "FILE_UNLOCK_a.py.event"}),
    ],
)
def test_the_seeds_names_and_one_for_the_message(type_: str, payload: dict[str, object], names: set[str]) -> None:
    assert set(event_names(type_, "msg-1", payload)) == {*names, "MESSAGE_msg-1.event"}


def test_what_nobody_waits_for_raises_nothing() -> None:
    assert event_names("PROGRESS", "msg-1", {"task_id": "1.1"}) == ()


def test_an_id_that_looks_like_a_task_does_not_announce_that_task() -> None:
    assert "TASK_COMPLETE_1.2.event" not in event_names("TASK_COMPLETE", "1.2", {"task_id": "1.1"})


def test_a_hostile_task_stays_in_the_directory() -> None:
    for name in event_names(
        "TASK_COMPLETE", "../../x", {"task_id": "../../../etc/passwd", "unblocks": ["/", "..", ""]}
    ):
        assert "/" not in name
        assert name.endswith(".event")


@pytest.mark.parametrize(
    ("pattern", "type_", "payload"),
    [
        ("TASK_COMPLETE_1.1", "TASK_COMPLETE", {"task_id": "1.1"}),
        ("TASK_COMPLETE_1.1.event", "TASK_COMPLETE", {"task_id": "1.1"}),
        ("TASK_COMPLETE_*", "TASK_COMPLETE", {"task_id": "1.1"}),
        ("FILE_UNLOCK_src/a b.py", "FILE_UNLOCK", {"filepath": "src/a b.py"}),
        ("BOARD_RESOLVE", "BOARD_RESOLVE", {}),
        ("MESSAGE_m", "TASK_FAILED", {"task_id": "1.1"}),
    ],
)
def test_a_pattern_is_taken_as_it_was_meant(pattern: str, type_: str, payload: dict[str, object]) -> None:
    raised = event_names(type_, "m", payload)
    assert any(fnmatch.fnmatchcase(name, wanted) for name in raised for wanted in wanted_names(pattern))


def test_only_what_is_of_one_moment_passes() -> None:
    assert [is_passing(name) for name in ("MESSAGE_1.event", "UNBLOCKED_1.event", "TASK_COMPLETE_1.event")] == [
        True,
        True,
        False,
    ]
