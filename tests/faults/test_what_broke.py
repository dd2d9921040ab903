"""The list in README.md of what broke for others: each test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", (TESTS / "faults" / "README.md").read_text())


def test_the_list_is_read() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_a_failure_of_others_has_its_test(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (TESTS / path).read_text(), re.MULTILINE)
