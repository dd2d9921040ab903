from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.ensemble.rules.ack_files import ack_names


def test_a_plain_id_is_the_name_as_the_seed_has_it() -> None:
    assert ack_names("task-001") == ("task-001.ack",)


@pytest.mark.parametrize("task_id", ["../../etc/cron.d/x", "a/b", ".hidden", "", "a\0b", "x" * 300, "a\nb", "-rf /"])
def test_no_id_leads_out_of_the_directory_or_hides_in_it(task_id: str) -> None:
    for name in ack_names(task_id):
        assert "/" not in name
        assert "\0" not in name
        assert not name.startswith(".")
        assert len(name.encode()) <= 255


def test_an_agent_that_puts_a_japanese_id_there_as_it_stands_is_understood() -> None:
    ours, theirs = ack_names("タスク1")
    assert theirs == "タスク1.ack"
    assert re.fullmatch(r"[A-Za-z0-9._-]+\.ack", ours)


@given(st.text(), st.text())
def test_two_ids_never_have_one_name(one: str, other: str) -> None:
    if one != other:
        assert ack_names(one)[0] != ack_names(other)[0]


@given(st.text(max_size=400))
def test_our_name_is_always_plain(task_id: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,110}\.ack", ack_names(task_id)[0])
