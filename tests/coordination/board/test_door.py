"""The use cases of a board, called from a program: values in, values and named errors out, without a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.config.site import find_site
from ackd.coordination.board.door import (
    BadContext,
    BadProposal,
    BoardDoor,
    NoSeat,
    OthersSeat,
    UnknownDirector,
    WhichSeat,
)
from ackd.coordination.board.rules.phases import BoardCheckpoint, Phase
from ackd.coordination.bus.tracks import own_track
from ackd.core.errors import NotNow, NoTrack

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.config.site import Site
    from ackd.coordination.bus.rules.layout import Track

CONFIG = """
[board]
directors = { CA = "technical", CPO = "product", CSO = "security" }
agents = { CA = "architect", CPO = "architect", CSO = "guard" }
rounds = 1

[agents.leader]
[agents.architect]
[agents.guard]
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    config = tmp_path / "ackd.toml"
    config.write_text(CONFIG)
    return find_site(None, str(config))


@pytest.fixture
def track(site: Site) -> Track:
    return own_track(site.root)


def test_a_whole_meeting_is_held_by_calls(site: Site, track: Track) -> None:
    door = BoardDoor(site)
    opened = door.open(track, door.prepare(BoardCheckpoint.PRE_LAUNCH, "Launch", opener="leader"))
    assert (opened.waits_for, opened.daemon_running) == (("CA", "CPO", "CSO"), False)
    for name in opened.meeting.directors:
        standing = door.assess(track, verdict="approve", score=8, director=name)
    assert standing.meeting.phase is Phase.DISCUSSING
    door.discuss(track, message="yes", kind="AGREE", director="CA")
    door.pass_round(track, director="CPO")
    assert door.pass_round(track, agent="guard").meeting.phase is Phase.VOTING
    door.vote(track, verdict="APPROVE", confidence=0.5, conditions=["soon"], director="CA", agent="architect")
    resolved = door.resolve(track)
    assert resolved.resolution is not None
    assert (resolved.phase, resolved.resolution.absent) == (Phase.COMPLETE, ("CPO", "CSO"))
    assert door.resolve(track) == resolved
    assert door.show(track) == resolved
    assert [one.meeting_id for one in door.meetings(track).meetings] == [resolved.meeting_id]


def test_an_agent_speaks_from_its_own_seats_only(site: Site, track: Track) -> None:
    door = BoardDoor(site)
    door.open(track, door.prepare(BoardCheckpoint.PRE_LAUNCH, "Launch", opener="leader"))
    with pytest.raises(OthersSeat, match="CSO is guard's seat, and this is architect"):
        door.assess(track, verdict="APPROVE", director="CSO", agent="architect")
    with pytest.raises(NoSeat, match="leader is no director of board-"):
        door.assess(track, verdict="APPROVE", agent="leader")
    for agent, directors in (("architect", ("CA", "CPO")), (None, ("CA", "CPO", "CSO"))):
        with pytest.raises(WhichSeat) as unclear:
            door.assess(track, verdict="APPROVE", agent=agent)
        assert unclear.value.directors == directors


def test_a_call_that_makes_no_sense_is_refused_before_anything_is_made(site: Site, track: Track) -> None:
    door = BoardDoor(site)
    with pytest.raises(UnknownDirector, match=r"no director 'CFO'; \[board\] has CA, CPO, CSO"):
        door.prepare(BoardCheckpoint.PRE_LAUNCH, "Launch", opener="leader", directors=["ca", "CFO"])
    with pytest.raises(BadProposal):
        door.prepare(BoardCheckpoint.PRE_LAUNCH, "  ", opener="leader")
    with pytest.raises(BadContext, match="has more than"):
        door.prepare(BoardCheckpoint.PRE_LAUNCH, "Launch", opener="leader", context=[0] * 20_000)
    assert door.meetings(track).meetings == ()


def test_a_meeting_is_cancelled_once(site: Site, track: Track) -> None:
    door = BoardDoor(site)
    meeting = door.open(track, door.prepare(BoardCheckpoint.QUICK_REVIEW, "Launch", opener="leader")).meeting
    assert door.cancel(track, by="leader").meeting.phase is Phase.CANCELLED
    with pytest.raises(NotNow):
        door.cancel(track, meeting.meeting_id)


def test_a_bus_is_named_or_the_teams_own_is_meant(site: Site) -> None:
    door = BoardDoor(site)
    assert door.meetings().meetings == ()
    with pytest.raises(NoTrack) as refused:
        door.cancel("elsewhere")
    assert (refused.value.wanted, refused.value.known) == ("elsewhere", ())
    opened = door.open(None, door.prepare(BoardCheckpoint.PRE_LAUNCH, "Launch", opener="leader"))
    assert opened.track == own_track(site.root)
    assert door.show("house").meeting_id == door.cancel("house").meeting.meeting_id == opened.meeting.meeting_id


def test_a_member_of_a_group_or_pool_speaks_from_its_seat(tmp_path: Path) -> None:
    config = tmp_path / "ackd.toml"
    config.write_text(
        """
[board]
directors = { CA = "technical", CPO = "product", CSO = "security" }
agents = { CA = "architects", CPO = "products", CSO = "guard" }
[groups]
architects = ["ann", "ben"]
[pools.products]
members = ["cy"]
[agents.ann]
[agents.ben]
[agents.cy]
[agents.guard]
"""
    )
    site = find_site(None, str(config))
    door, track = BoardDoor(site), own_track(site.root)
    door.open(track, door.prepare(BoardCheckpoint.PRE_LAUNCH, "Launch", opener="architects"))
    assert door.assess(track, verdict="approve", score=8, agent="ben").waits_for == ("CPO", "CSO")
    assert door.assess(track, verdict="approve", score=8, director="CPO", agent="cy").waits_for == ("CSO",)
    with pytest.raises(OthersSeat):
        door.assess(track, verdict="approve", score=8, director="CSO", agent="ann")
