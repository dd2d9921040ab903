"""Findings of a check about each agent of the config: could it be told, if the daemon ran now?

Each kind of endpoint answers for its own agents (``endpoints/<kind>/check.py``, a ``KindCheck``). Nothing is changed or
started. A program that is missing fails; a pane that is missing is a warning, for it may come, and ackd finds it then.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from ackd.client.surroundings import FAIL, OK, Finding
from ackd.endpoints import registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.config.agents import CommandAgent
    from ackd.config.model import Config


class KindCheck:
    """Finds what is wrong with agents of one kind of endpoint."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def agent(self, subject: str, name: str, table: Any) -> Finding:
        """The finding about one agent; ``table`` is of the kind's own settings."""
        raise NotImplementedError

    def together(self) -> Iterator[Finding]:
        """Findings about several agents of this kind, after those about each."""
        yield from ()


def findings(config: Config) -> Iterator[Finding]:
    checks: dict[str, KindCheck] = {}
    for name, table in (
        *config.agents.items(),
        *(pair for own in config.own_agents for pair in own.templates().items()),
    ):
        if table.endpoint not in checks:
            checks[table.endpoint] = registry.part(table.endpoint, "check").CHECK(config)
        yield checks[table.endpoint].agent(f"agent {name}", name, table)
    for check in checks.values():
        yield from check.together()


# --- programs ---------------------------------------------------------------------------------------------------------
class CommandCheck(KindCheck):
    """Looks for the program of agents that have a command."""

    def agent(self, subject: str, name: str, table: CommandAgent) -> Finding:  # noqa: ARG002 - of every name
        cwd = self.config.base_dir / table.cwd
        if (missing := no_directory(subject, cwd)) is not None:
            return missing
        path = table.env.get("PATH", os.environ.get("PATH"))
        return program(subject, table.command[0], cwd, path, FAIL)


def no_directory(subject: str, cwd: Path) -> Finding | None:
    if os.path.isdir(cwd):  # noqa: PTH112 - Path.is_dir raises where nobody may look
        return None
    return Finding(FAIL, subject, f"cwd {cwd} is not a directory", "make it, or correct cwd")


def program(subject: str, name: str, cwd: Path, search_path: str | None, level: str) -> Finding:
    """Look for a program as the kernel will: a name with a slash from the directory it runs in, others by PATH."""
    found = shutil.which(str(cwd / name)) if "/" in name else shutil.which(name, path=search_path)
    if found is not None:
        return Finding(OK, subject, f"runs {found}")
    if "/" in name and (cwd / name).is_file():
        return Finding(level, subject, f"{cwd / name} is not executable", f"chmod +x {cwd / name}")
    place = f"{cwd / name} is not there" if "/" in name else f"{name} is not in PATH"
    return Finding(level, subject, place, "correct command, or install the program")
