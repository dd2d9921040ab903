"""What the kernel says of a process, for tests: whether it lives."""

from __future__ import annotations

from pathlib import Path


def process_state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def is_gone(pid: int) -> bool:
    """Dead and reaped by someone, or a zombie whose parent is not us."""
    return process_state(pid) in {None, "Z"}
