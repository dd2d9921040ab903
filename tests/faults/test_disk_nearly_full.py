"""A disk that is nearly full: intake stops before anything is refused, and goes on by itself when there is room."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from tests.acceptance.teams import Team, running
from tests.faults.mounts import mounted, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [needs_root, pytest.mark.timeout(180)]

AGENTS: Final = """
[agents.reader]
[agents.worker]
endpoint = "exec"
command = ["./work"]
max_in_flight = 1
"""
#: Of the file system's 16 MB it is a twentieth that is kept: 0.8 MB.
SIZE: Final = "16m"


def nearly_fill(root: Path) -> Callable[[], object]:
    """Leave 300 KB: enough for what is in hand, and less than is kept."""
    ballast = root / ".ballast"
    ballast.write_bytes(b"")
    room = os.statvfs(root)
    with ballast.open("ab") as file:
        file.write(b"\0" * (room.f_bavail * room.f_frsize - 300_000))
    return ballast.unlink


def nearly_use_up_inodes(root: Path) -> Callable[[], object]:
    """Leave 60."""
    ballast = root / ".ballast"
    ballast.mkdir()
    for number in range(os.statvfs(root).f_favail - 60):
        (ballast / str(number)).touch()
    return lambda: shutil.rmtree(ballast)


FAULTS: Final = {
    "space": (nearly_fill, "MB free", 0),
    "inodes": (nearly_use_up_inodes, "inodes free", 2_000),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_in_hand_goes_on_what_comes_waits_and_all_is_said_once(tmp_path: Path, fault: str) -> None:
    begin, words, inodes = FAULTS[fault]
    team = Team(tmp_path, AGENTS, top='on_escalation = ["./ring"]')
    team.script("work", 'until [ -e go ]; do sleep 0.02; done; echo "$ACKD_MESSAGE_ID" >>runs')
    team.script("ring", "cat >>rung; echo >>rings")
    with mounted(team.root, SIZE, inodes), running(team):
        at_work = team.send("worker")
        team.fact("message_told", message=at_work)
        end = begin(team.root)
        short = team.fact("room_low")
        assert (short["what"], short["free"] < short["least"]) == (fault, True)
        late = [team.send("worker"), team.send("reader")]
        for message in late:
            team.fact("message_queued", message=message)
        (tmp_path / "go").touch()
        team.fact("message_completed", message=at_work)
        said = "no message is taken up; 3 waiting go on by themselves"  # the escalation waits, too
        shown = team.until(lambda: text if said in (text := " ".join(team.ackd("status").stdout.split())) else "")
        assert "fault: only " in shown
        assert words in shown
        checked = team.ackd("check")
        assert checked.returncode != 0
        assert words in checked.stdout
        team.until((tmp_path / "rings").exists)
        assert team.facts("message_claimed", message=late[0]) == []
        end()
        for message in late:
            team.fact("message_told", message=message)
        team.fact("room_back")
        team.fact("message_completed", message=late[0])
        team.until(lambda: "fault:" not in team.ackd("status").stdout)
        assert [len(team.facts(type_)) for type_ in ("room_low", "room_back", "io_error")] == [1, 1, 0]
        assert (tmp_path / "rings").read_text().count("\n") == 1
        assert [fact["cause"] for fact in team.facts("escalation")] == ["room_low"]
        assert (tmp_path / "runs").read_text().split() == [at_work, late[0]]


def test_a_daemon_that_starts_on_a_nearly_full_disk_takes_nothing_up_until_there_is_room(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    team.script("work", 'echo "$ACKD_MESSAGE_ID" >>runs')
    with mounted(team.root, SIZE), running(team):
        team.stop()
        waiting = team.send("worker")
        end = nearly_fill(team.root)
        team.start()
        team.fact("room_low")
        team.fact("message_queued", message=waiting)
        page = json.loads(team.ackd("status", "--json").stdout)
        assert [one["what"] for one in page["faults"]] != []
        assert team.facts("message_claimed", message=waiting) == []
        end()
        team.fact("message_completed", message=waiting)


def test_none_is_kept_where_min_free_mb_is_0(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, top="min_free_mb = 0")
    team.script("work", "exit 0")
    with mounted(team.root, SIZE), running(team):
        end = nearly_fill(team.root)
        team.fact("message_completed", message=team.send("worker"))
        assert team.facts("room_low") == []
        end()
