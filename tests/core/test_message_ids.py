"""Short forms of message ids, and the message that one means."""

from __future__ import annotations

import pytest

from ackd.core.errors import AmbiguousMessage, UnknownMessage
from ackd.core.message_ids import choose, fits, hash_part

ONE = "1794794802.29247.7c1f00d00001@ignite.local"
OTHER = "1794794802.29247.7c1fbeef0002@ignite.local"


@pytest.mark.parametrize(
    "wanted", [ONE, ONE.partition("@")[0], "1794794802.29247.7c1f0", "7c1f00d00001", "7c1f00d0", "7c1f0"]
)
def test_an_id_is_meant_by_all_of_it_by_its_beginning_or_by_its_hash(wanted: str) -> None:
    assert choose(wanted, [ONE, OTHER]) == ONE


@pytest.mark.parametrize("wanted", ["1794794802", "7c1f"])
def test_what_fits_several_is_ambiguous(wanted: str) -> None:
    with pytest.raises(AmbiguousMessage) as caught:
        choose(wanted, [ONE, OTHER])
    assert caught.value.candidates == (ONE, OTHER)


@pytest.mark.parametrize("wanted", ["", "7c1", "00d0", "29247", "beef0002", "7c1f.", "@ignite"])
def test_neither_the_middle_nor_a_scrap_of_a_hash_is_an_id(wanted: str) -> None:
    assert not fits(wanted, ONE)
    with pytest.raises(UnknownMessage):
        choose(wanted, [ONE, OTHER])


def test_a_beginning_is_meant_rather_than_a_hash() -> None:
    other = f"1.2.{ONE[:8]}@x"
    assert choose(ONE[:8], [ONE, other]) == ONE
    assert choose("whole", ["whole@x", "wholesome@x"]) == "whole@x"


def test_only_ids_of_three_parts_have_a_hash() -> None:
    assert hash_part(ONE) == "7c1f00d00001"
    assert hash_part("note-7@host.example.org") == ""
    assert hash_part("a.b.c.d@x") == ""
