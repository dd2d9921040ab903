"""Durable writing on a real spool."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place
from ackd.formats import ignite
from ackd.runtime.runner.moves import REWRITE_TRIES, DurableWriter
from ackd.storage.spool import Spool
from tests.acceptance.teams import mime
from tests.runtime.counting_flusher import CountingFlusher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ACKED = (("X-IGNITE-Status", "acked"),)
PLACE = Place("leader", Folder.PROCESSED, "m.mime")


class WriterSetup:
    """A message in processed/, and the writer under test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        spool = Spool(root, max_message_bytes=100_000, durable=False)
        spool.ensure_layout()
        spool.ensure_box("leader")
        self.path = spool.path(PLACE)
        self.path.write_bytes(mime())
        self.flushes = CountingFlusher()
        self.writer = DurableWriter(spool, self.flushes)

    @property
    def status(self) -> str | None:
        return dict(ignite.headers(self.path.read_bytes())).get("X-IGNITE-Status")

    def meanwhile(self, *acts: Callable[[], object]) -> None:
        """Run one act during each flush, and nothing after the last one."""
        left = list(acts)
        self.flushes.meanwhile = lambda: left.pop(0)() if left else None

    def write_over(self) -> None:
        """Put another file under the same name, as the agent would."""
        temp = self.path.with_name("theirs")
        temp.write_bytes(mime(body=f"theirs: {len(self.flushes.flushed)}\n"))
        temp.rename(self.path)

    def nothing_is_left_over(self) -> bool:
        return list(self.root.rglob(".ackd-*")) == []


@pytest.fixture
def setup(tmp_path: Path) -> WriterSetup:
    return WriterSetup(tmp_path)


async def test_a_header_is_flushed_before_it_replaces_the_file(setup: WriterSetup) -> None:
    before: list[str | None] = []
    setup.meanwhile(lambda: before.append(setup.status))
    await setup.writer.rewrite(PLACE, ACKED)
    assert (before, setup.status) == ([None], "acked")
    assert setup.nothing_is_left_over()


async def test_what_its_agent_writes_meanwhile_is_kept_and_ours_added(setup: WriterSetup) -> None:
    setup.meanwhile(setup.write_over, setup.write_over)
    await setup.writer.rewrite(PLACE, ACKED)
    assert setup.status == "acked"
    assert setup.path.read_bytes().endswith(b"theirs: 1\n")
    assert setup.nothing_is_left_over()


async def test_a_file_that_keeps_changing_is_given_up_after_some_tries(setup: WriterSetup) -> None:
    setup.meanwhile(*[setup.write_over] * 100)
    with pytest.raises(OSError) as caught:
        await setup.writer.rewrite(PLACE, ACKED)
    assert caught.value.errno == errno.ESTALE
    assert len(setup.flushes.flushed) == REWRITE_TRIES
    assert setup.nothing_is_left_over()


async def test_what_is_deleted_meanwhile_is_not_brought_back(setup: WriterSetup) -> None:
    setup.meanwhile(setup.path.unlink)
    with pytest.raises(FileNotFoundError):
        await setup.writer.rewrite(PLACE, ACKED)
    assert not setup.path.exists()
    assert setup.nothing_is_left_over()


async def test_what_is_no_message_any_more_is_left_alone(setup: WriterSetup) -> None:
    setup.path.write_bytes(b"rubbish")
    with pytest.raises(BadMessage):
        await setup.writer.rewrite(PLACE, ACKED)
    assert setup.path.read_bytes() == b"rubbish"


async def test_a_flush_that_fails_leaves_what_was_there(setup: WriterSetup) -> None:
    setup.flushes.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        await setup.writer.rewrite(PLACE, ACKED)
    with pytest.raises(OSError, match="Input/output error"):
        await setup.writer.drop("leader", "m.mime", mime())
    assert setup.path.read_bytes() == mime()
    assert list((setup.root / "queue/leader").glob("*.mime")) == []
    assert setup.nothing_is_left_over()


async def test_a_drop_is_flushed_then_visible_then_its_directory_is_flushed(setup: WriterSetup) -> None:
    box = setup.root / "queue/coder"
    visible: list[int] = []
    setup.flushes.meanwhile = lambda: visible.append(len(list(box.glob("*.mime"))))
    place = await setup.writer.drop("coder", "m.mime", mime(to="coder"))
    assert place == Place("coder", Folder.QUEUE, "m.mime")
    assert visible == [0, 1]
    assert setup.flushes.flushed[-2:] == [f"{box}/", f"{box.parent}/"]
    assert (box / "m.mime").read_bytes() == mime(to="coder")
    assert setup.nothing_is_left_over()
