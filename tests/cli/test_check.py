"""`ackd check`: one line for each thing that could be wrong, and how to mend it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackd.client import surroundings
from ackd.client.surroundings import Finding
from ackd.config.model import load_site
from ackd.config.site import find_site
from ackd.endpoints.tmux.check import program_of
from ackd.storage import root_lock
from tests.endpoints.tmux.client.private_server import private_server
from tests.nobody import NOBODY, needs_root

Team = Any  # conftest.py's: test files do not import each other


def findings(team: Team, code: int) -> dict[str, dict[str, Any]]:
    result = team.ackd("check", "--json")
    assert result.exit_code == code, result.output
    return {finding["subject"]: finding for finding in json.loads(result.stdout)["checks"]}


def rewrite(team: Team, text: str) -> None:
    (team.home / "ackd.toml").write_text(text)


def test_a_fresh_team_is_all_well(team: Team) -> None:
    assert team.ackd("init").exit_code == 0
    found = findings(team, 0)
    assert found.keys() >= {"config", "daemon", "root", "rights", "disk", "file system", "inotify", "clock"}
    assert found["agent worker_1"]["words"].startswith("runs ")


def test_a_bad_config_is_exit_78_with_every_problem(team: Team) -> None:
    rewrite(team, "[delivery]\nack_timout_s = 3\nretry_limit = -1\n")
    result = team.ackd("check")
    assert result.exit_code == 78
    assert "did you mean `ack_timeout_s`?" in result.stdout
    assert "line 3: delivery.retry_limit" in result.stdout


def test_a_terminal_that_nobody_could_find_is_refused(team: Team) -> None:
    rewrite(team, "[agents.a]\nendpoint = 'tmux'\n")
    result = team.ackd("check")
    assert result.exit_code == 78
    assert "agents.a.pane: endpoint tmux needs a pane" in result.stdout


def test_no_site_at_all(team: Team) -> None:
    (team.home / "ackd.toml").unlink()
    result = team.ackd("check")
    assert result.exit_code == 78
    assert "run `ackd init`" in result.stdout


@pytest.mark.parametrize(
    ("table", "words", "mend"),
    [
        ("command = ['no-such-program-x']", "no-such-program-x is not in PATH", "install"),
        ("command = ['./absent.sh']", "absent.sh is not there", "correct command"),
        ("command = ['./plain.sh']", "plain.sh is not executable", "chmod +x"),
        ("command = ['true']\ncwd = 'absent'", "absent is not a directory", "correct cwd"),
        ("command = ['true']\nenv = {PATH = '/nowhere'}", "true is not in PATH", "install"),
    ],
)
def test_programs_that_could_not_be_run(team: Team, table: str, words: str, mend: str) -> None:
    (team.home / "plain.sh").write_text("#!/bin/sh\n")
    rewrite(team, f"[agents.a]\nendpoint = 'exec'\n{table}\n")
    found = findings(team, 1)["agent a"]
    assert words in found["words"]
    assert mend in found["mend"]


@pytest.mark.parametrize(
    ("table", "words", "level"),
    [
        ("command = ['no-such-program-x']", "no-such-program-x is not in PATH", "fail"),
        ("command = ['true']\ncwd = 'absent'", "absent is not a directory", "fail"),
        ("command = ['true']", "runs ", "ok"),
    ],
)
def test_programs_of_long_lived_workers(team: Team, table: str, words: str, level: str) -> None:
    rewrite(team, f"[agents.a]\nendpoint = 'process'\n{table}\n")
    found = findings(team, 0 if level == "ok" else 1)["agent a"]
    assert words in found["words"]
    assert found["level"] == level


# --- Python workers ---------------------------------------------------------------------------------------------------
WORKER = "from ackd.worker import run\n\nrun(lambda task: {})\n"


def python_without_ackd(team: Team) -> Path:
    """A Python that has no ackd: the one that runs this, started without its packages."""
    python: Path = team.home / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("kind", ["process", "exec"])
@pytest.mark.parametrize("where", [".", "workers"])
def test_a_python_that_cannot_import_what_its_worker_needs(team: Team, kind: str, where: str) -> None:
    (team.home / "workers").mkdir()
    (team.home / where / "worker.py").write_text(WORKER)
    python_without_ackd(team)
    rewrite(team, f"[agents.a]\nendpoint = '{kind}'\ncommand = ['./python3', '-u', '{where}/worker.py']\n")
    found = findings(team, 1)["agent a"]
    assert "cannot import ackd.worker, which" in found["words"]
    assert "No module named 'ackd'" in found["words"]
    assert "install ackd for that Python" in found["mend"]


def test_a_python_that_can_import_it_and_a_worker_that_does_without_are_all_well(team: Team) -> None:
    (team.home / "worker.py").write_text(WORKER)
    (team.home / "plain.py").write_text("print('# from ackd.worker import run')\n")
    (team.home / "python3").symlink_to(sys.executable)
    tables = [
        f"[agents.a]\nendpoint = 'process'\ncommand = ['{sys.executable}', 'worker.py']\n",
        "[agents.b]\nendpoint = 'process'\ncommand = ['./python3', 'plain.py']\n",
        "[agents.c]\nendpoint = 'process'\ncommand = ['./python3', '-c', 'pass']\n",
    ]
    rewrite(team, "".join(tables))
    found = findings(team, 0)
    assert {found[f"agent {name}"]["level"] for name in "abc"} == {"ok"}


def test_a_process_finds_the_sdk_that_ackd_offers_and_a_command_for_each_message_does_not(team: Team) -> None:
    """As with pipx and uv: ackd is in an environment of its own, and the worker's Python is another one."""
    (team.home / "worker.py").write_text(WORKER)
    (team.home / "client.py").write_text("from ackd.client import Client\n")
    python = team.home / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    tables = [
        "[agents.a]\nendpoint = 'process'\ncommand = ['./python3', 'worker.py']\n",
        "[agents.b]\nendpoint = 'exec'\ncommand = ['./python3', 'worker.py']\n",
        "[agents.c]\nendpoint = 'process'\ncommand = ['./python3', 'client.py']\n",
    ]
    rewrite(team, "".join(tables))
    found = findings(team, 1)
    assert {name: found[f"agent {name}"]["level"] for name in "abc"} == {"a": "ok", "b": "fail", "c": "fail"}


