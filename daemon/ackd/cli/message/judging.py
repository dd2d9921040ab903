"""Faults of a message, by its headers, its date and its body; and the types that are known.

The config is read only for a type that is not one of ackd's own. No files are touched. Fails with ``Failure`` for a
type that nobody knows, and with BadConfig where a config was asked for and there is none; a message's faults are
values, in the order in which they are printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.errors import BAD_DATA, Failure
from ackd.core.errors import BadConfig, BadMessage, Problem
from ackd.core.message import KNOWN_TYPES
from ackd.core.words import accepted_types
from ackd.formats import ignite

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
    """The types that the config adds. These commands need no team: a missing one is no error, unless it was named."""
    from ackd.config.site import find_site

    try:
        site = find_site(root, config)
        return accepted_types(site.extra_types, site.unknown_types)
    except BadConfig:
        if root or config:
            raise
        return frozenset()


def faults(raw: ignite.RawMessage, root: str | None, config: str | None) -> Iterator[BadMessage]:
    """Call ``ignite.faults``, and read the config only for a message whose type is unknown."""
    known = raw.fields.get("x-ignite-type") in KNOWN_TYPES
    return ignite.faults(raw, frozenset() if known else extra_types(root, config))


def problems(raw: ignite.RawMessage, root: str | None, config: str | None) -> list[Problem]:
    found = [Problem("header", fault.detail, fault.line) for fault in faults(raw, root, config)]
    found += _date_problems(raw)
    from ackd.formats import bodies

    return found + bodies.check(raw.fields.get("x-ignite-type", ""), raw.body.decode(), raw.body_line)


def _date_problems(raw: ignite.RawMessage) -> list[Problem]:
    """Check the Date header. Delivery does not read it, so nothing but `validate` minds."""
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
    """Refuse a change that adds faults. A broken file may be mended step by step, but not be broken further."""
    before = {fault.detail for fault in ignite.faults(ignite.split(old))}
    for fault in faults(ignite.split(new), root, config):
        if fault.detail not in before:
            raise fault
