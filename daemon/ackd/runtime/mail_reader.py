"""Reads messages for the endpoints that deliver them: the body comes from the read cache, else from the file.

Headers were checked when the message came, and are not checked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ackd.core.errors import BadBody, BadMessage
from ackd.core.message import Rejection
from ackd.formats import ignite
from ackd.handlers import Mail
from ackd.runtime.read_cache import ReadCache

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ackd.core.message import Message, Place
    from ackd.storage.spool import Spool


@dataclass
class MailReader:
    """Implements ``endpoints.making.MailFiles`` for the daemon."""

    spool: Spool
    cache: ReadCache = field(default_factory=ReadCache)

    def path(self, place: Place) -> Path:
        return self.spool.path(place)

    def mail(self, message: Message, place: Place) -> Mail:
        """Return the message as a handler sees it. Raises OSError, and BadMessage if another message lies there now."""
        data = self.cache.take(message)
        return Mail(
            message_id=message.message_id,
            sender=message.sender,
            recipient=message.recipient,
            type=message.type,
            priority=message.priority,
            body_text=self._body_text(message, place) if data is None else ignite.body_of(data),
            thread_id=message.thread_id,
            in_reply_to=message.in_reply_to,
            automatic=message.automatic,
        )

    def body(self, message: Message, place: Place) -> Mapping[str, object]:
        """Return the body's values, or none if the body is no mapping: the agent reads the file itself anyway."""
        try:
            found = self.mail(message, place).body
        except BadBody:
            return {}
        return found if isinstance(found, dict) else {}

    def _body_text(self, message: Message, place: Place) -> str:
        raw = ignite.split(self.spool.read(place).data)
        if ignite.bare_id(raw.fields.get("message-id", "")) != message.message_id:
            raise BadMessage(Rejection.BAD_ID.value, f"another message lies there now, not {message.message_id}")
        return raw.body.decode()
