"""A checkpoint that was said through receipts/: kept, then told, and only then is its receipt gone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters import maildrop
from ackd.adapters.checkpoints import Checkpoints
from ackd.core import events
from tests.acceptance.teams import mime
from tests.runtime.desks import Desk, desk_in
from tests.runtime.test_agent_requests import refuse

if TYPE_CHECKING:
    from pathlib import Path


def say(desk: Desk, text: str, step: int | None = None, *, message_id: str = "1.1.a@x", agent: str = "leader") -> str:
    return maildrop.drop_checkpoint(desk.root / "receipts", message_id, agent, text, step).name


def kept(root: Path) -> Any:
    return Checkpoints(root / "state" / "checkpoints").read("leader", "1.1.a@x")


def receipts(desk: Desk) -> list[str]:
    return [entry.name for entry in desk.spool.scan_receipts()]


async def test_it_is_kept_before_it_is_told_and_told_before_its_receipt_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_in(tmp_path) as desk:
        desk.told(data=mime(message_id="1.1.a@x"))
        name = say(desk, "half way", 3)
        seen: list[Any] = []
        monkeypatch.setattr(
            desk.letterbox.checkpoints, "post", lambda event: seen.append((event, kept(tmp_path), receipts(desk)))
        )
        desk.letterbox.take(name)
        await desk.until(lambda: receipts(desk) == [])
        key = desk.engine.desk.book.of_id("1.1.a@x", "leader")[0].key
        assert seen == [(events.CheckpointCame(key), {"text": "half way", "current_step": 3}, [name])]


async def test_the_later_word_stays(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.told(data=mime(message_id="1.1.a@x"))
        for number in range(8):
            desk.letterbox.take(say(desk, f"step {number}"))
        await desk.until(lambda: receipts(desk) == [])
        assert kept(tmp_path) == {"text": "step 7"}


async def test_one_that_is_quicker_than_its_message_waits_for_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(say(desk, "half way"))
        assert kept(tmp_path) is None
        desk.told(data=mime(message_id="1.1.a@x"))
        await desk.until(lambda: receipts(desk) == [])
        assert kept(tmp_path) == {"text": "half way"}


@pytest.mark.parametrize("agent", ["leader", "nobody"])
async def test_for_a_message_that_is_not_open_nothing_is_kept(tmp_path: Path, agent: str) -> None:
    async with desk_in(tmp_path) as desk:
        desk.letterbox.take(say(desk, "half way", agent=agent))
        await desk.until(lambda: desk.said("message_warning"))
        assert (kept(tmp_path), receipts(desk), desk.posted) == (None, [], [])


async def test_what_the_disk_refuses_is_kept_by_the_next_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk_in(tmp_path) as desk:
        desk.told(data=mime(message_id="1.1.a@x"))
        name = say(desk, "half way")
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", refuse)
            desk.letterbox.take(name)
            await desk.until(lambda: desk.said("io_error"))
        assert (desk.posted, receipts(desk)) == ([], [name])
        await desk.letterbox.scan()
        await desk.until(lambda: receipts(desk) == [])
        assert kept(tmp_path) == {"text": "half way"}
