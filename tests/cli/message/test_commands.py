"""The seed's command line: options, output and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.core.message import KNOWN_TYPES
from ackd.formats import ignite
from tests.cli.message.bench import CORPUS, MINIMAL, PLAIN, fails, parsed, run

if TYPE_CHECKING:
    from pathlib import Path


def test_the_seeds_commands_work_with_only_the_name_replaced(tmp_path: Path) -> None:
    script = """
        set -e
        mkdir -p queue/ignitian_1
        body_yaml=$(printf 'task_id: "task_001"\\ntitle: "日本語"\\n')
        message_file="queue/ignitian_1/task_assignment_$(date +%s%6N).mime"
        $TOOL build --from coordinator --to ignitian_1 --type task_assignment --priority high \
            --repo owner/repo --issue 42 --body "$body_yaml" -o "$message_file"
        $TOOL update-status "$message_file" delivered --processed-at "$(date -Iseconds)"
        $TOOL update-header "$message_file" X-IGNITE-Retry-Count 3
        $TOOL update-header "$message_file" X-IGNITE-Error-Reason broken
        $TOOL remove-header "$message_file" X-IGNITE-Error-Reason
        $TOOL extract-body "$message_file"
        $TOOL parse "$message_file" > parsed.json
    """
    tool = f"{sys.executable} -m ackd message"
    wrapper = tmp_path / "tool"
    wrapper.write_text(f'#!/bin/sh\nexec {tool} "$@"\n')
    wrapper.chmod(0o700)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "TOOL": str(wrapper)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == 'task_id: "task_001"\ntitle: "日本語"\n'
    result = json.loads((tmp_path / "parsed.json").read_text())
    assert result["status"] == "delivered"
    assert result["retry_count"] == "3"
    assert "error_reason" not in result
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", result["processed_at"])


def test_without_o_the_message_goes_to_stdout(tmp_path: Path) -> None:
    result = run("build", *MINIMAL, "--body", 'goal: "READMEを書く"')
    assert result.exit_code == 0
    decoded = ignite.decode(result.stdout_bytes, "leader")
    assert (decoded.sender, decoded.type, decoded.priority.value) == ("user", "user_goal", "normal")
    assert re.fullmatch(r"\d{10}\.\d+\.[0-9a-f]+@ignite\.local", decoded.message_id)
    assert ignite.split(result.stdout_bytes).body.decode() == 'goal: "READMEを書く"\n'


def test_every_option_reaches_its_header(tmp_path: Path) -> None:
    out = tmp_path / "m.mime"
    given = (
        "--priority",
        "low",
        "--thread-id",
        "t-1",
        "--in-reply-to",
        "<a@b>",
        "--repo",
        "o/r",
        "--issue",
        "7",
        "--status",
        "delivered",
    )
    assert run("build", *MINIMAL, *given, "--body", "--to", "--output", out).exit_code == 0
    result = parsed(out)
    assert result | {"message_id": "", "date": ""} == {
        "message_id": "", "from": "user", "to": ["leader"], "cc": [], "date": "", "in_reply_to": "<a@b>", "type": "user_goal",
        "priority": "low", "thread_id": "t-1", "repository": "o/r", "issue": "7", "status": "delivered",
        "content_type": "text/x-yaml; charset=utf-8", "body": "--to\n",
    }  # fmt: skip


def test_empty_options_count_as_not_given(tmp_path: Path) -> None:
    result = run(
        "build",
        *MINIMAL,
        "--repo",
        "",
        "--issue",
        "",
        "--thread-id",
        "",
        "--in-reply-to",
        "",
        "--status",
        "",
        "--body",
        "",
    )
    assert [name for name, _ in ignite.headers(result.stdout_bytes)] == list(ignite.REQUIRED)


def test_wrong_usage_is_2(tmp_path: Path) -> None:
    assert "--to" in fails(2, "build", "--from", "user", "--type", "user_goal")
    assert "--colour" in fails(2, "build", *MINIMAL, "--colour", "red")
    assert "HEADER=VALUE" in fails(2, "update-status", "f", "delivered", "--extra=nothing")


def test_parse_prints_every_header_and_the_body_as_text(tmp_path: Path) -> None:
    path = CORPUS / "good" / "all_headers.mime"
    result = parsed(path)
    assert result["message_id"] == "<1790000000.4242.0a1b2c@ignite.local>"
    assert result["cc"] == ["leader", "evaluator"]
    assert result["retry_count"] == "2"
    assert result["next_retry_after"] == "2026-11-16T01:05:00+00:00"
    assert result["body"].startswith('task_id: "task_007"\n')


def test_an_absent_header_is_an_empty_text_as_scripts_expect(file: Path) -> None:
    result = parsed(file)
    assert [result[key] for key in ("in_reply_to", "thread_id", "repository", "issue", "status")] == [""] * 5


def test_a_hostile_header_cannot_replace_a_key_of_parse(file: Path) -> None:
    file.write_bytes(PLAIN.replace(b"Date:", b"X-IGNITE-Body: evil\nX-IGNITE-From: evil\nDate:"))
    assert parsed(file)["from"] == "coordinator"
    assert parsed(file)["body"] != "evil"


def test_extract_body_prints_the_body_byte_for_byte(file: Path) -> None:
    assert run("extract-body", file).stdout_bytes == ignite.split(PLAIN).body
    assert json.loads(run("extract-body", file, "--json").stdout)["body"].startswith("task_id")


@pytest.mark.parametrize("kind", sorted(KNOWN_TYPES))
def test_schema_prints_json_schema_of_every_type(kind: str) -> None:
    assert json.loads(run("schema", kind).stdout)["title"] == kind


def test_schema_of_an_unknown_type_is_65() -> None:
    assert "did you mean user_goal?" in fails(65, "schema", "usergoal")


def test_of_two_bodies_the_file_wins_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "body").write_text("goal: from the file\n")
    result = run("build", *MINIMAL, "--body", "goal: typed", "--body-file", tmp_path / "body")
    assert result.exit_code == 0
    assert "from the file" in result.stdout
    assert result.stderr == "ackd: --body-file is taken, and --body is not: give one of them\n"


def test_a_file_that_is_too_large_is_named_once(tmp_path: Path) -> None:
    huge = tmp_path / "huge.mime"
    with huge.open("wb") as file:
        file.truncate(2**21)
    assert run("validate", huge).stdout == f"{huge}: has 2097152 bytes, more than 1048576\n"
    assert fails(65, "parse", huge).count("huge.mime") == 1
