"""CPU time of all that belongs to a child, measured on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.adapters.process_tree import ProcessTable
from tests.strays import MARK, end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIN = "import os,sys,time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    end_strays(tmp_path)


def spinning(tmp_path: Path, *before: str) -> subprocess.Popen[bytes]:
    """Something that has used 0.3 s, below ``before``, and waits."""
    env = {**os.environ, MARK: str(tmp_path), "ACKD_CHILD": "worker--1"}
    command = [*before, sys.executable, "-S", "-c", SPIN]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == b"\n"
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    child.communicate()
    child.wait()


def test_what_a_process_has_used_is_counted(tmp_path: Path) -> None:
    child = spinning(tmp_path)
    assert ProcessTable().cpu_s(child.pid, "") >= 0.25
    end(child)


def test_what_its_children_have_used_is_counted_in_whatever_session(tmp_path: Path) -> None:
    child = spinning(tmp_path, "setsid", "--wait")
    assert ProcessTable().cpu_s(child.pid, "") >= 0.25
    assert ProcessTable().cpu_s(2**30, "worker--1") >= 0.25  # by its mark alone
    end(child)


def test_what_a_child_of_its_has_used_stays_counted_when_it_has_ended(tmp_path: Path) -> None:
    script = f"{sys.executable} -S -c 'import time\nwhile time.process_time() < 0.3: pass'; echo; read -r x"
    child = subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={MARK: str(tmp_path)},
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert ProcessTable().cpu_s(child.pid, "") >= 0.25
    end(child)


def test_who_is_gone_has_used_nothing() -> None:
    assert ProcessTable().cpu_s(2**30, "worker--none") == 0


def test_one_look_serves_all_who_ask_shortly_after(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    scandir = os.scandir

    def note(path: str) -> object:
        looks.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", note)
    table = ProcessTable(max_age_s=60)
    for _ in range(50):
        table.cpu_s(os.getpid(), "")
    assert len(looks) == 1
    table = ProcessTable(max_age_s=0)
    for _ in range(3):
        table.cpu_s(os.getpid(), "")
    assert len(looks) == 4
