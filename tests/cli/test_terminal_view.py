"""What an operator sees, on real pipes, files and terminals."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
from typing import TYPE_CHECKING, TextIO

import pytest

from ackd.cli.terminal_view import LOUD, Outlet, StructuredView, TerminalView

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AT = 1_800_000_000.0


class Pipe:
    def __init__(self) -> None:
        self.ours, theirs = os.pipe()
        os.set_blocking(self.ours, False)
        self.stream: TextIO = os.fdopen(theirs, "w", encoding="utf-8")

    def read(self) -> str:
        data = b""
        while True:
            try:
                more = os.read(self.ours, 1 << 20)
            except BlockingIOError:
                return data.decode()
            if not more:
                return data.decode()
            data += more

    def close(self) -> None:
        os.close(self.ours)
        self.stream.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def show(view: StructuredView | TerminalView, type_: str, data: dict[str, object]) -> None:
    view.show(type_, data, AT)
    view.flush()


def test_for_programs_each_fact_is_one_object_with_its_level(pipe: Pipe) -> None:
    view = StructuredView(pipe.stream)
    view.show("message_queued", {"message_id": "1@x", "n": 1}, AT)
    view.show("message_dead", {"reason": "exit 1"}, AT)
    assert not pipe.read(), "what belongs to one turn is one write"
    view.flush()
    first, second = map(json.loads, pipe.read().splitlines())
    assert first == {
        "event": "message_queued",
        "level": "info",
        "timestamp": "2027-01-15T08:00:00Z",
        "data": {"message_id": "1@x", "n": 1},
    }
    assert (second["event"], second["level"]) == ("message_dead", "warning")
    assert "message_dead" in LOUD


def test_a_name_that_is_not_utf8_is_shown_all_the_same(pipe: Pipe) -> None:
    show(StructuredView(pipe.stream), "message_rejected", {"file": "x\udcff.mime"})
    assert "\\udcff" in json.loads(pipe.read())["data"]
    show(TerminalView(pipe.stream), "message_rejected", {"file": "x\udcff.mime"})
    assert "udcff" in pipe.read()


def test_for_people_it_is_a_line_of_words_and_colour_only_where_it_shows(pipe: Pipe) -> None:
    data: dict[str, object] = {"message_id": "1.2.ab@ignite.local", "agent": "worker", "by": "exit 0"}
    show(TerminalView(pipe.stream), "message_completed", data)
    assert re.fullmatch(r"\d\d:\d\d:\d\d  completed   1\.2\.ab  worker .*exit 0.*\n", pipe.read())


def lines_from(terminal: int, count: int) -> bytes:
    """A terminal hands over what it has: read until the lines are there."""
    printed = b""
    while printed.count(b"\n") < count:
        printed += os.read(terminal, 65536)
    return printed


def test_on_a_terminal_it_is_coloured_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        show(TerminalView(stream), "message_completed", {"message_id": "1@x", "agent": "worker"})
        assert b"\x1b[32m" in lines_from(ours, 1)
        monkeypatch.setenv("NO_COLOR", "1")
        show(TerminalView(stream), "message_completed", {"message_id": "1@x", "agent": "worker"})
        assert b"\x1b" not in lines_from(ours, 1)
    os.close(ours)


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_on_eighty_columns_lines_fit_and_the_agents_stand_in_one_column(
    monkeypatch: pytest.MonkeyPatch, no_colour: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    main, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        view = TerminalView(stream, ["leader", "coordinator"])
        for agent in ("leader", "coordinator"):
            data: dict[str, object] = {"message_id": "1794794802.29247.7c1f00d00001@x", "agent": agent}
            view.show("message_dead", {**data, "reason": "exit 3: " + "no connection " * 9}, 0.0)
        view.flush()
        printed = lines_from(main, 2)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", printed.decode()).splitlines()
    os.close(main)
    assert [len(line) for line in shown] == [80, 80]
    assert len({line.index("exit 3") for line in shown}) == 1


def test_progress_is_held_back_and_the_final_one_shown(pipe: Pipe) -> None:
    view = TerminalView(pipe.stream)
    for percent in range(10):
        view.show("progress", {"agent": "leader", "from": "w", "percent": percent, "final": False}, AT)
    view.show("progress", {"agent": "leader", "from": "w", "percent": 100, "final": True}, AT)
    view.flush()
    assert len(pipe.read().splitlines()) == 2


def test_an_encoding_that_lacks_a_character_ends_nothing() -> None:
    ours, theirs = os.pipe()
    with io.TextIOWrapper(os.fdopen(theirs, "wb"), encoding="ascii") as stream:
        show(TerminalView(stream), "message_warning", {"warning": "naïve"})
    assert b"na?ve" in os.read(ours, 4096)
    os.close(ours)


# --- readers --------------------------------------------------------------------------------------------------------
def gap(missed: int) -> bytes:
    return b"(%d missed)\n" % missed


def send(outlet: Outlet, line: bytes) -> None:
    outlet.write(line)
    outlet.send()


def test_lines_sent_together_are_missed_one_by_one(pipe: Pipe) -> None:
    fcntl.fcntl(pipe.stream.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    outlet = Outlet(pipe.stream.fileno(), gap)
    lines = [b"%03d %s\n" % (number, b"x" * 900) for number in range(12)]
    for line in lines:
        outlet.write(line)
    outlet.send()
    whole = [line for line in pipe.read().encode().splitlines(keepends=True) if line in lines]
    assert whole == lines[: len(whole)]
    assert 1 <= len(whole) < 12
    send(outlet, b"after\n")
    assert pipe.read().endswith(f"({12 - len(whole)} missed)\nafter\n")


def test_a_reader_who_does_not_read_is_not_waited_for_and_told_what_was_missed(pipe: Pipe) -> None:
    fcntl.fcntl(pipe.stream.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    outlet = Outlet(pipe.stream.fileno(), gap)
    lines = [b"%03d %s\n" % (number, b"x" * 900) for number in range(12)]
    for line in lines:
        outlet.write(line)
        outlet.send()
    seen = pipe.read().encode()
    send(outlet, b"after\n")
    after = pipe.read().encode()
    whole = [line for line in seen.splitlines(keepends=True) if line in lines]
    assert 1 <= len(whole) < 12
    assert after.endswith(b"(%d missed)\nafter\n" % (12 - len(whole)))
    assert (seen + after).splitlines(keepends=True)[-2:] == [b"(%d missed)\n" % (12 - len(whole)), b"after\n"]


def test_a_line_larger_than_the_pipe_goes_out_while_it_is_read_or_is_torn_and_said_so(pipe: Pipe) -> None:
    outlet = Outlet(pipe.stream.fileno(), gap)
    send(outlet, b"y" * 200_000 + b"\n")
    torn = pipe.read()
    assert 0 < len(torn) < 200_000
    send(outlet, b"after\n")
    assert pipe.read() == "\n(1 missed)\nafter\n"


def test_the_shells_own_descriptor_is_left_as_it_was(pipe: Pipe) -> None:
    Outlet(pipe.stream.fileno(), gap)
    assert os.get_blocking(pipe.stream.fileno())


def test_a_reader_who_left_ends_the_view_and_nothing_else() -> None:
    ours, theirs = os.pipe()
    outlet = Outlet(theirs, gap)
    os.close(ours)
    send(outlet, b"one\n")
    send(outlet, b"two\n")
    os.close(theirs)


def test_a_full_disk_is_survived() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        view = StructuredView(full)
        show(view, "message_queued", {})
        show(view, "message_queued", {})


def test_a_file_keeps_its_place(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        file.write("before\n")
        file.flush()
        send(Outlet(file.fileno(), gap), b"after\n")
    assert (tmp_path / "out").read_text() == "before\nafter\n"
