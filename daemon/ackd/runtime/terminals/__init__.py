"""Agents that live in a pane of tmux: how they are told, watched, woken, and started."""

from ackd.runtime.terminals.endpoint import TerminalEndpoint
from ackd.runtime.terminals.started_pane import StartedPane

__all__ = ["StartedPane", "TerminalEndpoint"]
