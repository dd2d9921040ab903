"""What is fuzzed: every door that bytes come in by, each as a function that fails when the door does.

A target takes bytes, hands them to the real code, and raises for whatever nobody should see: an exception without a
name of ours, a traceback, "a bug in ackd", an escape sequence on the terminal, a file outside the root, too much time or
memory. ``family`` says what the bytes are like; seeds and shapes go by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadBody, BadMessage, BadReceipt
from ackd.core.message import KNOWN_TYPES
from ackd.dialects import bodies, body_shapes, ignite, yaml_body
from tests.fuzz import command_targets, daemon_targets
from tests.fuzz.limits import bounded
from tests.fuzz.place import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.families import Family


@dataclass(frozen=True)
class Target:
    name: str
    family: Family
    door: Callable[[bytes], None]

    def __call__(self, data: bytes) -> None:
        with bounded():
            self.door(data)


# --- the dialect ------------------------------------------------------------------------------------------------------
def header(data: bytes) -> None:
    """Reading never fails but by name, and what was read can be given a status and read again as the same message."""
    try:
        ignite.headers(data)
        ignite.standing(data)
    except BadMessage:
        return
    try:
        message = ignite.decode(data, "worker")
    except BadMessage:
        return
    with_status = ignite.rewrite(data, [(ignite.STATUS, "retrying"), (ignite.RETRY_COUNT, "1")])
    assert ignite.decode(with_status, "worker") == message
    assert ignite.split(with_status).body == ignite.split(data).body
    assert list(ignite.faults(ignite.split(data))) == []


def yaml(data: bytes) -> None:
    """Whatever loads is written so that it loads as the same value."""
    text = data.decode(errors="surrogatepass" if data.isascii() else "replace")
    try:
        value = yaml_body.load(text)
    except BadBody:
        return
    assert yaml_body.load(yaml_body.dump(value)) == value


def body(data: bytes) -> None:
    """The quick check and the thorough one say the same of every body."""
    text = data.decode(errors="replace")
    try:
        loaded = yaml_body.load(text)
    except BadBody:
        loaded = None
    for kind in KNOWN_TYPES:
        problems = bodies.check(kind, text)
        if loaded is not None:
            assert body_shapes.quick_check(kind, loaded) == (not problems), (kind, problems)


def receipt(data: bytes) -> None:
    from ackd.adapters import maildrop

    with place() as at:
        try:
            read = maildrop.read_receipt(at.put("receipts/done_1763254800000000-abcdef.json", data))
        except BadReceipt as error:
            assert str(error)
            return
        assert read.file is None or not re.search(r"[/\0]", read.file)


TARGETS: Final = {
    target.name: target
    for target in (
        Target("header", "message", header),
        Target("yaml", "yaml", yaml),
        Target("body", "yaml", body),
        Target("receipt", "receipt", receipt),
        *(Target(name, family, door) for name, family, door in command_targets.DOORS),
        *(Target(name, family, door) for name, family, door in daemon_targets.DOORS),
    )
}
