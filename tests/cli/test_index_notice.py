"""What is said while all session logs are read for their index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.index_notice import IndexNotice, announce_building
from ackd.client import log_history

if TYPE_CHECKING:
    import pytest

MB = 1_000_000


def test_much_is_told_once_and_little_never(capsys: pytest.CaptureFixture[str]) -> None:
    notice = IndexNotice()
    for left in (3 * MB, 0):
        notice.tell(left)
    assert said(capsys) == ""
    for left in (380 * MB, 340 * MB, 0):
        notice.tell(left)
    assert said(capsys) == "ackd: reading 380 MB of session logs once, so that later searches are quick\n"


def test_programs_that_read_stderr_are_not_told() -> None:
    before = list(log_history._announced)
    announce_building()
    assert log_history._announced == before


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err
