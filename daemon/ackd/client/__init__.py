"""Use a team from a program: send and read mail, acknowledge it, see how things stand.

    from ackd.client import Client

    team = Client()                                       # the team of this directory, as the commands find it
    sent = team.send("builder", "hello", wait="completed", timeout_s=60)
    print(sent.message_id, sent.outcome)                  # "done": every recipient has completed it
    team.send(["builder", "reviewer"], "Please look at src/api.", priority="high")
    me = Client(agent="reviewer")
    for entry in me.inbox().messages:
        message = me.read(entry.message_id)
        me.reply(message.message_id, f"You wrote: {message.body}")
        me.done(message.message_id)

Everything works on the team's files, with and without a daemon, exactly as the commands of the same names do: they are
made of these methods. Failures are named errors (``ackd.client.errors``, ``ackd.core.errors``), all of them
``AckdError``. Nothing here prints or exits, and importing it is cheap.
"""

from ackd.client.client import Client
from ackd.client.errors import (
    BadText,
    BadTime,
    CannotRead,
    CannotWrite,
    MessageGone,
    MessageOver,
    NobodyHas,
    NoDaemon,
    NoRecipient,
    NoSessionLog,
    NoSpeaker,
    NotHeld,
    NotHolder,
    NotRequeueable,
    NotSender,
    NotStopped,
    StillStopping,
    UnknownType,
)
from ackd.core.errors import AckdError

__all__ = [
    "AckdError",
    "BadText",
    "BadTime",
    "CannotRead",
    "CannotWrite",
    "Client",
    "MessageGone",
    "MessageOver",
    "NoDaemon",
    "NoRecipient",
    "NoSessionLog",
    "NoSpeaker",
    "NobodyHas",
    "NotHeld",
    "NotHolder",
    "NotRequeueable",
    "NotSender",
    "NotStopped",
    "StillStopping",
    "UnknownType",
]
