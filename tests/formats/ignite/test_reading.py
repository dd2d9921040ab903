"""Reading bytes into the engine's values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.errors import BadMessage
from ackd.core.message import KNOWN_TYPES, Priority, Progress, Standing, Status
from ackd.formats import ignite
from ackd.formats.ignite import reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.core.message import Message

CORPUS = Path(__file__).parents[1] / "corpus"
PLAIN = (CORPUS / "good" / "plain.mime").read_bytes()
FULL = (CORPUS / "good" / "all_headers.mime").read_bytes()


def with_body(body: str, kind: str = "task_assignment") -> bytes:
    return PLAIN[: PLAIN.index(b"\n\n") + 2].replace(b"task_assignment", kind.encode()) + body.encode()


def test_every_field_reaches_the_engine() -> None:
    message = ignite.decode(FULL, "ignitian-1")
    assert message.message_id == "1790000000.4242.0a1b2c@ignite.local"
    assert message.sender == "coordinator"
    assert message.recipient == "ignitian-1"
    assert message.type == "task_assignment"
    assert message.priority is Priority.HIGH
    assert message.thread_id == "thread-9"
    assert message.in_reply_to == "1789999999.1.ffffff@ignite.local"
    assert message.task_id == "task_007"
    assert message.progress is None


def test_headers_come_in_order_and_as_they_are_spelled() -> None:
    data = (CORPUS / "good" / "unknown_headers_in_odd_places.mime").read_bytes()
    listed = ignite.headers(data)
    assert listed[0] == ("X-Custom", "first of all")
    assert ("x-lower-case", "kept as it is") in listed
    assert listed[-1] == ("X-Last", "")


@pytest.mark.parametrize(("written", "read"), [("a\tb", "a b"), ("x" * 300, "x" * 250), ("", None)])
def test_a_thread_is_something_that_we_can_write_into_messages_of_our_own(written: str, read: str | None) -> None:
    data = PLAIN.replace(b"Date:", f"X-IGNITE-Thread-ID: {written}\nDate:".encode())
    assert ignite.decode(data, "leader").thread_id == read


@pytest.mark.parametrize(
    ("said", "automatic"),
    [
        ("auto-generated", True),
        ("auto-replied", True),
        ("Auto-Replied; owner=x", True),
        ("no", False),
        ("NO; a=b", False),
    ],
)
def test_what_nobody_wrote_by_hand_says_so(said: str, automatic: bool) -> None:
    data = PLAIN.replace(b"X-IGNITE-Type:", f"Auto-Submitted: {said}\nX-IGNITE-Type:".encode())
    assert ignite.decode(data, "leader").automatic is automatic
    assert not ignite.decode(PLAIN, "leader").automatic


# --- read at a glance, or line by line ---------------------------------------------------------------------------------
_WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
_NAMES = st.sampled_from(("user", "leader", "queue_monitor", "processed", "ignitian-1", "a" * 64, "a" * 65))
_IDS = st.sampled_from(("1.2.3@ignite.local", "a/b", "x" * 250, "x" * 251, "<a>", ""))


def _outcome(read: Callable[[], Message | None]) -> Message | tuple[str, str] | None:
    try:
        return read()
    except BadMessage as bad:
        return bad.code, bad.detail


@st.composite
def _letters(draw: st.DrawFn) -> bytes:
    """Messages nearly as ackd writes them: with lines left out, doubled, swapped or spoiled, and any body."""
    lines = [
        "MIME-Version: 1.0", f"Message-ID: <{draw(_IDS)}>", f"From: {draw(_NAMES)}", f"To: {draw(_NAMES)}",
        f"Date: {draw(_WORDS)}", f"In-Reply-To: <{draw(_IDS)}>",
        f"Auto-Submitted: {draw(st.sampled_from(('auto-generated', 'auto-replied; x=y', 'no', 'No ; a', '')))}",
        f"X-IGNITE-Type: {draw(st.sampled_from([*sorted(KNOWN_TYPES), 'other', 'progress_update']))}",
        f"X-IGNITE-Priority: {draw(st.sampled_from(('low', 'normal', 'urgent', 'critical')))}",
        f"X-IGNITE-Thread-ID: {draw(_WORDS)}", f"X-IGNITE-Repository: {draw(_WORDS)}", f"X-IGNITE-Issue: {draw(_WORDS)}",
        f"X-ACKD-Part-Of: <{draw(_IDS)}>", f"X-ACKD-Root: <{draw(_IDS)}>",
        f"X-ACKD-Notify-When-Done: {draw(st.sampled_from(('yes', 'no', 'YES', 'maybe', '')))}",
        "Content-Type: text/x-yaml; charset=utf-8", "Content-Transfer-Encoding: 8bit",
    ]  # fmt: skip
    for at in sorted(draw(st.sets(st.sampled_from((5, 6, 9, 10, 11, 12, 13, 14)))), reverse=True):
        del lines[at]
    match draw(st.sampled_from(("as it is", "without", "twice", "swapped", "spoiled"))):
        case "without":
            del lines[draw(st.integers(0, len(lines) - 1))]
        case "twice":
            lines.append(lines[draw(st.integers(0, len(lines) - 1))])
        case "swapped":
            at = draw(st.integers(1, len(lines) - 1))
            lines[at - 1], lines[at] = lines[at], lines[at - 1]
        case "spoiled":
            lines[draw(st.integers(0, len(lines) - 1))] += draw(st.sampled_from((" ", "\t", "\r", "\x1b", "é", "\n x")))
    body = draw(st.binary(max_size=20) | st.just(b"task_id: t-1\noverall_status: fail\npercent: 10\n"))
    return "\n".join(lines).encode() + b"\n\n" + body


@given(data=_letters())
def test_what_is_read_at_a_glance_is_what_a_look_at_every_line_finds(data: bytes) -> None:
    glanced = _outcome(lambda: reading._usual(data, "leader"))
    assert glanced in (None, _outcome(lambda: reading._line_by_line(data, "leader", frozenset())))


def _part(part_of: str, root: str, notify: str) -> Message:
    lines = f"X-ACKD-Part-Of: {part_of}\nX-ACKD-Root: {root}\nX-ACKD-Notify-When-Done: {notify}\nContent-Type:"
    return ignite.decode(PLAIN.replace(b"Content-Type:", lines.encode()), "leader")


def test_a_part_is_known_by_its_headers_also_where_others_wrote_them() -> None:
    one = _part("<1.2.3@x>", "<0.0.1@x>", "yes")
    assert (one.part_of, one.root, one.notify) == ("1.2.3@x", "0.0.1@x", True)
    other = _part("1.2.3@x", "", "NO")
    assert (other.part_of, other.root, other.notify) == ("1.2.3@x", None, False)


@pytest.mark.parametrize("wrong", ["<a b>", "<>", "", "x" * 251, '<a"b>'])
def test_what_can_be_no_id_makes_no_part_and_is_no_reason_to_refuse_the_message(wrong: str) -> None:
    assert _part(wrong, wrong, "perhaps") == ignite.decode(PLAIN, "leader")


def test_a_message_and_its_copy_as_a_part_are_the_same_message() -> None:
    """The digest is of what a message says, as ever."""
    assert _part("<1.2.3@x>", "", "").digest == ignite.decode(PLAIN, "leader").digest


@pytest.mark.parametrize(
    ("reply", "thread", "issue"), [(None, None, None), (None, "t 1", None), ("a@b", None, "7"), ("a@b", "t", "7")]
)
def test_what_ackd_writes_itself_is_read_at_a_glance(reply: str | None, thread: str | None, issue: str | None) -> None:
    data = ignite.build(
        message_id="1.2.3@ignite.local",
        sender="user",
        to=["leader"],
        date="today",
        type="message",
        body="é",
        in_reply_to=reply,
        thread_id=thread,
        issue=issue,
    )
    assert reading._usual(data, "leader") == reading._line_by_line(data, "leader", frozenset())


@pytest.mark.parametrize("good", sorted((CORPUS / "good").glob("*.mime")), ids=lambda path: path.stem)
def test_every_good_file_is_the_same_either_way(good: Path) -> None:
    data = good.read_bytes()
    assert reading._usual(data, "leader") in (None, reading._line_by_line(data, "leader", frozenset()))


def test_headers_too_large_for_ours_to_be_added_are_not_read_at_a_glance() -> None:
    thread = "x" * ignite.MAX_HEADER_BYTES
    data = PLAIN.replace(b"Content-Type", f"X-IGNITE-Thread-ID: {thread}\nContent-Type".encode())
    assert reading._usual(data, "leader") is None


# --- the digest -------------------------------------------------------------------------------------------------------
def digest(data: bytes) -> str:
    return ignite.decode(data, "leader").digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"From: coordinator", b"From: leader"),
        (b"Mend the parser", b"Mend the writer"),
        (b"task_assignment", b"improvement_request"),
        (b"Date:", b"X-IGNITE-Thread-ID: t\nDate:"),
        (b"Date:", b"In-Reply-To: <a@b>\nDate:"),
    ],
)
def test_other_content_under_the_same_id_has_another_digest(old: bytes, new: bytes) -> None:
    assert digest(PLAIN.replace(old, new)) != digest(PLAIN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"To: ignitian_1", b"To: ignitian_2"),
        (b"01:02:03", b"04:05:06"),
        (b"Date:", b"X-IGNITE-Status: retrying\nX-IGNITE-Retry-Count: 2\nDate:"),
        (b"Date:", b"X-IGNITE-Error-Reason: exit 1\nDate:"),
    ],
)
def test_what_ackd_rewrites_and_whom_it_was_meant_for_do_not_change_the_digest(old: bytes, new: bytes) -> None:
    assert digest(PLAIN.replace(old, new)) == digest(PLAIN)


def test_mail_from_the_monitor_is_the_same_whenever_its_id_is() -> None:
    ours = PLAIN.replace(b"From: coordinator", b"From: queue_monitor")
    assert digest(ours) == digest(ours.replace(b"Mend the parser", b"at another second"))
    assert digest(ours) != digest(ours.replace(b"0a1b2c", b"ffffff"))


# --- standing ---------------------------------------------------------------------------------------------------------
def test_a_file_in_processed_says_where_it_stands() -> None:
    standing = ignite.standing(FULL)
    assert standing.status is Status.RETRYING
    assert standing.retry_count == 2
    assert standing.next_retry_at == 1794791100.0
    assert standing.processed_at is None


def test_no_status_means_processing() -> None:
    assert ignite.standing(PLAIN) == Standing()


@pytest.mark.parametrize(
    "header",
    [
        "X-IGNITE-Status: on fire",
        "X-IGNITE-Retry-Count: -1",
        "X-IGNITE-Retry-Count: ٣",
        "X-IGNITE-Retry-Count: 99999999999999999999",
        "X-IGNITE-Next-Retry-After: tomorrow",
        "X-IGNITE-Next-Retry-After: 9999-12-31T23:59:59Z",
        "X-IGNITE-Processed-At: 0001-01-01T00:00:00",
        "X-IGNITE-Processed-At: nan",
    ],
)
def test_garbage_in_a_status_header_counts_as_absent(header: str) -> None:
    data = PLAIN.replace(b"Date:", header.encode() + b"\nDate:")
    ignite.decode(data, "leader")
    assert ignite.standing(data) == Standing()


@pytest.mark.parametrize("text", ["2026-11-16T01:05:00Z", "2026-11-16T10:05:00+09:00", "1794791100", "1794791100.000"])
def test_times_are_read_in_the_forms_that_people_and_tools_write(text: str) -> None:
    data = PLAIN.replace(b"Date:", f"X-IGNITE-Processed-At: {text}\nDate:".encode())
    assert ignite.standing(data).processed_at == 1794791100.0


def test_the_time_that_iso_seconds_prints_is_read_back() -> None:
    data = ignite.rewrite(PLAIN, [(ignite.PROCESSED_AT, ignite.iso_seconds(1794791100.9))])
    assert ignite.standing(data).processed_at == 1794791100.0


# --- task_id ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("task_id: task_1\n", "task_1"),
        ('goal: x\ntask_id: "task_1"  # mine\n', "task_1"),
        ("task_id: 'task_1'", "task_1"),
        ("task_id: FEAT-3 # mine\r\n", "FEAT-3"),
        ("task_id: issue#4\n", "issue#4"),
        ("task_id: 007\n", "007"),
        ("nested:\n  task_id: inner\n", None),
        ("notes: |\n  task_id: in a text\n", None),
        ("task_id:\n", None),
        ("task_id: null\n", None),
        ("task_id: |\n  block\n", None),
        ("task_id: [a]\n", None),
        ("task_id: &anchor a\n", None),
        ('task_id: "open\n', None),
        ("task_id: " + "x" * 129, None),
        ("task_id: a\x1bb\n", None),
        ("not yaml: : :\ntask_id: still\n", "still"),
        ("", None),
    ],
)
def test_the_task_is_found_without_parsing_the_body(body: str, expected: str | None) -> None:
    assert ignite.decode(with_body(body), "leader").task_id == expected


# --- progress ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("stage: review\npercent: 40\nmessage: half\nfinal: true\n", Progress("review", 40, "half", True)),
        ("repository: a/b\nsummary: x\n", Progress()),
        ("percent: 101\n", Progress()),
        ("percent: true\n", Progress()),
        ("percent: 40%\n", Progress(percent=40)),
        ("percent: 39.9\n", Progress(percent=39)),
        ("stage: no\n", Progress(stage="no")),
        ("stage: [a]\nmessage: {b: c}\n", Progress()),
        ("message: |\n  two\n  lines\n", Progress(message="two lines")),
        ('message: "bell \\a"\n', Progress(message="bell ")),
        ("a: &x 1\nb: *x\nstage: review\npercent: 7\n", Progress(stage="review", percent=7)),
        ("}{ broken\nstage: review\nfinal: true\n", Progress(stage="review", final=True)),
        ("- a list\n", Progress()),
        ("", Progress()),
    ],
)
def test_progress_is_what_can_be_read_and_never_a_rejection(body: str, expected: Progress) -> None:
    assert ignite.decode(with_body(body, "progress_update"), "leader").progress == expected


def test_a_huge_progress_report_is_not_parsed_but_its_keys_are_found() -> None:
    body = "stage: review\n" + "- x\n" * 50_000
    assert ignite.decode(with_body(body, "progress_update"), "leader").progress == Progress(stage="review")


# --- a glance ---------------------------------------------------------------------------------------------------------
HEAD = PLAIN[: PLAIN.index(b"\n\n")]


def crlf(head: bytes) -> bytes:
    return head.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("word", [priority.value for priority in Priority])
@pytest.mark.parametrize("spelled", [b"X-IGNITE-Priority: %s", b"x-ignite-priority:\t%s ", b"X-Ignite-Priority:%s"])
@pytest.mark.parametrize("form", [bytes, crlf])
def test_a_glance_sees_the_priority_that_reading_finds(
    word: str, spelled: bytes, form: Callable[[bytes], bytes]
) -> None:
    lines = [line for line in HEAD.split(b"\n") if not line.startswith(b"X-IGNITE-Priority")]
    for at in range(len(lines) + 1):
        message = form(b"\n".join([*lines[:at], spelled % word.encode(), *lines[at:]]) + b"\n\n") + b"a: 1\n"
        assert ignite.glance(message) == (ignite.decode(message, "leader").priority, False)


@pytest.mark.parametrize("name", [b"In-Reply-To", b"in-reply-to", b"IN-REPLY-TO", b"iN-rEPLY-tO"])
@pytest.mark.parametrize("form", [bytes, crlf])
def test_a_glance_sees_an_answer_wherever_it_says_so(name: bytes, form: Callable[[bytes], bytes]) -> None:
    lines = HEAD.split(b"\n")
    for at in range(len(lines) + 1):
        message = form(b"\n".join([*lines[:at], name + b": <1.1.a@x>", *lines[at:]]) + b"\n\n")
        assert ignite.glance(message)[1]


@pytest.mark.parametrize("name", [b"X-In-Reply-To", b"Importance", b"Reply-To"])
def test_a_header_that_looks_like_it_is_no_answer(name: bytes) -> None:
    assert not ignite.glance(HEAD + b"\n" + name + b": <1.1.a@x>\n\n")[1]


@pytest.mark.parametrize("head", [b"", HEAD, HEAD + b"\n", HEAD[:50], b"\0" * 4096])
def test_what_is_not_clearly_an_ordinary_message_is_read_soon(head: bytes) -> None:
    assert ignite.glance(head)[1]


def test_an_unknown_priority_is_an_ordinary_one() -> None:
    assert ignite.glance(b"From: x\nX-IGNITE-Priority: whenever\n\n") == (Priority.NORMAL, False)


@pytest.mark.parametrize(
    ("data", "sender"),
    [
        (b"From: leader\nX: y\n\nbody", "leader"),
        (b"from:leader  \r\nTo: x\r\n\r\nFrom: other", "leader"),
        (b"X: \xff\nFrom: leader\n", "leader"),
        (b"From: leader\nFrom: other\n\n", None),
        (b"From: not a name\n\n", None),
        (b"From: \xff\n\n", None),
        (b"X: y\n\nFrom: leader", None),
        (b"", None),
        (b"From: " + b" " * 60_000 + b"x" + b" " * 60_000, "x"),
    ],
)
def test_whom_a_file_that_is_no_message_seems_to_come_from(data: bytes, sender: str | None) -> None:
    assert ignite.claimed_sender(data) == sender


def with_times(*lines: str) -> bytes:
    head, _, body = PLAIN.partition(b"\n\n")
    return head + b"\n" + "\n".join(lines).encode() + b"\n\n" + body


def test_the_times_that_a_sender_gives_reach_the_engine_and_are_no_content() -> None:
    data = with_times("X-ACKD-Expires: 2027-01-15T08:00:00Z", "x-ackd-deadline: 2027-01-15T10:00:00+01:00")
    found, plain = ignite.decode(data, "leader"), ignite.decode(PLAIN, "leader")
    assert (found.expires_at, found.deadline_at, found.doubts) == (1_800_000_000, 1_800_003_600, "")
    assert found.digest == plain.digest


@pytest.mark.parametrize("text", ["soon", "1800000000", "2027-13-01T00:00:00Z", "1969-01-01T00:00:00Z", "2h"])
def test_a_time_that_makes_no_sense_is_left_out_and_said(text: str) -> None:
    found = ignite.decode(with_times(f"X-ACKD-Deadline: {text}"), "leader")
    assert (found.expires_at, found.deadline_at) == (None, None)
    assert found.doubts == f"X-ACKD-Deadline is no time of RFC 3339 (2026-11-19T02:00:00Z): {text!r} is ignored"


def test_an_empty_time_is_what_a_template_leaves_behind() -> None:
    assert ignite.decode(with_times("X-ACKD-Deadline:"), "leader").doubts == ""


def test_a_dead_letter_says_that_it_was_cancelled() -> None:
    assert ignite.standing(with_times("X-ACKD-Ended: cancelled")).cancelled
    assert not ignite.standing(with_times("X-ACKD-Ended: expired")).cancelled
