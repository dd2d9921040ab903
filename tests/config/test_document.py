"""docs/configuration.md is made from the model and from config/ackd.toml."""

from __future__ import annotations

import re

import pytest

from ackd.config.agents import DeliverySettings, agent_keys
from ackd.config.model import Config
from tests import configuration_document


def test_the_page_is_the_one_that_the_model_makes() -> None:
    page = configuration_document.DOCUMENT.read_text(encoding="utf-8")
    assert page == configuration_document.document(), "write it anew with `make documents`"


def test_every_key_has_a_row_with_a_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.* \| ([^|]+) \|$", configuration_document.document(), re.MULTILINE)
    assert all(meaning.strip() for _, meaning in rows)
    keys = {key for key, _ in rows}
    assert keys >= set(agent_keys()) | DeliverySettings.model_fields.keys()
    assert keys >= {"root", "escalate_to", "on_escalation", "extra_types"} & Config.model_fields.keys()


def test_ranges_and_defaults_are_those_of_the_model() -> None:
    page = configuration_document.document()
    assert "| `retry_limit` | whole number, from 0 up to 100 | `3` |" in page
    assert "| `context_threshold` | number, above 0, up to 1 | `0.7` |" in page
    assert '| `durability` | `"power"` or `"process"` | `"power"` |' in page


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ("postcards", "to", r"config/ackd\.toml has no \[postcards\]"),
        ("delivery", "speed", r"config/ackd\.toml does not name speed in \[delivery\]"),
    ],
)
def test_whoever_adds_a_key_is_told_where_its_meaning_belongs(table: str, key: str, words: str) -> None:
    meanings = configuration_document._meanings()
    with pytest.raises(LookupError, match=words):
        meanings[table][key]
