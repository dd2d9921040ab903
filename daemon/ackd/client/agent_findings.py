"""Findings of a check about each agent of the config: could it be told, if the daemon ran now?

Each kind of endpoint answers for its own agents (``endpoints/<kind>/check.py``, a ``KindCheck``). Nothing is changed or
started. A program that is missing fails; a script or a pane that is missing is a warning, for it may come, and ackd
finds it then.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

from ackd.client.surroundings import FAIL, OK, WARN, Finding
from ackd.endpoints import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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


# --- scripts ----------------------------------------------------------------------------------------------------------
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
#: Options of Python that stand for the program; what follows is no script.
_NO_SCRIPT: Final = ("-c", "-m", "-")
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?)?")
_IMPORTS: Final = re.compile(r"^[ \t]*(?:from|import)[ \t]+(ackd(?:\.[a-z_]+)*)\b", re.MULTILINE)
_MOST_SCRIPT_BYTES: Final = 262_144
_IMPORT_TIMEOUT_S: Final = 10.0
#: A script finds modules beside itself, and not in the working directory.
_IMPORT: Final = "import importlib, sys; sys.path[0] = sys.argv[1]; [importlib.import_module(n) for n in sys.argv[2:]]"


def python_script(command: Sequence[str]) -> tuple[list[str], str] | None:
    """Take a command like ``python3 -u worker.py`` apart: Python's own options, and the script. None for another."""
    if not _PYTHON.fullmatch(os.path.basename(command[0])):  # noqa: PTH119 - a word of a command line
        return None
    options: list[str] = []
    for word in command[1:]:
        if word.startswith(_NO_SCRIPT[:2]) or word == _NO_SCRIPT[2]:
            return None
        if not word.startswith("-"):
            return options, word
        options.append(word)
    return None


def missing_script(command: Sequence[str], cwd: Path, search_path: str | None) -> Path | None:
    """Name the script of a command like ``sh worker.sh`` or ``python3 worker.py`` that is not there; None if it is."""
    if (python := python_script(command)) is not None:
        name = python[1]
    elif os.path.basename(command[0]) in _SHELLS and command[1:] and not command[1].startswith(("-", "+")):  # noqa: PTH119
        name = command[1]
        if "/" not in name and shutil.which(name, mode=os.R_OK, path=search_path) is not None:
            return None  # a shell looks there, too
    else:
        return None
    return None if os.path.exists(cwd / name) else cwd / name  # noqa: PTH110 - Path.exists raises where nobody may look


def ackd_modules(script: Path) -> list[str]:
    """List the modules of ackd that a script imports, as far as its text says so."""
    try:
        with script.open("rb") as file:
            text = file.read(_MOST_SCRIPT_BYTES).decode(errors="replace")
    except OSError:
        return []
    return sorted(set(_IMPORTS.findall(text)))


def _import_failure(
    python: list[str], modules: list[str], beside: Path, cwd: Path, environment: dict[str, str]
) -> str | None:
    """Say why this Python cannot import the modules; None if it can, or if it does not answer."""
    import subprocess

    command = [*python, "-c", _IMPORT, str(beside), *modules]
    try:
        ended = subprocess.run(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_IMPORT_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if ended.returncode == 0:
        return None
    said = ended.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"exit status {ended.returncode}"


# --- programs ---------------------------------------------------------------------------------------------------------
class CommandCheck(KindCheck):
    """Looks for the program of agents that have a command."""

    def agent(self, subject: str, name: str, table: CommandAgent) -> Finding:  # noqa: ARG002 - of every name
        cwd = self.config.base_dir / table.cwd
        if (missing := no_directory(subject, cwd)) is not None:
            return missing
        path = table.env.get("PATH", os.environ.get("PATH"))
        found = program(subject, table.command[0], cwd, path, FAIL)
        if found.level != OK:
            return found
        if (script := missing_script(table.command, cwd, path)) is not None:
            return Finding(WARN, subject, f"{script} is not there", "write it, or correct command")
        return self._cannot_import(subject, table, cwd, path) or found

    def _cannot_import(self, subject: str, table: CommandAgent, cwd: Path, path: str | None) -> Finding | None:
        """Run the Python of a script that imports ackd, to see whether it can: ackd may be installed for another."""
        script = python_script(table.command)
        if script is None:
            return None
        options, name = script
        modules = ackd_modules(cwd / name)
        if not modules:
            return None
        python = str(cwd / table.command[0]) if "/" in table.command[0] else shutil.which(table.command[0], path=path)
        why = _import_failure([str(python), *options], modules, (cwd / name).parent, cwd, self.environment(table))
        if why is None:
            return None
        words = f"{python} cannot import {', '.join(modules)}, which {name} needs: {why}"
        return Finding(FAIL, subject, words, "install ackd for that Python, or name one that has it in command")

    def environment(self, table: CommandAgent) -> dict[str, str]:
        """The environment that the agent's command is started with, as far as it matters to an import."""
        return {**os.environ, **table.env}


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
