from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.bus.rules.words import BusLine, BusType, WorkerDoing, WorkerStatus
from ackd.coordination.bus.wire import TYPES, encode, quick_check
from ackd.coordination.bus.wire.models import MODELS
from ackd.coordination.bus.wire.reading import decode_status, problems, read
from ackd.core.errors import BadBusLine
from ackd.formats.json_line import MAX_DEPTH, MAX_LINE_BYTES, Flaw

NOW = 1794843994.5


def one(raw: bytes | dict[str, Any] | str, offset: int = 0) -> BusLine | BadBusLine:
    data = raw if isinstance(raw, bytes) else raw.encode() if isinstance(raw, str) else json.dumps(raw).encode()
    (said,) = read(data, offset, offset + len(data), NOW)
    return said


def line(type_: str, source: str = "w", /, **payload: Any) -> BusLine:
    said = one({"type": type_, "source": source, "payload": payload})
    assert isinstance(said, BusLine), said
    return said


def bad(raw: bytes | dict[str, Any] | str) -> BadBusLine:
    said = one(raw, 7)
    assert isinstance(said, BadBusLine)
    assert said.offset == 7
    return said


# --- lines of the seed's own snippets ---------------------------------------------------------------------------------
def test_a_message_as_the_seed_writes_it_is_read_whole() -> None:
    raw = (
        b'{"id": "msg-5", "type": "TASK_COMPLETE", "source": "worker-1.1-xxx", "timestamp": "2026-02-01T12:00:00Z", '
        b'"payload": {"task_id": "1.1", "commit_sha": "abc", "files_modified": ["a.py"], "unblocks": ["1.2"]}}\n'
    )
    said = one(raw, 100)
    assert isinstance(said, BusLine)
    assert (said.message_id, said.type, said.source) == ("msg-5", BusType.TASK_COMPLETE, "worker-1.1-xxx")
    assert said.at == 1769947200.0
    assert (said.offset, said.end) == (100, 100 + len(raw))
    assert said.payload["unblocks"] == ["1.2"]


@pytest.mark.parametrize(
    ("said", "filled_in"),
    [
        (line("FILE_LOCK", filepath="a.py"), {"filepath": "a.py", "lock_type": "exclusive"}),
        (line("BOARD_VOTE", "CSO", final_verdict="APPROVE", confidence=0.9), {"director": "CSO", "conditions": []}),
        (line("BOARD_VOTE", "CSO", verdict="reject"), {"final_verdict": "REJECT"}),
        (line("BOARD_ASSESS", "CA", verdict="CONCERNS", score=7), {"director": "CA", "concerns": []}),
        (line("BOARD_ASSESS", "CA", verdict="CONCERNS", score=85), {"score": 85}),
        (line("BOARD_DISCUSS", "CA", message="why?", type="QUESTION"), {"from": "CA", "to": "ALL"}),
        (line("TASK_COMPLETE", task_id="1.1"), {"unblocks": [], "files_modified": []}),
        (line("TASK_COMPLETE", task_id=1.1, unblocks="1.2"), {"task_id": "1.1", "unblocks": ["1.2"]}),
        (line("BLOCKED", waiting_for="1.2"), {"waiting_for": ["1.2"]}),
        (line("PROGRESS", progress_pct="45%"), {"progress_pct": 45.0}),
        (line("BOARD_RESOLVE", verdict="APPROVED"), {"vote_summary": {}, "dissent": []}),
        (line("TASK_FAILED", task_id=3, words="of its own"), {"task_id": "3", "words": "of its own"}),
    ],
)
def test_what_is_left_out_is_filled_in(said: BusLine, filled_in: dict[str, object]) -> None:
    assert {key: said.payload[key] for key in filled_in} == filled_in


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        ("2026-02-01T12:00:00Z", 1769947200.0),
        ("2026-02-01T12:00:00.250000Z", 1769947200.25),
        ("2026-02-01T13:00:00+01:00", 1769947200.0),
        (1769947200, 1769947200.0),
        ("2099-01-01T00:00:00Z", NOW),
        ("soon", NOW),
        (None, NOW),
        (True, NOW),
    ],
)
def test_times_are_read_with_and_without_a_zone_and_none_is_from_the_future(timestamp: object, at: float) -> None:
    said = one({"type": "PROGRESS", "source": "w", "timestamp": timestamp, "payload": {}})
    assert isinstance(said, BusLine)
    assert said.at == at


