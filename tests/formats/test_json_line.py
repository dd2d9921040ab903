"""Lines that are no JSON object, and the reasons that are given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.errors import BadLine
from ackd.formats.json_line import MAX_DEPTH, Flaw, object_in, too_long


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"", Flaw.NOT_JSON, "an empty line"),
        (b" \n", Flaw.NOT_JSON, "an empty line"),
        (b"hello", Flaw.NOT_JSON, "not JSON"),
        (b'{"a": NaN}', Flaw.NOT_JSON, "not JSON"),
        (b'{"a": "\\ud800"}', Flaw.NOT_JSON, "not JSON"),
        (b'{"a": "\xff"}', Flaw.NOT_UTF8, "from byte 8 on"),
        (b"[1]", Flaw.NOT_AN_OBJECT, "one JSON object"),
        (b'{"a": ' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), Flaw.TOO_DEEP, f"more than {MAX_DEPTH} deep"),
        (b'{"a": [' * 5_000, Flaw.TOO_DEEP, f"more than {MAX_DEPTH} deep"),
    ],
)
def test_what_is_no_object_is_named(line: bytes, code: Flaw, words: str) -> None:
    with pytest.raises(BadLine) as bad:
        object_in(line)
    assert (bad.value.code, words in bad.value.detail) == (code, True)


def test_a_line_may_be_as_long_as_it_is_allowed_to_be_and_no_longer() -> None:
    line = b'{"a": "' + b"x" * 100 + b'"}'
    assert object_in(line, len(line)) == {"a": "x" * 100}
    with pytest.raises(BadLine) as bad:
        object_in(line, len(line) - 1)
    assert str(bad.value) == str(too_long(len(line) - 1))


def test_brackets_in_texts_are_no_depth() -> None:
    assert object_in(b'{"a": "' + b"[{" * 1_000 + b'"}\n') == {"a": "[{" * 1_000}


@given(st.binary(max_size=200))
def test_whatever_comes_in_it_is_an_object_or_named(line: bytes) -> None:
    try:
        assert isinstance(object_in(line), dict)
    except BadLine as bad:
        assert bad.code in list(Flaw)
