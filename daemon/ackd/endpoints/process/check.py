"""Findings of `ackd check` about process agents: is their program there, and can its Python import what it needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.client.agent_findings import CommandCheck
from ackd.endpoints.process.child.python_path import with_worker_sdk

if TYPE_CHECKING:
    from ackd.config.agents import CommandAgent


class ProcessCheck(CommandCheck):
    def environment(self, table: CommandAgent) -> dict[str, str]:
        """The environment with ``ackd.worker`` on its PYTHONPATH, which ackd gives to each process that it starts."""
        return with_worker_sdk(super().environment(table))


CHECK: Final = ProcessCheck
