"""Where the files lie that come with ackd: the reference of its config, examples, units, completions, manual pages.

A wheel has them in ackd/shipped, and in the environment's share/, where people, shells and man look; in a checkout they
are where they are edited.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def place() -> Traversable:
    """The directory that holds config/ and systemd/."""
    package = importlib.resources.files("ackd")
    inside = package.joinpath("shipped")
    return inside if inside.is_dir() else package.joinpath("..", "..")


def unit_text(name: str) -> str:
    return place().joinpath("systemd", name).read_text(encoding="utf-8")


def completion_text(file: str) -> str:
    """The completion script of a shell, by its file name."""
    return importlib.resources.files("ackd").joinpath("cli", "shell_scripts", file).read_text(encoding="utf-8")


def manual_pages() -> list[Path]:
    """The manual pages of this version, wherever they lie; none if this installation was made without them."""
    in_tree = Path(__file__).parents[3] / "docs" / "man"
    if in_tree.is_dir():
        return sorted(in_tree.glob("man[15]/*"))
    try:
        files = importlib.metadata.files("ackd") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    installed = (Path(str(one.locate())) for one in files if one.match("share/man/man[15]/*"))
    return sorted(path.resolve() for path in installed if path.is_file())
