"""`ackd config reference` and `ackd example`: files that come with ackd, wherever it is installed.

The reference of ackd.toml, whole teams as examples with the programs that they use, and systemd units. A wheel has them
in ackd/shipped; in a checkout they are where they are edited (config/, systemd/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import Group, argument, for_place
from ackd.cli.errors import NOT_FOUND, Failure
from ackd.cli.output import echo, print_json, say
from ackd.client.shipped import place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_FOLDERS: Final = ("config/examples", "systemd")
_REFERENCE: Final = "config/ackd.toml"
_INDEX: Final = "README.md"


def _examples() -> dict[str, Traversable]:
    found = {name: file for folder in _FOLDERS for name, file in _files(place().joinpath(folder))}
    del found[_INDEX]  # what it says of the examples, `ackd example list` says
    return dict(sorted(found.items()))


def _files(folder: Traversable, before: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files below a folder, by their paths from there."""
    for one in folder.iterdir():
        if one.is_file():
            yield before + one.name, one
        elif not one.name.startswith("__"):  # no __pycache__
            yield from _files(one, f"{before}{one.name}/")


def names() -> list[str]:
    return list(_examples())


config = Group("""Print what may stand in ackd.toml.""")


@config.command
@for_place
def reference(root: str | None, config: str | None, as_json: bool) -> None:  # noqa: ARG001 - as everywhere
    """Print an ackd.toml with every key, its default and its meaning, all commented out."""
    _print("ackd.toml", place().joinpath(_REFERENCE), as_json=as_json)


example = Group("""List and print examples: whole teams, the programs that they use, and systemd units.""")


@example.command
@for_place
def list_(root: str | None, config: str | None, as_json: bool) -> None:  # noqa: ARG001
    """List the examples, and say what each is."""
    said = {name: _first_line(file.read_text(encoding="utf-8")) for name, file in _examples().items()}
    if as_json:
        print_json({"examples": [{"name": name, "about": about} for name, about in said.items()]})
        return
    for name, about in said.items():
        say(f"{name:{max(map(len, said))}}  {about}")


@example.command
@argument("name", complete="examples")
@for_place
def show(root: str | None, config: str | None, as_json: bool, name: str) -> None:  # noqa: ARG001
    """Print an example, for instance `ackd example show workers.toml > ackd.toml`."""
    found = _examples()
    if name not in found:
        raise Failure(NOT_FOUND, f"no example {name!r}; there are {', '.join(found)}", "`ackd example list` lists them")
    _print(name, found[name], as_json=as_json)


def _print(name: str, file: Traversable, *, as_json: bool) -> None:
    text = file.read_text(encoding="utf-8")
    if as_json:
        print_json({"name": name, "text": text})
    else:
        echo(text.rstrip("\n"))


def _first_line(text: str) -> str:
    """The first line that says something, without the marks of a comment, up to the end of its first sentence."""
    lines = (line.strip('#" ') for line in text.splitlines() if not line.startswith("#!"))
    first = next(filter(None, lines), "")
    return first.partition(". ")[0].rstrip(".:")
