"""The table of an agent in a tmux pane: where the pane is, or how it is started, and what its screens look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from ackd.config.agents import LongLivedAgent, ReadingAgent, StartedAgent
from ackd.config.groups import differs
from ackd.core.policy import CompletesOn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ackd.config.agents import AgentComplaint
    from ackd.core.policy import AgentPolicy


class TmuxSettings(LongLivedAgent, StartedAgent, ReadingAgent):
    """``line``: None leaves the form of the line that is typed to the profile."""

    pane: str | None = None
    title: str | None = None
    profile: str = "claude"
    line: Literal["read", "path"] | None = None
    start: str | None = None

    one_at_a_time: ClassVar[bool] = True
    shows: ClassVar[bool] = True
    notices_complete_on: ClassVar[CompletesOn | None] = CompletesOn.SEEN

    def complaints(self) -> Iterator[AgentComplaint]:
        if not (self.pane or self.title or self.start):
            yield ("pane",), "endpoint tmux needs a pane, a title to find it by, or a command to start one with"
        yield from super().complaints()

    def alike(self) -> Iterator[AgentComplaint]:
        yield from super().alike()
        for key in ("pane", "title"):
            if (text := getattr(self, key)) is not None and not differs(text):
                what = f"all agents made of this template would share it: put {{agent}} or {{number}} into the {key}"
                yield (key,), what

    def made_of(self, policy: AgentPolicy, profiles: Mapping[str, Any]) -> tuple[object, ...]:
        return (*super().made_of(policy, profiles), policy.busy_timeout_s, profiles.get(self.profile))

    def _texts(self) -> Iterable[str | None]:
        return (*super()._texts(), self.pane, self.title, self.start)


SETTINGS: Final = TmuxSettings
