"""No secrets on a screen: status, explain, thread, tail, wait, dead, in words and as JSON. `ackd read` shows everything."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ackd.core.redaction import MARK, Redaction
from ackd.facts import redaction as shown
from tests.acceptance.teams import mime

Team = Any  # conftest.py's: test files do not import each other

KEY = "ghp_" + "a1B2" * 9
ID = "1770263544.1.abcdef@ignite.local"


def write(team: Team, path: str, data: bytes) -> None:
    (team.root / path).parent.mkdir(parents=True, exist_ok=True)
    (team.root / path).write_bytes(data)


@pytest.fixture
def told(team: Team) -> Team:
    """A team with a key in a log line, in a dead letter, and in a message that waits."""
    about = {"message_id": ID, "agent": "worker_1", "from": "leader", "message_type": "message"}
    lines = [
        ("session_start", {"version": "1", "pid": 1, "root": "/r", "config_hash": "x", "recovered": {}}),
        ("message_queued", {**about, "file": "queue/worker_1/m.mime", "priority": "normal"}),
        (
            "message_dead",
            {**about, "reason": f"exit 1: fatal: {KEY}\nrefused acme-4711", "retry_count": 3, "file": "x"},
        ),
    ]
    rows = [
        {"timestamp": f"2026-11-19T22:00:0{n}.000000Z", "session_id": "s", "seq": n, "writer": "daemon", "type": type_,
         "data": data}
        for n, (type_, data) in enumerate(lines)
    ]  # fmt: skip
    write(team, "logs/session-20261119-220000.ndjson", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    body = f'content: "the key is {KEY} and acme-4711"\n'
    dead = mime(to="worker_1", message_id=ID, body=body, extra=f"X-IGNITE-Error-Reason: exit 1: {KEY}\n")
    write(team, "queue/dead_letter/message_1770263544000001.mime", dead)
    write(team, "queue/worker_1/message_1770263544000002.mime", mime(to="worker_1", message_id=f"2{ID}", body=body))
    return team


SHOWN = (
    ["explain", ID],
    ["tail"],
    ["thread", ID],
    ["dead", "list"],
    ["dead", "show", ID],
    ["wait", ID, "--timeout", "0"],
)


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("words", SHOWN, ids=lambda words: " ".join(words[:2]))
def test_no_secret_is_shown_unless_that_is_said(told: Team, words: list[str], as_json: list[str]) -> None:
    before = {path: path.read_bytes() for path in told.root.rglob("*.mime")}
    result = told.ackd(*words, *as_json)
    assert (KEY in result.output, MARK in result.output) == (False, True), result.output
    if as_json:
        for line in result.stdout.splitlines() if words == ["tail"] else [result.stdout]:
            json.loads(line)
    whole = told.ackd(*words, *as_json, "--unredacted").output
    assert (KEY in whole, MARK in whole) == (True, False)
    assert {path: path.read_bytes() for path in told.root.rglob("*.mime")} == before


def test_a_long_reason_is_redacted_before_it_is_folded(told: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.cli.explain.terminal_width", lambda _stream: 40)
    shown_words = told.ackd("explain", ID).stdout
    assert not any(KEY[start : start + 8] in shown_words for start in range(len(KEY) - 8))


def test_an_agent_reads_the_whole_message(told: Team) -> None:
    told.ackd("status")  # in the same process, and redacted
    for words in ([], ["--json"]):
        assert KEY in told.ackd("read", f"2{ID}", "--agent", "worker_1", *words).stdout


def test_patterns_of_ones_own_are_added_and_ours_can_be_left_out(told: Team) -> None:
    config = told.home / "ackd.toml"
    before = config.read_text()
    config.write_text(f"{before}\n[redact]\npatterns = ['acme-(\\d+)']\n")
    result = told.ackd("dead", "show", ID).stdout
    assert (f"acme-{MARK}" in result, KEY in result) == (True, False)
    config.write_text(f"{before}\n[redact]\ndefaults = false\n")
    assert KEY in told.ackd("dead", "show", ID).stdout


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("patterns = ['ok', '(']", "redact.patterns[1]"),
        ("patterns = ['x*']", "redact.patterns[0]"),
        ("patterns = [3]", "redact.patterns[0]"),
        ("patterns = 'x'", "redact.patterns"),
        ("defaults = 'no'", "redact.defaults"),
        ("pattern = []", "redact.pattern"),
    ],
)
def test_a_bad_table_is_exit_78_with_its_key(told: Team, table: str, key: str) -> None:
    config = told.home / "ackd.toml"
    config.write_text(f"{config.read_text()}\n[redact]\n{table}\n")
    explained, checked = told.ackd("explain", ID), told.ackd("check")
    assert (explained.exit_code, checked.exit_code) == (78, 78)
    assert f"{key}: " in explained.output
    assert key.replace("[", ".").replace("]", "") in checked.output  # the daemon's own reading of the config
    assert told.ackd("read", f"2{ID}", "--agent", "worker_1").exit_code == 0  # it needs no patterns


def test_a_pattern_that_takes_for_ever_hangs_nobody_and_shows_nothing() -> None:
    try:
        shown.use(Redaction((r"(a+)+$",), defaults=True))
        began = time.process_time()
        assert shown.redacted("a" * 60 + "b") == shown.WITHHELD
        assert shown.redacted("nothing of it") == "nothing of it"
        for _ in range(40):
            assert shown.redacted("a" * 60 + "b") == shown.WITHHELD
        assert time.process_time() - began < 10 * shown.PATIENCE_FOR_ALL_S
        assert shown.redacted("after so many texts") == shown.WITHHELD
    finally:
        shown.use(None)
    assert shown.redacted(KEY) == KEY
