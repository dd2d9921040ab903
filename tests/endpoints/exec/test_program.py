"""A program that is missing makes its agent absent, and is no failure."""

from __future__ import annotations

import pytest

from ackd.core.events import EndpointAway, Outcome, RunEnded
from tests.endpoints.exec.exec_agent import ExecAgent, tell


@pytest.mark.parametrize("command", ["./no-such-program", "no-such-program-at-all", "./not-executable", "/etc"])
async def test_a_missing_program_is_an_absence_not_a_failure(exec_agent: ExecAgent, command: str) -> None:
    (exec_agent.tmp / "work" / "not-executable").write_text("#!/bin/sh\n")
    async with exec_agent.endpoint(command) as endpoint:
        answer = await endpoint.tell(tell())
    assert isinstance(answer, EndpointAway)
    assert command in answer.reason
    assert not exec_agent.runs.exists()


async def test_a_missing_interpreter_is_an_absence_too(exec_agent: ExecAgent) -> None:
    script = exec_agent.tmp / "work" / "script"
    script.write_text("#!/no/such/python3 -u\n")
    script.chmod(0o755)
    async with exec_agent.endpoint("./script") as endpoint:
        assert await endpoint.tell(tell()) == EndpointAway(1, "no interpreter /no/such/python3 for ./script", attempt=2)


async def test_a_missing_working_directory_is_an_absence(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("exit 0", cwd=exec_agent.tmp / "gone") as endpoint:
        assert await endpoint.tell(tell()) == EndpointAway(
            1, f"no working directory {exec_agent.tmp / 'gone'}", attempt=2
        )


async def test_a_program_that_vanishes_while_it_runs_is_found_away_by_its_exit_code(exec_agent: ExecAgent) -> None:
    program = exec_agent.tmp / "work" / "program"
    program.write_text("#!/bin/sh\nrm ./program\nexit 127\n")
    program.chmod(0o755)
    async with exec_agent.endpoint("./program") as endpoint:
        await endpoint.tell(tell())
        assert await exec_agent.news() == RunEnded(1, Outcome.STOPPED, "no program ./program", 2)
        assert await endpoint.tell(tell()) == EndpointAway(1, "no program ./program", attempt=2)


async def test_127_of_a_program_that_is_there_is_its_own_failure(exec_agent: ExecAgent) -> None:
    assert await exec_agent.run("exit 127") == RunEnded(1, Outcome.FAILED, "exit 127", 2)
