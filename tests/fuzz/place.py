"""A small team on disk for one run, and the proof that the run stayed within it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Nothing is flushed: a power cut is not what is tested, and a thousand runs a minute are wanted.
CONFIG: Final = """\
extra_types = ["code_review"]

[agents.leader]
[agents.worker]

[delivery]
durability = "process"
dedup_window_s = 3600

[watch]
mode = "polling"
settle_s = 0
"""
BOXES: Final = ("leader", "worker")


@dataclass(frozen=True)
class Place:
    """``home`` holds ackd.toml and what the test puts there; everything else is below its .ackd."""

    home: Path

    @property
    def root(self) -> Path:
        return self.home / ".ackd"

    def put(self, path: str, data: bytes) -> Path:
        """A file below the root; what ends in ``.mime`` may lie anywhere in the spool."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_bytes(data)
        return file


@contextlib.contextmanager
def place(config: bytes = CONFIG.encode()) -> Iterator[Place]:
    """Stands in ``home`` while it lasts. Whatever is made beside ``home``, or in it beside .ackd, is a finding."""
    above = Path(tempfile.mkdtemp(prefix="ackd-fuzz-"))
    try:
        home = above / "a" / "b" / "home"
        home.mkdir(parents=True)
        (home / "ackd.toml").write_bytes(config)
        for box in BOXES:
            (home / ".ackd" / "queue" / box / "processed").mkdir(parents=True)
        with contextlib.chdir(home):
            given = Place(home)
            yield given
        assert _stray(above) == set(), "files were made outside the root"
    finally:
        shutil.rmtree(above, ignore_errors=True)


@contextlib.contextmanager
def serving(at: Place) -> Iterator[None]:
    """The root is held, as by a daemon: what such a one left in run/ is believed."""
    lock = root_lock.hold(at.root / "run")
    try:
        yield
    finally:
        lock.release()


def _stray(above: Path) -> set[str]:
    """Inputs of a test are named ``input…``."""
    home = above / "a" / "b" / "home"
    beside = {str(path) for path in above.rglob("*") if not path.is_relative_to(home) and path not in home.parents}
    inside = {path.name for path in home.iterdir() if path.name not in (".ackd", "ackd.toml")}
    return beside | {name for name in inside if not name.startswith("input")}
