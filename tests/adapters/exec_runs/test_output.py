"""What a command prints, cut from its beginning while it appends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.exec_runs import output

if TYPE_CHECKING:
    from pathlib import Path


def test_up_to_the_limit_it_is_not_too_long(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(b"")
    os.truncate(tmp_path / "output", output.LIMIT_BYTES)
    assert not output.is_too_long(tmp_path)
    os.truncate(tmp_path / "output", output.LIMIT_BYTES + 1)
    assert output.is_too_long(tmp_path)


def test_a_run_that_is_gone_prints_nothing(tmp_path: Path) -> None:
    assert not output.is_too_long(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        output.cut(tmp_path / "gone")


def test_the_end_is_kept_and_the_command_goes_on_after_it(tmp_path: Path) -> None:
    with (tmp_path / "output").open("ab", buffering=0) as command:
        command.write(b"a" * output.LIMIT_BYTES + b"the reason")
        dropped = output.cut(tmp_path)
        command.write(b" and more")
    left = (tmp_path / "output").read_bytes()
    assert left.startswith(b"[ackd cut %d bytes here]\na" % dropped)
    assert left.endswith(b"athe reason and more")
    assert dropped == output.LIMIT_BYTES + len(b"the reason") - output.KEPT_BYTES
    assert len(left) < 2 * output.KEPT_BYTES