def test_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        said = one({"type": "PROGRESS", "source": "w", "timestamp": "2026-02-01T21:00:00", "payload": {}})
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert isinstance(said, BusLine)
    assert said.at == 1769947200.0


def test_without_an_id_it_is_known_by_its_place_and_its_words() -> None:
    ids = {
        said.message_id
        for text, at in (("a", 0), ("a", 9), ("b", 0))
        if isinstance(said := one({"type": "PROGRESS", "source": text, "payload": {}}, at), BusLine)
    }
    assert len(ids) == 3


def test_a_payload_may_stand_beside_the_type_and_the_source_inside_it() -> None:
    said = one('{"type": "TASK_FAILED", "worker_id": "w", "task_id": "1.1", "error": "no"}')
    assert isinstance(said, BusLine)
    assert (said.source, said.payload["task_id"], said.payload["error"]) == ("w", "1.1", "no")
    vote = one('{"type": "BOARD_VOTE", "payload": {"director": "CA", "final_verdict": "APPROVE"}}')
    assert isinstance(vote, BusLine)
    assert vote.source == "CA"


# --- lines that say nothing -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        (b"hello", Flaw.NOT_JSON, "not JSON"),
        (b"[1]", Flaw.NOT_AN_OBJECT, "one JSON object"),
        (b'{"type": "PROGRESS", "source": "w", "payload": {"a": NaN}}', Flaw.NOT_JSON, "not JSON"),
        (b'{"type": "PROGRESS", "source": "w", "payload": {"a": 1e999}}', Flaw.NOT_JSON, "not JSON"),
        (b'{"type": "PROGRESS", "source": "\\ud800"}', Flaw.NOT_JSON, "not JSON"),
        (b'{"type": "PROGRESS", "source": "\xff"}', Flaw.NOT_UTF8, "from byte 33"),
        (b'{"type": "PROGRESS", "type": "BLOCKED", "source": "w"}', Flaw.DUPLICATE_KEY, "'type'"),
        (b'{"type": "PROGRESS", "source": "w", "payload": {"a": 1, "a": 2}}', Flaw.DUPLICATE_KEY, "'a'"),
        (b'{"source": "w"}', Flaw.MISSING_FIELD, "type"),
        (b'{"type": "PROGRESS"}', Flaw.MISSING_FIELD, "source"),
        (b'{"type": "SHOUT", "source": "w"}', Flaw.UNKNOWN_TYPE, "SHOUT"),
        (b'{"type": {}, "source": "w"}', Flaw.UNKNOWN_TYPE, "known are PROGRESS"),
        (b'{"type": "PROGRESS", "source": "w", "payload": []}', Flaw.BAD_FIELD, "payload: must be an object"),
        (b'{"type": "TASK_COMPLETE", "source": "w", "payload": {}}', Flaw.MISSING_FIELD, "task_id: is required"),
        (b'{"type": "PROGRESS", "source": "w", "payload": {"progress_pct": 101}}', Flaw.BAD_FIELD, "progress_pct"),
        (b'{"type": "FILE_LOCK", "source": "w", "payload": {"filepath": ""}}', Flaw.BAD_FIELD, "filepath"),
        (b'{"type": "FILE_LOCK", "source": "w", "payload": {"filepath": "a", "expires_at": "x"}}', Flaw.BAD_FIELD, "a time as"),
        (b'{"type": "BOARD_VOTE", "source": "w", "payload": {"final_verdict": "MAYBE"}}', Flaw.BAD_FIELD, "final_verdict"),
        (b'{"a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", Flaw.TOO_DEEP, "deep"),
        (b'{"a": "' + b"x" * MAX_LINE_BYTES + b'"}', Flaw.TOO_LONG, "bytes in one line"),
    ],
)  # fmt: skip
def test_what_says_nothing_is_named(raw: bytes, code: Flaw, words: str) -> None:
    said = bad(raw)
    assert said.code == code
    assert words in str(said)


