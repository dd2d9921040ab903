"""What `ackd check` finds about each agent of the config: could it be told, if the daemon ran now?

Owns the question for every kind of endpoint: its program, its handler, its pane and its profile. Changes and starts
nothing. A pane that is not there is a warning, for it may come, and ackd finds it then; what no waiting mends fails.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final, assert_never

from ackd.frontends.cli import codex_findings
from ackd.frontends.cli.surroundings import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.adapters.tmux import Pane
    from ackd.config import Agent, Config

#: Handlers that live in ackd itself.
BUILT_IN_HANDLERS: Final = frozenset({"system", "queue_monitor"})


def findings(config: Config) -> Iterator[Finding]:
    panes = Panes(config)
    for name, agent in config.agents.items():
        yield from _agent(config, name, agent, panes)
    if (worker := config.stage_worker()) is not None:
        yield from _agent(config, "of the pipeline", worker, panes)
    yield from codex_findings.findings(config, panes)


def _agent(config: Config, name: str, agent: Agent, panes: Panes) -> Iterator[Finding]:
    from ackd.config import EndpointKind

    subject, kind = f"agent {name}", agent.endpoint
    match kind:
        case EndpointKind.EXEC | EndpointKind.PROCESS:
            yield _command(config, subject, agent)
        case EndpointKind.HANDLER:
            yield _handler(subject, agent.handler or name)
        case EndpointKind.TMUX:
            yield _terminal(config, subject, agent, panes)
        case EndpointKind.INBOX:
            yield Finding(OK, subject, "reads its mail itself")
        case _:
            assert_never(kind)


# --- commands ---------------------------------------------------------------------------------------------------------
def _command(config: Config, subject: str, agent: Agent) -> Finding:
    cwd = config.base_dir / agent.cwd
    if (missing := _no_directory(subject, cwd)) is not None:
        return missing
    path = agent.env.get("PATH", os.environ.get("PATH"))
    return program(subject, agent.command[0], cwd, path, FAIL)


def _no_directory(subject: str, cwd: Path) -> Finding | None:
    if os.path.isdir(cwd):  # noqa: PTH112 - Path.is_dir raises where nobody may look
        return None
    return Finding(FAIL, subject, f"cwd {cwd} is not a directory", "make it, or correct cwd")


def program(subject: str, name: str, cwd: Path, search_path: str | None, level: str) -> Finding:
    """A name with a slash is meant from the directory it runs in, as the kernel will take it; others from PATH."""
    found = shutil.which(str(cwd / name)) if "/" in name else shutil.which(name, path=search_path)
    if found is not None:
        return Finding(OK, subject, f"runs {found}")
    if "/" in name and (cwd / name).is_file():
        return Finding(level, subject, f"{cwd / name} is not executable", f"chmod +x {cwd / name}")
    place = f"{cwd / name} is not there" if "/" in name else f"{name} is not in PATH"
    return Finding(level, subject, place, "correct command, or install the program")


def _handler(subject: str, name: str) -> Finding:
    from importlib.metadata import entry_points

    if name in BUILT_IN_HANDLERS or entry_points(group="ackd.handlers", name=name):
        return Finding(OK, subject, f"handler {name}")
    mend = "install the package that has it, or correct handler"
    return Finding(FAIL, subject, f"no entry point {name!r} in group ackd.handlers", mend)


# --- terminals --------------------------------------------------------------------------------------------------------
class Panes:
    """All panes of the team's tmux server, asked for once, and only if an agent lives in one."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._found: list[Pane] | None = None

    def all(self) -> list[Pane]:
        """Raises TmuxFault."""
        import anyio

        from ackd.adapters.tmux import server_called

        if self._found is None:
            self._found = anyio.run(server_called(self._config.tmux_socket).panes)
        return self._found

    def of(self, agent: Agent) -> Pane:
        """As the daemon looks for it: by its target, then by its title. Raises TmuxFault."""
        from ackd.adapters.tmux import NoPane, with_target, with_title

        panes = [pane for pane in self.all() if not pane.dead]
        try:
            return with_target(panes, agent.pane or "")
        except NoPane:
            if agent.title is None:
                raise
        return with_title(panes, agent.title)


def _terminal(config: Config, subject: str, agent: Agent, panes: Panes) -> Finding:
    from ackd.adapters.tmux import AmbiguousPane, NoPane, NoTmux, TmuxFault
    from ackd.dialects.screen import BadProfile, load_profile

    try:
        load_profile(agent.profile, config.profiles)
    except BadProfile as bad:
        return Finding(FAIL, subject, str(bad), "correct profile, or its table in [profiles]")
    if agent.start is not None and (missing := _no_directory(subject, config.base_dir / agent.cwd)) is not None:
        return missing
    try:
        pane = panes.of(agent)
    except NoTmux as fault:
        return Finding(FAIL, subject, str(fault), "install tmux")
    except AmbiguousPane as fault:
        return Finding(FAIL, subject, str(fault), "name its pane exactly: session:window.pane, or %id")
    except NoPane:
        return _no_pane(subject, agent)
    except (TmuxFault, OSError) as fault:
        return Finding(WARN, subject, str(fault), "see whether tmux answers: tmux list-panes -a")
    return Finding(OK, subject, f"pane {pane.pane_id} ({pane.target}), profile {agent.profile}")


def _no_pane(subject: str, agent: Agent) -> Finding:
    if agent.start is not None:
        return Finding(OK, subject, f"ackd starts it in a pane: {agent.start}, profile {agent.profile}")
    wanted = " or ".join(filter(None, [agent.pane, f"titled {agent.title!r}" if agent.title else ""]))
    return Finding(WARN, subject, f"no pane {wanted} now", "open it, or give start, the command that opens it")
