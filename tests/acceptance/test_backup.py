"""`ackd backup` beside the real daemon at work, and `ackd restore`: what was accepted is there, what was done stays done."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Self

import pytest

from tests.acceptance.teams import Team, running

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = "".join(
    f'[agents.{name}]\nendpoint = "exec"\ncommand = ["./work"]\nretry_limit = 3\n' for name in ("ann", "bob", "cleo")
)
INBOX = '[agents.dora]\nendpoint = "inbox"\n'
#: Says that it worked, and whether that was whole: a second line for each message that came to its end.
WORK = "echo $ACKD_MESSAGE_ID >> began; sleep 0.0$(($$ % 7)); echo $ACKD_MESSAGE_ID >> ended"


def team_in(place: Path) -> Team:
    team = Team(place, AGENTS + INBOX)
    team.script("work", WORK)
    return team


def ids_in(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def completed(team: Team) -> set[str]:
    return {fact["message_id"] for fact in team.facts("message_completed")}


class Senders:
    """Send without a pause, until told to stop. ``sent``: what lies in its queue under its name."""

    def __init__(self, team: Team, seed: int) -> None:
        self._team = team
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self.sent: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._chance.random() * 0.03):
            self.sent.append(self._team.post(self._chance.choice(["ann", "bob", "cleo", "dora"])))


def restored(team: Team, place: Path, file: Path) -> Team:
    place.mkdir()
    done = team.ackd("restore", str(file), "--root", str(place / ".ackd"))
    assert done.returncode == 0, done.stderr
    assert "every agent is paused" in done.stdout
    return team_in(place)


# --- the promise --------------------------------------------------------------------------------------------------------
def test_nothing_that_was_accepted_is_missing_and_nothing_that_was_completed_runs_again(tmp_path: Path) -> None:
    team, chance = team_in(tmp_path / "original"), random.Random(21)
    moments: list[tuple[set[str], set[str], Path]] = []
    with running(team):
        with Senders(team, 21) as senders:
            for number in range(4):
                wanted = len(completed(team)) + chance.randrange(5, 25)
                team.until(partial(_has_completed, team, wanted))
                before = set(senders.sent), completed(team)
                file = tmp_path / f"{number}.tar{chance.choice(['', '.gz', '.xz'])}"
                done = team.ackd("backup", str(file))
                assert done.returncode == 0, done.stderr
                assert file.stat().st_mode & 0o777 == 0o600
                moments.append((*before, file))
        assert team.files("run") == ["ackd.lock", "status.json"]
        team.until(lambda: not team.facts("message_dead") and set(ids_in(team.place / "ended")) <= completed(team))
    for number, (accepted, was_completed, file) in enumerate(moments):
        copy = restored(team, tmp_path / f"copy{number}", file)
        with running(copy):
            assert str(team.root) in copy.facts("session_start")[-1]["restored"]
            assert all(copy.status()["agents"][name]["state"] == "paused" for name in ("ann", "bob", "cleo", "dora"))
            assert ids_in(copy.place / "began") == []
            assert copy.ackd("agent", "resume", "ann", "bob", "cleo", "dora").returncode == 0
            mail = copy.until(partial(_at_rest, copy))
            ran = ids_in(copy.place / "ended")
            assert set(ran) & was_completed == set(), "completed before the backup, and worked on again"
            assert len(ran) == len(set(ran))
            assert accepted - was_completed - set(ran) - mail - completed(copy) == set(), "accepted, and missing"
            assert copy.facts("message_dead", "message_withdrawn") == []
            assert [one for one in copy.facts("message_completed") if "deleted" in str(one.get("by"))] == []


def _has_completed(team: Team, wanted: int) -> bool:
    return len(completed(team)) >= wanted


def _at_rest(team: Team) -> set[str] | None:
    """The ids of what lies unread in the inbox, once the commands have nothing left to do."""
    for name in ("ann", "bob", "cleo"):
        if len(team.files(f"queue/{name}")) > 1 or team.files(f"queue/{name}/processed"):
            return None
    if any(name.endswith(".mime") for name in team.files("queue/dora")):
        return None
    folder = team.root / "queue/dora/processed"
    found = {str(team.header(path, "Message-ID")) for path in folder.iterdir() if not path.name.startswith(".")}
    return {one.strip("<>") for one in found} or {"none"}


def test_a_backup_without_a_daemon_holds_the_root_meanwhile_and_leaves_nothing(tmp_path: Path) -> None:
    team = team_in(tmp_path / "original")
    sent = [team.post("ann") for _ in range(3)]
    done = team.ackd("backup", str(tmp_path / "b.tar.gz"), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["files"], said["has_config"], said["root"]) == (3, True, str(team.root))
    assert not list((team.root / "run").glob("snapshot-*"))
    copy = restored(team, tmp_path / "copy", tmp_path / "b.tar.gz")
    assert len(copy.files("queue/ann")) == 3
    with running(copy):
        copy.ackd("agent", "resume", "ann")
        for message_id in sent:
            copy.fact("message_completed", message=message_id)


def test_a_command_that_was_over_is_not_run_again_and_one_that_was_at_work_is(tmp_path: Path) -> None:
    team = Team(tmp_path / "original", AGENTS)
    team.script("work", 'echo $ACKD_MESSAGE_ID >> began; until [ -e "$ACKD_AGENT.go" ]; do sleep 0.02; done')
    with running(team):
        over, at_work = team.post("ann"), team.post("bob")
        team.until(lambda: sorted(ids_in(team.place / "began")) == sorted([over, at_work]))
        team.kill()
        (team.place / "ann.go").touch()  # ann's run ends, and no daemon has heard of it
        run = next(path for path in (team.root / "state/runs").iterdir() if path.name.startswith("ann"))
        team.until(lambda: not (run / "status").read_text().startswith("-"))
        assert team.ackd("backup", str(tmp_path / "b.tar")).returncode == 0
        team.start()
        copy_place = tmp_path / "copy"
        copy_place.mkdir()
        done = team.ackd("restore", str(tmp_path / "b.tar"), "--root", str(copy_place / ".ackd"))
        assert "1 commands or workers were at work" in done.stdout
        copy = Team(copy_place, AGENTS)
        copy.script("work", "echo $ACKD_MESSAGE_ID >> began")
        with running(copy):
            copy.fact("message_completed", message=over)
            assert copy.facts("message_completed", message=at_work) == []
            copy.ackd("agent", "resume", "ann", "bob")
            copy.fact("message_completed", message=at_work)
            assert ids_in(copy.place / "began") == [at_work]
            assert copy.fact("message_told", message=at_work)["attempt"] == 1  # nobody is blamed for the backup
        assert not team.facts("message_completed", message=at_work)  # the original's run is its own
        (team.place / "bob.go").touch()
        team.fact("message_completed", message=at_work)


# --- a restored root ----------------------------------------------------------------------------------------------------
def test_a_restored_root_says_so_until_all_are_resumed(tmp_path: Path) -> None:
    team = team_in(tmp_path / "original")
    team.post("ann")
    assert team.ackd("backup", str(tmp_path / "b.tar")).returncode == 0
    copy = restored(team, tmp_path / "copy", tmp_path / "b.tar")
    before = copy.ackd("status").stdout
    assert f"restored: from a backup of {team.root}" in before
    assert "paused" in next(line for line in before.splitlines() if line.startswith("ann "))
    refused = copy.ackd("agent", "resume", "ann")
    assert (refused.returncode, "no daemon has started here since" in refused.stderr) == (1, True)
    with running(copy):
        assert str(team.root) in copy.fact("session_start")["restored"]
        assert "restored from a backup" in copy.ackd("status").stdout
        copy.kill()
        copy.start()  # paused for good, and not only by the first daemon
        assert copy.status()["agents"]["ann"]["state"] == "paused"
        assert "restored" not in copy.facts("session_start")[-1]
        assert copy.facts("message_claimed") == []
        assert copy.ackd("agent", "resume", "ann", "bob", "cleo", "dora").returncode == 0
        copy.fact("message_completed")
        assert "restored: " not in copy.ackd("status").stdout


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_backup_that_is_ended_leaves_no_file_and_the_next_start_clears_up(tmp_path: Path, by: signal.Signals) -> None:
    team = team_in(tmp_path / "original")
    with running(team):
        os.kill(team.pid, signal.SIGSTOP)
        try:
            asked = subprocess.Popen(
                [sys.executable, "-m", "ackd", "backup", str(tmp_path / "b.tar")],
                cwd=team.place, env=team.environment, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            team.until(lambda: any(name.startswith("snapshot_") for name in team.files("receipts")))
            asked.send_signal(by)
            asked.wait(60)
        finally:
            os.kill(team.pid, signal.SIGCONT)
        assert not list(tmp_path.glob("*b.tar*"))
        team.until(lambda: not team.files("receipts"))
        team.stop()
        team.start()
        team.until(lambda: team.files("run") == ["ackd.lock", "status.json"])


def test_no_child_of_a_restored_root_is_started_and_none_of_the_originals_is_ended(tmp_path: Path) -> None:
    workers = """[agents.eve]
endpoint = "process"
command = ["./worker"]
"""
    team = Team(tmp_path / "original", workers)
    team.script("worker", "echo $$ >> started; exec sleep 1000")
    with running(team):
        theirs = int(team.written(team.place / "started"))
        team.until(lambda: list((team.root / "state/children").glob("*.json")))
        assert team.ackd("backup", str(tmp_path / "b.tar")).returncode == 0
        place = tmp_path / "copy"
        place.mkdir()
        assert team.ackd("restore", str(tmp_path / "b.tar"), "--root", str(place / ".ackd")).returncode == 0
        copy = Team(place, workers)
        copy.script("worker", "echo $$ >> started; exec sleep 1000")
        with running(copy):
            assert copy.status()["agents"]["eve"]["state"] == "paused"
            copy.fact("message_told", message=copy.send("user"))  # it serves by now
            assert not (copy.place / "started").exists()
            os.kill(theirs, 0)
            assert copy.ackd("agent", "resume", "eve").returncode == 0
            assert int(copy.written(copy.place / "started")) != theirs
        os.kill(theirs, 0)
        assert ids_in(team.place / "started") == [str(theirs)]
