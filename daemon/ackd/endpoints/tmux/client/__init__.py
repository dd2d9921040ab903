"""Talks to a tmux server: lists its panes, captures what they show, and sends keys to them."""

from ackd.endpoints.tmux.client.pane_processes import LIFE_VARIABLE, Leader, PaneProcesses
from ackd.endpoints.tmux.client.panes import (
    AmbiguousPane,
    NoPane,
    NoServer,
    NoTmux,
    Pane,
    TmuxFault,
    TmuxRefused,
    TmuxSilent,
    with_target,
    with_title,
)
from ackd.endpoints.tmux.client.server import Screen, Tmux, server_called

__all__ = [
    "LIFE_VARIABLE",
    "AmbiguousPane",
    "Leader",
    "NoPane",
    "NoServer",
    "NoTmux",
    "Pane",
    "PaneProcesses",
    "Screen",
    "Tmux",
    "TmuxFault",
    "TmuxRefused",
    "TmuxSilent",
    "server_called",
    "with_target",
    "with_title",
]
