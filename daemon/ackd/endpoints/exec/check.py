"""Findings of `ackd check` about exec agents: is their program there, and does a command run without a daemon?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.client.agent_findings import CommandCheck
from ackd.client.findings import OK, Finding
from ackd.endpoints.exec.run_files import lock_held
from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Iterator


class ExecCheck(CommandCheck):
    def together(self) -> Iterator[Finding]:
        """Tell of commands that outlived their daemon: no fault, because the next start adopts them."""
        root = self.config.root_dir
        try:
            if root_lock.holder(root / "run") is None:
                alive = [path for path in sorted((root / "state/runs").glob("*")) if lock_held(path)]
                if alive:
                    words = f"{len(alive)} commands still run without a daemon, as {alive[0].name.partition('--')[0]}'s"
                    yield Finding(OK, "runs", words, "`ackd run`: the next start adopts them, and takes their results")
        except OSError:
            return  # another row says what cannot be read


CHECK: Final = ExecCheck
