"""Findings of `ackd check` about agents in tmux panes: their profile, their pane, and codex agents that share a server.

Codex starts an app-server in the background, one for each CODEX_HOME, with the environment of whoever came first. Two
agents on it act under each other's name: a command of the second has the first one's ACKD_AGENT. Where ackd starts
codex it turns that feature off on the command line; the warning is for panes that others open, and for scripts.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from ackd.client.agent_findings import KindCheck, no_directory, program
from ackd.client.findings import FAIL, OK, WARN, Finding
from ackd.endpoints.tmux.client import AmbiguousPane, NoPane, NoTmux, TmuxFault, server_called, with_target, with_title
from ackd.endpoints.tmux.screen import BadProfile, load_profile, started_with
from ackd.endpoints.tmux.settings import TmuxSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ackd.endpoints.tmux.client import Pane
    from ackd.endpoints.tmux.screen import Profile

#: The oldest tmux that the tests have run with.
OLDEST_TMUX: Final = (3, 3)
#: Some of these programs start a whole runtime to say their version.
_VERSION_TIMEOUT_S: Final = 10.0

_CODEX: Final = "codex"
_FEATURE: Final = "daemon_auto_start"
#: Words that may stand before the program of a command line, and commands of the shell itself.
_BEFORE: Final = ("exec", "env")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_BUILT_IN: Final = ("cd", "eval", "source", ".", "export", "set", "test", "[", ":", "if", "while", "for", "{", "!")


class TmuxCheck(KindCheck):
    def agent(self, subject: str, name: str, table: TmuxSettings) -> Finding:  # noqa: ARG002 - of every name
        config = self.config
        try:
            load_profile(table.profile, config.profiles)
        except BadProfile as bad:
            return Finding(FAIL, subject, str(bad), "correct profile, or its table in [profiles]")
        if table.start is not None and (missing := no_directory(subject, config.base_dir / table.cwd)) is not None:
            return missing
        try:
            pane = self._pane_of(table)
        except NoTmux as fault:
            return Finding(FAIL, subject, str(fault), "install tmux")
        except AmbiguousPane as fault:
            return Finding(FAIL, subject, str(fault), "name its pane exactly: session:window.pane, or %id")
        except NoPane:
            return _no_pane(subject, table, config.base_dir)
        except (TmuxFault, OSError) as fault:
            return Finding(WARN, subject, str(fault), "see whether tmux answers: tmux list-panes -a")
        return Finding(OK, subject, f"pane {pane.pane_id} ({pane.target}), profile {table.profile}")

    @cached_property
    def _panes(self) -> list[Pane]:
        """All panes of the team's tmux server, asked for once. Raises TmuxFault."""
        return anyio.run(server_called(self.config.tmux_socket).panes)

    def _pane_of(self, table: TmuxSettings) -> Pane:
        """Find an agent's pane as the daemon does: by its target, then by its title. Raises TmuxFault."""
        panes = [pane for pane in self._panes if not pane.dead]
        try:
            return with_target(panes, table.pane or "")
        except NoPane:
            if table.title is None:
                raise
        return with_title(panes, table.title)

    def together(self) -> Iterator[Finding]:
        yield from self._tmux()
        yield from self._programs()
        yield from self._shared_servers()

    def _tmux(self) -> Iterator[Finding]:
        """Say which tmux it is, and whether its server answers."""
        said = _first_line_of("tmux", "-V")
        if said is None:
            return  # each agent's row says that there is none
        named = self.config.tmux_socket
        where = f"socket {named}" if named else "its usual socket"
        try:
            words = f"{said}, {where}, {len(self._panes)} panes"
        except (TmuxFault, OSError) as fault:
            words = f"{said}, {where}: no server now ({fault})"
        number = re.search(r"(\d+)\.(\d+)", said)
        if number is not None and (int(number[1]), int(number[2])) < OLDEST_TMUX:
            oldest = ".".join(map(str, OLDEST_TMUX))
            yield Finding(WARN, "tmux", words, f"install tmux {oldest} or newer: with that ackd is tested")
        else:
            yield Finding(OK, "tmux", words)

    def _programs(self) -> Iterator[Finding]:
        """Compare the agents' programs with those that their profiles were made with: another version may look
        otherwise, and what it shows is then misread. Each program is asked once."""
        asked: set[tuple[str, str]] = set()
        for table in self.config.agents.values():
            if not isinstance(table, TmuxSettings):
                continue
            with contextlib.suppress(BadProfile):
                profile = load_profile(table.profile, self.config.profiles)
                program, _, known = profile.cli.partition(" ")
                path = table.env.get("PATH", os.environ.get("PATH"))
                found = shutil.which(program, path=path) if known else None
                if found is not None and (found, known) not in asked:
                    asked.add((found, known))
                    yield _compared(program, found, known, table.profile)

    # --- codex agents that share an app-server
    def _shared_servers(self) -> Iterator[Finding]:
        sharing: dict[Path, list[str]] = defaultdict(list)
        for name, table in self.config.agents.items():
            if isinstance(table, TmuxSettings) and (home := self._shared_home(table)) is not None:
                sharing[home].append(name)
        for home, names in sharing.items():
            if len(names) > 1:
                agents = f"{', '.join(names[:-1])} and {names[-1]}"
                said = f"{agents} share the app-server of CODEX_HOME {home}: each may act under the other's name"
                mend = f"codex features disable {_FEATURE}, then start them anew; or a CODEX_HOME each"
                yield Finding(WARN, "codex", said, mend)

    def _shared_home(self, table: TmuxSettings) -> Path | None:
        """The CODEX_HOME whose app-server an agent uses; None if it has its own, or is no codex."""
        try:
            profile = load_profile(table.profile, self.config.profiles)
        except BadProfile:
            return None
        if profile.start is None or profile.start.program != _CODEX:
            return None
        command, environment = self._how_it_runs(table, profile)
        home = _home(environment)
        return None if _FEATURE in command or _is_off(home) else home

    def _how_it_runs(self, table: TmuxSettings, profile: Profile) -> tuple[str, Mapping[str, str]]:
        """The command line and environment of an agent: as ackd would start it, else of what runs in its pane now."""
        ours = {**os.environ, **table.env}
        if table.start is not None:
            return started_with(table.start, profile), ours
        with contextlib.suppress(TmuxFault, OSError):
            for pid in _session(self._pane_of(table).pid):
                words = _strings(pid, "cmdline")
                if any(Path(word).name == _CODEX for word in words[:2]):
                    pairs = (entry.partition("=") for entry in _strings(pid, "environ"))
                    return " ".join(words), {name: value for name, _, value in pairs}
        return "", ours


