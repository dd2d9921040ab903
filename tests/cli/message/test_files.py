"""What is read and written over, and files that stay untouched."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from ackd.formats import ignite
from tests.cli.message.bench import CORPUS, MINIMAL, PLAIN, fails, parsed, run

if TYPE_CHECKING:
    from pathlib import Path


def untouched(path: Path) -> bool:
    return (
        path.read_bytes() == PLAIN
        and path.stat().st_mtime_ns == 2_000_000_000
        and len(list(path.parent.iterdir())) == 1
    )


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
        (("--body", "goal: " + "x" * 1_048_576), "more than 1048576"),
    ],
)
def test_what_would_be_no_message_is_not_written(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    options = dict(zip(MINIMAL[::2], MINIMAL[1::2], strict=True)) | {change[0]: change[1]}
    flat = [part for pair in options.items() for part in pair]
    assert words in fails(65, "build", *flat, "-o", tmp_path / "m.mime")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["none/m.mime", "directory", "link", "fifo"])
def test_where_no_file_can_be_made_it_is_73(tmp_path: Path, target: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "fifo")
    assert "cannot write" in fails(73, "build", *MINIMAL, "-o", tmp_path / target)
    assert not (tmp_path / "elsewhere").exists()


def test_a_body_file_that_is_not_there_is_66(tmp_path: Path) -> None:
    assert "No such file" in fails(66, "build", *MINIMAL, "--body-file", tmp_path / "none")


def test_build_replaces_stray_bytes_of_the_body_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"goal: \xff\xfe caf\xc3\xa9 \xef\xbf\xbd\n")
    for body in (("--body-file", str(tmp_path / "body")), ("--body", "goal: \udcff\udcfe caf\u00e9 \ufffd\n")):
        result = run("build", *MINIMAL, *body)
        assert result.exit_code == 0
        assert result.stdout.endswith("\n\ngoal: \ufffd\ufffd caf\u00e9 \ufffd\n")
        assert "not UTF-8 from byte 6 on: U+FFFD stands in 2 places" in result.stderr


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


def test_update_status_sets_what_it_is_told_and_keeps_mode_and_time(file: Path) -> None:
    extra = ("--extra", "X-IGNITE-Retry-Count=2", "X-IGNITE-Error-Reason=a=b", "--extra", "X-More=1")
    assert run("update-status", file, "retrying", "--processed-at", "2026-11-16T01:02:03+00:00", *extra).exit_code == 0
    added = b"X-IGNITE-Status: retrying\nX-IGNITE-Processed-At: 2026-11-16T01:02:03+00:00\nX-IGNITE-Retry-Count: 2\nX-IGNITE-Error-Reason: a=b\nX-More: 1\n"
    assert file.read_bytes() == PLAIN.replace(b"8bit\n", b"8bit\n" + added)
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_mtime_ns) == (0o640, 2_000_000_000)
    assert len(list(file.parent.iterdir())) == 1


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
