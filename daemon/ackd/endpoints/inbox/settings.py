"""The table of an agent that fetches its mail by itself."""

from __future__ import annotations

from typing import ClassVar, Final

from ackd.config.agents import ReadingAgent


class InboxSettings(ReadingAgent):
    reminds: ClassVar[bool] = True


SETTINGS: Final = InboxSettings
