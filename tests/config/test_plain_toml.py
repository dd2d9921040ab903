"""The quick reader of plain TOML returns what tomllib returns, or None."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackd.config.plain_toml import read
from tests.cli.runner import run

PLAIN = """
# a comment
root = ".ackd"  # another
extra_types = ["code_review", "x",]
empty = [ ]
escalate_to="leader"
limits = [1, 2.5, true]

[delivery]
ack_timeout_s = 60
backoff_cap_s = 0.25
quick = false

[agents.worker-1]   # the first
command = ["./work.sh", "--all"]
[agents]
note = "größer → schöner"
"""


def test_plain_files_are_read_as_tomllib_reads_them() -> None:
    found = read(PLAIN)
    assert found == tomllib.loads(PLAIN)
    assert found is not None
    assert list(found) == list(tomllib.loads(PLAIN))


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\na = 2",
        "[a]\n[a]",
        "a = 1\n[a]",
        "a = 1\n[a.b]",
        "[[a]]",
        "a.b = 1",
        '"a" = 1',
        "a = 'x'",
        'a = """x"""',
        r'a = "\t"',
        'a = "x" "y"',
        'a = "x',
        "a = {b = 1}",
        "a = [[1]]",
        "a = [1",
        "a = [1 2]",
        "a = [,]",
        "a = 01",
        "a = +1",
        "a = 1_000",
        "a = 1.",
        "a = .5",
        "a = 1e3",
        "a = 2026-11-16",
        "a = 12345678901234567890",
        "a = ٣",
        "a =",
        "a",
        "= 1",
        "a = 1\tb",
        "a = 1 b",
        "[a",
        "[a] b",
        "[]",
        "[a..b]",
        "\ufeffa = 1",
        "a = 1\r",
        "# \x01",
    ],
)
def test_what_is_not_plain_is_left_to_tomllib(text: str) -> None:
    assert read(text) is None


#: Pieces that plain and odd files are made of, so that chance meets the seams between them.
PIECES = st.sampled_from(
    'a|b|a.b| |=| = |[|]|[a]\n|[a.b]\n|\n|#|"|"x"|""|\'|\\|,|1|0|01|1.5|1e5|-|_|true|false|inf|{|}|\t|\r\n|ü|\u2028|a = 1\n|'
    "b = [1]\n".split("|")
)


@given(st.lists(PIECES, max_size=14).map("".join))
@example("a = [1]\n[a.b]\n")
@example('a = ""1')
def test_it_never_says_anything_else_than_tomllib(text: str) -> None:
    found = read(text)
    if found is not None:
        assert found == tomllib.loads(text)
        assert repr(found) == repr(tomllib.loads(text))  # 1, 1.0 and True are equal


def test_our_own_config_files_are_plain() -> None:
    here = Path(__file__).parents[2]
    assert read((here / "config" / "ackd.toml").read_text()) is not None


def test_what_init_writes_is_plain(tmp_path: Path) -> None:
    result = run(["init", "--root", str(tmp_path / ".ackd"), "--config", str(tmp_path / "ackd.toml")])
    assert result.exit_code == 0, result.output
    assert read((tmp_path / "ackd.toml").read_text()) is not None
