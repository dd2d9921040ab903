"""Findings of `ackd check` about process agents: is their program there, can its Python import what it needs, and what
did a killed daemon leave running?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.client.agent_findings import CommandCheck
from ackd.client.findings import WARN, Finding
from ackd.endpoints.process.child.leftovers import left_alive
from ackd.endpoints.process.child.python_path import with_worker_sdk
from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config.agents import CommandAgent


class ProcessCheck(CommandCheck):
    def environment(self, table: CommandAgent) -> dict[str, str]:
        """The environment with ``ackd.worker`` on its PYTHONPATH, which ackd gives to each process that it starts."""
        return with_worker_sdk(super().environment(table))

    def together(self) -> Iterator[Finding]:
        root = self.config.root_dir
        try:
            if root_lock.holder(root / "run") is None:
                for agent, pid in left_alive(root / "state/children"):
                    words = f"{agent}'s worker, pid {pid}, still runs although its daemon was killed"
                    yield Finding(WARN, "leftovers", words, f"`ackd run`: the next start ends it; or kill {pid}")
        except OSError:
            return  # another row says what cannot be read


CHECK: Final = ProcessCheck
