"""What commands say and read: lines on stdout and stderr, JSON, stdin.

Names, reasons and bodies come from whoever could write a file. A control character among them could retitle the
terminal, hide a line or forge one, so everything printed for people goes through ``printable``, and what is printed as
it is (``as_it_is``) only goes as it is where no terminal reads it.
"""

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

    echo(escaped_json(json.dumps(value, ensure_ascii=False, default=str, indent=indent)))


def read_stdin(limit_bytes: int) -> bytes:
    """At most so much of stdin. Python has None for one that was closed when it started."""
    if sys.stdin is None:
        raise WrongUsage("stdin is closed: nothing can be read from it")
    return sys.stdin.buffer.read(limit_bytes)


# --- harmless for a terminal ------------------------------------------------------------------------------------------
def printable(text: str) -> str:
    """The text on one line, with whatever would move the cursor shown as a question mark."""
    if text.isprintable():
        return text
    from ackd.frontends.facts.harmless import is_harmless

    return "".join(c if is_harmless(c) else " " if c in "\n\t" else "?" for c in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def escaped_json(text: str) -> str:
    """The same JSON, with whatever a terminal would act on as an escape; line ends between values stay."""
    if text.isprintable():
        return text
    import json

    from ackd.frontends.facts.harmless import is_harmless

    return "".join(c if is_harmless(c) or c == "\n" else json.dumps(c)[1:-1] for c in text)


def say(text: str) -> None:
    """One line for people."""
    echo(printable(text))


def as_it_is(data: bytes) -> None:
    """A file's bytes, byte for byte, unless a terminal would act on them. Text without a last line end gets one there:
    the prompt would stand behind it."""
    import click

    if not sys.stdout.isatty():
        click.echo(data, nl=False)
        return
    text = printable_lines(data.decode(errors="replace").replace("\r\n", "\n"))
    click.echo(text, nl=not text.endswith("\n"))
