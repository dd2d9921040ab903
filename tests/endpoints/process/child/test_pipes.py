"""Pipes stay bounded, whatever a child does at the other end; and the log file of its stderr."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.endpoints.process.child import OutputLine, StdinRefused
from ackd.endpoints.process.child.pipes import (
    KEPT_BYTES,
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_WAITING_BYTES,
    LineWriter,
    PipeReader,
    ReadingPace,
    StderrLog,
    TextReader,
)
from tests.living import process_state
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.endpoints.process.child.real_children import RealChildren


@pytest.fixture
def pipe() -> tuple[int, int]:
    """A pipe, whose ends are closed by the objects that get them."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer


# --- to a child -------------------------------------------------------------------------------------------------------
async def test_a_child_that_does_not_read_is_said_so_and_nothing_grows(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    line = b"x" * 1023 + b"\n"
    with pytest.raises(StdinRefused) as refused:
        for _ in range(10_000):
            writer.write(line)
    assert not refused.value.closed
    assert MAX_WAITING_BYTES < refused.value.waiting_bytes <= MAX_WAITING_BYTES + len(line)
    assert str(refused.value) == f"it does not read: {refused.value.waiting_bytes} bytes wait"
    os.close(reader)
    writer.close()


async def test_the_end_of_its_stdin_comes_when_it_has_read_what_waits(pipe: tuple[int, int]) -> None:
    fd, out = pipe
    writer, reader = LineWriter(out), PipeReader(fd)
    line = b"x" * 200_000  # more than the pipe holds
    writer.write(line + b"\n")
    writer.close_when_read()
    assert not writer.closed
    with anyio.fail_after(60):
        assert [one.data async for one in reader.lines()] == [line]
    assert writer.closed


async def test_a_child_that_reads_again_gets_every_line_whole(pipe: tuple[int, int]) -> None:
    fd, out = pipe
    writer, reader = LineWriter(out), PipeReader(fd)
    sent = 0
    with pytest.raises(StdinRefused):
        while True:
            writer.write(b"%06d\n" % sent)
            sent += 1
    with anyio.fail_after(60):
        got = []
        async for line in reader.lines():
            got.append(line.data)
            if len(got) == sent:
                break
    assert got == [b"%06d" % number for number in range(sent)]
    writer.write(b"again\n")
    writer.close()
    reader.close()


async def test_a_line_longer_than_the_bound_is_written_when_nothing_waits(pipe: tuple[int, int]) -> None:
    fd, out = pipe
    writer, reader = LineWriter(out), PipeReader(fd)
    writer.write(b"x" * 500_000 + b"\n")
    with anyio.fail_after(60):
        assert len((await anext(aiter(reader.lines()))).data) == 500_000
    writer.close()
    reader.close()


async def test_an_end_that_is_closed_while_something_waits_is_seen(pipe: tuple[int, int]) -> None:
    reader, fd = pipe
    writer = LineWriter(fd)
    writer.write(b"x" * 200_000)
    os.close(reader)
    await until(lambda: writer.closed)
    with pytest.raises(StdinRefused, match="closed its stdin"):
        writer.write(b"y\n")


# --- from a child -----------------------------------------------------------------------------------------------------
async def heard(data: bytes, pipe: tuple[int, int]) -> list[OutputLine]:
    fd, out = pipe

    async def write() -> None:
        rest = data
        while rest:
            try:
                rest = rest[os.write(out, rest) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)
        os.close(out)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        with anyio.fail_after(60):
            lines = [line async for line in PipeReader(fd).lines()]
    return lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\nhalf", [b"one", b"half"]),
        (b"\n\n", [b"", b""]),
        (b"\xff\xfe\x00garbage\r\n", [b"\xff\xfe\x00garbage\r"]),
        (b"x" * 100_000 + b"\nnext\n", [b"x" * 100_000, b"next"]),
    ],
)
async def test_lines_are_cut_at_their_ends(data: bytes, lines: list[bytes], pipe: tuple[int, int]) -> None:
    assert await heard(data, pipe) == [OutputLine(line) for line in lines]


@pytest.mark.parametrize("over", [1, 70_000, MAX_LINE_BYTES])
async def test_a_line_that_is_too_long_is_one_bad_line(over: int, pipe: tuple[int, int]) -> None:
    data = b"a\n" + b"x" * (MAX_LINE_BYTES + over) + b"\nb\n"
    assert await heard(data, pipe) == [OutputLine(b"a"), OutputLine(b"x" * KEPT_BYTES, cut=True), OutputLine(b"b")]


