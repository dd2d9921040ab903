"""A control group for the child, where one was delegated to us."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ackd.endpoints.process.child import delegated, end_leftovers
from ackd.endpoints.process.child.leftovers import ChildRecord, write_record
from ackd.endpoints.process.child.spawning import Cgroup
from ackd.system.processes import boot_id
from tests.living import is_gone
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.endpoints.process.child.real_children import RealChildren

#: Without the mark and without the session: nothing but the control group knows it.
FUGITIVE = "env -i setsid sh -c 'echo $$ >pid; exec sleep 60' & cat"


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "cgroup"
    mount.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "cgroup2", "none", mount], check=False).returncode:
        pytest.skip("no control group can be had here: needs root and cgroup2")
    own = mount / f"ackd-test-{os.getpid()}"
    own.mkdir(exist_ok=True)
    try:
        yield own
    finally:
        for path in [*own.glob("ackd-*"), own]:
            with contextlib.suppress(OSError):
                path.rmdir()
        subprocess.run(["umount", mount], check=True)


def stubborn() -> subprocess.Popen[bytes]:
    reader, writer = os.pipe()
    lost = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], stdout=writer)
    assert os.read(reader, 1) == b"\n"
    os.close(reader)
    os.close(writer)
    return lost


async def test_who_shed_every_sign_is_still_in_the_control_group(real_children: RealChildren, cgroup: Path) -> None:
    life = real_children.sh(FUGITIVE, cgroup=cgroup).start(1)
    pid = await real_children.pid_in("pid")
    assert {life.pid, pid} <= life.cgroup.pids()  # type: ignore[union-attr]
    await life.end(5)
    assert is_gone(pid)
    await until(lambda: not list(cgroup.glob("ackd-*")))


async def test_a_killed_daemons_control_group_is_ended_at_the_next_start(
    real_children: RealChildren, cgroup: Path
) -> None:
    group = Cgroup(cgroup / "ackd-left")
    lost = stubborn()
    assert group.make()
    (group.path / "cgroup.procs").write_text(str(lost.pid))
    write_record(real_children.directory, ChildRecord("worker", "worker--x", boot_id(), cgroup=str(group.path)))
    assert await end_leftovers(real_children.directory, 0.1) == ["worker"]
    assert lost.wait(60) == -9


async def test_a_group_that_cannot_be_made_is_done_without(real_children: RealChildren, tmp_path: Path) -> None:
    life = real_children.sh("cat", cgroup=tmp_path / "no" / "such").start(1)
    assert life.cgroup is None
    await life.end(5)


def test_what_was_not_handed_to_us_is_not_used(tmp_path: Path) -> None:
    assert delegated([tmp_path]) is None
