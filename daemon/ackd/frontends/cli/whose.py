"""Whose command this is, when it does not say: the agent that ACKD_AGENT names, else the one in whose pane it is typed.

A pane that the daemon found, instead of opening it, has no ACKD_AGENT, but it carries the daemon's mark, which names
the team and the agent. tmux is asked only inside of tmux. Refuses to know who there is (site.py), and never fails:
whoever cannot be told is nobody.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ackd.site import Site

#: As adapters.tmux has it, whose import costs more than the question.
MARK: Final = "@ackd_agent"
_PATIENCE_S: Final = 2.0


def agent_here(site: Site) -> str | None:
    return os.environ.get("ACKD_AGENT") or _of_this_pane(site)


def _of_this_pane(site: Site) -> str | None:
    socket, pane = os.environ.get("TMUX", "").partition(",")[0], os.environ.get("TMUX_PANE", "")
    if not socket or not pane.startswith("%"):
        return None
    team, _, agent = _asked(socket, pane).rpartition(":")
    return agent if agent and team == str(site.root.absolute()) else None


def _asked(socket: str, pane: str) -> str:
    import subprocess

    command = ["tmux", "-S", socket, "display-message", "-p", "-t", pane, f"#{{{MARK}}}"]
    try:
        said = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.decode(errors="replace").strip()
