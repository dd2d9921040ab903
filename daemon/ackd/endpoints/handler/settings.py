"""The table of an agent that is a Python function inside the daemon."""

from __future__ import annotations

from typing import ClassVar, Final

from ackd.config.agents import AgentSettings


class HandlerSettings(AgentSettings):
    """``handler``: the entry point in the group ackd.handlers; None: the agent's own name."""

    handler: str | None = None

    volatile: ClassVar[bool] = True
    unwatched: ClassVar[bool] = True


SETTINGS: Final = HandlerSettings
