"""Models of the worker protocol, and the schemas that are made of them for workers in other languages."""

from __future__ import annotations

import json

import pytest

from ackd.core.worker import WorkerState
from ackd.endpoints.process.wire.models import FROM_ACKD, FROM_WORKER, IN_PAYLOAD, KINDS, schema
from ackd.protocol import MessageType
from tests.rewrite_schemas import SCHEMAS, pages


@pytest.mark.parametrize("name", pages())
def test_the_schema_that_ships_is_that_of_the_model(name: str) -> None:
    shipped = (SCHEMAS / name).read_text(encoding="utf-8")
    assert shipped == pages()[name], "the wire has changed: rewrite with `make schemas` and read what changed"


def test_no_other_schema_ships() -> None:
    assert {file.name for file in SCHEMAS.iterdir()} == set(pages())


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_names_its_type_and_lets_others_add_words(kind: str) -> None:
    described = schema(kind)
    assert described["title"] == described["properties"]["type"]["const"] == kind
    assert described["additionalProperties"] is True
    assert "type" in described["required"]


def test_the_seeds_seven_types_are_among_them() -> None:
    assert {kind.value for kind in MessageType} == set(FROM_WORKER) | {"assign"}
    assert not set(FROM_WORKER) & set(FROM_ACKD)


def test_the_nine_states_are_in_the_schema() -> None:
    text = json.dumps(schema("heartbeat"))
    assert all(f'"{state.value}"' in text for state in WorkerState)


@pytest.mark.parametrize("kind", IN_PAYLOAD)
def test_a_schema_lets_progress_and_blocked_have_everything_in_their_payload(kind: str) -> None:
    described = schema(kind)
    assert described["required"] == ["type"]
    at_the_top, in_payload = described["anyOf"]
    assert "task_id" in at_the_top["required"]
    payload = described["$defs"][in_payload["properties"]["payload"]["$ref"].rpartition("/")[2]]
    assert set(at_the_top["required"]) <= set(payload["properties"])
