from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.ensemble import wire as ensemble
from ackd.core.words import Priority
from ackd.formats import yaml_body

if TYPE_CHECKING:
    from ackd.coordination.ensemble.wire import Content


def understood(text: str | bytes) -> Content:
    data = text.encode() if isinstance(text, str) else text
    return ensemble.understood(data, yaml_body.load)


def test_the_files_own_keys_stand_at_the_top_with_where_it_was() -> None:
    body = ensemble.body(understood("task_id: T-1\nstatus: success\n"), "queue/reports/T-1.yaml", 2, task_id="x")
    where = {"file": "queue/reports/T-1.yaml", "version": 2}
    assert body == {"task_id": "T-1", "status": "success", "ensemble": where}


def test_what_is_missing_is_added_and_what_says_nothing_is_not() -> None:
    body = ensemble.body(understood("task_id: ''\n"), "f", 1, task_id="T-1", overall_status=None)
    assert body == {"task_id": "T-1", "ensemble": {"file": "f", "version": 1}}


@pytest.mark.parametrize(
    ("data", "content", "note"),
    [
        (b"- a\n- b\n", ["a", "b"], None),
        (b"done\n", "done", None),
        (b"ensemble: mine\n", {"ensemble": "mine"}, None),
        (b"{unclosed", "{unclosed", "not YAML"),
        (b"a: &x 1\nb: *x\n", "a: &x 1\nb: *x\n", "anchor"),
        (b"a: 1\n---\nb: 2\n", "a: 1\n---\nb: 2\n", "second document"),
        (b"a: \xff\n", "a: �\n", "not UTF-8 at byte 3"),
        (b" \n", " \n", "empty"),
        (b"", "", "empty"),
    ],
)
def test_whatever_is_no_mapping_travels_whole(data: bytes, content: object, note: str | None) -> None:
    body = ensemble.body(understood(data), "f", 1)
    where = body["ensemble"]
    assert body["content"] == content
    assert isinstance(where, dict)
    assert (note is None and "note" not in where) or str(note) in where["note"]


@given(st.binary(max_size=400))
def test_every_file_becomes_a_body_that_can_be_written_and_read(data: bytes) -> None:
    body = ensemble.body(understood(data), "queue/reports/x.yaml", 1, task_id="x")
    assert yaml_body.load(yaml_body.dump(body)) is not None


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("task_id: T-1\nid: 7\ntask: build it\n", ["T-1", "7", "build it"]),
        ("task_id: null\n", []),
        ("task_id: true\n", []),
        ("task_id: [a]\n", []),
        ('task_id: "a\\nb"\n', []),
        (f"task_id: {'x' * 201}\n", []),
        ("- task_id\n", []),
        ("{", []),
    ],
)
def test_a_task_is_known_by_a_plain_word(text: str, ids: list[str]) -> None:
    assert list(ensemble.task_ids(understood(text))) == ids


def test_a_worker_may_be_a_name_or_a_number() -> None:
    assert list(ensemble.reporters(understood("worker: worker-2\nworker_id: 1\nfrom: '3'\n"))) == [
        *("worker-2", "worker-1"),
        *("3", "worker-3"),
    ]
    assert list(ensemble.assignees(understood("assigned_to: worker-2\nworker: true\n"))) == ["worker-2"]


@pytest.mark.parametrize(
    ("said", "expected"), [("HIGH", Priority.HIGH), ("urgent", Priority.NORMAL), ("1", Priority.NORMAL)]
)
def test_priorities_are_the_four_words(said: str, expected: Priority) -> None:
    assert ensemble.priority(understood(f"priority: {said}\n")) is expected


def test_a_report_may_say_that_it_is_none_yet() -> None:
    said = ["in_progress", "In Progress", "in-progress", "BLOCKED"]
    assert all(ensemble.is_under_way(understood(f"status: {one}\n")) for one in said)
    assert not any(ensemble.is_under_way(understood(f"status: {one}\n")) for one in ("success", "failed", "done", "3"))


def test_the_verdict_of_a_review_has_many_keys() -> None:
    assert ensemble.verdict(understood("result: approved\n")) == "approved"
    assert ensemble.verdict(understood("overall_status: pass\nstatus: done\n")) == "pass"
    assert ensemble.verdict(understood("score: 3\n")) is None
