from __future__ import annotations

import os
import resource
import subprocess
import sys

from ackd import processes


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
    """In a process of its own, for the limit is the process's."""
    script = (
        "import os, resource\n"
        "from ackd import processes\n"
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
