"""`ackd worker schema`: the schemas of the worker protocol, without looking for files of the package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ackd.endpoints.process.wire.models import KINDS
from tests.rewrite_schemas import pages

Team = Any  # conftest.py's: test files do not import each other


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_of_a_line_is_the_one_that_is_shipped(team: Team, kind: str) -> None:
    assert json.loads(team.ackd("worker", "schema", kind).stdout) == json.loads(pages()[f"{kind}.json"])


def test_a_type_that_there_is_not_is_said_with_those_that_there_are(team: Team) -> None:
    answer = team.ackd("worker", "schema", "asign")
    assert answer.exit_code == 66
    assert "assign, " in answer.stderr
