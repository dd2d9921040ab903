"""`ackd message …` as a script meets it: options, output, exit codes, and files that stay untouched."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ackd.core.message import KNOWN_TYPES
from ackd.dialects import ignite
from ackd.frontends.cli.message import message

if TYPE_CHECKING:
    from click.testing import Result

CORPUS = Path(__file__).parents[2] / "dialects" / "corpus"
PLAIN = (CORPUS / "good" / "plain.mime").read_bytes()


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These commands need no site: run them where there is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("ACKD_ROOT", "ACKD_CONFIG", "ACKD_AGENT"):
        monkeypatch.delenv(name, raising=False)


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(message, [str(arg) for arg in args], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def fails(code: int, *args: str | Path, stdin: bytes | None = None) -> str:
    """Its one line on stderr."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    if code != 2:
        assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "task_assignment_1790000000000000.mime"
    path.write_bytes(PLAIN)
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    return path


def untouched(path: Path) -> bool:
    return (
        path.read_bytes() == PLAIN
        and path.stat().st_mtime_ns == 2_000_000_000
        and len(list(path.parent.iterdir())) == 1
    )


MINIMAL = ("--from", "user", "--to", "leader", "--type", "user_goal")


def parsed(path: Path) -> dict[str, Any]:
    result = run("parse", path)
    assert result.exit_code == 0, result.stderr
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


# --- build ------------------------------------------------------------------------------------------------------------
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
    tool = f"{sys.executable} -c 'from ackd.frontends.cli.message import message; message()'"
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


