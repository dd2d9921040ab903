"""What `ackd check` finds about codex agents that share a CODEX_HOME.

Codex starts an app-server in the background, one for each CODEX_HOME, with the environment of whoever came first. Two
agents on it act under each other's name: a command of the second has the first one's ACKD_AGENT. One that ackd starts
has the feature turned off on its command line; this is for those in panes that others open, and in scripts.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.frontends.cli.surroundings import WARN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ackd.config import Agent, Config
    from ackd.dialects.screen import Profile
    from ackd.frontends.cli.agent_findings import Panes

_PROGRAM: Final = "codex"
_FEATURE: Final = "daemon_auto_start"


def findings(config: Config, panes: Panes) -> Iterator[Finding]:
    sharing: dict[Path, list[str]] = defaultdict(list)
    for name, agent in config.agents.items():
        if (home := _shared_home(config, agent, panes)) is not None:
            sharing[home].append(name)
    for home, names in sharing.items():
        if len(names) > 1:
            agents = f"{', '.join(names[:-1])} and {names[-1]}"
            said = f"{agents} share the app-server of CODEX_HOME {home}: each may act under the other's name"
            yield Finding(
                WARN, "codex", said, f"codex features disable {_FEATURE}, then start them anew; or a CODEX_HOME each"
            )


def _shared_home(config: Config, agent: Agent, panes: Panes) -> Path | None:
    """The CODEX_HOME whose app-server it uses; None if it has its own, or is no codex."""
    from ackd.config import EndpointKind
    from ackd.dialects.screen import BadProfile, load_profile

    if agent.endpoint is not EndpointKind.TMUX:
        return None
    try:
        profile = load_profile(agent.profile, config.profiles)
    except BadProfile:
        return None
    if profile.start is None or profile.start.program != _PROGRAM:
        return None
    command, environment = _how_it_runs(agent, profile, panes)
    home = _home(environment)
    return None if _FEATURE in command or _is_off(home) else home


def _how_it_runs(agent: Agent, profile: Profile, panes: Panes) -> tuple[str, Mapping[str, str]]:
    """Its command line and environment: as ackd would start it, else of what runs in its pane now."""
    from ackd.adapters.tmux import TmuxFault
    from ackd.dialects.screen import started_with

    ours = {**os.environ, **agent.env}
    if agent.start is not None:
        return started_with(agent.start, profile), ours
    with contextlib.suppress(TmuxFault, OSError):
        for pid in _session(panes.of(agent).pid):
            words = _strings(pid, "cmdline")
            if any(Path(word).name == _PROGRAM for word in words[:2]):
                pairs = (entry.partition("=") for entry in _strings(pid, "environ"))
                return " ".join(words), {name: value for name, _, value in pairs}
    return "", ours


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
