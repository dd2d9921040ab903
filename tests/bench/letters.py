"""The messages that benches send: 1 KB of words in an IGNITE envelope, as ``ackd send`` makes it."""

from __future__ import annotations

from ackd.formats import ignite

BODY_BYTES = 1024
AGENT = "worker"
WORDS = ("All work and no play makes a dull queue. " * 30)[: BODY_BYTES - len('content: ""\n')]
BODY = f'content: "{WORDS}"\n'
#: 2026-11-16, in microseconds: file names sort by it.
_EPOCH_US = 1_794_787_200_000_000


def message_id(number: int) -> str:
    return f"1794787200.{number}.bench0@ignite.local"


def name(number: int) -> str:
    return ignite.file_name("message", _EPOCH_US + number)


def number_in(message_id_or_name: str) -> str:
    """Of a message that was named here."""
    if message_id_or_name.endswith(".mime"):
        return str(int(message_id_or_name.removesuffix(".mime").rpartition("_")[2]) - _EPOCH_US)
    return message_id_or_name.split(".")[1]


def letter(number: int, to: str = AGENT) -> bytes:
    return ignite.build(
        message_id=message_id(number),
        sender="user",
        to=(to,),
        date="Mon, 16 Nov 2026 00:00:00 +0000",
        type="message",
        priority="normal",
        body=BODY,
    )
