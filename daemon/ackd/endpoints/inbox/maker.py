"""Makes the endpoints of inbox agents, which need nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.endpoints.inbox.endpoint import InboxEndpoint
from ackd.endpoints.making import EndpointMaker

if TYPE_CHECKING:
    from ackd.endpoints.inbox.settings import InboxSettings


class InboxMaker(EndpointMaker):
    def make(self, agent: str, table: InboxSettings) -> InboxEndpoint:  # noqa: ARG002 - all inboxes are alike
        return InboxEndpoint()


MAKER: Final = InboxMaker
