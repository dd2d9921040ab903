"""Labels in headers and on the command line: hostile until they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.errors import BadLabels
from ackd.core.labels import MOST_LABELS, in_header, is_label, labels_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu", ("gpu",)),
        ("gpu, py3.12", ("gpu", "py3.12")),
        (" gpu gpu,linux ", ("gpu", "linux")),
        ("c++", ("c++",)),
    ],
)
def test_labels_are_separated_by_commas_or_blanks_and_stand_once(text: str, expected: tuple[str, ...]) -> None:
    assert labels_of(text) == expected
    assert labels_of(in_header(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", " , ", "-gpu", "g;u", "x" * 65, "gpu\x00", "ü", ",".join(f"l{n}" for n in range(MOST_LABELS + 1))]
)
def test_what_is_no_list_of_labels_is_refused(text: str) -> None:
    with pytest.raises(BadLabels):
        labels_of(text)


@given(st.text(max_size=200))
def test_whatever_stands_there_comes_back_as_labels_or_not_at_all(text: str) -> None:
    try:
        found = labels_of(text)
    except BadLabels as bad:
        assert len(str(bad)) < 400
    else:
        assert found
        assert all(map(is_label, found))
