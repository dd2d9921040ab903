"""A terminal that is there, one that has hung up, and none."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

ASK = "from ackd.system.terminal import has_terminal; print(has_terminal(), flush=True)"


def test_a_process_of_a_session_of_its_own_has_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, start_new_session=True, check=True
    )
    assert done.stdout == "False\n"


def test_one_that_is_there_answers_and_one_that_hung_up_does_not() -> None:
    reading, writing = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        from ackd.system.terminal import has_terminal

        os.write(writing, b"%d" % has_terminal())
        signal.sigwait({signal.SIGHUP})
        os.write(writing, b"%d" % has_terminal())
        os._exit(0)
    assert os.read(reading, 1) == b"1"
    os.close(terminal)
    assert os.read(reading, 1) == b"0"
    os.waitpid(pid, 0)
