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