@pytest.mark.parametrize(
    "to", [("--to", "a", "b"), ("--to", "a", "--to", "b"), ("--to", "a,b"), ("--to", "a, b"), ("--to=a", "--to=b")]
)
@pytest.mark.parametrize("cc", [(), ("--cc",), ("--cc", "c", "d"), ("--cc", "c,d")])
def test_several_recipients_can_be_given_in_every_way(to: tuple[str, ...], cc: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "m.mime"
    assert run("build", "--from", "user", *to, *cc, "--type", "user_goal", "-o", out).exit_code == 0
    assert parsed(out)["to"] == ["a", "b"]
    assert parsed(out)["cc"] == (["c", "d"] if len(cc) > 1 else [])


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


def test_the_body_comes_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    (tmp_path / "body.yaml").write_text("goal: from a file\n")
    assert (
        ignite.split(run("build", *MINIMAL, "--body-file", tmp_path / "body.yaml").stdout_bytes).body
        == b"goal: from a file\n"
    )
    from_stdin = run("build", *MINIMAL, "--body-file", "-", stdin="goal: 標準入力\n".encode())
    assert ignite.split(from_stdin.stdout_bytes).body.decode() == "goal: 標準入力\n"


def test_a_new_file_is_private_and_no_other_is_left_behind(tmp_path: Path) -> None:
    out = tmp_path / "m.mime"
    result = run("build", *MINIMAL, "-o", out, "--json")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert json.loads(result.stdout) == {"message_id": parsed(out)["message_id"].strip("<>"), "file": str(out)}
    assert [path.name for path in tmp_path.iterdir()] == ["m.mime"]


def test_a_file_that_mktemp_made_and_an_older_draft_are_written_over(tmp_path: Path) -> None:
    out = tmp_path / "tmp.abc"
    out.touch(mode=0o600)
    for _ in range(2):
        assert run("build", *MINIMAL, "-o", out).exit_code == 0
        assert parsed(out)["type"] == "user_goal"


@pytest.mark.parametrize("folder", ["queue/leader", "queue/leader/processed", "queue/dead_letter"])
def test_mail_that_lies_in_a_queue_is_never_written_over(tmp_path: Path, folder: str) -> None:
    box = tmp_path / folder
    box.mkdir(parents=True)
    (box / "m.mime").write_bytes(PLAIN)
    assert "a message is there already" in fails(73, "build", *MINIMAL, "-o", box / "m.mime")
    assert (box / "m.mime").read_bytes() == PLAIN


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--type", "poem"), "unknown type 'poem'"),
        (("--type", "user_gaol"), "did you mean user_goal?"),
        (("--priority", "urgent"), "unknown priority 'urgent': critical, high, normal, low"),
        (("--to", "../../etc"), "cannot be an agent's name"),
        (("--from", "dead_letter"), "reserved"),
        (("--thread-id", "a\nX-Evil: 1"), "no control characters or line ends"),
        (("--repo", "a\r\nX-Evil: 1"), "no control characters or line ends"),
        (("--issue", "\udcff"), "no UTF-8"),
        (("--body", "goal: \udcff"), "UTF-8"),
        (("--body", "goal: " + "x" * 1_048_576), "more than 1048576"),
    ],
)
def test_what_would_be_no_message_is_not_written(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    options = dict(zip(MINIMAL[::2], MINIMAL[1::2], strict=True)) | {change[0]: change[1]}
    flat = [part for pair in options.items() for part in pair]
    assert words in fails(65, "build", *flat, "-o", tmp_path / "m.mime")
    assert list(tmp_path.iterdir()) == []


def test_a_type_of_the_config_is_known_where_the_config_is(tmp_path: Path) -> None:
    (tmp_path / "ackd.toml").write_text('extra_types = ["poem"]\n')
    out = tmp_path / "m.mime"
    assert run("build", "--from", "user", "--to", "leader", "--type", "poem", "-o", out).exit_code == 0
    assert parsed(out)["type"] == "poem"
    assert run("validate", out).exit_code == 0
    assert json.loads(run("schema", "poem").stdout)["title"] == "poem"


def test_wrong_usage_is_2(tmp_path: Path) -> None:
    assert "--to" in fails(2, "build", "--from", "user", "--type", "user_goal")
    assert "--colour" in fails(2, "build", *MINIMAL, "--colour", "red")
    assert "HEADER=VALUE" in fails(2, "update-status", "f", "delivered", "--extra=nothing")


@pytest.mark.parametrize("target", ["none/m.mime", "directory", "link", "fifo"])
def test_where_no_file_can_be_made_it_is_73(tmp_path: Path, target: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "fifo")
    assert "cannot write" in fails(73, "build", *MINIMAL, "-o", tmp_path / target)
    assert not (tmp_path / "elsewhere").exists()


def test_a_body_file_that_is_not_there_is_66_and_one_that_is_not_UTF_8_is_65(tmp_path: Path) -> None:
    assert "No such file" in fails(66, "build", *MINIMAL, "--body-file", tmp_path / "none")
    assert "not UTF-8" in fails(65, "build", *MINIMAL, "--body-file", "-", stdin=b"goal: \xff")


# --- parse, extract-body ----------------------------------------------------------------------------------------------
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


COMMANDS = [
    ("parse",),
    ("extract-body",),
    ("update-status", "delivered"),
    ("update-header", "X-A", "b"),
    ("remove-header", "X-A"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_refuses_what_is_no_message_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *rest = command
    (tmp_path / "link.mime").symlink_to(CORPUS / "good" / "plain.mime")
    (tmp_path / "directory.mime").mkdir()
    os.mkfifo(tmp_path / "fifo.mime")
    (tmp_path / "huge.mime").touch()
    os.truncate(tmp_path / "huge.mime", 2 * 1024**3)
    (tmp_path / "empty.mime").touch()
    for odd, words in {
        "link": "symbolic link", "directory": "a directory", "fifo": "a FIFO", "huge": "more than", "empty": "is empty",
    }.items():  # fmt: skip
        assert words in fails(65, name, tmp_path / f"{odd}.mime", *rest)
    assert "a device" in fails(65, name, "/dev/null", *rest)
    assert "no such file" in fails(66, name, tmp_path / "none.mime", *rest)


@pytest.mark.parametrize("path", sorted((CORPUS / "broken").glob("*.mime")), ids=lambda path: path.stem)
def test_a_broken_message_is_65_for_parse_and_1_for_validate(path: Path) -> None:
    assert str(path) in fails(65, "parse", path)
    result = run("validate", path)
    assert result.exit_code == 1
    assert str(path) in result.stdout


# --- changing ---------------------------------------------------------------------------------------------------------
def test_update_status_sets_what_it_is_told_and_keeps_mode_and_time(file: Path) -> None:
    extra = ("--extra", "X-IGNITE-Retry-Count=2", "X-IGNITE-Error-Reason=a=b", "--extra", "X-More=1")
    assert run("update-status", file, "retrying", "--processed-at", "2026-11-16T01:02:03+00:00", *extra).exit_code == 0
    added = b"X-IGNITE-Status: retrying\nX-IGNITE-Processed-At: 2026-11-16T01:02:03+00:00\nX-IGNITE-Retry-Count: 2\nX-IGNITE-Error-Reason: a=b\nX-More: 1\n"
    assert file.read_bytes() == PLAIN.replace(b"8bit\n", b"8bit\n" + added)
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_mtime_ns) == (0o640, 2_000_000_000)
    assert len(list(file.parent.iterdir())) == 1


def test_options_may_stand_before_the_arguments(file: Path) -> None:
    assert run("update-status", "--extra", "X-A=1", "X-B=2", file, "delivered").exit_code == 0
    assert dict(ignite.headers(file.read_bytes()))["X-B"] == "2"


def test_a_header_is_updated_in_place_and_removed(file: Path) -> None:
    assert run("update-header", file, "X-IGNITE-Priority", "low").exit_code == 0
    assert file.read_bytes() == PLAIN.replace(b"high", b"low")
    assert run("update-header", file, "X-Count", "-1").exit_code == 0
    assert run("remove-header", file, "x-count").exit_code == 0
    assert file.read_bytes() == PLAIN.replace(b"high", b"low")
    assert json.loads(run("remove-header", file, "X-Count", "--json").stdout)["changed"] is False


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("update-header", "X-A", "a\nX-Evil: 1"), "line ends"),
        (("update-header", "X-A", "a\r\nX-Evil: 1"), "line ends"),
        (("update-header", "X-A", "\udcff"), "no UTF-8"),
        (("update-header", "X A", "b"), "not a header name"),
        (("update-header", "X-IGNITE-Type", "poem"), "unknown type"),
        (("update-header", "X-IGNITE-Priority", "urgent"), "unknown priority"),
        (("update-header", "To", "../../etc"), "agent's name"),
        (("update-header", "Message-ID", "two words"), "not a message id"),
        (("update-header", "Content-Type", "text/html"), "Content-Type must be"),
        (("remove-header", "From"), "no From header"),
        (("update-status", "delivered\nX-Evil: 1"), "line ends"),
        (("update-status", "delivered", "--processed-at", "a\nb"), "line ends"),
        (("update-status", "delivered", "--extra", "X-A=a\nb"), "line ends"),
    ],
)
def test_a_change_that_would_break_the_file_leaves_it_untouched(
    file: Path, command: tuple[str, ...], words: str
) -> None:
    name, *rest = command
    assert words in fails(65, name, file, *rest)
    assert untouched(file)


