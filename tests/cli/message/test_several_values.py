"""Options with several values, in every way they can be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.formats import ignite
from tests.cli.message.bench import MINIMAL, parsed, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "to", [("--to", "a", "b"), ("--to", "a", "--to", "b"), ("--to", "a,b"), ("--to", "a, b"), ("--to=a", "--to=b")]
)
@pytest.mark.parametrize("cc", [(), ("--cc",), ("--cc", "c", "d"), ("--cc", "c,d")])
def test_several_recipients_can_be_given_in_every_way(to: tuple[str, ...], cc: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "m.mime"
    assert run("build", "--from", "user", *to, *cc, "--type", "user_goal", "-o", out).exit_code == 0
    assert parsed(out)["to"] == ["a", "b"]
    assert parsed(out)["cc"] == (["c", "d"] if len(cc) > 1 else [])


def test_options_may_stand_before_the_arguments(file: Path) -> None:
    assert run("update-status", "--extra", "X-A=1", "X-B=2", file, "delivered").exit_code == 0
    assert dict(ignite.headers(file.read_bytes()))["X-B"] == "2"


@pytest.mark.parametrize(
    ("words", "priority"),
    [
        (("--prio", "high"), "high"),
        (("--prio=high",), "high"),
        (("--pri", "low", "--thr", "--priority"), "low"),
    ],
)
def test_options_may_be_abbreviated_as_argparse_has_it(words: tuple[str, ...], priority: str) -> None:
    built = run("build", "--fr", "user", "--to", "leader", "--ty", "user_goal", "--body", "goal: x", *words)
    assert built.exit_code == 0, built.stderr
    assert f"X-IGNITE-Priority: {priority}\n" in built.stdout


def test_a_beginning_that_fits_several_options_is_wrong_usage() -> None:
    assert run("build", *MINIMAL, "--bod", "x").exit_code == 2
    assert run("build", *MINIMAL, "--body", "--prio", "--priority", "high").exit_code == 0, "a value is a value"
