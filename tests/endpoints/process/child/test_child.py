"""Real children: their start, the lines to them, and their end with everything that belongs to them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.core.errors import CannotStart
from ackd.core.ports import Exit
from ackd.endpoints.process.child import OutputLine, StdinRefused, spawning
from tests.endpoints.process.child.real_children import (
    REPOSITORY,
    STUBBORN,
    RealChildren,
    all_lines,
    assert_no_child_left,
    descriptors,
    first_line,
)
from tests.living import is_gone, process_state
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "why"),
    [("./missing", "no program ./missing"), ("no-such-program", "no program no-such-program in PATH")],
)
async def test_a_program_that_is_not_there_cannot_be_started(
    real_children: RealChildren, command: str, why: str
) -> None:
    with pytest.raises(CannotStart, match=why):
        real_children.child(command).start(1)
    assert list(real_children.directory.iterdir()) == []


async def test_a_missing_directory_cannot_be_worked_in(real_children: RealChildren, tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="no working directory"):
        real_children.sh("cat", cwd=tmp_path / "gone").start(1)


async def test_a_machine_without_descriptors_leaves_nothing_behind(
    real_children: RealChildren, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = descriptors()

    def refuse(_pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(CannotStart, match="Too many open files") as refused:
        real_children.sh("cat").start(1)
    assert refused.value.nobodys
    assert descriptors() <= before
    assert_no_child_left()


async def test_its_own_environment_counts_before_ours(
    real_children: RealChildren, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "ours")
    monkeypatch.setenv("ACKD_AGENT", "somebody")
    life = real_children.sh(
        "echo $LANG $ACKD_AGENT $ACKD_ROOT", env={"LANG": "its"}, extra_env={"ACKD_ROOT": "/r"}
    ).start(1)
    assert await first_line(life) == OutputLine(b"its worker /r")
    await life.end(1)


async def test_it_inherits_nothing_but_its_pipes(real_children: RealChildren) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    life = real_children.sh("ls /proc/self/fd | tr '\\n' ' '; echo").start(1)
    assert (await first_line(life)).data.split() == [b"0", b"1", b"2", b"3"]  # 3 is ls's own
    await life.end(1)
    os.close(reader)
    os.close(writer)


async def test_a_full_disk_starts_it_all_the_same(real_children: RealChildren) -> None:
    real_children.directory.parent.mkdir()
    real_children.directory.touch()  # no directory can be made there
    life = real_children.sh("echo hello").start(1)
    assert await first_line(life) == OutputLine(b"hello")
    await life.end(1)
    assert real_children.recorded("io_error")[0]["what"] == "state/children of worker"


def killed_daemon(real_children: RealChildren, *, with_setpriv: bool) -> subprocess.CompletedProcess[bytes]:
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from ackd.endpoints.process.child import spawning
from tests.endpoints.process.child.real_children import RealChildren, first_line
if not {with_setpriv}:
    spawning._setpriv = lambda: None
async def main():
    life = RealChildren(Path({str(real_children.tmp)!r})).sh("trap '' TERM HUP; echo $$; exec sleep 60 <&-").start(1)
    await first_line(life)
    print(life.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    return subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)


@pytest.mark.parametrize("with_setpriv", [True, False])
async def test_the_child_dies_with_us(real_children: RealChildren, with_setpriv: bool) -> None:
    """No orphan after `kill -9` of the daemon: by the parent-death signal, with either leash."""
    if with_setpriv and spawning._setpriv() is None:
        pytest.skip("no setpriv with --pdeathsig here: Python holds the leash")
    done = killed_daemon(real_children, with_setpriv=with_setpriv)
    assert done.returncode == -9
    await until(lambda: is_gone(int(done.stdout)))


async def test_the_python_leash_starts_the_same_program(
    real_children: RealChildren, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawning, "_setpriv", lambda: None)
    life = real_children.sh("echo hello; exit 7").start(1)
    assert await first_line(life) == OutputLine(b"hello")
    assert (await life.died()).code == 7  # of its own: an end() might overtake its exit
    await life.end(1)


def test_a_setpriv_that_cannot_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "setpriv").write_text("#!/bin/sh\necho 'BusyBox'\n")
    (tmp_path / "setpriv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    spawning._setpriv.cache_clear()
    try:
        assert spawning.leash()[0] == sys.executable
    finally:
        spawning._setpriv.cache_clear()


# --- one process ------------------------------------------------------------------------------------------------------
async def test_a_child_hears_and_speaks_by_lines(real_children: RealChildren) -> None:
    life = real_children.sh('while read -r line; do echo "heard $line"; done; echo bye; exit 3').start(1)
    life.write(b"one\ntwo\n")
    life.close_stdin()
    assert await all_lines(life) == [OutputLine(b"heard one"), OutputLine(b"heard two"), OutputLine(b"bye")]
    assert await life.died() == Exit("exit 3", 3)
    await life.end(1)
    assert_no_child_left()


async def test_the_end_of_stderr_says_why(real_children: RealChildren) -> None:
    life = real_children.sh("echo first >&2; printf '\\033[31mno such module\\033[0m\\n' >&2; exit 1").start(1)
    assert await life.died() == Exit("exit 1: first | no such module", 1)
    await life.end(1)
    log = real_children.stderr_log.read_text().splitlines()
    assert log[0].startswith("[ackd] ")
    assert log[0].endswith(f"worker started, pid {life.pid}")
    assert log[1] == "first"
    assert real_children.stderr_log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("script", "exit_"),
    [
        ("exit 0", Exit("exit 0", 0)),
        ("kill -SEGV $$", Exit("exit 139 (SIGSEGV)", 139)),
        ("kill -KILL $$", Exit("exit 137 (SIGKILL)", 137)),
    ],
)
async def test_every_end_has_a_name(real_children: RealChildren, script: str, exit_: Exit) -> None:
    life = real_children.sh(script).start(1)
    assert await life.died() == exit_
    await life.end(0)


async def test_a_child_leads_a_session_of_its_own_and_knows_who_it_is(real_children: RealChildren) -> None:
    life = real_children.sh("echo $ACKD_AGENT $ACKD_GENERATION; cat").start(7)
    assert await first_line(life) == OutputLine(b"worker 7")
    assert os.getsid(life.pid) == os.getpgid(life.pid) == life.pid
    await life.end(5)


async def test_a_child_that_ignores_term_is_killed(real_children: RealChildren) -> None:
    life = real_children.sh(STUBBORN).start(1)
    await first_line(life)
    assert (await life.end(0.1)).code == 137
    assert is_gone(life.pid)


async def test_term_comes_first_and_once(real_children: RealChildren) -> None:
    life = real_children.sh("trap 'echo term >>terms; exit 0' TERM; echo ready; while :; do sleep 0.01; done").start(1)
    await first_line(life)
    assert await life.end(20) == Exit("exit 0", 0)
    assert (real_children.work / "terms").read_text() == "term\n"


async def test_a_grandchild_that_holds_stdout_does_not_hide_the_death(real_children: RealChildren) -> None:
    """FAILURES: cpython gh-119710, `Process.wait()` never returns."""
    life = real_children.sh("sleep 600 & echo $! >pid; echo last words; exit 4").start(1)
    began = time.monotonic()
    assert await all_lines(life) == [OutputLine(b"last words")]
    assert await life.died() == Exit("exit 4", 4)
    await life.end(600)
    assert is_gone(await real_children.pid_in("pid"))
    assert time.monotonic() - began < 240


async def test_a_grandchild_that_floods_does_not_speak_for_the_dead(real_children: RealChildren) -> None:
    """FAILURES: a heartbeat writer outlives its worker and hides its death."""
    life = real_children.sh("echo mine; (while :; do echo alive; done) & exec kill -KILL $$").start(1)
    with anyio.fail_after(60):  # there is an end to it, though the other goes on
        lines = await all_lines(life)
    assert lines[0] == OutputLine(b"mine")
    assert set(lines[1:]) <= {OutputLine(b"alive")}
    await life.end(0)


async def test_a_grandchild_that_called_setsid_is_found_and_ended(real_children: RealChildren) -> None:
    """FAILURES: a child that called setsid escapes killpg."""
    life = real_children.sh("setsid sh -c 'echo $$ >pid; exec sleep 60' & cat").start(1)
    pid = await real_children.pid_in("pid")
    assert os.getsid(pid) != life.pid
    await life.end(5)
    assert is_gone(pid)


async def test_a_grandchild_that_ignores_term_is_killed_with_its_parent(real_children: RealChildren) -> None:
    life = real_children.sh(f"setsid sh -c 'echo $$ >pid; {STUBBORN.replace(chr(39), chr(34))}' & cat").start(1)
    pid = await real_children.pid_in("pid")
    await life.end(0.1)
    assert is_gone(pid)


async def test_a_grandchild_with_a_clean_environment_is_known_by_its_session(real_children: RealChildren) -> None:
    life = real_children.sh("env -i sh -c 'echo $$ >pid; exec sleep 60' & exit 0").start(1)
    pid = await real_children.pid_in("pid")
    await life.died()
    await life.end(5)
    assert is_gone(pid)


async def test_a_stopped_child_meets_its_term(real_children: RealChildren) -> None:
    """FAILURES: a stopped child keeps TERM pending."""
    life = real_children.sh("trap 'echo bye >bye; exit 0' TERM; kill -STOP $$; sleep 60").start(1)
    await until(lambda: process_state(life.pid) == "T")
    assert (await life.end(30)).code == 0
    assert (real_children.work / "bye").exists()


async def test_a_neighbour_is_not_touched(real_children: RealChildren) -> None:
    one, other = real_children.sh("exec cat").start(1), real_children.sh("exec cat", agent="other").start(1)
    await one.end(5)
    assert other.alive
    await other.end(5)


async def test_closing_stdin_is_not_death(real_children: RealChildren) -> None:
    life = real_children.sh("exec <&-; echo closed; exec sleep 60").start(1)
    await first_line(life)
    with pytest.raises(StdinRefused) as refused:
        life.write(b"x\n")
    assert refused.value.closed
    assert not life.can_hear
    assert life.alive
    await life.end(5)


async def test_closing_stdout_is_not_death(real_children: RealChildren) -> None:
    life = real_children.sh("echo last; exec >&-; exec sleep 60").start(1)
    assert await all_lines(life) == [OutputLine(b"last")]
    assert not life.can_speak
    assert life.alive
    await life.end(5)


async def test_an_interrupt_reaches_the_whole_group(real_children: RealChildren) -> None:
    life = real_children.sh("trap 'echo int; exit 9' INT; echo ready; while :; do sleep 0.05; done").start(1)
    lines = life.lines()
    assert await anext(lines) == OutputLine(b"ready")
    life.interrupt()
    assert await anext(lines) == OutputLine(b"int")
    assert (await life.died()).code == 9
    await life.end(5)


async def test_a_cancelled_end_is_still_the_end(real_children: RealChildren) -> None:
    life = real_children.sh(STUBBORN).start(1)
    await first_line(life)
    with anyio.move_on_after(0.01):
        await life.end(0.1)
    assert is_gone(life.pid)
    assert_no_child_left()


async def test_an_end_that_two_ask_for_is_one(real_children: RealChildren) -> None:
    life = real_children.sh("exec cat").start(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(life.end, 5)
        tasks.start_soon(life.end, 5)
    assert is_gone(life.pid)


async def test_thirty_lives_leave_no_zombie_and_no_descriptor(real_children: RealChildren) -> None:
    """FAILURES: zombies."""
    child = real_children.sh("echo ready; exec cat")
    await child.start(1).end(5)
    before = descriptors()
    for generation in range(30):
        life = child.start(generation)
        life.write(b"x\n")
        await life.end(5)
        await all_lines(life)
    assert descriptors() <= before
    assert_no_child_left()
    assert list(real_children.directory.iterdir()) == []


async def test_no_signal_goes_to_a_number(real_children: RealChildren, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAILURES: a pid recycled between check and kill. The only pid that is signalled is that of our own zombie, which
    nobody else can get."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: killed.append(pid))
    life = real_children.sh("sleep 60 & wait").start(1)
    groups: list[tuple[int, str | None]] = []
    killpg = os.killpg

    def note(pid: int, how: int) -> None:
        groups.append((pid, process_state(pid)))
        killpg(pid, how)

    monkeypatch.setattr(os, "killpg", note)
    await life.end(0)
    assert killed == []
    assert all(pid == life.pid and state is not None for pid, state in groups)
