"""What there is to run, as a child would find it. (Beside it: tests/adapters/exec_runs/test_program.py.)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.processes import NoProgramError, find_program

if TYPE_CHECKING:
    from pathlib import Path


def test_a_relative_program_is_looked_for_in_the_working_directory(tmp_path: Path) -> None:
    program = tmp_path / "run me"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program("./run me", tmp_path, {}) == str(program)


def test_the_childs_own_path_counts(tmp_path: Path) -> None:
    with pytest.raises(NoProgramError, match="no program sh in PATH"):
        find_program("sh", tmp_path, {"PATH": str(tmp_path)})
