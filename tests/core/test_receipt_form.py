"""The content of receipts. Files and JSON have their tests beside storage/maildrop."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.core.errors import BadReceipt
from ackd.core.receipt_form import MAX_CHECKPOINT_BYTES, MAX_STEP, checked
from ackd.core.words import AGENT_REQUESTS, Folder, ReceiptKind

OTHERS = {ReceiptKind.CHECKPOINT, ReceiptKind.CANCEL, ReceiptKind.RELOAD}
ABOUT_A_MESSAGE = sorted(set(ReceiptKind) - AGENT_REQUESTS - OTHERS, key=str)


def said(**content: Any) -> Any:
    return checked("x.json", content)


def why_not(**content: Any) -> str:
    with pytest.raises(BadReceipt) as caught:
        said(**content)
    assert caught.value.name == "x.json"
    return caught.value.why


@pytest.mark.parametrize("kind", ABOUT_A_MESSAGE)
def test_a_receipt_about_a_message_names_it_and_its_agent(kind: ReceiptKind) -> None:
    found = said(kind=kind.value, message_id="<1@x>", agent="leader", reason="so\n\tit is", at="now")
    assert (found.kind, found.message_id, found.agent, found.reason) == (kind, "1@x", "leader", "so\n\tit is")
    assert why_not(kind=kind.value, agent="leader") == "no message_id"


def test_a_cancellation_says_who_asks_and_perhaps_with_what_it_is_cancelled() -> None:
    found = said(kind="cancel", message_id="2@x", agent="worker", by="leader", of="<1@x>", reason="no need")
    assert (found.message_id, found.agent, found.by, found.of, found.reason) == (
        "2@x",
        "worker",
        "leader",
        "1@x",
        "no need",
    )
    assert said(kind="cancel", message_id="2@x", agent="worker", by="leader").of is None
    assert why_not(kind="cancel", message_id="2@x", agent="worker").startswith("no by: ")
    assert why_not(kind="cancel", message_id="2@x", by="leader") == "no agent"
    assert why_not(kind="done", message_id="2@x", agent="worker", of="1@x") == "done has no of"


@pytest.mark.parametrize("kind", sorted(AGENT_REQUESTS, key=str))
def test_a_request_names_an_agent_and_perhaps_who_asks(kind: ReceiptKind) -> None:
    found = said(kind=kind.value, message_id=None, agent="worker", by="leader")
    assert (found.kind, found.message_id, found.agent, found.by) == (kind, "", "worker", "leader")
    assert why_not(kind=kind.value) == "no agent"
    for more in ({"message_id": "1@x"}, {"file": "x.mime"}):
        assert why_not(kind=kind.value, agent="worker", **more) == f"{kind.value} names an agent and no message"


def test_a_request_to_read_the_config_again_names_nobody_and_nothing() -> None:
    found = said(kind="reload", by="leader")
    assert (found.kind, found.agent, found.by) == (ReceiptKind.RELOAD, None, "leader")
    assert why_not(kind="reload", agent="worker") == "reload names no agent"
    assert why_not(kind="reload", message_id="1@x") == "reload names no agent and no message"


@pytest.mark.parametrize("folder", [Folder.DEAD, Folder.CORRUPT])
def test_a_file_may_be_said_to_lie_with_the_dead_or_in_quarantine(folder: Folder) -> None:
    assert said(kind="purge", file="x.mime", folder=folder.value).folder is folder
    assert said(kind="purge", file="x.mime").folder is None
    assert why_not(kind="purge", file="x.mime", folder="archive") == "folder is neither dead_letter nor corrupt"
    assert why_not(kind="purge", message_id="1@x", folder=folder.value) == "folder without a file"


@pytest.mark.parametrize("step", [None, 0, MAX_STEP])
def test_a_checkpoint_has_a_text_and_perhaps_a_step(step: int | None) -> None:
    text = "x" * MAX_CHECKPOINT_BYTES
    found = said(kind="checkpoint", message_id="1@x", agent="worker", text=text, step=step)
    assert (found.text, found.step) == (text, step)


@pytest.mark.parametrize("step", [-1, MAX_STEP + 1, True, 1.0, "1"])
def test_a_step_is_a_whole_number(step: object) -> None:
    assert why_not(kind="checkpoint", message_id="1@x", agent="a", text="x", step=step).startswith("step must be")


def test_the_limit_of_a_text_is_in_bytes() -> None:
    about = {"kind": "checkpoint", "message_id": "1@x", "agent": "worker"}
    assert said(**about, text="ü" * (MAX_CHECKPOINT_BYTES // 2)).text
    assert why_not(**about, text="ü" * (MAX_CHECKPOINT_BYTES // 2 + 1)).startswith("text is larger than")
    assert why_not(**about) == "no text"


@pytest.mark.parametrize("text", ["\x1b", "\0", "\ud800", "\r"])
@pytest.mark.parametrize("key", ["text", "reason", "message_id", "agent", "by"])
def test_no_control_character_gets_in_anywhere(key: str, text: str) -> None:
    content = {"kind": "checkpoint", "message_id": "1@x", "agent": "worker", "text": "x", key: f"a{text}b"}
    assert why_not(**content) == f"{key} holds control characters"


def test_what_nobody_knows_is_refused() -> None:
    assert why_not(kind="ack", message_id="1@x", agent="leader", mood="fine") == "unknown key 'mood'"
    assert why_not(kind="praise", message_id="1@x", agent="leader") == "unknown kind 'praise'"