async def test_a_line_of_the_greatest_length_is_whole(pipe: tuple[int, int]) -> None:
    (line,) = await heard(b"x" * MAX_LINE_BYTES + b"\n", pipe)
    assert (len(line.data), line.cut) == (MAX_LINE_BYTES, False)


async def test_what_nobody_listens_to_stays_in_the_pipe(real_children: RealChildren) -> None:
    """A flood on stdout is paused: its writer waits."""
    life = real_children.sh("yes").start(1)
    lines = life.lines()
    assert await anext(lines) == OutputLine(b"y")
    await until(lambda: process_state(life.pid) == "S")  # `yes` does nothing but write: it waits for us
    assert life.heard_bytes <= 64 * 1024
    await life.end(5)
    life.close_stdout()


def test_a_flood_is_taken_in_at_a_pace() -> None:
    pace = ReadingPace(1000, 100)
    assert pace.spend(1000, 50.0) == 0
    assert pace.spend(200, 50.0) == pytest.approx(2)
    assert pace.spend(100, 52.0) == pytest.approx(1)
    assert pace.spend(1, 60.0) == 0
    assert pace.spend(1000, 1000.0) == 0  # no more is saved up than one burst
    assert pace.spend(100, 1000.0) == pytest.approx(1)


async def test_text_is_handed_on_and_the_last_of_it_when_its_writer_is_dead(pipe: tuple[int, int]) -> None:
    fd, out = pipe
    taken = bytearray()
    reader = TextReader(fd, taken.extend)
    os.write(out, b"first ")
    await until(lambda: taken)
    os.write(out, b"last")
    reader.finish()
    assert taken == b"first last"
    os.close(out)


async def test_a_flood_of_text_is_paused(pipe: tuple[int, int]) -> None:
    fd, out = pipe
    reader = TextReader(fd, lambda _: None, ReadingPace(64 * 1024, 1024 * 1024))
    loop = asyncio.get_running_loop()
    began = loop.time()
    while reader.heard_bytes < 512 * 1024:
        try:
            os.write(out, b"x" * 65536)
        except BlockingIOError:
            await asyncio.sleep(0.001)
    assert loop.time() - began > 0.3
    reader.close()
    os.close(out)


# --- the log file of stderr -------------------------------------------------------------------------------------------
def test_the_log_is_rotated_and_two_old_ones_are_kept(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "logs" / "a.stderr.log", lambda _: None, max_bytes=100)
    for number in range(50):
        log.write(b"%09d\n" % number)
    log.close()
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == ["a.stderr.log", "a.stderr.log.1", "a.stderr.log.2"]
    kept = [(tmp_path / "logs" / name).read_bytes() for name in reversed(names)]
    assert b"".join(kept).split() == [b"%09d" % number for number in range(20, 50)]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / "logs").iterdir())


def test_a_new_life_does_not_inherit_last_words(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "a.log", lambda _: None)
    log.write(b"old words\n")
    log.begin("started")
    assert log.tail == b""
    log.write(b"new\n")
    assert log.tail == b"new\n"
    log.close()


def test_a_disk_that_says_no_is_reported_once_and_text_is_let_go(tmp_path: Path) -> None:
    troubles: list[OSError] = []
    (tmp_path / "logs").touch()
    log = StderrLog(tmp_path / "logs" / "a.log", troubles.append)
    log.write(b"one\n")
    log.write(b"two\n")
    assert len(troubles) == 1
    assert log.tail == b"one\ntwo\n"
    (tmp_path / "logs").unlink()
    log.write(b"three\n")
    assert (tmp_path / "logs" / "a.log").read_bytes() == b"three\n"
    log.close()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    troubles: list[OSError] = []
    (tmp_path / "a.log").symlink_to(tmp_path / "elsewhere")
    StderrLog(tmp_path / "a.log", troubles.append).write(b"x\n")
    assert len(troubles) == 1
    assert not (tmp_path / "elsewhere").exists()


async def test_a_child_that_floods_stderr_fills_no_disk_and_goes_on(real_children: RealChildren) -> None:
    child = real_children.sh("yes >&2 & echo $! >pid; wait")
    child._log._max_bytes = 64 * 1024
    life = child.start(1)
    oldest = real_children.stderr_log.with_name("worker.stderr.log.2")
    await until(oldest.exists)
    assert life.alive
    await life.end(5)
    sizes = [path.stat().st_size for path in real_children.stderr_log.parent.iterdir()]
    assert len(sizes) == 3
    assert sum(sizes) <= 3 * 64 * 1024
    assert MAX_BYTES == 4 * 1024 * 1024
