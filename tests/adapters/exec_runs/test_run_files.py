"""Files that the shim wrote, whole or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.adapters.exec_runs import run_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("status", ["", "0", "\n", "0\n0\n", "-1\n", "x\n", "1234\n"])
def test_a_status_that_is_not_one_whole_line_is_none(tmp_path: Path, status: str) -> None:
    (tmp_path / "status").write_text(status)
    assert run_files.read_status(tmp_path) is None


def test_a_process_name_with_brackets_does_not_shift_the_fields() -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    assert run_files.parse_stat(f"41 (a) b (c) {fields}") == run_files.Leader(41, 22)
