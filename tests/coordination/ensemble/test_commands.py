"""`ackd lint` as an agent calls it: output and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ackd.core.message import Draft, Priority
from ackd.formats import ignite
from tests.cli import runner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.runner import Result

PAIRS = [
    ("多発", "3回発生"), ("一部", "src/api/auth.py の 45-52行目"), ("適宜", "5分後に再確認"), ("概ね", "87%"), ("いくつか", "4件"),
    ("しばらく", "30秒後"), ("偏り", "Worker-2に4件集中（全体の80%）"), ("既知の問題", "Issue #123 で報告済み"),
]  # fmt: skip
REPORT = "Worker-1 fixed 3 files (60% of all 5) in src/api/auth.py:45.\n"


def run(*args: str | Path, stdin: str | bytes | None = None) -> Result:
    return runner.run(["lint", *map(str, args)], stdin=stdin)


@pytest.mark.parametrize(("banned", "instead"), PAIRS)
def test_the_left_of_each_pair_exits_1_and_the_right_0(tmp_path: Path, banned: str, instead: str) -> None:
    path = tmp_path / "report.txt"
    path.write_text(banned + "\n")
    assert run(path).exit_code == 1
    path.write_text(instead + "\n")
    assert run(path).exit_code == 0


def test_a_full_report_passes() -> None:
    result = run("-", stdin=REPORT)
    assert (result.exit_code, result.output) == (0, "")


def test_words_and_missing_facts_are_listed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("It is done.\nSome tests fail.\n")
    result = run(path)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{path}:2:1: 'Some' is vague: say which part (src/api/auth.py, lines 45-52)",
        f"{path}: who is missing: name the agent, such as Worker-1",
        f"{path}: how many is missing: give the number, such as 3 files or 4件",
        f"{path}: what share is missing: give the percentage, such as 80%",
        f"{path}: where is missing: give the file and line, such as src/api/auth.py:45",
    ]


def test_json_tells_programs_the_same(tmp_path: Path) -> None:
    result = run("-", "--json", stdin=REPORT.replace("60%", "mostly"))
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "file": "-",
        "words": [{"line": 1, "column": 25, "word": "mostly", "say": "give the percentage (87%)"}],
        "missing": ["what share"],
    }


def test_the_facts_are_asked_for_or_not_as_told() -> None:
    assert run("-", "--words-only", stdin="The tests do not pass.").exit_code == 0
    assert run("-", "--report", stdin="87%").exit_code == 1
    assert run("-", "--report", "--words-only", stdin="87%").exit_code == 2


def test_of_a_message_file_the_body_is_read_with_the_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.mime"
    body = f"summary: |\n  {REPORT}  bob waited for a while\n"
    path.write_bytes(
        ignite.build(
            message_id="a@b", sender="bob", to=["some"], date="x", type="message", body=body.replace("Worker-1", "bob")
        )
    )
    result = run(path)
    assert result.stdout == f"{path}:13:14: 'for a while' is vague: say how long (after 30 seconds)\n"


def test_an_escalation_in_ackds_own_words_passes(tmp_path: Path) -> None:
    body: dict[str, object] = {
        "agent": "ignitian_1",
        "cause": "dead",
        "summary": "ignitian_1 did not complete 1 message: 4 of 4 attempts failed (100%), the last with: exit 1. "
        "The message is kept in queue/dead_letter/task_assignment_1790000000000000.mime:1",
        "action": "ackd dead requeue 1.2.3@ignite.local",
        "what_happened": [{"at": "2026-11-16T01:02:03Z", "what": "told", "why": "exit 1"}],
    }
    draft = Draft("1.0.a@ignite.local", "queue_monitor", "leader", "escalation", Priority.CRITICAL, body)
    path = tmp_path / "escalation.mime"
    path.write_bytes(ignite.encode_draft(draft, 0))
    assert (run(path).exit_code, run(path).stdout) == (0, "")


def test_what_cannot_be_read_has_its_exit_code(tmp_path: Path) -> None:
    assert run(tmp_path / "none").exit_code == 66
    assert run(tmp_path).exit_code == 65
    (tmp_path / "x.mime").write_text("no message")
    assert run(tmp_path / "x.mime").exit_code == 65
    assert run("-", stdin=b"\xff").exit_code == 65
    assert run("-", stdin=b"x" * 1_048_577).exit_code == 65
