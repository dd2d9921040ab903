"""Lines of the session log: each fact is one line, whatever it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.storage.session_log import SessionLog, parse_line
from ackd.storage.session_log.lines import encode_line
from tests.storage.session_log.bench import AT, written


def test_a_line_has_the_contracts_keys_in_their_order(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("message_queued", {"message_id": "1.2.a@ignite.local", "agent": "builder"}, AT)
    log.flush()
    assert log.path.read_bytes() == (
        b'{"timestamp":"2026-11-16T01:15:23.123456Z","session_id":"20261116-011523","seq":1,"writer":"daemon",'
        b'"type":"message_queued","data":{"message_id":"1.2.a@ignite.local","agent":"builder"}}\n'
    )


@pytest.mark.parametrize(
    ("at", "stamp"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1.9999999, "1970-01-01T00:00:02.000000Z"),
        (AT, "2026-11-16T01:15:23.123456Z"),
    ],
)
def test_timestamps_have_microseconds_and_carry_over(logs: Path, at: float, stamp: str) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", {}, at)
    log.flush()
    assert [line.timestamp for line in written(log)] == [stamp]
    assert abs(written(log)[0].at - at) < 1e-6


def circle() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["again"] = data
    return data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"reason": "bad \udcff byte"}, {"reason": "bad \\udcff byte"}),
        ({"\ud800": 1}, {"\\ud800": 1}),
        ({1: "one", None: "none"}, {"1": "one", "None": "none"}),
        ({"n": 1 << 70}, {"n": str(1 << 70)}),
        (
            {"path": Path("a/b"), "set": {"x"}, 3: "forces the slow way"},
            {"path": "a/b", "set": ["x"], "3": "forces the slow way"},
        ),
        ({"path": Path("a/\udcff")}, {"path": "a/\\udcff"}),
        ({"raw": b"\xff"}, {"raw": "b'\\xff'"}),
        ({"line": "two\nlines\r\x00"}, {"line": "two\nlines\r\x00"}),
    ],
)
def test_lone_surrogates_crash_nothing_and_neither_does_any_other_value(
    logs: Path, data: dict[str, object], expected: dict[str, object]
) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", data, AT)
    log.flush()
    assert [line.data for line in written(log)] == [expected]


def test_a_circle_is_cut(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", circle(), AT)
    log.flush()
    assert log.path.read_bytes().count(b"\n") == 1
    assert "…" in log.path.read_text()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)) | st.integers() | st.none(), inner)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(codec=None)), anything, max_size=4), st.text(st.characters(codec=None)))
def test_any_value_becomes_one_readable_line(data: dict[str, object], type_: str) -> None:
    raw = encode_line("2026-11-16T01:15:23.123456Z", "s", 1, "daemon", type_, data)
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1
    assert parse_line(raw[:-1]) is not None
