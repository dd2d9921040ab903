"""A process is recognised by its start time, not by its pid alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.system import processes
from ackd.system.processes import (
    Identity,
    NoProgramError,
    boot_id,
    exit_words,
    find_program,
    identity_of,
    last_lines,
    parse_stat,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_process_name_with_brackets_does_not_shift_the_fields() -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    assert parse_stat(f"41 (a) b (c) {fields}") == Identity(41, 22)


def test_a_process_stays_the_same_and_one_that_is_gone_is_nobody() -> None:
    assert identity_of(os.getpid()) == identity_of(os.getpid())
    with pytest.raises(OSError, match="No such file"):
        identity_of(2**30)


def test_the_boot_has_a_name() -> None:
    assert len(boot_id()) == 36


# --- the program to run -----------------------------------------------------------------------------------------------
def test_a_relative_program_is_looked_for_in_the_working_directory(tmp_path: Path) -> None:
    program = tmp_path / "run me"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program("./run me", tmp_path, {}) == str(program)


def test_the_childs_own_path_counts(tmp_path: Path) -> None:
    with pytest.raises(NoProgramError, match="no program sh in PATH"):
        find_program("sh", tmp_path, {"PATH": str(tmp_path)})


# --- descriptors ------------------------------------------------------------------------------------------------------
def test_what_was_left_open_for_us_is_inherited_by_nobody() -> None:
    reader, writer = os.pipe()
    try:
        os.set_inheritable(writer, True)
        processes.keep_to_ourselves()
        assert not os.get_inheritable(writer)
        assert all(os.get_inheritable(fd) for fd in (0, 1, 2) if _is_open(fd))
    finally:
        os.close(reader)
        os.close(writer)


def test_a_descriptor_beyond_the_limit_of_open_files_hinders_no_start() -> None:
    """Runs in a process of its own, because the limit belongs to the process."""
    script = (
        "import os, resource\n"
        "from ackd.system import processes\n"
        "os.dup2(0, 200); resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "processes.keep_to_ourselves()\n"
        "pid = os.posix_spawn('/bin/sh', ['sh', '-c', 'test ! -e /proc/self/fd/200'], {})\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 200
    assert subprocess.run([sys.executable, "-c", script], check=False, stdin=subprocess.DEVNULL).returncode == 0


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


# --- the end, in words ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit 0"), (1, "exit 1"), (137, "exit 137 (SIGKILL)"), (255, "exit 255")]
)
def test_an_exit_names_its_signal(code: int, words: str) -> None:
    assert exit_words(code) == words


def test_what_a_terminal_would_act_on_is_left_out() -> None:
    assert last_lines(b"one\n\x1b[31mred\x1b[0m\x07 \xff\n\n", 100, lines=1) == "red �"


def test_only_the_end_is_kept() -> None:
    assert last_lines(b"a\nb\nc\nd\n", 100) == "b | c | d"
    assert last_lines(b"x" * 100, 10) == "x" * 10
