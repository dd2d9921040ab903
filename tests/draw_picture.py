"""Draws daemon/demo.svg, the README's picture, from a real run of ``ackd demo``: ``make picture``.

What the picture shows is what the commands printed on a terminal, colours included; nothing is typed in by hand. Of the
story it shows some sentences, each with the next lines of the log about the same agent, and at the end what the user
was told. Needs tmux.
"""

from __future__ import annotations

import io
import itertools
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ackd.cli.demo_story import SENTENCES, Sentence

PICTURE = Path(__file__).parents[1] / "daemon" / "demo.svg"
COLUMNS = 104
#: Lines of the log about its agent below each sentence.
LINES = 3
#: Which sentences of ackd.cli.demo_story are shown: the types and agents of their lines.
SHOWN = {
    ("message_queued", "leader"),
    ("message_told", "leader"),
    ("message_retry", "ignitian_2"),
    ("child_restart", "builder"),
    ("message_told", "builder"),
    ("escalation", "ignitian_3"),
    ("nudge", "reviewer"),
    ("message_acked", "reviewer"),
}
ENVIRONMENT = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "TZ": "UTC"}


def on_a_terminal(*words: str, cwd: Path | None = None) -> str:
    """What the command prints when its output is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "ackd", *words], cwd=cwd, stdout=theirs, stderr=theirs, env=ENVIRONMENT
    ) as run:
        os.close(theirs)
        shown = bytearray()
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:  # the terminal closes with its last writer
                break
            if not some:
                break
            shown += some
    os.close(ours)
    if run.returncode != 0:
        sys.exit(f"ackd {' '.join(words)}: exit {run.returncode}\n{shown.decode(errors='replace')}")
    return shown.decode().replace("\r\n", "\n")


def without_downloads(svg: str) -> str:
    """rich names a web font by address; a picture in a repository needs none."""
    return re.sub(r"<!--.*?-->|@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def shown_of(demo: str) -> str:
    """The chosen sentences of the demo, each with the first lines of the log about its agent that follow it."""
    rows = demo.splitlines()
    plain = [Text.from_ansi(row).plain for row in rows]
    logged = [re.match(r"\d\d:\d\d:\d\d ", row) is not None for row in plain]
    begins: dict[int, Sentence] = {}
    for number in range(len(rows)):
        for one in SENTENCES:
            if plain[number] and one.words.startswith(plain[number]) and (one.type, one.agent) in SHOWN:
                begins[number] = one
    assert len(begins) == len(SHOWN), demo
    parts = []
    for number, one in begins.items():
        words = list(itertools.takewhile(lambda row: not logged[row], range(number, len(rows))))
        next_of_agent = next((n for n, other in begins.items() if n > number and other.agent == one.agent), len(rows))
        about = [row for row in range(number, next_of_agent) if logged[row] and f" {one.agent} " in plain[row]]
        parts.append("\n".join(rows[row] for row in words + about[:LINES]))
    return "\n\n".join(parts)


def main() -> None:
    demo = on_a_terminal("demo", "--fast")
    found = re.search(r"cd (\S*ackd-demo-\S+)", demo)
    assert found is not None, demo
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    inbox = on_a_terminal("inbox", "user", cwd=Path(found[1]))
    for words, said in (("demo", shown_of(demo)), ("inbox user", inbox.strip("\n"))):
        console.print(Text.assemble(("$ ", "bold green"), (f"ackd {words}", "bold")))
        console.print(Text.from_ansi(said))
        console.print()
    PICTURE.write_text(without_downloads(console.export_svg(title="make demo")))
    print(f"drew {PICTURE}")


main()
