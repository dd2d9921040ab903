"""Draws daemon/demo.svg, the README's picture, from a real run of ``ackd demo``: ``make picture``.

What the picture shows is what the commands printed on a terminal, colours included; nothing is typed in by hand. It shows
how the worker that hangs in its pane is woken, the end of the story of the one that never succeeds, and what the user
was told. Needs tmux.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "daemon" / "demo.svg"
COLUMNS = 124
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


def main() -> None:
    demo = on_a_terminal("demo")
    found = re.search(r"cd (\S*ackd-demo-\S+)", demo)
    assert found is not None, demo
    team = Path(found[1])
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for words in (
        ["tail", "--agent", "reviewer", "-n", "18"],
        ["tail", "--agent", "ignitian_3", "-n", "8"],
        ["dead", "list"],
        ["inbox", "user"],
    ):
        console.print(Text.assemble(("$ ", "bold green"), (f"ackd {' '.join(words)}", "bold")))
        console.print(Text.from_ansi(on_a_terminal(*words, cwd=team).rstrip("\n")))
        console.print()
    PICTURE.write_text(without_downloads(console.export_svg(title="after make demo")))
    print(f"drew {PICTURE}")


main()
