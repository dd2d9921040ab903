"""A queue directory that is a mount of its own: no rename leads out of it, so what leaves it is copied first."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.faults.mounts import bound, full, half_written, mounted, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    Mount = Callable[[Path], AbstractContextManager[Path]]

pytestmark = needs_root

AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["./work"]

[agents.other]
endpoint = "exec"
command = ["true"]
"""
#: What the body asks for: an exit status.
WORK = 'echo "$ACKD_MESSAGE_ID" >>runs; grep -q refuse "$ACKD_BODY" && exit 65; exit 0'


def team_in(place: Path) -> Team:
    team = Team(place, AGENTS)
    team.script("work", WORK)
    return team


def runs(team: Team) -> list[str]:
    return (team.place / "runs").read_text().split()


@pytest.mark.parametrize("what", ["queue/worker", "queue/worker/processed", "archive", "queue"])
def test_messages_pass_from_one_file_system_to_another(tmp_path: Path, what: str) -> None:
    """Completed, dead, dug up and completed, quarantined: each of them is one message, in one place."""
    team = team_in(tmp_path)
    with mounted(team.root / what, "8m"), running(team):
        done, dead = team.send("worker"), team.send("worker", body="refuse")
        team.fact("message_completed", message=done)
        team.fact("message_dead", message=dead)
        team.drop("worker", b"no message", "message_1.mime")
        team.fact("message_rejected")
        assert len(list((team.root / "archive").rglob("*/worker/*.mime"))) == 1
        assert len(team.files("queue/dead_letter")) == 1
        assert (team.root / "queue/corrupt/message_1.mime").read_bytes() == b"no message"
        team.script("work", 'echo "$ACKD_MESSAGE_ID" >>runs')
        assert team.ackd("dead", "requeue", dead).returncode == 0
        team.fact("message_completed", message=dead)
        assert len(list((team.root / "archive").rglob("*/worker/*.mime"))) == 2
        assert runs(team) == [done, dead, dead]
        assert team.files("queue/worker/processed") == team.files("queue/dead_letter") == []
        assert not team.facts("io_error", "message_withdrawn", "message_duplicate")
        team.until(lambda: half_written(team.root) == [])


def test_messages_of_one_name_gather_on_another_mount(tmp_path: Path) -> None:
    """Each under the next free name: the watcher sees it there before the copy is answered."""
    team = Team(tmp_path, '[agents.boxed]\nendpoint = "inbox"\n')
    with mounted(team.root / "queue/boxed/processed", "8m"), running(team):
        for number in range(5):
            message = f"{number}@ignite.local"
            team.drop("boxed", mime(to="boxed", message_id=message), "task.mime")
            team.fact("message_told", message=message)
        later = team.send("boxed")
        team.fact("message_told", message=later)
        assert len(team.files("queue/boxed/processed")) == 6
        assert not team.facts("message_duplicate", "message_completed")


@pytest.mark.parametrize("mount", [mounted, bound])
@pytest.mark.parametrize("where", ["archive", "dead_letter"])
@pytest.mark.parametrize("taken", [False, True], ids=["", "name_taken"])
def test_a_crash_between_the_copy_and_the_removal_runs_nothing_again(
    tmp_path: Path, where: str, mount: Mount, taken: bool
) -> None:
    """As it is found then: the copy is durable under its name, the old file is still there, the log has no line.

    ``taken``: another message had that name before, so that the copy has the next free one.
    """
    team = team_in(tmp_path)
    with mount(team.root / "queue/worker"), running(team):
        message = team.send("worker", body="refuse" if where == "dead_letter" else "do it")
        end = "message_dead" if where == "dead_letter" else "message_completed"
        team.fact(end, message=message)
        team.kill()
        ran = runs(team)
        (moved,) = (
            (team.root / "archive").rglob("*/worker/*.mime")
            if where == "archive"
            else (team.root / "queue/dead_letter").glob("*.mime")
        )
        copied_back(moved, team.root / "queue/worker/processed")
        if taken:
            moved.rename(moved.with_stem(f"{moved.stem}-1"))
            moved.write_bytes(mime(to="worker", message_id="another@ignite.local"))
        forget_the_end(team, end, message)
        team.start()
        told = team.fact(end, message=message)
        assert told["recovered"] is True
        assert team.files("queue/worker/processed") == []
        later = team.send("worker")
        team.fact("message_completed", message=later)
        assert runs(team) == [*ran, later]
        archived, buried = list((team.root / "archive").rglob("*/worker/*.mime")), team.files("queue/dead_letter")
        ended = archived if where == "archive" else [*archived, *buried]
        assert len(ended) == (3 if taken else 2)
        if where == "archive":
            assert message.encode() in (team.root / str(told["file"])).read_bytes()


def copied_back(moved: Path, directory: Path) -> None:
    """As if the old file had not been removed."""
    (directory / moved.name).write_bytes(moved.read_bytes())
    os.utime(directory / moved.name, ns=(moved.stat().st_atime_ns, moved.stat().st_mtime_ns))


