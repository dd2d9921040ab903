"""The README and the pages of docs/, cut into their blocks, and a place in which a page's commands are run.

What a page shows is what runs. Its ``sh`` blocks are run by one bash, in an empty directory, in the order of the page, so
that a block finds what those before it have made. A block of TOML or Python whose first line is a comment with a file's
name is that file, there from the beginning. A line that must not exit with 0 says so in a comment: ``# exit 75``. What
cannot be run says why in an HTML comment above it: ``<!-- not run: ... -->``. A daemon that a page starts has begun to serve
before the next command is run, as it has when a person types, and commands that ask it for something are given a minute.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.acceptance.teams import Team

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY: Final = Path(__file__).parents[2]
README: Final = REPOSITORY / "README.md"
DOCS: Final = REPOSITORY / "docs"
PAGES: Final = (
    README,
    REPOSITORY / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
    REPOSITORY / "config/examples/README.md",
    REPOSITORY / "daemon/README.md",
)

_FENCE = re.compile(
    r"(?:<!-- (?P<note>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_FILE = re.compile(r"# ([\w.-]+\.\w+)$")
_EXIT = re.compile(r"# exit (\d+)")
_DAEMON = re.compile(r"^(ackd run [^#\n]*&).*$", re.MULTILINE)
#: Commands that wait for the daemon's word for 5 or 20 s by themselves: on a loaded machine they are given more.
_ASKING = re.compile(r"^(ackd (?:nudge|agent (?:pause|resume|start|stop|restart)) [\w-]+)", re.MULTILINE)
_SERVES: Final = """
for _ in $(seq 3000); do grep -qrs --include=status.json "\\"pid\\": *$!" . && break; sleep 0.02; done
"""
_BLOCK_MARK: Final = "==block=="


@dataclass(frozen=True, slots=True)
class Block:
    """``note``: the HTML comment in the line above it. ``under``: the heading that it stands under."""

    page: Path
    language: str
    text: str
    note: str
    under: str

    @property
    def file(self) -> str | None:
        """The name of the file that this block is, if its first line says so."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found[1] if found else None

    @property
    def why_not_run(self) -> str | None:
        return self.note.removeprefix("not run: ") if self.note.startswith("not run: ") else None

    @property
    def exits(self) -> list[int]:
        """The exit codes other than 0 that its commands must have, in their order."""
        return [int(code) for code in _EXIT.findall(self.text)]


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def blocks_of(page: Path, language: str = "") -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [block for block in _blocks(page, text) if language in ("", block.language)]


def _blocks(page: Path, text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        headings = re.findall(r"^#+ (.*)$", without_code(text[: found.start()]), re.MULTILINE)
        under = headings[-1] if headings else ""
        yield Block(page, found["language"], found["text"], found["note"] or "", under)


def without_code(text: str) -> str:
    return _FENCE.sub("", text)


def python_of(page: Path, under: str) -> str:
    """The one program below a heading."""
    (code,) = [block.text for block in blocks_of(page, "python") if block.under == under]
    return code


def lay_files(page: Path, place: Path) -> None:
    """Write the files that the page's blocks are."""
    for block in blocks_of(page):
        if block.file is not None:
            path = place / block.file
            path.write_text((path.read_text() if path.exists() else "") + block.text, encoding="utf-8")


def run_page(page: Path, place: Path) -> str:
    """Run the page's commands, and return what they printed. Fails if a command exits otherwise than the page says."""
    lay_files(page, place)
    run = [block for block in blocks_of(page, "sh") if block.why_not_run is None]
    failed = place.parent / "failed"
    parts = [f"failed={failed}", 'trap \'echo "$? $BASH_COMMAND" >>"$failed"\' ERR']
    for block in run:
        parts += [f"echo {_BLOCK_MARK} >>$failed", _as_typed(block.text)]
    parts.append("wait")
    environment = Team(place.parent / "unused").environment | {"HOME": str(place), "COLUMNS": "100"}
    for name in ("TMUX", "TMUX_PANE"):
        environment.pop(name, None)
    typed = subprocess.run(
        ["bash", "-c", "\n".join(parts)],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    _, *sections = failed.read_text().split(f"{_BLOCK_MARK}\n")
    for block, section in zip(run, sections, strict=True):
        codes = [int(line.split()[0]) for line in section.splitlines() if line[:1].isdigit()]
        assert codes == block.exits, f"{name_of(page)}, {block.under}:\n{block.text}\nfailed: {section}\n{typed.stdout}"
    return typed.stdout


def _as_typed(commands: str) -> str:
    return _ASKING.sub(r"\1 --timeout 60", _DAEMON.sub(rf"\1{_SERVES}", commands))


def anchors_of(page: Path) -> set[str]:
    """The names by which links find the page's headings, as GitHub makes them."""
    text = without_code(page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = sum(1 for name in found if name == plain or re.fullmatch(re.escape(plain) + r"-\d+", name))
        found.add(f"{plain}-{number}" if number else plain)
    return found


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^()\s]+)\)", without_code(page.read_text(encoding="utf-8")))