@pytest.mark.parametrize("kind", ["exec", "process"])
@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["sh", "gone.sh"], "gone.sh"),
        (["bash", "./gone.sh", "there.sh"], "gone.sh"),
        ([sys.executable, "-u", "gone.py"], "gone.py"),
        (["sh", "there.sh"], None),
        (["sh", "env"], None),  # a shell finds it by PATH
        (["sh", "-c", "gone.sh"], None),
        (["sh"], None),
        ([sys.executable, "-m", "gone"], None),
        (["cat", "gone.sh"], None),
    ],
)
def test_a_script_that_is_not_there_is_a_warning(
    team: Team, kind: str, command: list[str], missing: str | None
) -> None:
    (team.home / "there.sh").write_text("true\n")
    rewrite(team, f"[agents.a]\nendpoint = '{kind}'\ncommand = {json.dumps(command)}\n")
    found = findings(team, 0)["agent a"]
    if missing is None:
        assert found["level"] == "ok"
    else:
        assert (found["level"], found["words"]) == ("warn", f"{team.home / missing} is not there")
        assert found["mend"] == "write it, or correct command"


def test_a_module_beside_the_script_counts_as_python_finds_it(team: Team) -> None:
    (team.home / "lib" / "ackd").mkdir(parents=True)
    (team.home / "lib" / "ackd" / "worker.py").write_text("run = print\n")
    (team.home / "lib" / "worker.py").write_text(WORKER)
    python = team.home / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    rewrite(team, "[agents.a]\nendpoint = 'process'\ncommand = ['./python3', 'lib/worker.py']\n")
    assert findings(team, 0)["agent a"]["level"] == "ok"


