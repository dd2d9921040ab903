"""What to do about a file that is no message."""

from __future__ import annotations

import pytest

from ackd.core import cures, plain_words
from ackd.core.words import Rejection


@pytest.mark.parametrize("code", list(Rejection))
def test_every_reason_has_a_cure_in_plain_words_and_a_way_back(code: Rejection) -> None:
    cure = cures.of(code.value)
    assert "ackd dead requeue" in cure
    assert not plain_words.vague_words(cure)


def test_a_type_that_nobody_knows_names_the_keys_that_help() -> None:
    assert "extra_types" in cures.of("unknown_type")
    assert 'unknown_types = "deliver"' in cures.of("unknown_type")
