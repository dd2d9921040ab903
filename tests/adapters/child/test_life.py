"""One life: its words, its end, and the end of all that belongs to it. FAILURES "Processes", with real children."""

from __future__ import annotations

import os
import time

import anyio
import pytest

from ackd.adapters.child import CannotWrite, Line
from ackd.ports import Exit
from tests.adapters.child.nursery import STUBBORN, Nursery, all_lines, assert_no_child_left, descriptors, first_line
from tests.living import is_gone, process_state
from tests.waiting import until


async def test_a_child_hears_and_speaks_by_lines(nursery: Nursery) -> None:
    life = nursery.sh('while read -r line; do echo "heard $line"; done; echo bye; exit 3').start(1)
    life.write(b"one\ntwo\n")
    life.close_stdin()
    assert await all_lines(life) == [Line(b"heard one"), Line(b"heard two"), Line(b"bye")]
    assert await life.died() == Exit("exit 3", 3)
    await life.end(1)
    assert_no_child_left()


async def test_the_end_of_stderr_says_why(nursery: Nursery) -> None:
    life = nursery.sh("echo first >&2; printf '\\033[31mno such module\\033[0m\\n' >&2; exit 1").start(1)
    assert await life.died() == Exit("exit 1: first | no such module", 1)
    await life.end(1)
    log = nursery.stderr_log.read_text().splitlines()
    assert log[0].startswith("[ackd] ")
    assert log[0].endswith(f"worker started, pid {life.pid}")
    assert log[1] == "first"
    assert nursery.stderr_log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("script", "exit_"),
    [
        ("exit 0", Exit("exit 0", 0)),
        ("kill -SEGV $$", Exit("exit 139 (SIGSEGV)", 139)),
        ("kill -KILL $$", Exit("exit 137 (SIGKILL)", 137)),
    ],
)
async def test_every_end_has_a_name(nursery: Nursery, script: str, exit_: Exit) -> None:
    life = nursery.sh(script).start(1)
    assert await life.died() == exit_
    await life.end(0)


async def test_a_child_leads_a_session_of_its_own_and_knows_who_it_is(nursery: Nursery) -> None:
    life = nursery.sh("echo $ACKD_AGENT $ACKD_GENERATION; cat").start(7)
    assert await first_line(life) == Line(b"worker 7")
    assert os.getsid(life.pid) == os.getpgid(life.pid) == life.pid
    await life.end(5)


async def test_a_child_that_ignores_term_is_killed(nursery: Nursery) -> None:
    life = nursery.sh(STUBBORN).start(1)
    await first_line(life)
    assert (await life.end(0.1)).code == 137
    assert is_gone(life.pid)


async def test_term_comes_first_and_once(nursery: Nursery) -> None:
    life = nursery.sh("trap 'echo term >>terms; exit 0' TERM; echo ready; while :; do sleep 0.01; done").start(1)
    await first_line(life)
    assert await life.end(20) == Exit("exit 0", 0)
    assert (nursery.work / "terms").read_text() == "term\n"


async def test_a_grandchild_that_holds_stdout_does_not_hide_the_death(nursery: Nursery) -> None:
    """FAILURES: cpython gh-119710, `Process.wait()` never returns."""
    life = nursery.sh("sleep 600 & echo $! >pid; echo last words; exit 4").start(1)
    began = time.monotonic()
    assert await all_lines(life) == [Line(b"last words")]
    assert await life.died() == Exit("exit 4", 4)
    await life.end(600)
    assert is_gone(await nursery.pid_in("pid"))
    assert time.monotonic() - began < 240


async def test_a_grandchild_that_floods_does_not_speak_for_the_dead(nursery: Nursery) -> None:
    """FAILURES: a heartbeat writer outlives its worker and hides its death."""
    life = nursery.sh("echo mine; (while :; do echo alive; done) & exec kill -KILL $$").start(1)
    with anyio.fail_after(60):  # there is an end to it, though the other goes on
        lines = await all_lines(life)
    assert lines[0] == Line(b"mine")
    assert set(lines[1:]) <= {Line(b"alive")}
    await life.end(0)