# --- the config of a running daemon -----------------------------------------------------------------------------------
def test_a_config_that_differs_from_the_running_daemons_is_a_warning(team: Team) -> None:
    config = load_site(find_site())
    lock = root_lock.hold(team.root / "run")
    page = team.root / "run" / "status.json"
    page.write_text(json.dumps({"daemon": {"pid": os.getpid(), "config_hash": config.fingerprint()}}))
    try:
        assert [row["words"] for row in checks(team) if row["level"] == "warn" and row["subject"] == "config"] == []
        with (team.home / "ackd.toml").open("a") as file:
            file.write("[agents.late]\n")
        (row,) = [row for row in checks(team) if row["level"] == "warn" and row["subject"] == "config"]
        assert f"is not what the running daemon (pid {os.getpid()}) has:" in row["words"]
        page.write_text(json.dumps({"daemon": {"pid": os.getpid()}}))  # of a version that does not say
        assert [row for row in checks(team) if row["level"] == "warn" and row["subject"] == "config"] == []
    finally:
        lock.release()


def checks(team: Team) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(team.ackd("check", "--json").stdout)["checks"]
    return listed


# --- panes ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("start", "program"),
    [
        ("claude", "claude"),
        ("exec env A=1 B=2 ./claude --model x", "./claude"),
        ("cd x && claude", None),
        ("$HOME/claude", None),
        ("export A=1", None),
        ("'unfinished", None),
        ("A=1", None),
    ],
)
def test_the_program_of_a_line_that_starts_a_pane(start: str, program: str | None) -> None:
    assert program_of(start) == program


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
@pytest.mark.parametrize(
    ("start", "level", "words"),
    [
        ("no-such-program-x --flag", "warn", "no-such-program-x is not in PATH"),
        ("./absent", "warn", "absent is not there"),
        ("sleep 600", "ok", "ackd starts it in a pane"),
        ("cd /tmp && no-such-program-x", "ok", "ackd starts it in a pane"),
    ],
)
def test_the_program_that_ackd_starts_in_a_pane_is_looked_for(team: Team, start: str, level: str, words: str) -> None:
    rewrite(team, f"[tmux]\nsocket = '{team.home}/socket'\n[agents.a]\nendpoint = 'tmux'\nstart = '{start}'\n")
    found = findings(team, 0)["agent a"]
    assert (found["level"], words in found["words"]) == (level, True)


def test_a_terminal_whose_profile_nobody_knows(team: Team) -> None:
    rewrite(team, "[agents.a]\nendpoint = 'tmux'\npane = 'x:0.0'\nprofile = 'clod'\n")
    found = findings(team, 1)["agent a"]
    assert "profile clod" in found["words"]
    assert "claude, codex, gemini, opencode, shell" in found["words"]


def test_a_profile_that_cannot_be_read(team: Team) -> None:
    rewrite(
        team, "[agents.a]\nendpoint = 'tmux'\nstart = 'x'\nprofile = 'p'\n[profiles.p]\nlike = 'claude'\nbusi = 1\n"
    )
    assert "busi" in findings(team, 1)["agent a"]["words"]


@pytest.mark.parametrize(
    ("worker", "words", "level"),
    [
        ('command = ["sh", "stage.sh"]', "runs ", "ok"),
        ('command = ["no-such-program"]', "no-such-program is not in PATH", "fail"),
        ('endpoint = "process"\ncommand = ["./w"]', "is not there", "fail"),
        ('endpoint = "process"\ncommand = ["sh"]\ncwd = "gone"', "is not a directory", "fail"),
        ('endpoint = "tmux"\nstart = "claude"\nprofile = "nobody"', "nobody", "fail"),
    ],
)
def test_the_workers_of_a_pipeline(team: Team, worker: str, words: str, level: str) -> None:
    (team.home / "stage.sh").write_text("true\n")
    rewrite(team, f"[pipeline.worker]\n{worker}\n")
    found = findings(team, 1 if level == "fail" else 0)["agent of the pipeline"]
    assert (found["level"], words in found["words"]) == (level, True), found


