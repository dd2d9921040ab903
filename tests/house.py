"""How the code lies in its rooms, in figures: ``make house`` prints them. ``python -m tests.house [DIRECTORY]``.

Counts what makes a reader's day long: modules and their sizes, how far one message walks through them, names that mean two
things, docstrings without a subject. DIRECTORY: another checkout's ``daemon/ackd``, for a comparison; its walk is left
out, because only this checkout's daemon can be run here. The figures are told, not judged.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = Path(__file__).parents[1] / "daemon" / "ackd"
#: With these a docstring begins that does not name its subject.
SUBJECTLESS: Final = frozenset("how it its of those what whatever where whether who whoever".split())
#: A capability, and the words in a module's path that make it a part of it.
CAPABILITIES: Final = {
    "ensemble": ("ensemble",),
    "bus": ("bus",),
    "leases": ("lease",),
    "deadlock": ("deadlock",),
    "board": ("board",),
    "pipeline": ("pipeline", "story", "stage"),
}
MOST_COLLABORATORS: Final = 7


@dataclass(frozen=True)
class Module:
    """``name``: dotted, without ``ackd.``; the package itself is ``""``."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def room(self) -> str:
        return room_of(self.path)

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)


def room_of(path: Path) -> str:
    """The folder directly below the package, or the package itself."""
    below = path.parts[len(path.parts) - 1 - path.parts[::-1].index("ackd") + 1 :]
    return below[0] if len(below) > 1 else "ackd"


def modules(package: Path) -> list[Module]:
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = [*path.relative_to(package).parts[:-1], path.stem]
        found.append(Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


# --- what is counted --------------------------------------------------------------------------------------------------
def importers(known: list[Module]) -> dict[str, set[str]]:
    """By module: those that import it, for types too. An ``__init__`` that only hands on is neither."""
    rooms = [module for module in known if module.path.stem != "__init__"]
    names = {module.name for module in rooms}
    found: dict[str, set[str]] = defaultdict(set)
    for module in rooms:
        for target in _imports(module):
            if target in names and target != module.name:
                found[target].add(module.name)
    return found


def _imports(module: Module) -> Iterator[str]:
    for node in module.nodes():
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("ackd.") for alias in node.names if alias.name.startswith("ackd"))
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "ackd":
            source = node.module.removeprefix("ackd").removeprefix(".")
            yield source
            yield from (f"{source}.{alias.name}".removeprefix(".") for alias in node.names)


def class_names(known: list[Module]) -> Counter[str]:
    """How many modules define a class of that name."""
    return Counter(
        name for module in known for name in {node.name for node in module.nodes() if isinstance(node, ast.ClassDef)}
    )


def docstrings(known: list[Module]) -> list[str]:
    """Of classes and functions: a module's says what it is for."""
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for module in known for node in module.nodes() if isinstance(node, documented))
    return [text for text in found if text]


def is_subjectless(docstring: str) -> bool:
    first = re.search(r"\w+", docstring)
    return first is not None and first[0].lower() in SUBJECTLESS


def collaborators(known: list[Module]) -> dict[str, int]:
    """By class: how many values its constructor takes."""
    found = {}
    for module in known:
        for node in module.nodes():
            if isinstance(node, ast.ClassDef):
                found[f"{module.name}.{node.name}"] = _taken(node)
    return found


def _taken(node: ast.ClassDef) -> int:
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            return len(inner.args.posonlyargs) + len(inner.args.args) + len(inner.args.kwonlyargs) - 1
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return 0
    fields = [inner for inner in node.body if isinstance(inner, ast.AnnAssign) and "ClassVar" not in ast.unparse(inner)]
    return sum(inner.value is None for inner in fields)


def fed_from_tuples(known: list[Module]) -> list[str]:
    """Calls of classes that take part of their arguments from a tuple, by position."""
    return [
        f"{module.name}:{node.lineno}"
        for module in known
        for node in module.nodes()
        if isinstance(node, ast.Call)
        and any(isinstance(argument, ast.Starred) for argument in node.args)
        and len(node.args) > 1
        and re.match(r"[A-Z]\w*[a-z]", ast.unparse(node.func).rpartition(".")[2])
    ]


def log_types(known: list[Module]) -> dict[str, set[str]]:
    """By module that is no front end: types of log lines that stand there as text."""
    from tests.frontends.facts.test_wording import recorded_types

    types = recorded_types()
    found: dict[str, set[str]] = defaultdict(set)
    for module in known:
        if module.room != "frontends":
            for node in module.nodes():
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in types:
                    found[module.name].add(node.value)
    return found


def of_capability(known: list[Module], words: tuple[str, ...]) -> list[Module]:
    return [module for module in known if any(word in module.name for word in words)]


# --- the table --------------------------------------------------------------------------------------------------------
def figures(known: list[Module]) -> Iterator[tuple[str, str]]:
    sizes = [module.lines for module in known if module.path.stem != "__init__"]
    yield "modules, median lines", f"{len(known)}, {statistics.median(sizes):.0f}"
    alone = [name for name, by in importers(known).items() if len(by) == 1]
    yield "modules with exactly one importer", f"{len(alone)}"
    for capability, words in CAPABILITIES.items():
        parts = of_capability(known, words)
        rooms = {module.room for module in parts}
        yield (
            f"{capability} lies in",
            f"{len(parts)} modules of {len(rooms)} rooms, {sum(part.lines for part in parts):,} lines",
        )
    types = log_types(known)
    every = set[str]().union(*types.values())
    yield "log line types that stand as text", f"{len(every)} in {len(types)} modules"
    yield "class names used twice or more", f"{sum(count > 1 for count in class_names(known).values())}"
    yield "constructor calls fed by position from tuples", f"{len(fed_from_tuples(known))}"
    taken = collaborators(known)
    large = sum(count > MOST_COLLABORATORS for count in taken.values())
    yield f"constructors that take more than {MOST_COLLABORATORS}", f"{large}, the largest {max(taken.values())}"
    texts = docstrings(known)
    yield "docstrings that begin without a subject", f"{sum(map(is_subjectless, texts)):,} of {len(texts):,}"
    yield "product lines", f"{sum(module.lines for module in known):,}"


def main() -> int:
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    rows = list(figures(modules(package)))
    if package == PACKAGE:
        from tests.house_walk import walk

        steps = walk()
        words = f"{steps.functions} / {steps.modules} / {steps.changes}"
        rows.insert(0, ("one inbox message, told, acked, done: functions / modules / changes of room", words))
    width = max(len(what) for what, _ in rows)
    for what, figure in rows:
        print(f"{what:{width}}  {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
