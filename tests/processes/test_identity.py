"""A process is known again by its start, not by its number."""

from __future__ import annotations

import os

import pytest

from ackd.processes import Identity, boot_id, identity_of, parse_stat


def test_a_process_name_with_brackets_does_not_shift_the_fields() -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    assert parse_stat(f"41 (a) b (c) {fields}") == Identity(41, 22)


def test_a_process_stays_the_same_and_one_that_is_gone_is_nobody() -> None:
    assert identity_of(os.getpid()) == identity_of(os.getpid())
    with pytest.raises(OSError, match="No such file"):
        identity_of(2**30)


def test_the_boot_has_a_name() -> None:
    assert len(boot_id()) == 36
