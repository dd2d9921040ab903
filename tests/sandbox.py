"""A sandbox as agents' command lines have it, for tests: Landlock, or a read-only view of a directory.

Run as a program: ``python -m tests.sandbox landlock|readonly DIR COMMAND...`` becomes the command, which may read
everything and write nothing below DIR. Exit 77: this kernel, or this user, cannot.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

UNABLE: Final = 77
_CREATE_RULESET: Final = 444
_RESTRICT_SELF: Final = 446
_NO_NEW_PRIVS: Final = 38
#: Everything that changes a file or a directory: what is handled and not allowed is refused.
_WRITING: Final = (1 << 1) | sum(1 << bit for bit in range(4, 13))
_CLONE_NEWNS: Final = 0x20000
_BIND: Final = 4096
_PRIVATE: Final = 1 << 18
_READ_ONLY_AGAIN: Final = 1 | 32 | _BIND


def main(kind: str, directory: str, *command: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    ready = libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if not ready or not (_landlock(libc) if kind == "landlock" else _read_only(libc, directory.encode())):
        sys.exit(UNABLE)
    os.execvp(command[0], command)


def _landlock(libc: ctypes.CDLL) -> bool:
    handled = ctypes.c_uint64(_WRITING)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint32(0))
    return bool(ruleset >= 0 and libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) == 0)


def _read_only(libc: ctypes.CDLL, directory: bytes) -> bool:
    """In a mount namespace of its own, as bubblewrap does it."""
    if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, ctypes.c_ulong(_PRIVATE | 16384), None) != 0:
        return False
    return bool(
        libc.mount(directory, directory, None, ctypes.c_ulong(_BIND), None) == 0
        and libc.mount(None, directory, None, ctypes.c_ulong(_READ_ONLY_AGAIN), None) == 0
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