def test_a_twin_in_the_archive_does_not_end_what_is_in_hand(tmp_path: Path) -> None:
    """Sent twice under one name: the second was put away as a duplicate while the first was in hand, and we died."""
    team = team_in(tmp_path)
    with mounted(team.root / "queue/worker"), running(team):
        message = team.send("worker")
        team.fact("message_completed", message=message)
        team.kill()
        (twin,) = (team.root / "archive").rglob("*/worker/*.mime")
        copied_back(twin, team.root / "queue/worker/processed")
        os.utime(twin, (twin.stat().st_atime, twin.stat().st_mtime + 60))
        forget_the_end(team, "message_completed", message)
        team.start()
        team.fact("message_completed", message=message)
        assert runs(team) == [message, message]
        assert len(list((team.root / "archive").rglob("*/worker/*.mime"))) == 2


def test_a_dead_letter_that_was_completed_after_all_is_one_file_after_a_crash(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    with mounted(team.root / "archive"), running(team):
        message = team.send("worker", body="refuse")
        team.fact("message_dead", message=message)
        assert team.ackd("done", message, "--agent", "worker").returncode == 0
        team.fact("message_completed", message=message)
        team.kill()
        (archived,) = (team.root / "archive").rglob("*/worker/*.mime")
        copied_back(archived, team.root / "queue/dead_letter")
        forget_the_end(team, "message_completed", message)
        team.start()
        told = team.fact("message_completed", message=message)
        assert told["recovered"] is True
        assert team.files("queue/dead_letter") == []
        assert len(list((team.root / "archive").rglob("*/worker/*.mime"))) == 1
        assert runs(team) == [message]


def test_a_box_whose_processed_is_a_link_to_the_dead_letters_costs_none_of_them(tmp_path: Path) -> None:
    """By a second mount of the same directory: one file, two paths, two mounts."""
    team = team_in(tmp_path)
    with mounted(team.root / "queue/other"), running(team):
        message = team.send("worker", body="refuse")
        team.fact("message_dead", message=message)
        team.kill()
        (letter,) = team.files("queue/dead_letter")
        (tmp_path / "elsewhere").mkdir()
        subprocess.run(["mount", "--bind", team.root / "queue/dead_letter", tmp_path / "elsewhere"], check=True)
        try:
            (team.root / "queue/other/processed").rmdir()
            (team.root / "queue/other/processed").symlink_to(tmp_path / "elsewhere")
            team.start()
            later = team.send("worker")
            team.fact("message_completed", message=later)
            assert team.files("queue/dead_letter") == [letter]
        finally:
            subprocess.run(["umount", tmp_path / "elsewhere"], check=True)


def forget_the_end(team: Team, end: str, message: str) -> None:
    """The lines that were written after the move: of the log and of the journal."""
    (log,) = (team.root / "logs").glob("*.ndjson")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if end.encode() not in line or message.encode() not in line))
    journal = team.root / "state/journal.ndjson"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"out"' not in line or message.encode() not in line))
    team._read.clear()


def test_what_was_quarantined_goes_back_to_its_mount_without_a_daemon_too(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    with mounted(team.root / "queue/worker", "8m"), running(team):
        team.drop("worker", b"no message", "message_1.mime")
        team.fact("message_rejected")
        team.stop()
        done = team.ackd("dead", "requeue", "message_1.mime")
        assert done.returncode == 0, done.stderr
        assert (team.root / "queue/worker/message_1.mime").read_bytes() == b"no message"
        assert team.files("queue/corrupt") == []


def test_a_full_mount_of_one_agent_is_no_others_trouble(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    with mounted(team.root / "queue/worker", "512k") as box, running(team):
        with full(box):
            assert team.ackd("send", "worker", "--body", "hello").returncode == 73
            other = team.send("other")
            team.fact("message_completed", message=other)
        message = team.send("worker")
        team.fact("message_completed", message=message)


def test_a_full_archive_keeps_what_is_finished_until_there_is_room_and_runs_nothing_again(tmp_path: Path) -> None:
    team = team_in(tmp_path)
    with mounted(team.root / "archive", "512k") as archive, running(team):
        with full(archive):
            message = team.send("worker")
            team.fact("io_error")
            assert os.listdir(team.root / "queue/worker/processed")  # noqa: PTH208
            team.until(lambda: half_written(archive) == [])
        team.fact("message_completed", message=message)
        assert runs(team) == [message]
        assert len(team.facts("io_error")) == len(team.facts("io_recovered")) == 1


def test_what_is_no_file_and_lies_on_another_mount_is_said_once_and_stays(tmp_path: Path) -> None:
    """It can be neither opened nor moved. The others are served."""
    team = team_in(tmp_path)
    with mounted(team.root / "queue/worker", "8m") as box, running(team):
        os.mkfifo(box / "message_1.mime")
        team.fact("io_error")
        message = team.send("worker")
        team.fact("message_completed", message=message)
        two_scans_later = time.monotonic() + 2.5
        team.until(lambda: time.monotonic() > two_scans_later)
        assert (box / "message_1.mime").is_fifo()
        assert len(team.facts("io_error")) == 1


@pytest.mark.parametrize("mount", [mounted, bound])
def test_check_says_that_a_queue_is_a_mount_of_its_own(tmp_path: Path, mount: Mount) -> None:
    team = team_in(tmp_path)
    assert team.ackd("check").returncode in {0, 1}
    with mount(team.root / "queue/worker"):
        shown = team.ackd("check").stdout
        assert f"{team.root / 'queue/worker'} is a mount of its own" in shown
