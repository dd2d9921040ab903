"""No door fails on what comes in by it: at random, and for everything that ever made one fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz import shapes
from tests.fuzz.families import SEEDS
from tests.fuzz.findings import FOUND, keep
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = int(os.environ.get("ACKD_HYPOTHESIS_EXAMPLES", "120")) // 6


class Given(bytes):
    """Hypothesis prints what it found; a megabyte of it helps nobody."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{bytes(self[:200])!r} and {max(0, len(self) - 200)} more bytes"


@pytest.mark.parametrize("file", FOUND, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_what_once_made_a_door_fail_does_so_no_more(file: Path) -> None:
    TARGETS[file.parent.name](file.read_bytes())


def test_every_finding_has_its_target() -> None:
    assert {file.parent.name for file in FOUND} <= TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_no_door_fails_on_what_is_right(name: str) -> None:
    target = TARGETS[name]
    for seed in SEEDS[target.family]:
        target(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_no_door_fails_whatever_comes_in(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(shapes.bytes_like(target.family).map(Given))
    def holds(data: bytes) -> None:
        try:
            target(data)
        except BaseException as error:
            error.add_note(f"the bytes are kept in {keep(name, data)}")
            raise

    holds()
