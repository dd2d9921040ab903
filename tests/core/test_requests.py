"""Requests of a person to an agent: which endpoints answer them, and what the others say."""

from __future__ import annotations

import pytest

from ackd.core.requests import NEED_A_LIFE, refusal
from ackd.core.words import AGENT_REQUESTS, ReceiptKind
from ackd.endpoints import registry


@pytest.mark.parametrize("endpoint", ["tmux", "process", "exec", "inbox", "handler"])
@pytest.mark.parametrize("kind", [ReceiptKind.PAUSE, ReceiptKind.RESUME])
def test_everyone_can_be_paused_and_resumed(kind: ReceiptKind, endpoint: str) -> None:
    assert refusal(kind, "worker", endpoint, registry.lifeless(endpoint)) is None


@pytest.mark.parametrize("endpoint", ["tmux", "process"])
@pytest.mark.parametrize("kind", sorted(AGENT_REQUESTS, key=str))
def test_who_lives_can_be_asked_for_everything(kind: ReceiptKind, endpoint: str) -> None:
    assert refusal(kind, "worker", endpoint, registry.lifeless(endpoint)) is None


@pytest.mark.parametrize("endpoint", ["exec", "inbox", "handler"])
@pytest.mark.parametrize("kind", sorted(NEED_A_LIFE, key=str))
def test_where_nothing_lives_the_answer_says_what_to_use_instead(kind: ReceiptKind, endpoint: str) -> None:
    words = refusal(kind, "worker", endpoint, registry.lifeless(endpoint)) or ""
    assert words.startswith("nothing to " + ("wake" if kind is ReceiptKind.NUDGE else kind.value))
    assert f"`ackd {'inbox' if endpoint == 'inbox' else 'agent pause'} worker`" in words
