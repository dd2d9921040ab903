"""Copies of what was dropped by hand: first the others have theirs, then it is met."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ackd.adapters import session_log
from ackd.core import events
from ackd.core.message import Folder, Place
from ackd.runtime import copies
from ackd.runtime.copies import Copies
from tests.acceptance.teams import mime
from tests.runtime.desks import Desk, desk_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TO_BOTH = mime(to="leader, user")


class Puts:
    """Writes, or says what the disk says."""

    def __init__(self, desk: Desk, *refusals: int) -> None:
        self.desk, self.refusals, self.made = desk, list(refusals), list[Place]()

    async def __call__(self, agent: str, type_: str, data: bytes) -> Place:
        if self.refusals:
            error = self.refusals.pop(0)
            raise OSError(error, os.strerror(error))
        place = Place(agent, Folder.QUEUE, f"{type_}_{len(self.made)}.mime")
        self.desk.spool.ensure_box(agent)
        self.desk.spool.path(place).write_bytes(data)
        self.made.append(place)
        return place


def helped(desk: Desk, *refusals: int) -> Puts:
    puts = Puts(desk, *refusals)
    called = desk.engine.desk.agent_called
    around = (desk.root, desk.root / "logs", desk.spool, desk.engine.desk, desk.clock)
    desk.intake.copies = Copies(*around, called, puts, desk.record)
    return puts


async def test_it_is_met_when_the_others_have_theirs_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "AGAIN_S", 0.01)
    async with desk_in(tmp_path) as desk:
        puts = helped(desk, errno.ENOSPC, errno.ENOSPC)
        place = desk.put(data=TO_BOTH)
        desk.intake.came(place, closed=True)
        assert desk.of(events.Arrived) == []
        await desk.until(lambda: desk.of(events.Arrived))
        (copy,) = puts.made
        assert copy.box == "user"
        assert b"X-ACKD-Copies: all" in desk.spool.path(copy).read_bytes()
        assert len(desk.said("io_error")) == 2
        assert len(desk.said("message_copied")) == 1


async def test_a_queue_that_takes_no_file_is_said_and_delays_nobody(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        helped(desk, errno.EACCES)
        desk.intake.came(desk.put(data=TO_BOTH), closed=True)
        await desk.until(lambda: desk.of(events.Arrived))
        assert "takes no file" in str(desk.said("message_warning")[0]["warning"])


async def test_a_log_that_can_never_be_read_keeps_no_message_from_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "another user's log")

    monkeypatch.setattr(session_log, "find_message_lines", refuse)
    async with desk_in(tmp_path) as desk:
        puts = helped(desk)
        desk.intake.came(desk.put(data=TO_BOTH), closed=True)
        await desk.until(lambda: desk.of(events.Arrived))
        assert [place.box for place in puts.made] == ["user"]
        assert "whether user has it" in str(desk.said("message_warning")[0]["warning"])


async def test_after_a_crash_between_two_copies_only_the_missing_one_is_made(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        desk.join("third")
        puts = helped(desk)
        await puts("user", "message", mime(to="leader, user, third", extra="X-ACKD-Copies: all\n"))
        desk.intake.came(desk.put(data=mime(to="leader, user, third")), closed=True)
        await desk.until(lambda: desk.of(events.Arrived))
        assert [place.box for place in puts.made] == ["user", "third"]


async def test_one_that_goes_meanwhile_is_copied_to_nobody(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        puts = helped(desk)
        place = desk.put(data=TO_BOTH)
        desk.intake.came(place, closed=True)
        desk.spool.path(place).unlink()
        await desk.until(lambda: not desk.intake._settling)
        assert puts.made == desk.of(events.Arrived) == []