def test_terminals_without_tmux(team: Team, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rewrite(team, "[agents.a]\nendpoint = 'tmux'\npane = 'x:0.0'\n")
    found = findings(team, 1)["agent a"]
    assert ("cannot run tmux" in found["words"], found["mend"]) == (True, "install tmux")


def test_panes_are_looked_for_as_the_daemon_does(team: Team) -> None:
    with private_server() as tmux:
        socket = str(tmux.socket_path)
        start = ["tmux", "-S", socket, "-f", "/dev/null", "new-session", "-d", "-s", "team", "sleep", "1000"]
        subprocess.run(start, check=True)
        title = ["tmux", "-S", socket, "select-pane", "-t", "team:0.0", "-T", "the lead"]
        subprocess.run(title, check=True)
        rewrite(
            team,
            f"[tmux]\nsocket = '{socket}'\n"
            "[agents.a]\nendpoint = 'tmux'\npane = 'team:0.0'\n"
            "[agents.b]\nendpoint = 'tmux'\npane = 'gone:0.0'\ntitle = 'the lead'\nprofile = 'shell'\n"
            "[agents.c]\nendpoint = 'tmux'\ntitle = 'nobody'\n"
            "[agents.d]\nendpoint = 'tmux'\nstart = 'sleep 600'\n"
            "[agents.e]\nendpoint = 'tmux'\nstart = 'claude'\ncwd = 'absent'\n",
        )
        found = {name: (one["level"], one["words"]) for name, one in findings(team, 1).items()}
    assert found["agent a"] == ("ok", "pane %0 (team:0.0), profile claude")
    assert found["agent b"] == ("ok", "pane %0 (team:0.0), profile shell")
    assert found["agent c"] == ("warn", "no pane titled 'nobody' now")
    assert found["agent d"] == ("ok", "ackd starts it in a pane: sleep 600, profile claude")
    assert found["agent e"][0] == "fail"


def test_a_pane_that_is_not_named_exactly(team: Team) -> None:
    with private_server() as tmux:
        for command in (["new-session", "-d", "-s", "team"], ["split-window", "-t", "team"]):
            subprocess.run(
                ["tmux", "-S", str(tmux.socket_path), "-f", "/dev/null", *command, "sleep", "1000"], check=True
            )
        rewrite(team, f"[tmux]\nsocket = '{tmux.socket_path}'\n[agents.a]\nendpoint = 'tmux'\npane = 'team'\n")
        found = findings(team, 1)["agent a"]
    assert (found["words"], found["mend"].startswith("name its pane exactly")) == ("team fits 2 panes: %0, %1", True)


def test_a_program_beside_the_config_is_found_from_anywhere(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    (team.home / "w.sh").write_text("#!/bin/sh\n")
    (team.home / "w.sh").chmod(0o755)
    (team.home / "deep").mkdir()
    rewrite(team, "[agents.a]\nendpoint = 'exec'\ncommand = ['./w.sh']\n")
    monkeypatch.chdir(team.home / "deep")
    assert findings(team, 0)["agent a"]["level"] == "ok"


def test_a_handler_that_nobody_installed(team: Team) -> None:
    rewrite(team, "[agents.a]\nendpoint = 'handler'\n[agents.b]\nendpoint = 'handler'\nhandler = 'system'\n")
    found = findings(team, 1)
    assert "no entry point 'a'" in found["agent a"]["words"]
    assert found["agent b"]["level"] == "ok"


def test_a_root_that_is_not_there_yet_is_a_warning(team: Team) -> None:
    assert findings(team, 0)["root"]["level"] == "warn"


def test_mail_that_others_could_read(team: Team) -> None:
    team.ackd("init")
    (team.root / "queue" / "user").chmod(0o755)
    found = findings(team, 0)["rights"]
    assert (found["level"], found["mend"]) == ("warn", f"chmod -R go-rwx {team.root}")


def test_too_few_watches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "max_user_watches").write_text("10\n")
    monkeypatch.setattr(surroundings, "_INOTIFY", tmp_path)
    assert surroundings.watches(4).level == "ok"
    found = surroundings.watches(5)
    assert (found.level, found.mend) == ("warn", "sysctl fs.inotify.max_user_watches=65536")
    monkeypatch.setattr(surroundings, "_INOTIFY", tmp_path / "absent")
    assert surroundings.watches(1).level == "warn"


@pytest.mark.parametrize(
    ("kind", "mode", "level"),
    [("ext4", "auto", "ok"), ("nfs4", "auto", "warn"), ("nfs4", "polling", "ok"), ("tmpfs", "auto", "warn")],
)
def test_file_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, mode: str, level: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw shared:1 - xfs /dev/sda1 rw\n"
        f"2 1 0:2 / {tmp_path} rw,relatime shared:2 - {kind} server:/x rw\n"
        "3 1 0:3 / /elsewhere rw - btrfs /dev/sdb rw\n"
    )
    monkeypatch.setattr(surroundings, "_MOUNTS", mounts)
    assert surroundings.file_system(tmp_path, mode).level == level


