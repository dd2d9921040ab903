"""Where one agent's work stands, between what its worker says and what is kept.

The store is adapters/checkpoints; here its objects become the worker's language and back. Refuses to know what stands
in one. Fails with OSError or ``CheckpointTooLarge`` when it cannot be kept; one that cannot be read is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.core.errors import BadLine
from ackd.dialects import worker_json

if TYPE_CHECKING:
    from ackd.adapters import checkpoints
    from ackd.dialects.worker_json import Checkpoint


@dataclass(frozen=True, slots=True)
class Checkpoints:
    store: checkpoints.Checkpoints
    agent: str

    async def keep(self, message_id: str, checkpoint: Checkpoint) -> None:
        await self.store.keep(self.agent, message_id, checkpoint.value())

    def read(self, message_id: str) -> Checkpoint | None:
        kept = self.store.read(self.agent, message_id)
        if kept is None:
            return None
        try:
            return worker_json.checkpoint(kept)
        except BadLine:
            return None
