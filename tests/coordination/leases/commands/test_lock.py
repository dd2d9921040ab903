from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

Team = Any  # conftest.py's: test files do not import each other
P = "src/a.py"


def test_a_lease_is_had_and_another_is_told_who_has_it(team: Team) -> None:
    first = team.json("lock", "acquire", P, "--agent", "leader", "--ttl", "90s")
    assert (first["granted"], first["again"], first["token"], first["lock_type"]) == (True, False, 1, "exclusive")
    again = team.json("lock", "acquire", f"./{P}", "--agent", "leader")
    assert (again["again"], again["token"]) == (True, 1)
    refused = team.ackd("lock", "acquire", P, "--agent", "w2")
    assert refused.exit_code == 1
    assert f"ackd: {P}: held by leader (exclusive) since " in refused.stderr
    assert json.loads(team.ackd("lock", "acquire", P, "--agent", "w2", "--json").stdout)["holders"][0]["token"] == 1
    assert team.ackd("lock", "release", P, "--agent", "w2").exit_code == 1
    assert team.ackd("lock", "release", P, "--agent", "leader").stdout == f"released {P} of leader, token 1\n"


def test_who_asks_is_an_agent_by_its_spelling_or_a_worker_as_it_is_called(team: Team) -> None:
    assert team.json("lock", "acquire", "a", "--agent", "worker-1")["agent"] == "worker_1"
    assert team.json("lock", "acquire", "b", "--agent", "worker-7.1/x")["agent"] == "worker-7.1/x"
    assert team.json("lock", "acquire", "c", env={"ACKD_AGENT": "leader"})["agent"] == "leader"
    assert team.ackd("lock", "acquire", "d").exit_code == 2
    assert team.ackd("lock", "acquire", "d", "--agent", "a\nb").exit_code == 67


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "", "."])
def test_a_path_outside_is_bad_data(team: Team, path: str) -> None:
    done = team.ackd("lock", "acquire", path, "--agent", "leader")
    assert done.exit_code == 65, done.output


@pytest.mark.parametrize("ttl", ["0", "-5m", "soon", "8d", "", "nan", "m"])
def test_a_time_that_is_none_is_wrong_usage(team: Team, ttl: str) -> None:
    assert team.ackd("lock", "acquire", P, "--agent", "leader", "--ttl", ttl).exit_code == 2


def test_waiting_in_vain_and_standing_in_line_are_75(team: Team) -> None:
    team.json("lock", "acquire", P, "--agent", "leader")
    done = team.ackd("lock", "acquire", P, "--agent", "w2", "--wait", "0.05")
    assert (done.exit_code, "(waited 0.05 s)" in done.stderr) == (75, True)
    later = team.ackd("lock", "acquire", P, "--agent", "w2", "--later")
    assert (later.exit_code, "in line behind leader" in later.stderr) == (75, True)
    assert team.ackd("lock", "acquire", P, "--agent", "w2", "--later", "--wait", "5").exit_code == 2
    listed = team.json("lock", "list")
    assert [one["agent"] for one in listed["waiting"]] == ["w2"]
    shown = team.ackd("lock", "list").stdout
    assert "exclusive  leader" in shown
    assert "waits" in shown
    team.json("lock", "release", "--all", "--agent", "leader")
    assert team.json("lock", "list")["held"][0]["agent"] == "w2"


def test_several_are_renewed_and_let_go_at_once(team: Team) -> None:
    for path in ("a", "b"):
        team.json("lock", "acquire", path, "--agent", "leader", "--shared", "--ttl", "60s")
    renewed = team.json("lock", "renew", "--all", "--agent", "leader", "--ttl", "1h")["renewed"]
    assert {one["path"] for one in renewed} == {"a", "b"}
    assert team.ackd("lock", "renew", "c", "--agent", "leader").exit_code == 1
    assert team.ackd("lock", "renew", "--agent", "leader").exit_code == 2
    assert team.ackd("lock", "renew", "a", "--all", "--agent", "leader").exit_code == 2
    assert len(team.json("lock", "release", "--all", "--agent", "leader")["released"]) == 2
    assert team.json("lock", "release", "--all", "--agent", "leader")["released"] == []
    assert team.ackd("lock", "list").stdout == "nobody holds anything\n"


def test_where_there_is_no_bus_only_acquiring_makes_one(team: Team) -> None:
    assert team.ackd("lock", "list").stdout == "nobody holds anything\n"
    assert team.ackd("lock", "release", "--all", "--agent", "leader").exit_code == 66
    assert not (team.root / "bus").exists()
    team.json("lock", "acquire", P, "--agent", "leader")
    assert (team.root / "bus").stat().st_mode & 0o777 == 0o700


def test_it_loads_nothing_heavy(team: Team) -> None:
    code = "import sys; from ackd.cli.main import run; print(run(sys.argv[1:]), *sys.modules)"
    words = ["lock", "acquire", P, "--agent", "leader"]
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.splitlines()[-1].split())
    assert "0" in loaded
    assert not loaded & set(
        "click dataclasses asyncio pydantic structlog rich datetime tomllib threading uuid hashlib".split()
    )
