"""The queues of the lead and of its workers, as they are on disk: hints and the engine may be behind.

Messages that cannot be read are passed over, and a queue that does not exist is empty.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.coordination.pipeline.rules.record import BadStoryRecord
from ackd.coordination.pipeline.rules.stage_names import LEAD, whose_worker
from ackd.coordination.pipeline.rules.story import ENDS
from ackd.core.errors import BadBody, BadMessage
from ackd.core.message_files import is_message_file
from ackd.core.names import identity
from ackd.formats import ignite, yaml_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.config.site import Site
    from ackd.coordination.pipeline.files import StoryFiles
    from ackd.storage.spool import Spool


@dataclass(frozen=True)
class Mailboxes:
    """``box`` returns the name of an agent's queue directory."""

    spool: Spool
    box: Callable[[str], str]

    def has_unread_from(self, worker: str) -> bool:
        """Return whether mail of this worker still waits for the lead.

        A worker that has ended wrote all its mail before that, so an empty answer is final.
        """
        senders = (ignite.split(data).fields.get("from", "") for data in self._files(LEAD))
        return any(identity(sender) == identity(worker) for sender in senders)

    def open_mail(self, worker: str, generation: int) -> list[str]:
        """Return the ids of the open messages that were written to this generation of the worker."""
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


# --- at a start -------------------------------------------------------------------------------------------------------
def remove_empty_queues(site: Site, files: StoryFiles, id_pattern: str) -> None:
    """Remove the empty queues of workers whose stories are over.

    This is done only at a start, before queues are watched: a watched directory that disappears counts as lost, and is
    made again. A queue that cannot be removed stays, and is an agent's queue like any other. Never fails.
    """
    for box in site.boxes():
        whose = whose_worker(box, id_pattern)
        if whose is not None and _is_over(files, whose[0]):
            for directory in (site.queue / box / "processed", site.queue / box):
                with contextlib.suppress(OSError):
                    directory.rmdir()


def _is_over(files: StoryFiles, story_id: str) -> bool:
    try:
        story = files.read(story_id)
    except (BadStoryRecord, OSError):
        return False
    return story is not None and story.state in ENDS and all(one.settled for one in story.tries)
