"""Talking to one tmux server: its panes, what they show, and keys into them."""

from ackd.adapters.tmux.conditions import AmbiguousPane, NoPane, NoServer, NoTmux, TmuxFault, TmuxRefused, TmuxSilent
from ackd.adapters.tmux.occupants import LIFE_VARIABLE, Leader, Occupants
from ackd.adapters.tmux.panes import Pane, with_target, with_title
from ackd.adapters.tmux.server import Screen, Tmux, server_called

__all__ = [
    "LIFE_VARIABLE",
    "AmbiguousPane",
    "Leader",
    "NoPane",
    "NoServer",
    "NoTmux",
    "Occupants",
    "Pane",
    "Screen",
    "Tmux",
    "TmuxFault",
    "TmuxRefused",
    "TmuxSilent",
    "server_called",
    "with_target",
    "with_title",
]
