"""`ackd bus` without a daemon: post, read, wait, and the refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def track(team: Team, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ACKD_TRACK", raising=False)
    with (team.home / "ackd.toml").open("a") as config:
        config.write('\n[bus]\ntracks = ["tracks/*"]\n')
    result = team.ackd("bus", "init", "tracks/login")
    assert result.exit_code == 0, result.output
    return Path(team.home / "tracks/login/.message-bus")


def lines(track: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (track / "queue.jsonl").read_text().splitlines()]


# --- init -----------------------------------------------------------------------------------------------------------------
def test_init_makes_a_bus_completes_one_and_keeps_what_is_there(team: Team, track: Path) -> None:
    (track / "locks.json").write_text('{"held": 1}')
    (track / "worker-status.json").unlink()
    assert "completed" in team.ackd("bus", "init", "tracks/login").output
    assert "there already" in team.ackd("bus", "init", "tracks/login").output
    assert (track / "locks.json").read_text() == '{"held": 1}'
    made = team.json("bus", "init")
    assert (made["track"], made["bus"]) == ("house", str(team.root / "bus"))
    assert (team.root / "bus").stat().st_mode & 0o777 == 0o700


# --- post -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words",
    [
        ["TASK_COMPLETE", "--task", "1.1", "unblocks=1.2,1.3"],
        ["task_complete", "task_id=1.1", "--payload", "unblocks=1.2,1.3"],
        ["TASK_COMPLETE", "--payload", '{"task_id": "1.1", "unblocks": ["1.2", "1.3"]}'],
        ["TASK_COMPLETE", "--task=1.1", "--payload", '{"unblocks": []}', "--payload", 'unblocks=["1.2", "1.3"]'],
    ],
)
def test_a_payload_is_said_as_pairs_as_json_or_both(team: Team, track: Path, words: list[str]) -> None:
    said = team.json("bus", "post", *words, "--source", "w")
    (line,) = lines(track)
    assert line["id"] == said["message_id"]
    assert line["payload"] == {"task_id": "1.1", "unblocks": ["1.2", "1.3"]}
    assert (track / "events/TASK_COMPLETE_1.1.event").exists()


def test_the_source_is_the_agent_that_runs_it(team: Team, track: Path) -> None:
    assert team.ackd("bus", "post", "PROGRESS", env={"ACKD_AGENT": "worker_1"}).exit_code == 0
    assert lines(track)[0]["source"] == "worker_1"
    assert team.ackd("bus", "post", "PROGRESS").exit_code == 2


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["SHOUT"], 65, "unknown type 'SHOUT'"),
        (["TASK_COMPLET"], 65, "did you mean TASK_COMPLETE?"),
        (["TASK_COMPLETE"], 65, "task_id: is required"),
        (["PROGRESS", "progress_pct=900"], 65, "progress_pct"),
        (["PROGRESS", "--payload", "{"], 65, "no JSON"),
        (["PROGRESS", "--payload", "words"], 2, "neither KEY=VALUE nor a JSON object"),
        (["PROGRESS", "--track", "none"], 66, "no track 'none'"),
        ([], 2, "arguments are required: TYPE"),
    ],
)
def test_what_cannot_be_posted_is_not(team: Team, track: Path, words: list[str], exit_code: int, said: str) -> None:
    result = team.ackd("bus", "post", *words, "--source", "w")
    assert (result.exit_code, said in result.output) == (exit_code, True), result.output
    assert lines(track) == []
    assert not (team.root / "bus").exists()


def test_without_any_track_the_house_is_made_but_not_for_what_is_wrong(team: Team) -> None:
    assert team.ackd("bus", "post", "TASK_FAILED", "--source", "w").exit_code == 65
    assert not (team.root / "bus").exists()
    assert team.ackd("bus", "post", "PROGRESS", "--source", "w").exit_code == 0
    assert len(lines(team.root / "bus")) == 1


def test_post_runs_without_anything_slow(team: Team, track: Path) -> None:
    posted = team.ackd("bus", "post", "PROGRESS", "--source", "w", "--task", "1.1", "progress_pct=10")
    assert (posted.exit_code, "posted msg-" in posted.stdout) == (0, True)
    misused = team.ackd("bus", "post", "PROGRESS")
    assert (misused.exit_code, "Usage: ackd bus post" in misused.stderr) == (2, True)
    code = "import sys; from ackd.cli.main import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    words = ["bus", "post", "TASK_COMPLETE", "--source", "w", "--task", "1.1", "unblocks=1.2"]
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    heavy = {
        "click",
        "pydantic",
        "asyncio",
        "dataclasses",
        "hashlib",
        "orjson",
        "datetime",
        "uuid",
        "rich",
        "subprocess",
    }
    assert ended.stdout.startswith("posted msg-"), ended.stderr
    assert not heavy & set(ended.stderr.split())


# --- read -----------------------------------------------------------------------------------------------------------------
def test_read_goes_by_type_offset_and_time(team: Team, track: Path) -> None:
    team.ackd("bus", "post", "PROGRESS", "--source", "w", "--task", "1.1")
    with (track / "queue.jsonl").open("a") as queue:
        queue.write('{"type": "BLOCKED", "source": "w", "timestamp": "2020-01-01T00:00:00Z", "payload": {}}\nnoise\n')

    def read(*words: str) -> list[dict[str, Any]]:
        result = team.ackd("bus", "read", "--json", *words)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    assert [one.get("type", one.get("bad")) for one in read()] == ["PROGRESS", "BLOCKED", "not_json"]
    assert [one["type"] for one in read("--type", "blocked")] == ["BLOCKED"]
    assert [one["type"] for one in read("--since", "1h")] == ["PROGRESS"]
    assert [one["type"] for one in read("--since", "2026-01-01T00:00:00Z")] == ["PROGRESS"]
    first = read()[0]
    assert next(one["offset"] for one in read("--offset", str(first["next"]))) == first["next"]
    plain = team.ackd("bus", "read")
    assert "PROGRESS       w               task_id=1.1" in plain.stdout
    assert "not JSON" in plain.stderr
    assert team.ackd("bus", "read", "--type", "SHOUT").exit_code == 65


def test_following_survives_a_file_that_is_cut_and_one_that_is_replaced(team: Team, track: Path) -> None:
    command = [sys.executable, "-m", "ackd", "bus", "read", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as following:
        assert following.stdout is not None

        def said(text: str) -> str:
            with (track / "queue.jsonl").open("a") as queue:
                queue.write(json.dumps({"type": "PROGRESS", "source": text, "payload": {"x": text * 9}}) + "\n")
            assert following.stdout is not None
            return str(json.loads(following.stdout.readline())["source"])

        assert said("first-and-long") == "first-and-long"
        (track / "queue.jsonl").write_text("")
        assert said("second") == "second"
        (track / "queue.jsonl").rename(track / "queue.1.jsonl")
        assert said("third") == "third"
        following.terminate()


# --- wait -----------------------------------------------------------------------------------------------------------------
def test_wait_succeeds_at_once_if_it_has_happened_and_new_waits_from_now(team: Team, track: Path) -> None:
    team.ackd("bus", "post", "TASK_COMPLETE", "--source", "w", "--task", "1.1")
    assert team.ackd("bus", "wait", "TASK_COMPLETE_1.1", "--timeout", "0").exit_code == 0
    late = team.ackd("bus", "wait", "TASK_COMPLETE_1.1", "--timeout", "0.1", "--new")
    assert (late.exit_code, "within 0.1 s" in late.output) == (1, True)
    timer = threading.Timer(0.2, (track / "events/TASK_COMPLETE_1.1.event").touch)
    timer.start()
    began = time.monotonic()
    assert team.ackd("bus", "wait", "TASK_COMPLETE_1.1", "--new", "--json").exit_code == 0
    assert time.monotonic() - began < 60
    timer.join()


def test_reading_commands_need_a_bus(team: Team) -> None:
    for words in (["read"], ["status"], ["wait", "X", "--timeout", "0"]):
        result = team.ackd("bus", *words)
        assert (result.exit_code, "`ackd bus init` makes one" in result.output) == (66, True), result.output


# --- status ---------------------------------------------------------------------------------------------------------------
def test_status_calls_stale_what_the_config_does(team: Team, track: Path) -> None:
    heard = datetime.now(UTC) - timedelta(seconds=900)
    entry = {"task_id": "1.1", "status": "RUNNING", "last_heartbeat": heard.isoformat()}
    (track / "worker-status.json").write_text(json.dumps({"w": entry}))
    assert team.json("bus", "status")["workers"]["w"]["stale"] is True
    config = team.home / "ackd.toml"
    text = config.read_text()
    assert "[bus]" in text
    config.write_text(text.replace("[bus]", "[bus]\nheartbeat_timeout_s = 3600"))
    assert team.json("bus", "status")["workers"]["w"]["stale"] is False
    assert team.json("bus", "status", "--stale-after", "60")["workers"]["w"]["stale"] is True


def test_status_shows_workers_tasks_and_who_waits(team: Team, track: Path) -> None:
    team.ackd("bus", "post", "PROGRESS", "--source", "b", "--task", "1.2", "progress_pct=40")
    team.ackd("bus", "post", "BLOCKED", "--source", "a", "--task", "1.1", "waiting_for=1.2")
    old = {"old": {"task_id": "1.3", "status": "RUNNING", "last_heartbeat": "2026-01-01T00:00:00Z"}, "x": 5}
    (track / "worker-status.json").write_text(json.dumps(old))
    found = team.json("bus", "status")
    assert found["workers"]["a"]["status"] == "BLOCKED"
    assert found["workers"]["b"]["progress_pct"] == 40
    assert found["workers"]["old"]["stale"] is True
    assert found["waits"] == [{"worker": "a", "for": "b", "what": "1.2"}]
    assert {name: task["state"] for name, task in found["tasks"].items()} == {
        "1.1": "open",
        "1.2": "open",
        "1.3": "open",
    }
    shown = team.ackd("bus", "status").stdout
    assert "waits for 1.2" in shown
    assert "STALE" in shown
    assert "'x': must be an object" in shown
    (track / "worker-status.json").write_text("{")
    assert team.json("bus", "status")["trouble"][0].startswith("worker-status.json: not JSON")


def test_hostile_names_reach_no_terminal(team: Team, track: Path) -> None:
    evil = {"type": "BLOCKED", "source": "a\x1b[2J", "payload": {"task_id": "\x1b]0;x\x07", "waiting_for": "\x9b1m"}}
    (track / "queue.jsonl").write_text(json.dumps(evil) + "\n")
    for words in (["status"], ["read"], ["read", "--json"], ["status", "--json"]):
        out = team.ackd("bus", *words).stdout
        assert not any(char in out for char in "\x1b\x07\x9b"), words
