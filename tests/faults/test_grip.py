"""What these tests share on the machine is nobody's: another user may have run them before."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.faults.grip import queued_events_limited_to
from tests.nobody import needs_root, nobodys_directory


@needs_root
def test_the_second_user_of_a_machine_is_not_kept_from_the_tests_by_what_the_first_left() -> None:
    lock = Path(tempfile.gettempdir()) / "ackd-tests.sysctl.lock"  # as earlier versions left it
    was_there = lock.exists()
    lock.touch(mode=0o600)
    try:
        with nobodys_directory(), pytest.raises(pytest.skip.Exception), queued_events_limited_to(16):
            raise AssertionError("nobody may not lower it")
    finally:
        if not was_there:
            os.unlink(lock)  # noqa: PTH108
