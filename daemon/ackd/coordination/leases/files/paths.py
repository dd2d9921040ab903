"""Turns a path into the key of its lease: one key for all spellings, and no way out of the workspace.

``a/./b``, ``a//b``, the absolute path and the way through a link inside are one key, relative to the workspace with
every link resolved. The file need not exist. Fails with ``BadPath``.
"""

import os
import stat
from typing import Final

from ackd.core.errors import BadPath

_MOST_BYTES: Final = 4096


def normalised(base: str | os.PathLike[str], path: str) -> str:
    """The key of what ``path`` names, seen from ``base``."""
    _refuse_unprintable(path)
    if _is_plain(os.fspath(base), path):
        return path
    top = os.path.realpath(base)
    whole = os.path.realpath(os.path.join(top, path))  # noqa: PTH118 - pathlib is slow to import
    if whole == top:
        raise BadPath(path, "names the workspace itself: a lease is about a file or directory in it")
    if not whole.startswith(top if top.endswith("/") else f"{top}/"):
        raise BadPath(path, f"lies outside the workspace {top}")
    return whole[len(top) :].lstrip("/")


def _is_plain(base: str, path: str) -> bool:
    """True if the path is its own key: nothing in it to resolve. Checked first, as most are, and resolving takes
    longer."""
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return False
    at = base
    try:
        for part in parts:
            at = f"{at}/{part}"
            if stat.S_ISLNK(os.lstat(at).st_mode):
                return False
    except FileNotFoundError:  # nor is there anything below it
        return True
    except OSError:
        return False
    return True


def _refuse_unprintable(path: str) -> None:
    if not path.strip():
        raise BadPath(path, "is empty")
    if not path.isprintable():
        raise BadPath(path, "holds control characters, or is not UTF-8")
    if len(path.encode()) > _MOST_BYTES:
        raise BadPath(f"{path[:40]}…", f"is longer than {_MOST_BYTES} bytes")