def test_brackets_in_a_text_are_no_depth() -> None:
    assert isinstance(one({"type": "PROGRESS", "source": "w", "payload": {"current_subtask": "[" * 200}}), BusLine)


def test_blank_lines_say_nothing_and_are_no_fault() -> None:
    assert [*read(b"", 0, 1, NOW), *read(b"  \r\n", 0, 4, NOW)] == []


def test_a_message_glued_to_the_rest_of_a_torn_one_is_not_lost() -> None:
    torn = b'{"id": "msg-1", "type": "PROGRESS", "source": "w", "payload": {"current_sub'
    whole = encode("msg-2", "TASK_COMPLETE", "w2", {"task_id": "1.1"}, NOW)
    first, second = read(torn + whole, 50, 50 + len(torn + whole), NOW)
    assert isinstance(first, BadBusLine)
    assert (first.offset, first.end) == (50, 50 + len(torn))
    assert isinstance(second, BusLine)
    assert (second.message_id, second.offset) == ("msg-2", 50 + len(torn))
    cut_in_a_letter = "ü".encode()[:1]
    assert [type(said) for said in read(b'{"a": "' + cut_in_a_letter + whole, 0, 1, NOW)] == [BadBusLine, BusLine]


# --- properties ------------------------------------------------------------------------------------------------------------
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEYS = sorted({key for model in MODELS.values() for key in model.model_fields} | {"from", "x"})
payloads = st.dictionaries(
    st.sampled_from(KEYS), values | st.sampled_from(["1.1", "APPROVE", "exclusive", ["1.2"], 50])
)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(raw: bytes) -> None:
    for said in read(raw, 3, 3 + len(raw), NOW):
        assert said.offset >= 3
        assert str(said)


@given(st.sampled_from(TYPES), payloads, st.text(st.characters(codec="utf-8")))
def test_whatever_is_read_can_be_said_again_and_reads_the_same(
    type_: str, payload: dict[str, Any], source: str
) -> None:
    first = one(encode("id", type_, source, payload, NOW))
    if isinstance(first, BusLine):
        again = one(encode("id", type_, first.source, first.payload, NOW))
        assert again == BusLine(0, again.end, "id", first.type, first.source, first.at, first.payload)
    else:
        assert first.code in (Flaw.BAD_FIELD, Flaw.MISSING_FIELD)


@given(st.sampled_from(TYPES), payloads)
def test_the_quick_check_takes_nothing_that_readers_refuse(type_: str, payload: dict[str, Any]) -> None:
    if quick_check(type_, payload):
        assert problems(type_, payload) == []


EXAMPLES: dict[str, dict[str, Any]] = {
    "PROGRESS": {"task_id": "1.1", "progress_pct": 40, "current_subtask": "x"},
    "TASK_COMPLETE": {"task_id": "1.1", "commit_sha": "a", "files_modified": ["a"], "unblocks": ["1.2"]},
    "TASK_FAILED": {"task_id": "1.1", "error": "x", "stack_trace": "y"},
    "FILE_LOCK": {"filepath": "a", "lock_type": "shared"},
    "FILE_UNLOCK": {"filepath": "a"},
    "BLOCKED": {"task_id": "1.1", "waiting_for": "1.2", "resource": "a"},
    "BOARD_ASSESS": {"director": "CA", "verdict": "APPROVE", "score": 8, "concerns": ["x"], "recommendations": []},
    "BOARD_DISCUSS": {"from": "CA", "to": "ALL", "type": "AGREE", "message": "x", "changes_my_verdict": True},
    "BOARD_VOTE": {"director": "CA", "final_verdict": "APPROVE", "confidence": 0.5, "conditions": []},
    "BOARD_RESOLVE": {"verdict": "APPROVED", "vote_summary": {}, "conditions": [], "dissent": []},
    "BUS_INIT": {"track": "api"},
    "WORKER_DISPATCHED": {"worker_id": "worker-1.1", "task_id": "1.1"},
    "TASK_BLOCKED": {"task_id": "1.1", "reason": "x"},
    "DEADLOCK_RESOLVED": {"workers": ["a", "b"]},
}


