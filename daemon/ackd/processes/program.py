"""The program that an agent's command names, as a child of ours would find it.

Refuses to start anything. Fails with ``NoProgramError``, whose text says what is missing: it is asked before each
start, since a program may be reinstalled at any time, and after a run whose shell could not run it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class NoProgramError(Exception):
    """There is nothing to run; the text says what is missing."""


def find_program(name: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Its absolute path. Raises NoProgramError."""
    if not cwd.is_dir():
        raise NoProgramError(f"no working directory {cwd}")
    search = env.get("PATH", os.environ.get("PATH", os.defpath))
    named = shutil.which(cwd.absolute() / name) if "/" in name else shutil.which(name, path=search)
    if named is None:
        raise NoProgramError(f"no program {name}" + ("" if "/" in name else " in PATH"))
    interpreter = _interpreter(named)
    if interpreter and not os.access(cwd / interpreter, os.X_OK):
        raise NoProgramError(f"no interpreter {interpreter} for {name}")
    return os.path.abspath(named)  # noqa: PTH100 - resolve() would follow links, and some programs live by their name


def _interpreter(program: str) -> str | None:
    """What a script's first line names. A shell calls the script itself "not found" when only that is missing."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return None  # may be run, may not be read
    words = line[2:].split()
    return os.fsdecode(words[0]) if line.startswith(b"#!") and words else None
