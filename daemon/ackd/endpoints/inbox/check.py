"""Findings of `ackd check` about inbox agents: all is well with each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.client.agent_findings import KindCheck
from ackd.client.findings import OK, Finding

if TYPE_CHECKING:
    from ackd.endpoints.inbox.settings import InboxSettings


class InboxCheck(KindCheck):
    def agent(self, subject: str, name: str, table: InboxSettings) -> Finding:  # noqa: ARG002 - nothing can be wrong
        return Finding(OK, subject, "reads its mail itself")


CHECK: Final = InboxCheck
