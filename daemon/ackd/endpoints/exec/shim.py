"""The shim: the shell that runs one command, outlives us, and writes down how it ended.

Here are its text, the three descriptors that it is started with, and what of ours a run must not inherit. Starting it
fails with OSError or ValueError, as the kernel refuses; then nothing was started.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.storage import file_lock
from ackd.system.processes import keep_to_ourselves

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Mapping, Sequence

SHELL: Final = "/bin/sh"

#: Arguments: run directory, working directory, umask, command… Descriptor 0 is the lock, 1 the output, 2 the message.
#: The shim cannot write to 2, so that messages of the shell itself ("Terminated") do not get into the command's output.
#:
#: Builtins only: a fork of the shim's own (``mv``) could be killed by the signal that ends its command, and the status
#: with it. So ``status`` is one write of one line over what lies there (``1<>``), and a line without its newline is no
#: status. The command's name has a slash, so no builtin can take its place. Until the trap is set a TERM ends the shim
#: itself, and nothing was run; afterwards it outlives the signal to write the status, while its command starts with the
#: default action (an ignored signal would be inherited).
SHIM: Final = """\
umask 077
IFS= read -r ackd_boot </proc/sys/kernel/random/boot_id
IFS= read -r ackd_stat </proc/$$/stat
printf '%s\\n%s\\n' "$ackd_boot" "$ackd_stat" >"$1/started"
cd "$2" || exit 126
ackd_run=$1
ackd_umask=$3
shift 3
trap : TERM INT HUP
(umask "$ackd_umask"; exec "$@" <&2 2>&1)
ackd_code=$?
printf '%03d\\n' "$ackd_code" 1<>"$ackd_run/status"
exit "$ackd_code"
"""

_DEFAULT_SIGNALS: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_HEADER_END: Final = re.compile(rb"\r?\n\r?\n")


def spawn(
    path: Path, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], message: int, fds: contextlib.ExitStack
) -> int:
    """Start the shim of the run in ``path`` and return its pid. ``command`` begins with an absolute path.

    posix_spawn is used and not Popen, because it can number the descriptors and does not keep a child that we abandon.
    """
    lock = _open_apart(path / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, fds)
    file_lock.take(lock)  # never waits: we have just made the file
    output = _open_apart(path / "output", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, fds)
    keep_to_ourselves()
    return os.posix_spawn(
        SHELL,
        [*("sh", "-c", SHIM, "ackd-run"), *(str(path), str(cwd.absolute()), own_umask()), *command],
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((lock, output, message))],
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT_SIGNALS,  # the shim could neither trap nor reset a signal that we ignore
    )


def open_message(path: Path, fds: contextlib.ExitStack) -> int:
    fd = _open_apart(path, os.O_RDONLY | os.O_NONBLOCK, fds)  # must not hang if the file has become a FIFO
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    os.set_blocking(fd, True)
    return fd


def body_of(message: int) -> bytes:
    """The text after the first blank line. It is read by position, because the command's stdin shares the offset."""
    content = os.pread(message, os.fstat(message).st_size, 0)
    end = _HEADER_END.search(content)
    return content[end.end() :] if end else b""


def _open_apart(path: Path, flags: int, fds: contextlib.ExitStack) -> int:
    """Open above the numbers the shim is given, so that setting one up never overwrites another (``ackd run <&-``)."""
    low = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(low)
    fds.callback(os.close, fd)
    return fd


def own_umask() -> str:
    """The mask that we were started with, for the files of the command; the run's own files have a stricter one.

    Read from /proc, because asking the kernel by umask(2) means changing it, for every thread.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Umask:"):
            return line.partition(":")[2].strip()
    return "0077"  # a kernel before 4.7
