"""Permissions mean nothing to root: for tests of what we may not read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY: Final = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@contextlib.contextmanager
def nobodys_directory() -> Iterator[Path]:
    """Inside, this process is nobody, if it may be; in a directory that is nobody's and not below root's own."""
    as_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as made:
        if as_root:
            os.chown(made, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(made)
        finally:
            if as_root:
                os.seteuid(0)
