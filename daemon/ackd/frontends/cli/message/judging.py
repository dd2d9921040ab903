"""What is wrong with a message, by its headers, its date and its body; and which types there are.

Owns the order in which problems are told. The config is read only where a type is not one of ours. Refuses to touch
files. Fails with ``Failure`` for a type that nobody knows, and with BadConfig where a config was asked for and is none;
a message's faults are values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.errors import BadConfig, BadMessage, Problem
from ackd.core.message import KNOWN_TYPES
from ackd.core.words import accepted_types
from ackd.dialects import ignite
from ackd.frontends.cli.errors import BAD_DATA, Failure

if TYPE_CHECKING:
    from collections.abc import Container, Iterator


def known_type(kind: str, root: str | None, config: str | None) -> str:
    if kind in KNOWN_TYPES or kind in extra_types(root, config):
        return kind
    import difflib

    near = difflib.get_close_matches(kind, KNOWN_TYPES, n=1)
    hint = f"did you mean {near[0]}?" if near else "extra_types in ackd.toml adds one"
    raise Failure(BAD_DATA, f"unknown type {kind!r}: {hint}")


def extra_types(root: str | None, config: str | None) -> Container[str]:
    """The config's own types. These commands need no site, so none is no error, unless one was asked for."""
    from ackd.site import find_site

    try:
        site = find_site(root, config)
        return accepted_types(site.extra_types, site.unknown_types)
    except BadConfig:
        if root or config:
            raise
        return frozenset()


def faults(raw: ignite.RawMessage, root: str | None, config: str | None) -> Iterator[BadMessage]:
    """As ``ignite.faults``; the config is read only for a message whose type we do not know."""
    known = raw.fields.get("x-ignite-type") in KNOWN_TYPES
    return ignite.faults(raw, frozenset() if known else extra_types(root, config))


def problems(raw: ignite.RawMessage, root: str | None, config: str | None) -> list[Problem]:
    found = [Problem("header", fault.detail, fault.line) for fault in faults(raw, root, config)]
    found += _date_problems(raw)
    from ackd.dialects import bodies

    return found + bodies.check(raw.fields.get("x-ignite-type", ""), raw.body.decode(), raw.body_line)


def _date_problems(raw: ignite.RawMessage) -> list[Problem]:
    """Delivery does not read Date, so only this command minds."""
    from email.utils import parsedate_to_datetime

    date = raw.fields.get("date")
    if not date:
        return []
    try:
        parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        line = list(raw.fields).index("date") + 1
        return [Problem("header", f"Date is no RFC 2822 date: {date[:60]!r}", line)]
    return []


def refuse_new_faults(old: bytes, new: bytes, root: str | None, config: str | None) -> None:
    """A broken file may be mended step by step, but not be broken further."""
    before = {fault.detail for fault in ignite.faults(ignite.split(old))}
    for fault in faults(ignite.split(new), root, config):
        if fault.detail not in before:
            raise fault