def test_a_broken_message_can_be_mended_step_by_step(file: Path) -> None:
    file.write_bytes(PLAIN.replace(b"task_assignment", b"poem").replace(b"high", b"urgent"))
    assert run("update-header", file, "X-IGNITE-Priority", "high").exit_code == 0
    assert run("update-header", file, "X-IGNITE-Type", "task_assignment").exit_code == 0
    assert file.read_bytes() == PLAIN


# --- checking ---------------------------------------------------------------------------------------------------------
def test_validate_names_each_problem_with_its_line_in_the_file(file: Path) -> None:
    file.write_bytes(
        PLAIN.replace(b"high", b"urgent").replace(b"title: Mend the parser", b"title: 7").replace(b"Nov", b"Brumaire")
    )
    result = run("validate", file)
    assert result.exit_code == 1
    assert [line.removeprefix(f"{file}: ") for line in result.stdout.splitlines()] == [
        "line 7: header: unknown priority 'urgent': critical, high, normal, low",
        "line 5: header: Date is no RFC 2822 date: 'Mon, 16 Brumaire 2026 01:02:03 +0000'",
        "line 12: title: must be text, not 7",
    ]


def test_validate_answers_in_json(file: Path) -> None:
    assert json.loads(run("validate", file, "--json").stdout) == {"file": str(file), "valid": True, "problems": []}
    file.write_bytes(PLAIN.replace(b"title:", b"task_id:"))
    result = run("validate", file, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == [{"line": 12, "where": "", "what": "key 'task_id' stands twice"}]


def test_validate_survives_an_alias_bomb(file: Path) -> None:
    bomb = "a: &a [x,x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1 if n else ''},*a]\n" for n in range(30))
    file.write_bytes(PLAIN + bomb.encode())
    assert "anchor" in run("validate", file).stdout


def test_validate_of_a_missing_file_is_66(tmp_path: Path) -> None:
    assert "no such file" in fails(66, "validate", tmp_path / "none.mime")


def test_the_weekday_of_the_date_is_not_checked(file: Path) -> None:
    file.write_bytes(PLAIN.replace(b"Mon, 16", b"Sun, 16"))
    assert run("validate", file).stdout == f"{file}: valid\n"


@pytest.mark.parametrize("kind", sorted(KNOWN_TYPES))
def test_schema_prints_json_schema_of_every_type(kind: str) -> None:
    assert json.loads(run("schema", kind).stdout)["title"] == kind


def test_schema_of_an_unknown_type_is_65() -> None:
    assert "did you mean user_goal?" in fails(65, "schema", "usergoal")
