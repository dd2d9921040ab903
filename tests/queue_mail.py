"""The mail that lies in an agent's queue, read while a daemon moves it about.

A file that is claimed during a look is met in both directories, or in neither. So a look counts only if nothing was
moved while it lasted: the same files before and after, and each could be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: A daemon moves each message a few times in all; no test has so many in one queue.
_LOOKS = 1000


def queue_mail(root: Path, agent: str, kind: str = "*") -> dict[Path, str]:
    """Every message of this kind in the agent's queue, waiting or in hand, and its text; by name, so in order of time."""
    place = root / "queue" / agent
    for _ in range(_LOOKS):
        before = _files(place, kind)
        try:
            texts = {path: path.read_text() for path in before}
        except FileNotFoundError:  # it was moved between the look and the reading
            continue
        if _files(place, kind) == before:
            return texts
    raise AssertionError(f"{place} never kept still")


def _files(place: Path, kind: str) -> list[Path]:
    return sorted(place.rglob(f"{kind if kind != '*' else '[!.]*'}_*.mime"), key=lambda path: path.name)
