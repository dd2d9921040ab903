from __future__ import annotations

import pytest

from ackd.core.clock_frames import STEP_S, Frame, moved_s, read, write

NOON = Frame("boot-1", 1_794_843_000.0)


def test_a_clock_that_was_set_moves_what_was_written_by_as_much() -> None:
    assert moved_s(NOON, Frame("boot-1", NOON.ahead_s + 7200)) == 7200
    assert moved_s(NOON, Frame("boot-1", NOON.ahead_s - 7200)) == -7200


def test_two_readings_a_moment_apart_are_no_step() -> None:
    assert moved_s(NOON, Frame("boot-1", NOON.ahead_s + STEP_S / 2)) == 0.0


@pytest.mark.parametrize(("one", "other"), [(NOON, Frame("boot-2", NOON.ahead_s)), (None, NOON), (NOON, None)])
def test_across_boots_nobody_can_tell(one: Frame | None, other: Frame | None) -> None:
    assert moved_s(one, other) is None


def test_what_is_written_is_read_again() -> None:
    frame = Frame("2f1b/4026531834", -12.5)
    assert read(write(frame)) == frame


@pytest.mark.parametrize(
    "text", [None, 5, "", "boot", "/1.0", "boot/", "boot/x", "boot/nan", "boot/1e99", "b" * 300 + "/1"]
)
def test_what_is_no_frame_is_none(text: object) -> None:
    assert read(text) is None
