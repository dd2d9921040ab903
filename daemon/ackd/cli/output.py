"""Output and input of commands: lines on stdout and stderr, JSON, stdin.

Names, reasons and bodies come from whoever could write a file. A control character among them could retitle the
terminal, hide a line or forge one, so everything printed for people goes through ``printable``, and a file's bytes
(``as_it_is``) are printed unchanged only where no terminal reads them. Behind all of that stand two ``FilteredStream``,
which main puts in the place of stdout and stderr: nothing written there, by rich or by a traceback either, contains
anything that a terminal would act on.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from ackd.cli.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The colours that ackd itself uses: reset, bold, dim, and a colour of the letters; none that could hide them.
#: Not compiled here, which would cost every command more than its parsing.
_COLOURS: Final = r"(\x1b\[(?:(?:0|1|2|22|3[1-79]|9[1-7])(?:;(?:0|1|2|22|3[1-79]|9[1-7]))*)?m)"

STYLES: Final = {"red": "31", "bold red": "1;31", "green": "32", "yellow": "33"}


class FilteredStream:
    """A text stream that lets through only harmless characters, and ackd's own colours where a terminal shows them.

    Everything but writing text is left to the stream itself. Bytes (``buffer``) are not filtered.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def unfiltered(self) -> TextIO:
        """The stream itself, unfiltered."""
        return self._stream

    def write(self, text: str) -> int:
        self._stream.write(text if _is_plain(text) else self._made_harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def _made_harmless(self, text: str) -> str:
        if "\x1b" not in text or not _shows_colours(self._stream):
            return _lines_made_harmless(text)
        parts = re.split(_COLOURS, text)  # every second one is a colour
        parts[::2] = map(_lines_made_harmless, parts[::2])
        return "".join(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def filter_streams() -> None:
    """Filter stdout and stderr; called before anything is written. A stream that knows ASCII only is switched to
    UTF-8."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, FilteredStream):
            continue
        if (stream.encoding or "ascii").lower() in ("ascii", "ansi_x3.4-1968", "us-ascii"):
            stream.reconfigure(encoding="utf-8", errors="replace")
        setattr(sys, name, FilteredStream(stream))


def clear_screen() -> None:
    """Clear the screen, if stdout is a terminal."""
    stream = sys.stdout.unfiltered if isinstance(sys.stdout, FilteredStream) else sys.stdout
    if stream.isatty():
        stream.write("\x1b[2J\x1b[1;1H")
        stream.flush()


def _shows_colours(stream: TextIO) -> bool:
    from ackd.facts.drawing import colour_wanted

    return stream.isatty() or colour_wanted(stream)


def _is_plain(text: str) -> bool:
    """Tell lines of plain ASCII, which need no filter."""
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def _lines_made_harmless(text: str) -> str:
    from ackd.facts.harmless import is_harmless

    return "".join(c if is_harmless(c) or c in "\n\t" else "?" for c in text)


def echo_folded(text: str, *, err: bool = False) -> None:
    """Print a sentence, at once. On a terminal it is folded between words, and what is left is indented."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        echo(text, err=err)
        return
    from ackd.cli.table import folded_under, terminal_width

    for line in folded_under(text, "", "  ", terminal_width(stream)):
        echo(line, err=err)


def echo(text: str, *, err: bool = False, colour: bool | None = None) -> None:
    """Print one line, at once. Colours go where ``facts.colour_wanted`` says, unless ``colour`` says otherwise."""
    stream = sys.stderr if err else sys.stdout
    if "\x1b" in text and not (_wants_colour(stream) if colour is None else colour):
        text = re.sub(_COLOURS, "", text)
    stream.write(f"{text}\n")
    stream.flush()


def _wants_colour(stream: TextIO) -> bool:
    from ackd.facts.drawing import colour_wanted

    return colour_wanted(stream)


def raise_if_the_reader_left() -> None:
    """Raise BrokenPipeError if stdout is a pipe that nobody reads any more, without writing anything to find out."""
    import select

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no file at all, or closed
        return
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


def styled(text: str, style: str) -> str:
    """The text in a style of ``STYLES``."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def print_json(value: object, indent: int | None = None) -> None:
    """Print one JSON document, with Unicode unescaped. Characters that a terminal would act on, and file names that are
    no Unicode, are escaped, so that they can be read back."""
    import json

    echo(escaped_json(json.dumps(value, ensure_ascii=False, default=str, indent=indent)))


def read_stdin(limit_bytes: int) -> bytes:
    """Read at most so many bytes of stdin. Python has None for a stdin that was closed when it started."""
    if sys.stdin is None:
        raise WrongUsage("stdin is closed: nothing can be read from it")
    return sys.stdin.buffer.read(limit_bytes)


# --- harmless for a terminal ------------------------------------------------------------------------------------------
def printable(text: str) -> str:
    """The text on one line, with whatever would move the cursor shown as a question mark."""
    if text.isprintable():
        return text
    from ackd.facts.harmless import is_harmless

    return "".join(c if is_harmless(c) else " " if c in "\n\t" else "?" for c in text)


def printable_lines(text: str) -> str:
    """Do the same for text of several lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def escaped_json(text: str) -> str:
    """Escape in JSON whatever a terminal would act on; line ends between values stay."""
    if text.isprintable():
        return text
    import json

    from ackd.facts.harmless import is_harmless

    return "".join(c if is_harmless(c) or c == "\n" else json.dumps(c)[1:-1] for c in text)


def say(text: str) -> None:
    """Print one line for people."""
    echo(printable(text))


def as_it_is(data: bytes) -> None:
    """Print a file's bytes, byte for byte, unless a terminal would act on them. Text without a last line end gets one
    there: the prompt would stand behind it."""
    if sys.stdout.isatty():
        text = printable_lines(data.decode(errors="replace").replace("\r\n", "\n"))
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    sys.stdout.flush()
