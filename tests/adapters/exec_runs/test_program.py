"""What is not there to be run is an absence, not a failure."""

from __future__ import annotations

import pytest

from ackd.core.events import EndpointAway, Outcome, RunEnded
from tests.adapters.exec_runs.bench import Bench, tell


@pytest.mark.parametrize("command", ["./no-such-program", "no-such-program-at-all", "./not-executable", "/etc"])
async def test_a_missing_program_is_an_absence_not_a_failure(bench: Bench, command: str) -> None:
    (bench.tmp / "work" / "not-executable").write_text("#!/bin/sh\n")
    async with bench.agent(command) as endpoint:
        answer = await endpoint.tell(tell())
    assert isinstance(answer, EndpointAway)
    assert command in answer.reason
    assert not bench.runs.exists()


async def test_a_missing_interpreter_is_an_absence_too(bench: Bench) -> None:
    script = bench.tmp / "work" / "script"
    script.write_text("#!/no/such/python3 -u\n")
    script.chmod(0o755)
    async with bench.agent("./script") as endpoint:
        assert await endpoint.tell(tell()) == EndpointAway(1, "no interpreter /no/such/python3 for ./script", attempt=2)


async def test_a_missing_working_directory_is_an_absence(bench: Bench) -> None:
    async with bench.sh("exit 0", cwd=bench.tmp / "gone") as endpoint:
        assert await endpoint.tell(tell()) == EndpointAway(1, f"no working directory {bench.tmp / 'gone'}", attempt=2)


async def test_a_program_that_vanishes_while_it_runs_is_found_away_by_its_exit_code(bench: Bench) -> None:
    program = bench.tmp / "work" / "program"
    program.write_text("#!/bin/sh\nrm ./program\nexit 127\n")
    program.chmod(0o755)
    async with bench.agent("./program") as endpoint:
        await endpoint.tell(tell())
        assert await bench.news() == RunEnded(1, Outcome.STOPPED, "no program ./program", 2)
        assert await endpoint.tell(tell()) == EndpointAway(1, "no program ./program", attempt=2)


async def test_127_of_a_program_that_is_there_is_its_own_failure(bench: Bench) -> None:
    assert await bench.run("exit 127") == RunEnded(1, Outcome.FAILED, "exit 127", 2)