async def test_a_grandchild_that_called_setsid_is_found_and_ended(nursery: Nursery) -> None:
    """FAILURES: a child that called setsid escapes killpg."""
    life = nursery.sh("setsid sh -c 'echo $$ >pid; exec sleep 60' & cat").start(1)
    pid = await nursery.pid_in("pid")
    assert os.getsid(pid) != life.pid
    await life.end(5)
    assert is_gone(pid)


async def test_a_grandchild_that_ignores_term_is_killed_with_its_parent(nursery: Nursery) -> None:
    life = nursery.sh(f"setsid sh -c 'echo $$ >pid; {STUBBORN.replace(chr(39), chr(34))}' & cat").start(1)
    pid = await nursery.pid_in("pid")
    await life.end(0.1)
    assert is_gone(pid)


async def test_a_grandchild_with_a_clean_environment_is_known_by_its_session(nursery: Nursery) -> None:
    life = nursery.sh("env -i sh -c 'echo $$ >pid; exec sleep 60' & exit 0").start(1)
    pid = await nursery.pid_in("pid")
    await life.died()
    await life.end(5)
    assert is_gone(pid)


async def test_a_stopped_child_meets_its_term(nursery: Nursery) -> None:
    """FAILURES: a stopped child keeps TERM pending."""
    life = nursery.sh("trap 'echo bye >bye; exit 0' TERM; kill -STOP $$; sleep 60").start(1)
    await until(lambda: process_state(life.pid) == "T")
    assert (await life.end(30)).code == 0
    assert (nursery.work / "bye").exists()


async def test_a_neighbour_is_not_touched(nursery: Nursery) -> None:
    one, other = nursery.sh("exec cat").start(1), nursery.sh("exec cat", agent="other").start(1)
    await one.end(5)
    assert other.alive
    await other.end(5)


async def test_closing_stdin_is_not_death(nursery: Nursery) -> None:
    life = nursery.sh("exec <&-; echo closed; exec sleep 60").start(1)
    await first_line(life)
    with pytest.raises(CannotWrite) as refused:
        life.write(b"x\n")
    assert refused.value.closed
    assert not life.can_hear
    assert life.alive
    await life.end(5)


async def test_closing_stdout_is_not_death(nursery: Nursery) -> None:
    life = nursery.sh("echo last; exec >&-; exec sleep 60").start(1)
    assert await all_lines(life) == [Line(b"last")]
    assert not life.can_speak
    assert life.alive
    await life.end(5)


async def test_an_interrupt_reaches_the_whole_group(nursery: Nursery) -> None:
    life = nursery.sh("trap 'echo int; exit 9' INT; echo ready; while :; do sleep 0.05; done").start(1)
    lines = life.lines()
    assert await anext(lines) == Line(b"ready")
    life.interrupt()
    assert await anext(lines) == Line(b"int")
    assert (await life.died()).code == 9
    await life.end(5)


async def test_a_cancelled_end_is_still_the_end(nursery: Nursery) -> None:
    life = nursery.sh(STUBBORN).start(1)
    await first_line(life)
    with anyio.move_on_after(0.01):
        await life.end(0.1)
    assert is_gone(life.pid)
    assert_no_child_left()


async def test_an_end_that_two_ask_for_is_one(nursery: Nursery) -> None:
    life = nursery.sh("exec cat").start(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(life.end, 5)
        tasks.start_soon(life.end, 5)
    assert is_gone(life.pid)


async def test_thirty_lives_leave_no_zombie_and_no_descriptor(nursery: Nursery) -> None:
    """FAILURES: zombies."""
    child = nursery.sh("echo ready; exec cat")
    await child.start(1).end(5)
    before = descriptors()
    for generation in range(30):
        life = child.start(generation)
        life.write(b"x\n")
        await life.end(5)
        await all_lines(life)
    assert descriptors() <= before
    assert_no_child_left()
    assert list(nursery.directory.iterdir()) == []


async def test_no_signal_goes_to_a_number(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAILURES: a pid recycled between check and kill. Of the numbers only our own zombie's is used, which is held."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: killed.append(pid))
    life = nursery.sh("sleep 60 & wait").start(1)
    groups: list[tuple[int, str | None]] = []
    killpg = os.killpg

    def note(pid: int, how: int) -> None:
        groups.append((pid, process_state(pid)))
        killpg(pid, how)

    monkeypatch.setattr(os, "killpg", note)
    await life.end(0)
    assert killed == []
    assert all(pid == life.pid and state is not None for pid, state in groups)
