"""The README and docs/: each command runs, each file is one that works, each link leads somewhere."""

from __future__ import annotations

import re
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest

from ackd.config.model import load
from ackd.endpoints.tmux.screen import load_profile
from ackd.endpoints.tmux.settings import TmuxSettings
from tests.acceptance import pages
from tests.acceptance.pages import DOCS, PAGES, README, REPOSITORY, blocks_of, name_of

if TYPE_CHECKING:
    from pathlib import Path

#: A page with more lines is not finished by anybody.
MOST_LINES = 250
#: How many blocks of commands may stand there without being run.
MOST_NOT_RUN = 7

#: The README's are run by test_readme.py, which looks at what they print as well.
with_commands = [
    page for page in PAGES if page != README and any(block.why_not_run is None for block in blocks_of(page, "sh"))
]


@pytest.mark.parametrize("page", with_commands, ids=name_of)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    if "tmux" in page.name and shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    place = tmp_path / "p"
    place.mkdir()
    pages.run_page(page, place)


def test_few_commands_are_not_run_and_each_says_why() -> None:
    left_out = [block for page in PAGES for block in blocks_of(page, "sh") if block.why_not_run is not None]
    assert len(left_out) <= MOST_NOT_RUN
    assert all(len((block.why_not_run or "").split()) > 3 for block in left_out)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "toml")], ids=name_of)
def test_every_table_of_a_page_is_one_that_ackd_takes(page: Path, tmp_path: Path) -> None:
    for block in blocks_of(page, "toml"):
        if block.note == "pyproject.toml":
            tomllib.loads(block.text)
            continue
        config = tmp_path / "ackd.toml"
        config.write_text(block.text, encoding="utf-8")
        loaded = load(config)
        for table in loaded.agents.values():
            if isinstance(table, TmuxSettings):
                load_profile(table.profile, loaded.profiles)
        for name in loaded.profiles:
            load_profile(name, loaded.profiles)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "python")], ids=name_of)
def test_every_program_of_a_page_compiles(page: Path) -> None:
    for block in blocks_of(page, "python"):
        compile(block.text, name_of(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in pages.links_of(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: {link}"
        assert target.is_relative_to(REPOSITORY)
        assert not anchor or anchor in pages.anchors_of(target), f"{name_of(page)}: {link}"


def test_every_page_is_reached_from_the_index() -> None:
    index = DOCS / "README.md"
    reached = {(DOCS / link.partition("#")[0]).resolve() for link in pages.links_of(index)}
    assert set(DOCS.rglob("*.md")) - {index} <= reached
    assert index in {(REPOSITORY / link).resolve() for link in pages.links_of(README)}


def test_every_block_has_a_language_that_is_known() -> None:
    languages = {block.language for page in PAGES for block in blocks_of(page)}
    assert languages <= {"sh", "toml", "python", "json", "mermaid", ""}


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_every_command_that_a_page_names_exists() -> None:
    from tests.cli.runner import run

    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = "\n".join(block.text for page in PAGES for block in blocks_of(page, "sh"))
    commands = set(re.findall(r"^ackd ([a-z]+)", shown, re.MULTILINE)) | set(re.findall(r"`ackd ([a-z]+)", text))
    assert {"send", "explain", "dead", "lint", "message"} <= commands
    for command in sorted(commands):
        assert run([command, "--help"]).exit_code == 0, command