@pytest.mark.parametrize("type_", ["BUS_INIT", "WORKER_DISPATCHED", "TASK_BLOCKED", "DEADLOCK_RESOLVED"])
@pytest.mark.parametrize("source", ["orchestrator", None])
def test_what_orchestrators_say_beside_the_seeds_ten_types_is_a_line_and_no_bad_one(
    type_: str, source: str | None
) -> None:
    said = one({"type": type_, "payload": {"task_id": 1.1, "anything": [1]}, **({"source": source} if source else {})})
    assert isinstance(said, BusLine)
    assert (said.type.value, said.source) == (type_, source or "unnamed")


@pytest.mark.parametrize("type_", TYPES)
def test_what_the_seed_says_of_each_type_is_taken_quickly(type_: str) -> None:
    payload = EXAMPLES[type_]
    assert quick_check(type_, payload)
    for key in payload:
        for other in ({"a": 1}, -1, True, "", None):
            if quick_check(type_, {**payload, key: other}):
                assert problems(type_, {**payload, key: other}) == []


def test_an_entry_as_the_seed_writes_it() -> None:
    entry = {"task_id": "1.1", "status": "RUNNING", "progress_pct": 40, "last_heartbeat": "2026-02-01T12:00:00Z"}
    found, wrong = decode_status(json.dumps({"w": entry}).encode(), NOW)
    assert found == {"w": WorkerStatus("w", WorkerDoing.RUNNING, "1.1", 1769947200.0, 40.0)}
    assert wrong == []


def test_whatever_a_hand_leaves_out_or_misspells_costs_its_own_entry_at_most() -> None:
    said = {
        "quiet": {"status": "running", "task_id": 2},
        "numbers": {"status": "BLOCKED", "last_heartbeat": 1769947200, "waiting_for": ["1.1", 2]},
        "future": {"status": "COMPLETE", "last_heartbeat": "2099-01-01T00:00:00Z"},
        "odd": {"status": "THINKING"},
        "text": "RUNNING",
        "": {},
    }
    found, wrong = decode_status(json.dumps(said).encode(), NOW)
    assert found["quiet"] == WorkerStatus("quiet", WorkerDoing.RUNNING, "2")
    assert found["numbers"] == WorkerStatus("numbers", WorkerDoing.BLOCKED, None, 1769947200.0, None, ("1.1", "2"))
    assert found["future"].heartbeat == NOW
    assert len(wrong) == 3
    assert "THINKING" in wrong[0]


@pytest.mark.parametrize("spelled", ["COMPLETED", "completed", "COMPLETE"])
def test_completed_is_complete(spelled: str) -> None:
    found, wrong = decode_status(json.dumps({"w": {"status": spelled}}).encode(), NOW)
    assert (found["w"].doing, wrong) == (WorkerDoing.COMPLETE, [])


@pytest.mark.parametrize("data", [b"", b"{", b'{"w": {"status": "RUN', b"[]", b"null", b"\xff"])
def test_half_a_file_is_no_file(data: bytes) -> None:
    with pytest.raises(BadBusLine):
        decode_status(data, NOW)


@given(st.dictionaries(st.text(max_size=5), st.dictionaries(st.sampled_from(["status", "task_id", "progress_pct", "last_heartbeat", "waiting_for"]), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers()))))  # fmt: skip
def test_no_entry_makes_it_fail(said: dict[str, object]) -> None:
    try:
        data = json.dumps(said).encode()
        found, wrong = decode_status(data, NOW)
    except BadBusLine:
        return
    assert len(found) + len(wrong) == len(said)
