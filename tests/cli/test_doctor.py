"""`ackd doctor`, which is `ackd check`: the machine, what killed programs left, and what `--fix` puts in order."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.client import machine, surroundings
from ackd.config.site import find_site
from ackd.endpoints.process.child.leftovers import ChildRecord, write_record
from ackd.storage.backup.restored import Restored, save
from ackd.system import ntp, processes
from tests.endpoints.tmux.client.private_server import private_server
from tests.nobody import NOBODY, needs_root
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


def rows(team: Team, subject: str, *words: str) -> list[dict[str, Any]]:
    """The findings about a subject, with the command's own words given."""
    listed = json.loads(team.ackd(*(words or ("doctor",)), "--json").stdout)["checks"]
    return [row for row in listed if row["subject"] == subject]


def rewrite(team: Team, text: str) -> None:
    (team.home / "ackd.toml").write_text(text)


@pytest.fixture
def served(team: Team) -> Team:
    """A team whose root a daemon has served before."""
    assert team.ackd("init").exit_code == 0
    (team.root / "state/version").write_text('{"version": 1}')
    (team.root / "state/version").chmod(0o600)
    return team


def test_doctor_and_check_are_one_command(served: Team) -> None:
    one, other = (re.sub(r"\d+ MiB", "… MiB", served.ackd(word).stdout) for word in ("doctor", "check"))
    assert one == other  # but for the room on the disk, which others use meanwhile
    (row,) = rows(served, "machine")
    assert f"Python {sys.version.split()[0]}" in row["words"]


def test_every_line_fits_a_narrow_terminal(served: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    (served.root / "receipts").rmdir()
    monkeypatch.setattr("ackd.cli.table.is_narrow", lambda: True)
    monkeypatch.setattr("ackd.cli.table.columns_of_terminal", lambda: 40)
    shown = served.ackd("doctor", "--fix").stdout.splitlines()
    longest = max((word for line in shown for word in line.split()), key=len)
    assert max(map(len, shown)) <= max(40, len(longest) + 8)


# --- repairs ------------------------------------------------------------------------------------------------------------
def test_missing_directories_are_named_and_made(served: Team) -> None:
    (served.root / "receipts").rmdir()
    (served.root / "queue/corrupt").rmdir()
    (row,) = rows(served, "layout")
    assert (row["level"], row["mend"]) == ("warn", "`ackd check --fix` makes it")
    assert "lacks queue/corrupt, receipts" in row["words"]
    would = served.ackd("check", "--fix", "--dry-run").stdout
    assert f"would do: mkdir -m 700 {served.root}/receipts" in would
    assert not (served.root / "receipts").exists()
    assert f"fixed: made {served.root}/receipts" in served.ackd("check", "--fix").stdout
    assert (served.root / "receipts").stat().st_mode & 0o777 == 0o700
    assert rows(served, "layout") == []
    assert served.ackd("check", "--fix").stdout.startswith("nothing to fix\n")


def test_a_root_that_no_daemon_has_served_lacks_nothing(team: Team) -> None:
    (team.root / "queue").mkdir(parents=True)
    assert rows(team, "layout") == []


def test_what_is_ours_is_closed_and_messages_are_left_alone(served: Team) -> None:
    mail = served.root / "queue/user/m.mime"
    mail.write_text("x")
    journal = served.root / "state/journal.ndjson"
    journal.write_text("")
    for path, mode in ((mail, 0o644), (journal, 0o644), (served.root / "queue/user", 0o755)):
        path.chmod(mode)
    assert [row["mend"] for row in rows(served, "rights")] == [
        f"chmod -R go-rwx {served.root}",
        "`ackd check --fix` closes it",
    ]
    fixed = json.loads(served.ackd("check", "--fix", "--json").stdout)["fixed"]
    assert [(one["path"], one["error"]) for one in fixed] == [
        (str(served.root / "queue/user"), None),
        (str(journal), None),
    ]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (mail, journal, served.root / "queue/user")}
    assert modes == {"m.mime": 0o644, "journal.ndjson": 0o600, "user": 0o700}
    assert mail.read_text() == "x"


