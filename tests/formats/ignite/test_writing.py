"""New messages and changed headers."""

from __future__ import annotations

import os
import re
import subprocess
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.errors import BadMessage
from ackd.core.message import Draft, Priority
from ackd.formats import ignite, yaml_body

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = Path(__file__).parents[1] / "corpus"
GOOD = sorted((CORPUS / "good").glob("*.mime"))
PLAIN = (CORPUS / "good" / "plain.mime").read_bytes()


def new(**fields: Any) -> bytes:
    wanted: dict[str, Any] = {
        "message_id": "1.2.abc@ignite.local", "sender": "leader", "to": ["user"], "date": ignite.rfc2822_date(0),
        "type": "user_goal", "body": "goal: x",
    }  # fmt: skip
    return ignite.build(**{**wanted, **fields})


# --- rewrite ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_header_that_is_set_and_removed_again_leaves_every_byte_as_it_was(path: Path) -> None:
    data = path.read_bytes()
    changed = ignite.rewrite(data, [("X-IGNITE-Error-At", "now"), ("X-New", "1")])
    assert dict(ignite.headers(changed))["X-New"] == "1"
    if b"X-IGNITE-Error-At" not in data:
        assert ignite.rewrite(changed, [("x-ignite-error-at", None), ("x-new", None)]) == data


def test_a_header_is_changed_where_it_stands_and_keeps_its_spelling() -> None:
    data = PLAIN.replace(b"Date:", b"x-ignite-STATUS: processing\nDate:")
    assert ignite.rewrite(data, [("X-IGNITE-Status", "delivered")]) == data.replace(b"processing", b"delivered")


def test_a_new_header_goes_after_the_last_one() -> None:
    head, _, body = PLAIN.partition(b"\n\n")
    changed = ignite.rewrite(PLAIN, [("X-IGNITE-Status", "delivered")])
    assert changed == head + b"\nX-IGNITE-Status: delivered\n\n" + body


def test_a_file_with_CRLF_gets_CRLF() -> None:
    data = (CORPUS / "good" / "crlf_headers.mime").read_bytes()
    assert b"\r\nX-IGNITE-Status: delivered\r\n\r\n" in ignite.rewrite(data, [("X-IGNITE-Status", "delivered")])


def test_a_file_of_a_type_we_no_longer_know_can_still_be_rewritten() -> None:
    data = PLAIN.replace(b"task_assignment", b"poem")
    assert b"X-IGNITE-Recipient: leader" in ignite.rewrite(data, [("X-IGNITE-Recipient", "leader")])


@pytest.mark.parametrize(
    "value", ["a\nX-Evil: 1", "a\r\nX-Evil: 1", "a\rb", "a\0b", "a\x1bb", "a\x85b", "a\u2028b", "a\tb"]
)
def test_a_newline_in_a_header_value_adds_no_header(value: str) -> None:
    with pytest.raises(BadMessage) as caught:
        ignite.rewrite(PLAIN, [("X-IGNITE-Error-Reason", value)])
    assert caught.value.code == "control_character"


@pytest.mark.parametrize("value", ["\ud800", "ok \udcff"])
def test_a_lone_surrogate_is_refused_and_crashes_no_writer(value: str) -> None:
    with pytest.raises(BadMessage) as caught:
        ignite.rewrite(PLAIN, [("X-IGNITE-Error-Reason", value)])
    assert caught.value.code == "not_utf8"


@pytest.mark.parametrize("name", ["", "To ", "A:B", "Ä", "A\nB", "A B"])
def test_a_name_that_is_no_header_name_is_refused(name: str) -> None:
    with pytest.raises(BadMessage, match="not a header name"):
        ignite.rewrite(PLAIN, [(name, "x")])


def test_headers_never_grow_beyond_what_we_would_read_again() -> None:
    with pytest.raises(BadMessage) as caught:
        ignite.rewrite(PLAIN, [("X-IGNITE-Error-Reason", "x" * ignite.MAX_HEADER_BYTES)])
    assert caught.value.code == "header_too_large"


def test_what_fits_when_rewritten_can_be_read_and_rewritten_again() -> None:
    room = ignite.MAX_HEADER_BYTES - PLAIN.index(b"\n\n") - len("\nX-Fill: ")
    fits = [n for n in range(room - 4, room + 4) if not refuses(n)]
    for n in fits:
        ignite.split(ignite.rewrite(PLAIN, [("X-Fill", "x" * n)]))
    assert fits
    assert len(fits) < 8


def refuses(length: int) -> bool:
    try:
        ignite.rewrite(PLAIN, [("X-Fill", "x" * length)])
    except BadMessage:
        return True
    return False


