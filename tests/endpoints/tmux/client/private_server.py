"""A tmux server of a test's own, and its end. Nothing here touches the user's server."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackd.endpoints.tmux.client import Tmux

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60.0


@contextlib.contextmanager
def private_server() -> Iterator[Tmux]:
    """A tmux server on a socket in a short directory of its own: a test's directory is too long for a socket's path."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    directory = Path(tempfile.mkdtemp(prefix="ackd-tmux-"))
    socket = directory / "s"
    try:
        yield Tmux(socket_path=socket, config_file="/dev/null", timeout_s=PATIENCE_S)
    finally:
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False)
        shutil.rmtree(directory, ignore_errors=True)
