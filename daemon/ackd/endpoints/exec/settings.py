"""The table of an exec agent: a command, started once for every message."""

from __future__ import annotations

from typing import ClassVar, Final

from ackd.config.agents import CommandAgent


class ExecSettings(CommandAgent):
    one_at_a_time: ClassVar[bool] = True
    volatile: ClassVar[bool] = True
    suggested_by: ClassVar[frozenset[str]] = frozenset({"command"})


SETTINGS: Final = ExecSettings
