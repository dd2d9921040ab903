"""What commands say and read: lines on stdout and stderr, JSON, stdin."""

from __future__ import annotations

import sys

from ackd.frontends.cli.errors import WrongUsage


def echo(text: str, *, err: bool = False) -> None:
    """One line, at once. What needs care, colours and a terminal that knows ASCII only, is left to click."""
    stream = sys.stderr if err else sys.stdout
    if "\x1b" in text or not (text.isascii() or (stream.encoding or "").lower() == "utf-8"):
        import click

        click.echo(text, err=err)
        return
    stream.write(f"{text}\n")
    stream.flush()


def print_json(value: object, indent: int | None = None) -> None:
    """One JSON document on stdout, Unicode as it is. Escaped, so that it can be read back: what a terminal would act
    on, and a file name that is no Unicode."""
    import json

    from ackd.frontends.cli.saying import escaped_json

    echo(escaped_json(json.dumps(value, ensure_ascii=False, default=str, indent=indent)))


def read_stdin(limit_bytes: int) -> bytes:
    """At most so much of stdin. Python has None for one that was closed when it started."""
    if sys.stdin is None:
        raise WrongUsage("stdin is closed: nothing can be read from it")
    return sys.stdin.buffer.read(limit_bytes)
