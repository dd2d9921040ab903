"""Writing that lasts, on a real spool."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.spool import Spool
from ackd.core.errors import BadMessage
from ackd.core.message import Folder, Place
from ackd.dialects import ignite
from ackd.runtime.pen import REWRITE_TRIES, Pen
from tests.acceptance.teams import mime
from tests.runtime.flushes import Flushes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ACKED = (("X-IGNITE-Status", "acked"),)
PLACE = Place("leader", Folder.PROCESSED, "m.mime")


class Desk:
    """A message in processed/, and a pen."""

    def __init__(self, root: Path) -> None:
        self.root = root
        spool = Spool(root, max_message_bytes=100_000, durable=False)
        spool.ensure_layout()
        spool.ensure_box("leader")
        self.path = spool.path(PLACE)
        self.path.write_bytes(mime())
        self.flushes = Flushes()
        self.pen = Pen(spool, self.flushes)

    @property
    def status(self) -> str | None:
        return dict(ignite.headers(self.path.read_bytes())).get("X-IGNITE-Status")

    def meanwhile(self, *acts: Callable[[], object]) -> None:
        """One act for each flush; then nothing happens any more."""
        left = list(acts)
        self.flushes.meanwhile = lambda: left.pop(0)() if left else None

    def write_over(self) -> None:
        """As its agent would: another file under the same name."""
        temp = self.path.with_name("theirs")
        temp.write_bytes(mime(body=f"theirs: {len(self.flushes.flushed)}\n"))
        temp.rename(self.path)

    def nothing_is_left_over(self) -> bool:
        return list(self.root.rglob(".ackd-*")) == []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_header_is_flushed_before_it_replaces_the_file(desk: Desk) -> None:
    before: list[str | None] = []
    desk.meanwhile(lambda: before.append(desk.status))
    await desk.pen.rewrite(PLACE, ACKED)
    assert (before, desk.status) == ([None], "acked")
    assert desk.nothing_is_left_over()


async def test_what_its_agent_writes_meanwhile_is_kept_and_ours_added(desk: Desk) -> None:
    desk.meanwhile(desk.write_over, desk.write_over)
    await desk.pen.rewrite(PLACE, ACKED)
    assert desk.status == "acked"
    assert desk.path.read_bytes().endswith(b"theirs: 1\n")
    assert desk.nothing_is_left_over()


async def test_a_file_that_keeps_changing_is_given_up_after_some_tries(desk: Desk) -> None:
    desk.meanwhile(*[desk.write_over] * 100)
    with pytest.raises(OSError) as caught:
        await desk.pen.rewrite(PLACE, ACKED)
    assert caught.value.errno == errno.ESTALE
    assert len(desk.flushes.flushed) == REWRITE_TRIES
    assert desk.nothing_is_left_over()


async def test_what_is_deleted_meanwhile_is_not_brought_back(desk: Desk) -> None:
    desk.meanwhile(desk.path.unlink)
    with pytest.raises(FileNotFoundError):
        await desk.pen.rewrite(PLACE, ACKED)
    assert not desk.path.exists()
    assert desk.nothing_is_left_over()


async def test_what_is_no_message_any_more_is_left_alone(desk: Desk) -> None:
    desk.path.write_bytes(b"rubbish")
    with pytest.raises(BadMessage):
        await desk.pen.rewrite(PLACE, ACKED)
    assert desk.path.read_bytes() == b"rubbish"


async def test_a_flush_that_fails_leaves_what_was_there(desk: Desk) -> None:
    desk.flushes.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        await desk.pen.rewrite(PLACE, ACKED)
    with pytest.raises(OSError, match="Input/output error"):
        await desk.pen.drop("leader", "m.mime", mime())
    assert desk.path.read_bytes() == mime()
    assert list((desk.root / "queue/leader").glob("*.mime")) == []
    assert desk.nothing_is_left_over()


async def test_a_drop_is_flushed_then_visible_then_its_directory_is_flushed(desk: Desk) -> None:
    box = desk.root / "queue/coder"
    visible: list[int] = []
    desk.flushes.meanwhile = lambda: visible.append(len(list(box.glob("*.mime"))))
    place = await desk.pen.drop("coder", "m.mime", mime(to="coder"))
    assert place == Place("coder", Folder.QUEUE, "m.mime")
    assert visible == [0, 1]
    assert desk.flushes.flushed[-2:] == [f"{box}/", f"{box.parent}/"]
    assert (box / "m.mime").read_bytes() == mime(to="coder")
    assert desk.nothing_is_left_over()