def test_only_what_killed_programs_left_is_removed(served: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.storage.repairs._STALE_AFTER_S", -1.0)
    dead = subprocess.Popen(["true"])
    dead.wait()
    box = served.root / "queue/user"
    stale = box / f".m.mime.{dead.pid}.0123abcd"
    kept = [box / f".m.mime.{os.getpid()}.0123abcd", box / ".ackd-aside-m.mime", box / ".mine"]
    for path in (stale, *kept):
        path.write_text("x")
    (served.root / "run/snapshot-0123456789abcdef/tree").mkdir(parents=True)
    (row,) = rows(served, "leftovers")
    assert str(stale) in row["words"]
    assert "and 1 more" in row["words"]
    shown = served.ackd("doctor", "--fix").stdout
    assert f"fixed: removed {stale}, which a program left that was killed" in shown
    assert rows(served, "leftovers") == []
    assert (stale.exists(), [path.exists() for path in kept]) == (False, [True, True, True])


def test_dry_run_alone_is_wrong_usage(served: Team) -> None:
    assert served.ackd("check", "--dry-run").exit_code == 2


@needs_root
def test_what_another_user_made_in_the_root_is_a_warning(served: Team) -> None:
    (served.root / "state/version").chmod(0o600)
    os.chown(served.root / "state/version", NOBODY, NOBODY)
    (row,) = rows(served, "owners")
    assert row["mend"] == f"chown -R 0 {served.root}"
    assert f"belongs to uid {NOBODY}" in row["words"]


@needs_root
def test_root_repairs_nothing_in_another_users_team(served: Team) -> None:
    (served.root / "receipts").rmdir()
    os.chown(served.root, NOBODY, NOBODY)
    refused = served.ackd("check", "--fix", "--root", str(served.root))
    assert (refused.exit_code, "sudo -u" in refused.stderr) == (73, True)
    assert not (served.root / "receipts").exists()


def test_what_the_disk_refuses_is_said_and_the_rest_is_done(served: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    (served.root / "receipts").rmdir()
    (served.root / "archive").rmdir()
    made = type(served.root).mkdir

    def refuses(path: Path, *args: Any, **kwargs: Any) -> None:
        if path.name == "receipts":
            raise OSError(28, "No space left on device")
        made(path, *args, **kwargs)

    monkeypatch.setattr(type(served.root), "mkdir", refuses)
    shown = served.ackd("check", "--fix").stdout
    assert f"not done: mkdir -m 700 {served.root}/receipts: No space left on device" in shown
    assert f"fixed: made {served.root}/archive" in shown


# --- the machine --------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def inotify_instances(count: int) -> Iterator[None]:
    libc = ctypes.CDLL(None)
    fds = [libc.inotify_init() for _ in range(count)]
    assert min(fds) >= 0
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


def test_no_instance_of_inotify_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "INOTIFY", tmp_path)
    with inotify_instances(3):
        (tmp_path / "max_user_instances").write_text("3\n")
        (row,) = machine.inotify_room(running=False)
        assert (row.level, row.mend) == ("warn", "sysctl fs.inotify.max_user_instances=134")
        assert list(machine.inotify_room(running=True)) == []
        (tmp_path / "max_user_instances").write_text("1000000\n")
        assert list(machine.inotify_room(running=False)) == []


def test_a_short_queue_of_notifications(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "INOTIFY", tmp_path)
    (tmp_path / "max_queued_events").write_text("16\n")
    (row,) = machine.inotify_room(running=True)
    assert (row.level, row.mend) == ("warn", "sysctl fs.inotify.max_queued_events=16384")


def test_a_log_line_from_the_future(served: Team) -> None:
    log = served.root / "logs/session-20990101-000000.ndjson"
    log.write_text('{"timestamp":"2099-01-01T00:00:00.000000Z"}\n{"torn')
    (row,) = [row for row in rows(served, "clock") if row["level"] != "ok"]
    assert "the newest line of session-20990101-000000.ndjson is" in row["words"]
    log.write_text('{"timestamp":"2026-01-01T00:00:00.000000Z"}\n')
    assert [row for row in rows(served, "clock") if row["level"] != "ok"] == []


@pytest.mark.parametrize(("kept", "rows_"), [(True, 0), (None, 0), (False, 1)])
def test_who_keeps_the_clock(monkeypatch: pytest.MonkeyPatch, kept: bool | None, rows_: int) -> None:
    assert ntp.is_synchronised() in (True, False, None)  # the kernel's own answer, whichever it is
    monkeypatch.setattr(ntp, "is_synchronised", lambda: kept)
    found = [row for row in [machine.kept_time()] if row]
    assert [row.level for row in found] == ["ok"] * rows_


def test_units_that_start_another_ackd_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ackd").write_text("#!/bin/sh\n")
        (tmp_path / name / "ackd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "here"))
    for name, program in (("a", "here/ackd"), ("b", "there/ackd"), ("c", "gone/ackd")):
        (tmp_path / f"ackd-{name}.service").write_text(f"[Service]\nExecStart={tmp_path}/{program} run\n")
    (tmp_path / "other.service").write_text("ExecStart=/gone\n")
    found = list(machine.units((str(tmp_path), str(tmp_path / "absent"))))
    assert [row.level for row in found] == ["ok", "warn", "warn"]
    assert "which is not there" in found[2].words


def test_a_restored_root_is_remembered(served: Team) -> None:
    site = find_site()
    save(site.state, Restored("/the/original", "2026-11-19T22:00:00Z", "2026-11-19T23:00:00Z"))
    (row,) = surroundings.restored_from(site)
    assert "from a backup of /the/original" in row.words
    save(site.state, Restored("/the/original", "x", "y", done=True))  # and nobody is paused for it any more
    assert list(surroundings.restored_from(site)) == []


# --- agents -------------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
@pytest.mark.parametrize(
    ("said", "level", "words"),
    [
        ("2.1.326 (Claude Code)", "ok", "is 2.1.326, and profile claude was made with 2.1.326"),
        ("2.1.400 (Claude Code)", "ok", "is 2.1.400"),
        ("3.0.1 (Claude Code)", "warn", "is 3.0.1"),
        ("no idea", "warn", "does not say which version"),
    ],
)
def test_programs_are_compared_with_what_their_profile_was_made_with(
    team: Team, monkeypatch: pytest.MonkeyPatch, said: str, level: str, words: str
) -> None:
    program = team.home / "bin/claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{said}" && echo asked >> {team.home}/asked\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    rewrite(team, "[agents.leader]\n")
    assert rows(team, "claude") == []
    assert not (team.home / "asked").exists()  # nobody uses it
    with private_server() as tmux:
        agents = "".join(f"[agents.{name}]\nendpoint = 'tmux'\nstart = 'claude'\n" for name in "ab")
        rewrite(team, f"[tmux]\nsocket = '{tmux.socket_path}'\n{agents}")
        listed = json.loads(team.ackd("doctor", "--json").stdout)["checks"]
    (row,) = [one for one in listed if one["subject"] == "claude"]
    (about_tmux,) = [one for one in listed if one["subject"] == "tmux"]
    assert (row["level"], words in row["words"]) == (level, True), row
    assert (team.home / "asked").read_text() == "asked\n"  # once for both
    assert about_tmux["words"].startswith("tmux ")


def test_a_program_that_hangs_is_not_waited_for(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    program = team.home / "bin/claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("ackd.endpoints.tmux.check._VERSION_TIMEOUT_S", 0.2)
    rewrite(team, f"[tmux]\nsocket = '{team.home}/s'\n[agents.a]\nendpoint = 'tmux'\nstart = 'claude'\n")
    began = time.monotonic()
    (row,) = rows(team, "claude")
    assert (row["level"], time.monotonic() - began < 60) == ("warn", True)


def test_a_command_that_outlived_its_daemon(team: Team) -> None:
    rewrite(team, "[agents.a]\nendpoint = 'exec'\ncommand = ['sh', '-c', 'sleep 600']\n")
    daemon = subprocess.Popen(
        [sys.executable, "-m", "ackd", "run"], cwd=team.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    runs = team.root / "state/runs"
    try:
        assert team.ackd("send", "a", "--body", "x").exit_code == 0
        anyio.run(until, lambda: [one for one in runs.glob("*/started") if one.read_text().count("\n") >= 2], "a run")
        assert rows(team, "runs") == []  # they are its daemon's
        daemon.kill()
        daemon.wait()
        (row,) = rows(team, "runs")
        assert (row["level"], row["words"]) == ("ok", "1 commands still run without a daemon, as a's")
    finally:
        daemon.kill()
        daemon.wait()
        for started in runs.glob("*/started"):
            with contextlib.suppress(ProcessLookupError, IndexError, ValueError):
                os.killpg(int(started.read_text().split("\n")[1].split()[0]), signal.SIGKILL)


def test_a_worker_that_outlived_its_daemon(team: Team) -> None:
    rewrite(team, "[agents.b]\nendpoint = 'process'\ncommand = ['true']\n")
    worker = subprocess.Popen(["sleep", "600"])
    try:
        known = processes.identity_of(worker.pid)
        record = ChildRecord("b", "mark", processes.boot_id(), known.pid, known.start_ticks)
        write_record(team.root / "state/children", record)
        (row,) = rows(team, "leftovers")
        assert f"b's worker, pid {worker.pid}, still runs" in row["words"]
        assert row["mend"].endswith(f"kill {worker.pid}")
    finally:
        worker.kill()
        worker.wait()
    assert rows(team, "leftovers") == []
