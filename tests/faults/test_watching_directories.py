"""Queue directories that come, go and return: what was in them is served once, or said to be lost."""

from __future__ import annotations

import contextlib
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.faults.grip import NOTE_RUN, WORKER, ends, frozen, passed, running_on, runs, watch

if TYPE_CHECKING:
    from pathlib import Path

MODES = {"inotify": watch(mode="inotify"), "polling": watch(mode="polling", poll_interval_s=0.1)}
by_either = pytest.mark.parametrize("mode", list(MODES))


def team_in(place: Path, mode: str = "inotify", **settings: object) -> Team:
    quick = watch(mode=mode, **settings) if settings else MODES[mode]
    team = Team(place, f"{WORKER}max_in_flight = 4\n[agents.reader]\n", quick=quick)
    team.script("work", NOTE_RUN)
    return team


# --- new --------------------------------------------------------------------------------------------------------------
@by_either
def test_new_directories_with_files_in_them_at_once_are_served_whole_and_once(tmp_path: Path, mode: str) -> None:
    """Made and filled faster than a watch is set; moved in full; filled in processed/ only; a whole tree copied."""
    with running(team_in(tmp_path, mode)) as team:
        ids = []
        for n in range(10):
            for m in range(5):
                ids.append(f"{n}.{m}.a@x")
                team.drop(f"new_{n}", mime(to=f"new_{n}", message_id=ids[-1]), f"m{m}.mime")
        ids.append("moved.1.a@x")
        full = tmp_path / "full"
        (full / "processed").mkdir(parents=True)
        (full / "m.mime").write_bytes(mime(to="moved", message_id=ids[-1]))
        full.rename(team.root / "queue/moved")
        ids.append("claimed.1.a@x")
        team.drop("claimed", mime(to="claimed", message_id=ids[-1]), "m.mime", "processed")
        source = tmp_path / "source"
        source.mkdir()
        for m in range(20):
            ids.append(f"copied.{m}.a@x")
            (source / f"m{m}.mime").write_bytes(mime(to="copied", message_id=ids[-1]))
        shutil.copytree(source, team.root / "queue/copied")
        for one in ids:
            team.fact("message_told", message=one)
        passed(team, 0.5)
        for one in ids:
            assert len(team.facts("message_queued", message=one)) == len(team.facts("message_told", message=one)) == 1
    assert not team.facts("message_rejected", "message_duplicate", "message_withdrawn", "spool_lost", "io_error")


# --- away and back ----------------------------------------------------------------------------------------------------
def box(team: Team) -> Path:
    return team.root / "queue/reader"


@by_either
@pytest.mark.parametrize(("which", "inside"), [("queue/reader", "."), ("queue", "reader"), ("", "queue/reader")])
def test_moved_away_and_back_before_anyone_looks_twice_is_no_loss(
    tmp_path: Path, mode: str, which: str, inside: str
) -> None:
    """And what was put into it meanwhile, under its other name, is found when it is back."""
    with running(team_in(tmp_path / "team", mode, settle_s=1.5, poll_interval_s=0.1)) as team:
        held = team.post("reader")
        team.fact("message_told", message=held)
        here, away = team.root / which, tmp_path / "away"
        here.rename(away)
        (away / inside / ".t").write_bytes(mime(to="reader", message_id="meanwhile.1.a@x"))
        (away / inside / ".t").rename(away / inside / "meanwhile.mime")
        away.rename(here)
        team.fact("message_told", message="meanwhile.1.a@x")
        after = team.post("reader")
        team.fact("message_told", message=after)
        passed(team, 2)
        for path in (team.root / "queue/reader/processed").glob("*.mime"):
            path.unlink()
        ids = (held, "meanwhile.1.a@x", after)
        for one in ids:
            team.fact("message_completed", message=one)
    assert ends(team) == {one: ["completed"] for one in ids}
    assert not team.facts("spool_lost", "escalation")
    assert all(len(team.facts("message_told", message=one)) == 1 for one in ids)


@by_either
def test_moved_away_for_longer_is_a_loss_said_once_and_what_comes_back_is_served(tmp_path: Path, mode: str) -> None:
    team = team_in(tmp_path, mode)
    with running(team):
        ids = [team.post("reader") for _ in range(3)]
        for one in ids:
            team.fact("message_told", message=one)
        here, away = box(team), tmp_path / "away"
        here.rename(away)
        for one in ids:
            team.fact("message_withdrawn", message=one)
        new = team.post("reader")  # into the directory that was made anew
        team.fact("message_told", message=new)
        passed(team, 0.5)
        assert len(team.facts("spool_lost", agent="reader")) == 1
        assert len(team.facts("escalation", agent="reader")) == 1
        here.rename(tmp_path / "other")
        away.rename(here)
        for one in ids:
            team.until(lambda one=one: len(team.facts("message_told", message=one)) == 2)  # type: ignore[misc]
        team.fact("message_withdrawn", message=new)
    assert not team.facts("message_completed", agent="reader")
    assert len(team.facts("spool_lost", agent="reader")) == 2  # the one that lay there meanwhile went, too


# --- emptied ----------------------------------------------------------------------------------------------------------
def held_by_reader(team: Team) -> list[str]:
    ids = [team.post("reader") for _ in range(30)]
    for one in ids:
        team.fact("message_told", message=one)
    return ids


def delete_slowly(directory: Path) -> None:
    """One after the other, over twice ``settle_s``: the first are long gone when the last go."""
    for path in sorted(directory.glob("*.mime")):
        path.unlink()
        time.sleep(0.07)


def remove(directory: Path) -> None:
    """However slow we are: a daemon that has noticed half of it makes directories again."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            shutil.rmtree(directory)
            return
    shutil.rmtree(directory)


def test_a_queue_that_is_removed_slowly_is_lost_and_none_of_it_completed(tmp_path: Path) -> None:
    """As ``rm -rf`` of a hundred thousand files."""
    with running(team_in(tmp_path, settle_s=1)) as team:
        ids = held_by_reader(team)
        delete_slowly(box(team) / "processed")
        remove(box(team))
        team.fact("spool_lost", agent="reader")
        for one in ids:
            team.fact("message_withdrawn", message=one)
    assert {one: words for one, words in ends(team).items() if one in ids} == {one: ["withdrawn"] for one in ids}
    assert len(team.facts("spool_lost", agent="reader")) == 1


def test_an_agent_that_deletes_one_file_after_the_other_completes_them_all(tmp_path: Path) -> None:
    with running(team_in(tmp_path, settle_s=1)) as team:
        ids = held_by_reader(team)
        delete_slowly(box(team) / "processed")
        for one in ids:
            team.fact("message_completed", message=one)
    assert ends(team) == {one: ["completed"] for one in ids}
    assert not team.facts("spool_lost")


def test_a_queue_that_is_replaced_while_the_daemon_is_frozen_completes_nothing(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    with running_on(team):
        team.start()
        one = team.post("reader")
        team.fact("message_told", message=one)
        with frozen(team):
            shutil.rmtree(box(team))
            new = team.post("reader")
        team.fact("message_withdrawn", message=one)
        team.fact("message_told", message=new)
        work = team.post("worker")
        team.fact("message_completed", message=work)
    assert len(team.facts("spool_lost")) == 1
    assert runs(team) == [work]
