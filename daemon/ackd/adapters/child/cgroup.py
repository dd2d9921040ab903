"""A control group of a child's own, where the service manager has handed us ours to divide (``Delegate=yes``).

Nothing leaves a control group by itself: what cleaned its environment and fled its session is still in it. Owns the
group's directory. Refuses to use what was not handed to us. Fails quietly: without it a child is known by its mark.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOUNTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
#: Run as: this, the group's directory, the command. A child must be in before it can fork.
_JOIN: Final = 'echo 0 >"$0/cgroup.procs"; exec "$@"'


def delegated(mounts: Iterable[Path] = _MOUNTS) -> Path | None:
    """Our own group, if we may divide it; version 2 only, which can kill all of a group at once."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        (own,) = (line[3:] for line in lines if line.startswith("0::"))
        for path in (mount / own.lstrip("/") for mount in mounts if own != "/"):
            if (path / "cgroup.procs").exists() and _is_handed_to_us(path):
                return path
    return None


def _is_handed_to_us(path: Path) -> bool:
    """Root may write anywhere, which proves nothing; systemd marks what it delegates."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(path, name) == b"1":
                return True
    return os.geteuid() != 0 and os.access(path, os.W_OK) and os.access(path / "cgroup.procs", os.W_OK)


@dataclass(frozen=True, slots=True)
class Cgroup:
    path: Path

    def make(self) -> bool:
        try:
            self.path.mkdir()
        except OSError:
            return False
        return True

    def joining(self) -> tuple[str, ...]:
        """What stands before a command that shall run in it. One that cannot be joined is done without."""
        return ("/bin/sh", "-c", _JOIN, str(self.path))

    def pids(self) -> set[int]:
        try:
            return {int(pid) for pid in (self.path / "cgroup.procs").read_text().split()}
        except (OSError, ValueError):
            return set()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()
