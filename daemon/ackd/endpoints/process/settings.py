"""The table of a process agent: a command, started once and kept alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from ackd.config.agents import CommandAgent, LongLivedAgent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.policy import AgentPolicy


class ProcessSettings(CommandAgent, LongLivedAgent):
    one_at_a_time: ClassVar[bool] = True
    volatile: ClassVar[bool] = True
    restarts: ClassVar[bool] = True

    def made_of(self, policy: AgentPolicy, profiles: Mapping[str, Any]) -> tuple[object, ...]:
        return (*super().made_of(policy, profiles), policy.context_threshold)


SETTINGS: Final = ProcessSettings
