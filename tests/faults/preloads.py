"""Small C libraries that a test loads into a daemon of its own (LD_PRELOAD), made with the system's compiler.

Without a compiler the test is skipped, visibly.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler (cc) is needed")


def preload(name: str, place: Path) -> dict[str, str]:
    """The environment that loads ``name``.c, which lies beside this file, made into a library in ``place``."""
    place.mkdir(parents=True, exist_ok=True)
    source, library = Path(__file__).with_name(f"{name}.c"), place / f"{name}.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(library)}
