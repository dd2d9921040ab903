"""Values are compared, hashed and shown by their fields."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from ackd.core.values import value

if TYPE_CHECKING:
    from pathlib import Path


@value
class _Spot:
    row: int
    column: int = 0


def test_two_of_the_same_fields_are_one_key() -> None:
    assert {_Spot(1): "here"}[_Spot(1, 0)] == "here"
    assert _Spot(1) != _Spot(2)


def test_it_is_shown_and_matched_by_its_fields() -> None:
    match _Spot(3, 4):
        case _Spot(row, column):
            assert (row, column) == (3, 4)
    assert repr(_Spot(3)) == "_Spot(row=3, column=0)"


def test_it_has_no_room_for_other_fields() -> None:
    assert not hasattr(_Spot(1), "__dict__")


def test_the_type_checker_lets_nobody_change_one(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    file.write_text("from ackd.core.events import Now\n\nNow(1.0, 2.0).mono = 3.0\n")
    words = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent", str(file)]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert 'Property "mono" defined in "Now" is read-only' in found.stdout
