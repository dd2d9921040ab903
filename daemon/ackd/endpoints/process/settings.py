"""The table of a process agent: a command, started once and kept alive."""

from __future__ import annotations

from typing import ClassVar, Final

from ackd.config.agents import CommandAgent, LongLivedAgent


class ProcessSettings(CommandAgent, LongLivedAgent):
    one_at_a_time: ClassVar[bool] = True
    volatile: ClassVar[bool] = True
    restarts: ClassVar[bool] = True


SETTINGS: Final = ProcessSettings