@given(value=st.text(max_size=60))
def test_any_value_is_written_as_exactly_one_header_or_refused(value: str) -> None:
    try:
        changed = ignite.rewrite(PLAIN, [("X-Any", value)])
    except BadMessage:
        return
    assert len(ignite.headers(changed)) == len(ignite.headers(PLAIN)) + 1
    assert dict(ignite.headers(changed))["X-Any"] == value.strip(" \t")
    assert ignite.split(changed).body == ignite.split(PLAIN).body


# --- build ------------------------------------------------------------------------------------------------------------
def test_a_new_message_has_the_headers_in_the_seeds_order() -> None:
    data = new(
        cc=["evaluator"],
        in_reply_to="a@b",
        thread_id="t",
        repository="o/r",
        issue="4",
        status="delivered",
        priority="low",
        part_of="<p@q>",
        root="r@s",
        notify="no",
    )
    assert b"X-ACKD-Part-Of: <p@q>\nX-ACKD-Root: <r@s>\nX-ACKD-Notify-When-Done: no\n" in data
    assert [name for name, _ in ignite.headers(data)] == [
        "MIME-Version", "Message-ID", "From", "To", "Cc", "Date", "In-Reply-To", "X-IGNITE-Type", "X-IGNITE-Priority",
        "X-IGNITE-Thread-ID", "X-IGNITE-Repository", "X-IGNITE-Issue", "X-ACKD-Part-Of", "X-ACKD-Root",
        "X-ACKD-Notify-When-Done", "X-IGNITE-Status", "Content-Type",
        "Content-Transfer-Encoding",
    ]  # fmt: skip


def test_what_was_not_given_leaves_no_header() -> None:
    assert [name for name, _ in ignite.headers(new())] == list(ignite.REQUIRED)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"type": "poem"}, "unknown_type"),
        ({"priority": "urgent"}, "unknown_priority"),
        ({"to": []}, "bad_name"),
        ({"to": ["../../etc"]}, "bad_name"),
        ({"sender": "a\nTo: b"}, "control_character"),
        ({"thread_id": "t\r\nX: y"}, "control_character"),
        ({"repository": "\ud800"}, "not_utf8"),
        ({"body": "goal: \ud800"}, "not_utf8"),
        ({"body": "goal: \0"}, "control_character"),
        ({"in_reply_to": "a b"}, "bad_id"),
    ],
)
def test_nothing_is_built_that_we_would_refuse_to_read(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(BadMessage) as caught:
        new(**fields)
    assert caught.value.code == code


def test_a_body_gets_its_last_line_end_and_is_otherwise_untouched() -> None:
    assert ignite.split(new(body="goal: x")).body == b"goal: x\n"
    assert ignite.split(new(body="goal: |\n  x\n\n")).body == b"goal: |\n  x\n\n"
    assert ignite.split(new(body="")).body == b""


def test_a_draft_of_our_own_comes_back_as_it_was_meant() -> None:
    body: dict[str, object] = {"agent": "a", "why": "no", "text": "line\nline\n", "bad": "\ud800"}
    draft = Draft("1.0.ab@ignite.local", "queue_monitor", "leader", "escalation", Priority.CRITICAL, body, "t", "x@y")
    data = ignite.encode_draft(draft, 1794791100.0)
    message = ignite.decode(data, "leader")
    assert (message.message_id, message.sender, message.type) == (draft.message_id, draft.sender, draft.type)
    assert (message.priority, message.thread_id, message.in_reply_to) == (Priority.CRITICAL, "t", "x@y")
    assert yaml_body.load(ignite.split(data).body.decode()) == {**body, "bad": "?"}


# --- ids, names, times ------------------------------------------------------------------------------------------------
def test_an_id_has_the_seeds_form_and_depends_on_the_entropy() -> None:
    one = ignite.new_message_id(1794791100.9, 77, b"a")
    assert re.fullmatch(r"<1794791100\.77\.[0-9a-f]+@ignite\.local>", one)
    assert one == ignite.new_message_id(1794791100.1, 77, b"a")
    assert one != ignite.new_message_id(1794791100.9, 77, b"b")


def test_a_file_name_has_sixteen_digits() -> None:
    assert ignite.file_name("user_goal", 1738315200123456) == "user_goal_1738315200123456.mime"


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/St_Johns"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = str(request.param)
    monkeypatch.setenv("TZ", name)
    time.tzset()
    yield name
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("wall", [0, 1794791100, 1782000000])
def test_times_are_printed_as_date_prints_them(zone: str, wall: int) -> None:
    printed = [
        subprocess.run(
            ["date", "-d", f"@{wall}", form], env={**os.environ, "TZ": zone, "LC_ALL": "C"}, check=True,
            capture_output=True, text=True,
        ).stdout.strip()
        for form in ("-Iseconds", "-R")
    ]  # fmt: skip
    assert [ignite.iso_seconds(wall + 0.9), ignite.rfc2822_date(wall + 0.9)] == printed
    assert parsedate_to_datetime(ignite.rfc2822_date(wall)).timestamp() == wall
