"""Findings of `ackd check` about handler agents: is their handler installed?"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from ackd.client.agent_findings import KindCheck
from ackd.client.findings import FAIL, OK, Finding

if TYPE_CHECKING:
    from ackd.endpoints.handler.settings import HandlerSettings

#: Handlers that ackd has inside itself.
BUILT_IN: Final = frozenset({"system", "queue_monitor"})


class HandlerCheck(KindCheck):
    def agent(self, subject: str, name: str, table: HandlerSettings) -> Finding:
        handler = table.handler or name
        if handler in BUILT_IN or entry_points(group="ackd.handlers", name=handler):
            return Finding(OK, subject, f"handler {handler}")
        mend = "install the package that has it, or correct handler"
        return Finding(FAIL, subject, f"no entry point {handler!r} in group ackd.handlers", mend)


CHECK: Final = HandlerCheck
