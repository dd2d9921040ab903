"""The environment of a command, and the shim, which outlives it to write its status."""

from __future__ import annotations

import json
import os
import signal
import sys

import anyio
import pytest

from ackd.core.events import Outcome, RunEnded
from ackd.endpoints.exec import shim
from tests.endpoints.exec.exec_agent import BODY, HEADER, REPOSITORY, ExecAgent, tell
from tests.living import is_gone
from tests.strays import UNTIL_GO


async def test_the_command_gets_the_whole_message_on_stdin_and_the_facts_in_its_environment(
    exec_agent: ExecAgent,
) -> None:
    ended = await exec_agent.run(
        'cat >stdin; cat "$ACKD_BODY" >body; cat "$ACKD_MESSAGE" >message; pwd >cwd; umask >umask;'
        'printf "%s\\n" "$ACKD_MESSAGE_ID" "$ACKD_AGENT" "$ACKD_FROM" "$ACKD_TYPE" "$ACKD_ROOT" "$MINE" >facts',
        env={"MINE": "yes", "ACKD_ROOT": "not yours to set"},
    )
    work = exec_agent.tmp / "work"
    assert ended == RunEnded(1, Outcome.DONE, "exit 0", 2)
    assert (work / "stdin").read_text() == HEADER + "\n" + BODY == (work / "message").read_text()
    assert (work / "body").read_text() == BODY
    assert (work / "cwd").read_text() == f"{work}\n"
    assert (work / "umask").read_text().strip() == shim.own_umask()
    facts = ["m1@ignite.local", "worker", "leader", "task_assignment", str(exec_agent.tmp), "yes"]
    assert (work / "facts").read_text().splitlines() == facts


async def test_arguments_never_pass_through_a_shell(exec_agent: ExecAgent) -> None:
    hostile = ["$(touch hurt)", "a b", "", "; touch hurt", "`touch hurt`", "*"]
    async with exec_agent.endpoint(
        sys.executable, "-c", "import sys,json;json.dump(sys.argv[1:],open('args','w'))", *hostile
    ) as it:
        await it.tell(tell())
        assert await exec_agent.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
    assert json.loads((exec_agent.tmp / "work" / "args").read_text()) == hostile
    assert not (exec_agent.tmp / "work" / "hurt").exists()


async def test_a_shell_builtin_never_stands_in_for_the_program(exec_agent: ExecAgent) -> None:
    fake = exec_agent.tmp / "bin" / "exit"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho the real one >really\n")
    fake.chmod(0o755)
    async with exec_agent.endpoint("exit", "9", env={"PATH": f"{fake.parent}:{os.environ['PATH']}"}) as endpoint:
        await endpoint.tell(tell())
        assert await exec_agent.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
    assert (exec_agent.tmp / "work" / "really").exists()


async def test_the_command_inherits_its_three_descriptors_and_nothing_of_ours(exec_agent: ExecAgent) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # as one that our own parent left open would be
    try:
        script = "import os, json; fds = [(n, os.readlink(f'/proc/self/fd/{n}')) for n in range(64) if os.path.exists(f'/proc/self/fd/{n}')]"
        async with exec_agent.endpoint(sys.executable, "-c", script + "; json.dump(fds, open('fds', 'w'))") as endpoint:
            await endpoint.tell(tell())
            assert await exec_agent.news() == RunEnded(1, Outcome.DONE, "exit 0", 2)
    finally:
        os.close(reader)
        os.close(writer)
    output = str(exec_agent.run_dirs[0] / "output")
    assert json.loads((exec_agent.tmp / "work" / "fds").read_text()) == [
        [0, str(exec_agent.message)],
        [1, output],
        [2, output],
    ]


async def test_descriptors_stay_apart_when_the_low_numbers_are_free(exec_agent: ExecAgent) -> None:
    script = f"""
import asyncio, os, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from ackd.endpoints.exec.run_files import lock_held
from tests.endpoints.exec.exec_agent import ExecAgent, tell
async def main():
    exec_agent = ExecAgent(Path({str(exec_agent.tmp)!r}))
    async with exec_agent.sh("cat >copy; {UNTIL_GO}") as endpoint:
        out = os.fdopen(os.dup(1), "w")
        for fd in range(3): os.close(fd)
        await endpoint.tell(tell())
        print(lock_held(exec_agent.run_dirs[0]), file=out)
        (exec_agent.tmp / "work" / "go").touch()
        print(await exec_agent.news(), file=out, flush=True)
    os._exit(0)
asyncio.run(main())
"""
    done = await anyio.run_process([sys.executable, "-c", script], stderr=None)
    assert done.stdout.decode().splitlines() == ["True", str(RunEnded(1, Outcome.DONE, "exit 0", 2))]
    assert (exec_agent.tmp / "work" / "copy").read_text() == HEADER + "\n" + BODY


async def test_a_killed_shim_is_a_failure_and_its_command_is_ended(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell())
        pid = await exec_agent.pid_in("pid")
        os.kill(int(str(exec_agent.facts[0][1]["pid"])), signal.SIGKILL)
        assert await exec_agent.news() == RunEnded(1, Outcome.FAILED, "killed by SIGKILL", 2)
        assert is_gone(pid)
    exec_agent.assert_no_child_left()


async def test_a_status_that_the_disk_refused_is_taken_from_the_shim_itself(exec_agent: ExecAgent) -> None:
    # A directory in the way stands for the full disk: the shim's write fails in both.
    ended = await exec_agent.run('cd "${ACKD_BODY%body}"; rm status; mkdir status; exit 75')
    assert ended == RunEnded(1, Outcome.DEFERRED, "exit 75", 2)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
async def test_the_shim_works_in_any_posix_shell(
    exec_agent: ExecAgent, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.access(shell, os.X_OK):
        pytest.skip(f"no {shell}")
    monkeypatch.setattr(shim, "SHELL", shell)
    assert await exec_agent.run("cat >copy; exit 5") == RunEnded(1, Outcome.FAILED, "exit 5", 2)
    assert (exec_agent.tmp / "work" / "copy").read_text() == HEADER + "\n" + BODY
    assert await exec_agent.run("kill -TERM 0; sleep 60") == RunEnded(1, Outcome.FAILED, "exit 143 (SIGTERM)", 2)


async def test_a_term_to_the_whole_group_is_survived_by_the_shim(exec_agent: ExecAgent) -> None:
    async with exec_agent.sh("echo $$ >pid; exec sleep 60") as endpoint:
        await endpoint.tell(tell())
        os.killpg(os.getpgid(await exec_agent.pid_in("pid")), signal.SIGTERM)
        assert await exec_agent.news() == RunEnded(1, Outcome.FAILED, "exit 143 (SIGTERM)", 2)
        assert (exec_agent.run_dirs[0] / "status").read_text() == "143\n"


async def test_signals_that_the_daemon_ignores_are_not_ignored_by_the_command(exec_agent: ExecAgent) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert await exec_agent.run("kill -TERM $$; sleep 60") == RunEnded(1, Outcome.FAILED, "exit 143 (SIGTERM)", 2)
    finally:
        signal.signal(signal.SIGTERM, before)
