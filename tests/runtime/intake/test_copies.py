"""Copies of messages that were dropped by hand: the other recipients get theirs before the message is met."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ackd.core import events
from ackd.core.message import Folder, Place
from ackd.runtime.intake import copies
from ackd.runtime.intake.copies import Copies
from ackd.storage import session_log
from tests.acceptance.teams import mime
from tests.runtime.intake_fixture import IntakeSetup, intake_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TO_BOTH = mime(to="leader, user")


class CopyWriter:
    """Writes files, or raises the next refusal of the disk."""

    def __init__(self, setup: IntakeSetup, *refusals: int) -> None:
        self.setup, self.refusals, self.made = setup, list(refusals), list[Place]()

    async def __call__(self, agent: str, type_: str, data: bytes) -> Place:
        if self.refusals:
            error = self.refusals.pop(0)
            raise OSError(error, os.strerror(error))
        place = Place(agent, Folder.QUEUE, f"{type_}_{len(self.made)}.mime")
        self.setup.spool.ensure_box(agent)
        self.setup.spool.path(place).write_bytes(data)
        self.made.append(place)
        return place


def with_copies(setup: IntakeSetup, *refusals: int) -> CopyWriter:
    writer = CopyWriter(setup, *refusals)
    called = setup.engine.state.agent_called
    setup.intake.copies = Copies(
        root=setup.root,
        logs=setup.root / "logs",
        spool=setup.spool,
        state=setup.engine.state,
        services=setup.services,
        called=called,
        config=setup.intake.config,
        put=writer,
    )
    return writer


async def test_it_is_met_when_the_others_have_theirs_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "AGAIN_S", 0.01)
    async with intake_in(tmp_path) as setup:
        writer = with_copies(setup, errno.ENOSPC, errno.ENOSPC)
        place = setup.put(data=TO_BOTH)
        setup.intake.came(place, closed=True)
        assert setup.of(events.Arrived) == []
        await setup.until(lambda: setup.of(events.Arrived))
        (copy,) = writer.made
        assert copy.box == "user"
        assert b"X-ACKD-Copies: all" in setup.spool.path(copy).read_bytes()
        assert len(setup.said("io_error")) == 2
        assert len(setup.said("message_copied")) == 1


async def test_a_queue_that_takes_no_file_is_said_and_delays_nobody(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        with_copies(setup, errno.EACCES)
        setup.intake.came(setup.put(data=TO_BOTH), closed=True)
        await setup.until(lambda: setup.of(events.Arrived))
        assert "takes no file" in str(setup.said("message_warning")[0]["warning"])


async def test_a_log_that_can_never_be_read_keeps_no_message_from_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "another user's log")

    monkeypatch.setattr(session_log, "find_message_lines", refuse)
    async with intake_in(tmp_path) as setup:
        writer = with_copies(setup)
        setup.intake.came(setup.put(data=TO_BOTH), closed=True)
        await setup.until(lambda: setup.of(events.Arrived))
        assert [place.box for place in writer.made] == ["user"]
        assert "whether user has it" in str(setup.said("message_warning")[0]["warning"])


async def test_after_a_crash_between_two_copies_only_the_missing_one_is_made(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        setup.join("third")
        writer = with_copies(setup)
        await writer("user", "message", mime(to="leader, user, third", extra="X-ACKD-Copies: all\n"))
        setup.intake.came(setup.put(data=mime(to="leader, user, third")), closed=True)
        await setup.until(lambda: setup.of(events.Arrived))
        assert [place.box for place in writer.made] == ["user", "third"]


async def test_one_that_goes_meanwhile_is_copied_to_nobody(tmp_path: Path) -> None:
    async with intake_in(tmp_path) as setup:
        writer = with_copies(setup)
        place = setup.put(data=TO_BOTH)
        setup.intake.came(place, closed=True)
        setup.spool.path(place).unlink()
        await setup.until(lambda: not setup.intake._settling)
        assert writer.made == setup.of(events.Arrived) == []