CHECK: Final = TmuxCheck


def _compared(program: str, path: str, known: str, profile: str) -> Finding:
    said = _first_line_of(path, "--version")
    number = re.search(r"\d+(?:\.\d+)+", said or "")
    if number is None:
        words = f"{path} --version does not say which version it is within {_VERSION_TIMEOUT_S:g} s"
        return Finding(
            WARN, program, words, f"see by hand whether it is {known}, which profile {profile} was made with"
        )
    words = f"{path} is {number[0]}, and profile {profile} was made with {known}"
    if number[0] == known:
        return Finding(OK, program, words)
    mend = f"nothing, if its agents are told and read; else a profile of your own: `ackd profile show {profile}`"
    same_series = number[0].split(".")[:2] == known.split(".")[:2]
    return Finding(OK if same_series else WARN, program, words, mend)


def _first_line_of(*command: str) -> str | None:
    """Return the first line that a program prints; None if it cannot be run, fails, or takes too long."""
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = ended.stdout.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else None


def _no_pane(subject: str, table: TmuxSettings, base_dir: Path) -> Finding:
    if table.start is not None:
        name = program_of(table.start)
        path = table.env.get("PATH", os.environ.get("PATH"))
        # A warning, because the shell of the pane may have another PATH than we have.
        found = program(subject, name, base_dir / table.cwd, path, WARN) if name is not None else None
        if found is not None and found.level != OK:
            return found._replace(mend="install the program, or correct start")
        return Finding(OK, subject, f"ackd starts it in a pane: {table.start}, profile {table.profile}")
    wanted = " or ".join(filter(None, [table.pane, f"titled {table.title!r}" if table.title else ""]))
    return Finding(WARN, subject, f"no pane {wanted} now", "open it, or give start, the command that opens it")


def program_of(start: str) -> str | None:
    """Return the program that a shell would run for ``start``; None where only a shell can tell."""
    if any(char in start for char in "|&;<>()$`*?[#~\n"):
        return None
    try:
        words = shlex.split(start)
    except ValueError:
        return None
    words = [word for word in words if word not in _BEFORE]
    first = next((word for word in words if not _ASSIGNMENT.match(word)), None)
    return None if first is None or first in _BUILT_IN or first.startswith("-") else first


def _session(leader: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if stat.read_text(errors="replace").rpartition(")")[2].split()[3] == str(leader):
                found.append(int(stat.parent.name))
    return sorted(found)


def _strings(pid: int, file: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [os.fsdecode(one) for one in Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0") if one]
    return []


def _home(environment: Mapping[str, str]) -> Path:
    told = environment.get("CODEX_HOME") or os.path.join(environment.get("HOME", "/"), ".codex")  # noqa: PTH118
    return Path(os.path.realpath(told))


def _is_off(home: Path) -> bool:
    try:
        said = tomllib.loads((home / "config.toml").read_text())
    except (OSError, ValueError):
        return False
    features = said.get("features")
    return isinstance(features, dict) and features.get(_FEATURE) is False
