"""What lies in the queues of the lead and of its workers, by a look at the disk: hints and the engine may be behind.

Owns two questions: does mail of this worker wait for the lead, and what was written to a worker and is still open. What
cannot be read is neither; a queue that is not there holds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.core.errors import BadBody, BadMessage
from ackd.core.message_files import is_message_file
from ackd.core.names import identity
from ackd.core.stage_words import LEAD
from ackd.dialects import ignite, yaml_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.adapters.spool import Spool


@dataclass(frozen=True)
class Boxes:
    spool: Spool
    box: Callable[[str], str]

    def unheard(self, worker: str) -> bool:
        """Mail of this worker that the lead has not done with. Who has ended wrote what it wrote before that."""
        senders = (ignite.split(data).fields.get("from", "") for data in self._files(LEAD))
        return any(identity(sender) == identity(worker) for sender in senders)

    def open_mail(self, worker: str, generation: int) -> list[str]:
        """The ids of what was written to this generation of it."""
        found = []
        for data in self._files(worker):
            raw = ignite.split(data)
            if _generation(raw.body.decode(errors="replace")) == generation:
                found.append(ignite.bare_id(raw.fields.get("message-id", "")))
        return found

    def _files(self, agent: str) -> Iterator[bytes]:
        try:
            places = [place for place, _ in self.spool.scan(self.box(agent)) if is_message_file(place.name)]
        except FileNotFoundError:
            return
        for place in places:
            try:
                data = self.spool.read(place).data
                ignite.split(data)
            except (FileNotFoundError, BadMessage):
                continue
            yield data


def _generation(body: str) -> int | None:
    try:
        loaded = yaml_body.load(body)
    except BadBody:
        return None
    found = loaded.get("generation") if isinstance(loaded, dict) else None
    return found if isinstance(found, int) else None
