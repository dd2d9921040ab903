"""`ackd agent attach` for agents in tmux panes: tmux opens the pane, in the place of our own process.

The daemon's status says which pane it is, else the config. Exits 66 for a pane that is not there, or without tmux.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackd.cli.errors import NOT_FOUND, Failure
from ackd.cli.output import print_json
from ackd.client.status import status
from ackd.config.model import load_site

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.config.site import Site

_WHERE: Final = "#{session_id}:#{window_index}.#{pane_index}"
_TMUX_ANSWERS_S: Final = 10


def attach(site: Site, agent: str, *, as_json: bool) -> None:
    program = shutil.which("tmux")
    if program is None:
        raise Failure(NOT_FOUND, "there is no tmux on this machine (PATH)")
    tmux = [program, *_server(site)]
    known = status(site).agents.get(agent)
    said = known.details if known is not None else {}
    place = _place(tmux, _targets(site, agent, said))
    if place is None:
        hint = f"`ackd agent list {agent}` says how it stands"
        raise Failure(NOT_FOUND, f"{agent} has no pane now: {hint}", hint)
    inside = bool(os.environ.get("TMUX"))
    command = [*tmux, *(("switch-client",) if inside else ("attach-session",)), "-t", place]
    if as_json:
        print_json({"agent": agent, "endpoint": "tmux", "command": command})
        return
    sys.stdout.flush()
    os.execv(program, command)  # noqa: S606 - no shell; the words are ours and tmux's


def _server(site: Site) -> list[str]:
    socket = load_site(site).tmux_socket
    return [] if not socket else ["-S" if "/" in socket else "-L", socket]


class Target(NamedTuple):
    """A place where a pane may be. ``kind``: "id", "pane" (what tmux calls a target) or "title"."""

    kind: str
    name: str


def _targets(site: Site, agent: str, said: Mapping[str, Any]) -> list[Target]:
    """The pane as the daemon found it, else as the config names it."""
    found = re.search(r"%\d{1,9}\b", str(said.get("detail", "")))
    table = site.agents.get(agent, {})
    named = [Target(kind, str(table[kind])) for kind in ("pane", "title") if table.get(kind)]
    return [*([Target("id", found[0])] if found else []), *named]


def _place(tmux: list[str], targets: list[Target]) -> str | None:
    """Session, window and number of the first target that is there: tmux cannot attach to the mere id of a pane."""
    shape = f"#{{pane_id}}\t{_WHERE}\t#{{pane_title}}"
    listed = [line.split("\t", 2) for line in _asked(tmux, "list-panes", "-a", "-F", shape)]
    panes = [ListedPane(*words) for words in listed if len(words) == 3]
    places = (place for target in targets for place in _found(tmux, panes, target))
    return next(places, None)


def _found(tmux: list[str], panes: list[ListedPane], target: Target) -> list[str]:
    match target.kind:
        case "id":
            return [pane.place for pane in panes if pane.pane_id == target.name]
        case "title":
            return [pane.place for pane in panes if pane.title == target.name]
        case _:
            answer = _asked(tmux, "display-message", "-p", "-t", target.name, _WHERE)
            return [pane.place for pane in panes if [pane.place] == answer]


class ListedPane(NamedTuple):
    pane_id: str
    place: str
    title: str


def _asked(tmux: list[str], *words: str) -> list[str]:
    try:
        done = subprocess.run(
            [*tmux, *words], capture_output=True, text=True, errors="replace", timeout=_TMUX_ANSWERS_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failure(NOT_FOUND, "tmux does not answer") from None
    return done.stdout.splitlines() if done.returncode == 0 else []
