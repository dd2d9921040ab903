"""Writing into a team's directories: refusals of the disk become ``CannotWrite``, with what to do about them.

``creating`` surrounds every write. ``check_reader`` comes before the first one: files of root's are useless to a daemon
that runs as another user.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final

from ackd.client.errors import CannotWrite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.config.site import Site

#: Advice for a sandbox, in words that fit any of them.
_LEAVE_SANDBOX: Final = (
    "\n  → let the sandbox write below the team's root (codex: `--add-dir ROOT`, or writable_roots in its config), "
    "or run this outside of it, then try again: nothing was accepted"
)


@contextlib.contextmanager
def creating(*directories: str | Path) -> Iterator[None]:
    """Turn whatever the disk refuses inside this block into ``CannotWrite``, a missing directory included.

    ``directories`` are those that are written in. A write below an open directory fails with the file's name alone, so
    the error would not say where.
    """
    try:
        yield
    except OSError as error:
        where, why = _written(error, directories), error.strerror or str(error)
        if _is_sandboxed(error, directories):
            raise CannotWrite(f"a sandbox keeps this command from writing {where}{why}{_LEAVE_SANDBOX}") from None
        raise CannotWrite(f"cannot write {where}{why}{_advice(error)}") from None


def check_reader(site: Site) -> None:
    """Refuse to write as root into a team whose daemon runs as another user and could not read the files.

    That user is the one who made the lock of the root's daemon, else the owner of the root.
    """
    if os.geteuid() != 0:
        return
    try:
        owner = os.lstat(f"{site.root}/run/ackd.lock").st_uid
    except OSError:
        owner = _owner_of(site.root)
    if owner:
        words = f"{site.root} is the team of uid {owner}, whose daemon cannot read what root writes"
        raise CannotWrite(f"{words}: run it as that user (sudo -u '#{owner}' ackd ...)")


def _owner_of(path: Path) -> int:
    """Return the owner; root for what cannot be looked at."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return 0


def _is_sandboxed(error: OSError, directories: tuple[str | Path, ...]) -> bool:
    """Tell a sandbox from an ordinary refusal: this process can gain no rights any more, and either everything is
    read-only for it (bubblewrap), or it is refused what owner and mode allow (Landlock)."""
    if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not _is_locked_in():
        return False
    return error.errno == errno.EROFS or all(map(_would_let_us_write, _places(error, directories)))


def _places(error: OSError, directories: tuple[str | Path, ...]) -> list[str]:
    """The directories that were written in, and the file if it exists already."""
    name = path_text(error.filename) if error.filename is not None else ""
    if "/" not in name:
        return list(map(str, directories))
    return [os.path.dirname(name), *([name] if os.path.lexists(name) else [])]  # noqa: PTH120


def _would_let_us_write(place: str) -> bool:
    return os.access(place, os.W_OK, effective_ids=True) or not os.path.lexists(place)


def _is_locked_in() -> bool:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            said = dict(line.split(":", 1) for line in file if line.startswith(("NoNewPrivs:", "Seccomp:")))
    except OSError:
        return False
    return said.get("NoNewPrivs", "").strip() == "1" or said.get("Seccomp", "").strip() == "2"


def _advice(error: OSError) -> str:
    from ackd.core import faults

    advice = faults.ADVICE.get(error.errno) if error.errno is not None else None
    return f"\n  → {advice}, then try again: nothing was accepted" if advice else ""


def _written(error: OSError, directories: tuple[str | Path, ...]) -> str:
    name = path_text(error.filename) if error.filename is not None else ""
    if "/" in name or not directories:
        return f"{name}: " if name else ""
    refusing = [str(one) for one in directories if not os.access(one, os.W_OK | os.X_OK)]
    return f"in {' or '.join(refusing or map(str, directories))}: "


def path_text(filename: str | bytes | int) -> str:
    """The file name of an ``OSError`` as text."""
    return os.fsdecode(filename) if isinstance(filename, bytes) else str(filename)
