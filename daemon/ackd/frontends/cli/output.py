"""What commands say and read: lines on stdout and stderr, JSON, stdin.

Names, reasons and bodies come from whoever could write a file. A control character among them could retitle the
terminal, hide a line or forge one, so everything printed for people goes through ``printable``, and what is printed as
it is (``as_it_is``) only goes as it is where no terminal reads it. Behind all of that stands the ``Door``, which main
puts in the place of stdout and stderr: whatever writes there, click, rich and tracebacks included, writes nothing that
a terminal would act on.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from ackd.frontends.cli.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What may need care: everything but lines of plain ASCII.
_CARE: Final = re.compile(r"[^\n\t\x20-\x7e]")
#: The colours that we use: reset, bold, dim, and a colour of the letters; none that could hide them.
_COLOURS: Final = re.compile(r"(\x1b\[(?:(?:0|1|2|22|3[1-79]|9[1-7])(?:;(?:0|1|2|22|3[1-79]|9[1-7]))*)?m)")


class Door:
    """A text stream that lets through only what is harmless, and our own colours where a terminal shows them.

    All that is not about writing text is the stream's own. Bytes (``buffer``) are for who means to write bytes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._has_colours = stream.isatty()

    @property
    def behind(self) -> TextIO:
        """The stream itself, for what we make ourselves."""
        return self._stream

    def write(self, text: str) -> int:
        self._stream.write(text if _CARE.search(text) is None else self._made_harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def _made_harmless(self, text: str) -> str:
        if not self._has_colours:
            return _lines_made_harmless(text)
        parts = _COLOURS.split(text)  # every second one is a colour
        parts[::2] = map(_lines_made_harmless, parts[::2])
        return "".join(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def put_doors() -> None:
    """Before anything is written. A stream that knows ASCII only is made to know more, as click would do it, which
    would else go round the door."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Door):
            continue
        if (stream.encoding or "ascii").lower() in ("ascii", "ansi_x3.4-1968", "us-ascii"):
            stream.reconfigure(encoding="utf-8", errors="replace")
        setattr(sys, name, Door(stream))


def clear_screen() -> None:
    """An empty screen, where there is one."""
    stream = sys.stdout.behind if isinstance(sys.stdout, Door) else sys.stdout
    if stream.isatty():
        stream.write("\x1b[2J\x1b[1;1H")
        stream.flush()


def _lines_made_harmless(text: str) -> str:
    from ackd.frontends.facts.harmless import is_harmless

    return "".join(c if is_harmless(c) or c in "\n\t" else "?" for c in text)


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
