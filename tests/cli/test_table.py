"""Tables for people."""

from __future__ import annotations

import pytest

from ackd.cli.table import age, print_table


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (0, "0s"), (89, "89s"), (90, "1m"), (5399, "89m"), (5400, "1h"), (129_600, "1d"), (9e6, "104d")],
)
def test_ages_in_one_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_into_a_pipe_go_plain_columns_untruncated(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A", "B"], [["x", "y" * 300], ["long", ""]])
    assert capsys.readouterr().out == f"A     B\nx     {'y' * 300}\nlong\n"
