"""What a child is started with, and why it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.child import Line, spawning
from ackd.core.errors import CannotStart
from tests.adapters.child.nursery import REPOSITORY, Nursery, assert_no_child_left, descriptors, first_line
from tests.living import is_gone
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "why"),
    [("./missing", "no program ./missing"), ("no-such-program", "no program no-such-program in PATH")],
)
async def test_a_program_that_is_not_there_cannot_be_started(nursery: Nursery, command: str, why: str) -> None:
    with pytest.raises(CannotStart, match=why):
        nursery.child(command).start(1)
    assert list(nursery.directory.iterdir()) == []


async def test_a_missing_directory_cannot_be_worked_in(nursery: Nursery, tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="no working directory"):
        nursery.sh("cat", cwd=tmp_path / "gone").start(1)


async def test_a_machine_without_descriptors_leaves_nothing_behind(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = descriptors()

    def refuse(_pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(CannotStart, match="Too many open files") as refused:
        nursery.sh("cat").start(1)
    assert refused.value.nobodys
    assert descriptors() <= before
    assert_no_child_left()


async def test_its_own_environment_counts_before_ours(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "ours")
    monkeypatch.setenv("ACKD_AGENT", "somebody")
    life = nursery.sh("echo $LANG $ACKD_AGENT $ACKD_ROOT", env={"LANG": "its"}, extra_env={"ACKD_ROOT": "/r"}).start(1)
    assert await first_line(life) == Line(b"its worker /r")
    await life.end(1)


async def test_it_inherits_nothing_but_its_pipes(nursery: Nursery) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    life = nursery.sh("ls /proc/self/fd | tr '\\n' ' '; echo").start(1)
    assert (await first_line(life)).data.split() == [b"0", b"1", b"2", b"3"]  # 3 is ls's own
    await life.end(1)
    os.close(reader)
    os.close(writer)


async def test_a_full_disk_starts_it_all_the_same(nursery: Nursery) -> None:
    nursery.directory.parent.mkdir()
    nursery.directory.touch()  # no directory can be made there
    life = nursery.sh("echo hello").start(1)
    assert await first_line(life) == Line(b"hello")
    await life.end(1)
    assert nursery.recorded("io_error")[0]["what"] == "state/children of worker"


def killed_daemon(nursery: Nursery, *, with_setpriv: bool) -> subprocess.CompletedProcess[bytes]:
    program = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from ackd.adapters.child import spawning
from tests.adapters.child.nursery import Nursery, first_line
if not {with_setpriv}:
    spawning._setpriv = lambda: None
async def main():
    life = Nursery(Path({str(nursery.tmp)!r})).sh("trap '' TERM HUP; echo $$; exec sleep 60 <&-").start(1)
    await first_line(life)
    print(life.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    return subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)


@pytest.mark.parametrize("with_setpriv", [True, False])
async def test_the_child_dies_with_us(nursery: Nursery, with_setpriv: bool) -> None:
    """No orphan after `kill -9` of the daemon: by the parent-death signal, with either leash."""
    if with_setpriv and spawning._setpriv() is None:
        pytest.skip("no setpriv with --pdeathsig here: Python holds the leash")
    done = killed_daemon(nursery, with_setpriv=with_setpriv)
    assert done.returncode == -9
    await until(lambda: is_gone(int(done.stdout)))


async def test_the_python_leash_starts_the_same_program(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "_setpriv", lambda: None)
    life = nursery.sh("echo hello; exit 7").start(1)
    assert await first_line(life) == Line(b"hello")
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
