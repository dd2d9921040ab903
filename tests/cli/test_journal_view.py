"""Entries of systemd's journal, as a real socket gets them."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ackd.cli.journal_view import JournalView, leads_to_journal, priority
from ackd.cli.terminal_view import StructuredView
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AT = 1_800_000_000.0
ABOUT = {"message_id": "1763.42.ab12cd@ignite.local", "agent": "builder"}


class Journal:
    """journald's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(PATIENCE_S)

    def entry(self) -> dict[str, str]:
        data, control, _, _ = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(4))
        if control:
            assert data == b""
            (fd,) = struct.unpack("i", control[0][2])
            with os.fdopen(fd, "rb") as file:
                file.seek(0)
                data = file.read()
        return dict(fields(data))


def fields(data: bytes) -> Iterator[tuple[str, str]]:
    """Parse journald's native form, as its documentation gives it."""
    while data:
        line, _, rest = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (size,) = struct.unpack("<Q", rest[:8])
            value, data = rest[8 : 8 + size], rest[8 + size + 1 :]
        else:
            data = rest
        yield name.decode(), value.decode()


class Kept:
    """What was left to the other view."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        self.shown.append(type_)

    def flush(self) -> None:
        pass


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "socket")
    yield made
    made.socket.close()


def test_a_fact_is_an_entry_with_its_priority_and_fields(journal: Journal) -> None:
    view = JournalView(Kept(), str(journal.path))
    data: dict[str, Any] = {**ABOUT, "reason": "two\nlines", "from": "leader", "retry_count": 3}
    view.show("message_dead", data, AT)
    found = journal.entry()
    assert {key: found[key] for key in ("PRIORITY", "ACKD_TYPE", "ACKD_MESSAGE_ID", "ACKD_AGENT", "AGENT")} == {
        "PRIORITY": str(priority("message_dead")),
        "ACKD_TYPE": "message_dead",
        "ACKD_MESSAGE_ID": ABOUT["message_id"],
        "ACKD_AGENT": "builder",
        "AGENT": "builder",
    }
    assert found["SYSLOG_IDENTIFIER"] == "ackd"
    assert json.loads(found["ACKD_DATA"]) == data
    assert found["MESSAGE"].startswith("dead")
    assert "builder" in found["MESSAGE"]
    assert "\x1b" not in found["MESSAGE"]


def test_the_id_of_a_kind_of_entry_is_journalds_and_always_the_same(journal: Journal) -> None:
    view = JournalView(Kept(), str(journal.path))
    for type_ in ("message_queued", "message_queued", "message_dead"):
        view.show(type_, dict(ABOUT), AT)
    first, again, other = (journal.entry()["MESSAGE_ID"] for _ in range(3))
    assert first == again != other
    assert len(bytes.fromhex(first)) == 16


def test_priorities_are_what_an_operator_should_look_into() -> None:
    assert (priority("io_error"), priority("watch_degraded"), priority("message_queued")) == (3, 4, 6)
    assert priority("of a later version") == 6


def test_a_value_with_line_ends_forges_no_field(journal: Journal) -> None:
    JournalView(Kept(), str(journal.path)).show("message_queued", {"agent": "a\nPRIORITY=0\n"}, AT)
    found = journal.entry()
    assert (found["AGENT"], found["PRIORITY"]) == ("a\nPRIORITY=0\n", "6")


def test_an_entry_that_is_too_large_for_a_datagram_is_handed_over_as_a_file(journal: Journal) -> None:
    view = JournalView(Kept(), str(journal.path))
    view.show("message_dead", {**ABOUT, "reason": "x" * 1_000_000}, AT)
    found = journal.entry()
    assert len(json.loads(found["ACKD_DATA"])["reason"]) == 1_000_000


def test_a_journald_that_does_not_read_misses_entries_and_is_told_how_many(journal: Journal) -> None:
    kept = Kept()
    view = JournalView(kept, str(journal.path))
    for _ in range(5_000):
        view.show("message_queued", dict(ABOUT), AT)
    read = 0
    journal.socket.setblocking(False)
    try:
        while True:
            journal.socket.recv(1 << 20)
            read += 1
    except BlockingIOError:
        journal.socket.settimeout(PATIENCE_S)
    view.show("message_dead", dict(ABOUT), AT)
    assert journal.entry()["MESSAGE"] == f"… {5_000 - read} entries were missed by journald"
    assert journal.entry()["ACKD_TYPE"] == "message_dead"
    assert kept.shown == []


def test_while_the_socket_is_away_lines_go_to_the_pipe_with_their_priority(journal: Journal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("w") as stream:
        view = JournalView(StructuredView(stream, lambda type_: f"<{priority(type_)}>"), str(journal.path))
        journal.socket.close()
        journal.path.unlink()
        view.show("io_error", {"what": "x", "error": "y"}, AT)
        view.flush()
        assert out.read_text().startswith('<3>{"')
        again = Journal(journal.path)
        view.show("message_queued", dict(ABOUT), AT)
        assert again.entry()["ACKD_TYPE"] == "message_queued"
        again.socket.close()
    assert json.loads(out.read_text().removeprefix("<3>"))["event"] == "io_error"


def test_a_name_that_is_not_utf8_is_shown_all_the_same(journal: Journal) -> None:
    JournalView(Kept(), str(journal.path)).show("stray_file", {"agent": "a\udcff", "file": "f"}, AT)
    assert journal.entry()["AGENT"] == "a\\udcff"


def test_only_the_pipe_that_systemd_names_leads_to_the_journal(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        found = os.fstat(stream.fileno())
        named = f"{found.st_dev}:{found.st_ino}"
        assert leads_to_journal(stream, {"JOURNAL_STREAM": named})
        for other in (f"{found.st_dev}:{found.st_ino + 1}", "", "x", "1:x"):
            assert not leads_to_journal(stream, {"JOURNAL_STREAM": other})
        assert not leads_to_journal(stream, {})


@pytest.mark.parametrize("words", [["--quiet"], ["--quiet", "--format", "json"]])
def test_run_writes_entries_where_its_output_is_the_journal(tmp_path: Path, words: list[str]) -> None:
    """With the socket's name replaced, since it is the machine's."""
    journal = Journal(tmp_path / "journal")
    (tmp_path / "ackd.toml").write_text("[agents.reader]\n")
    program = (
        "import os, sys\n"
        "from ackd.cli import journal_view, main\n"
        "from functools import partial\n"
        "made = journal_view.JournalView\n"
        f"journal_view.JournalView = lambda view: made(view, {str(journal.path)!r})\n"
        "found = os.fstat(1)\n"
        "os.environ['JOURNAL_STREAM'] = f'{found.st_dev}:{found.st_ino}'\n"
        f"sys.argv = ['ackd', 'run', *{words!r}]\n"
        "sys.exit(main.main())\n"
    )
    daemon = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    try:
        if "json" in words:
            assert json.loads(daemon.stdout.readline())["event"] == "session_start"
        else:
            assert journal.entry()["ACKD_TYPE"] == "session_start"
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE_S)
        daemon.stdout.close()
        journal.socket.close()
