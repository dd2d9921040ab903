"""Words for people that cannot play tricks on their terminal.

Names, reasons and bodies come from whoever could write a file. A control character among them could retitle the
terminal, hide a line or forge one, so everything printed for people goes through ``printable``, and what is printed as
it is (``as_it_is``) only goes as it is where no terminal reads it. Never fails: any text has a harmless form.
"""

from __future__ import annotations

import sys

from ackd.frontends.cli.output import echo


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
