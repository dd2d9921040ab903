"""The manual pages say what the commands and the config model say, and are set without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from ackd.cli import commands
from tests import man_pages

PAGES = man_pages.pages()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_as_it_would_be_made(name: str) -> None:
    file = man_pages.PLACE / name
    assert file.is_file(), "make documents writes it"
    assert file.read_text(encoding="utf-8") == PAGES[name], "make documents writes it anew"


def test_no_page_is_left_of_a_command_that_is_gone() -> None:
    there = {str(path.relative_to(man_pages.PLACE)) for path in man_pages.PLACE.rglob("*") if path.is_file()}
    assert there == set(PAGES)
    assert {f"man1/ackd-{name}.1" for name in commands.COMMANDS} <= there


def test_pages_are_set_without_a_warning() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    files = [str(man_pages.PLACE / name) for name in PAGES]
    ended = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-rLL=100n", *files], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def shown(name: str) -> str:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    command = ["man", "-l", "--warnings=w", str(man_pages.PLACE / name)]
    environment = {"MANWIDTH": "100", "MANPAGER": "cat", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    return re.sub(r"\x1b\[\d*m|.\x08", "", ended.stdout)


def test_man_shows_a_command_with_its_options() -> None:
    page = shown("man1/ackd-dead.1")
    assert "ackd-dead - List, show, requeue or purge files" in page
    assert "ackd dead purge [OPTIONS] " in page
    assert "--yes" in page
    assert "--root DIR" in page


def test_man_shows_the_commands_and_the_exit_codes() -> None:
    page = shown("man1/ackd.1")
    assert "ackd-send(1)" in page
    assert re.search(r"67\s+no such agent\.", page)


def test_man_shows_a_key_with_its_default_its_meaning_and_its_range() -> None:
    page = " ".join(shown("man5/ackd.toml.5").split())
    assert "archive_days = 30 How long completed messages stay in archive/. 0 keeps none. A whole number from 0" in page
    assert 'durability = "power"' in page
    assert "One of: power, process." in page
    assert "[agents.NAME]" in page