def test_a_clock_that_is_behind_its_files(tmp_path: Path) -> None:
    (tmp_path / "future").touch()
    os.utime(tmp_path / "future", (4_000_000_000, 4_000_000_000))
    assert surroundings.clock(tmp_path).level == "warn"
    (tmp_path / "future").unlink()
    assert surroundings.clock(tmp_path).level == "ok"


def test_a_root_that_cannot_be_written() -> None:
    found = surroundings.writable(Path("/proc/self"))
    assert isinstance(found, Finding)
    assert found.level == "fail"


@pytest.mark.parametrize("broken", ["queue", "run"])
def test_what_cannot_be_read_is_a_row_that_fails_and_the_rest_is_told(team: Team, broken: str) -> None:
    assert team.ackd("init").exit_code == 0
    shutil.rmtree(team.root / broken)
    (team.root / broken).write_text("not a directory")
    found = findings(team, 1)
    failed = [words["words"] for words in found.values() if words["level"] == "fail"]
    assert any(broken in words and "ot a directory" in words for words in failed)
    assert found["clock"]["level"] == "ok"


def test_a_root_that_is_a_file_fails(team: Team) -> None:
    team.root.write_text("a file")
    assert findings(team, 1)["root"]["words"] == f"{team.root} is not a directory"


def test_one_agent_is_one_agent(team: Team) -> None:
    rewrite(team, "[agents.leader]\n")
    shown = team.ackd("check").stdout
    assert re.search(r", \d+ agents?, escalations", shown)
    assert ", 1 agents" not in shown


def test_a_config_or_root_that_the_group_can_write_is_a_warning(team: Team) -> None:
    assert team.ackd("init").exit_code == 0
    assert findings(team, 0)["trust"]["level"] == "ok"
    (team.home / "ackd.toml").chmod(0o664)
    found = findings(team, 0)["trust"]
    assert (found["level"], "of its group" in found["words"]) == ("warn", True)
    (team.home / "ackd.toml").chmod(0o644)
    team.home.chmod(0o770)
    assert findings(team, 0)["trust"]["level"] == "warn"


@needs_root
def test_a_config_of_another_user_that_was_named_is_a_warning(team: Team) -> None:
    assert team.ackd("init").exit_code == 0
    os.chown(team.home / "ackd.toml", NOBODY, NOBODY)
    assert "neither to you" in findings(team, 78)["config"]["words"]
    named = team.ackd("check", "--config", "ackd.toml")
    assert (named.exit_code, "belongs to uid 65534" in named.stdout) == (0, True)
