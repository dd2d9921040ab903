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

from tests.throwaway_parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = Path(__file__).parents[1] / "daemon" / "ackd"
#: With these a docstring begins that does not name its subject.
SUBJECTLESS: Final = frozenset("how it its of those what whatever where whether who whoever".split())
#: A capability, and its public module below the package, if any.
CAPABILITIES: Final = {
    "ensemble": "ack",
    "bus": "bus",
    "leases": "leases",
    "deadlock": "",
    "board": "",
    "pipeline": "stage",
}
MOST_COLLABORATORS: Final = 7
#: Functions with no more text than this may look alike by chance.
SMALL_BODY: Final = 60


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
    """By class that does something: how many values its constructor takes. Records, which are frozen, are left out."""
    found = {}
    for module in known:
        for node in module.nodes():
            if isinstance(node, ast.ClassDef) and not _is_record(node):
                found[f"{module.name}.{node.name}"] = _taken(node)
    return found


def _is_record(node: ast.ClassDef) -> bool:
    made = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(one == "value" or "frozen=True" in one for one in made)


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


def functions_in_two_modules(known: list[Module]) -> list[list[str]]:
    """Functions with the same body, of more than a line or so, in several modules. The SDK is a program of its own."""
    by_body: dict[str, dict[str, str]] = defaultdict(dict)
    for module in known:
        for node in module.nodes():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and module.room != "worker":
                said = ast.get_docstring(node) is not None
                by_body["\n".join(map(ast.unparse, node.body[said:]))][module.name] = f"{module.name}.{node.name}"
    return [sorted(by.values()) for body, by in by_body.items() if len(by) > 1 and len(body) > SMALL_BODY]


def types_in_quotes(module: Module) -> list[str]:
    """Types of log lines that a module writes as text where it makes a line, or looks at the type of one."""
    from ackd.facts.table import FACTS

    found: list[str] = []
    for node in module.nodes():
        if isinstance(node, ast.Compare) and ast.unparse(node.left) in ("line.type", "type_"):
            found += [text for one in node.comparators for text in _texts(one)]
        elif isinstance(node, ast.Match) and ast.unparse(node.subject) in ("line.type", "type_"):
            found += [text for case in node.cases for text in _texts(case.pattern)]
        elif (
            isinstance(node, ast.Call)
            and node.args
            and re.search(r"\b_?(Fact|RecordFact|record)$", ast.unparse(node.func))
        ):
            found += _texts(node.args[0]) if isinstance(node.args[0], ast.Constant) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            words = " ".join(_texts(node.func.value)).split()  # "message_told message_seen".split()
            found += words if all(word in FACTS for word in words) else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            found += re.findall('^"([a-z_]+)"$', node.value.decode(errors="replace"))  # what is looked for in a log
        elif isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Dict):
            listed = node.keys if isinstance(node, ast.Dict) else node.elts
            if any(isinstance(one, ast.Attribute) and one.attr == "type" for one in listed):
                found += [text for one in listed if isinstance(one, ast.Constant) for text in _texts(one)]
    return [text for text in found if text in FACTS]


def _texts(node: ast.AST) -> list[str]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def of_capability(known: list[Module], name: str) -> list[Module]:
    """The modules of a capability: its folder, and its public module."""
    public = CAPABILITIES.get(name)
    return [one for one in known if one.name.startswith(f"coordination.{name}") or (public and one.name == public)]


def imported_from(known: list[Module], parts: list[Module]) -> list[str]:
    """The folders and public modules outside of these modules that import one of them."""
    names = {part.name for part in parts}
    outside = [module for module in known if module.name not in names]
    return sorted({_folder(module.name) for module in outside if names.intersection(_imports(module))})


def _folder(name: str) -> str:
    first, *rest = name.split(".")
    return rest[0] if first in ("coordination", "endpoints") and rest else first


# --- the table --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Figure:
    """What was measured; ``before``: at fc89f2f, when the rooms were planned; ``aim``: of that plan."""

    what: str
    before: str
    aim: str
    now: str


def figures(known: list[Module]) -> Iterator[Figure]:
    sizes = [module.lines for module in known if module.path.stem != "__init__"]
    yield Figure("modules, median lines", "382, 116", "~230, 150-300", f"{len(known)}, {statistics.median(sizes):.0f}")
    alone = [name for name, by in importers(known).items() if len(by) == 1]
    yield Figure("modules with exactly one importer", "104", "where the split says something", f"{len(alone)}")
    scattered = {"leases": "~20 in 4 rooms", "board": "~24 in 4 rooms", "pipeline": "~33 in 4 rooms"}
    for capability in CAPABILITIES:
        parts = of_capability(known, capability)
        users = ", ".join(imported_from(known, parts)) or "nowhere else"
        now = f"{len(parts)} modules, {sum(part.lines for part in parts):,} lines; imported from {users}"
        yield Figure(f"{capability} lies in", scattered.get(capability, "-"), "one folder", now)
    touched = {"endpoint kind": "7-13 files", "capability": "-", "command": "-", "front door": "-"}
    for name, before in touched.items():
        now = ", ".join(PARTS[name].lines) or "no file"
        yield Figure(f"a new {name} changes, beside its own files", before, "one line of a registry", now)
    (door,) = PARTS["front door"].files.values()
    called = ", ".join(re.findall(r"^from (ackd[\w.]*) import", door, re.MULTILINE))
    yield Figure("a new front door has to call", "nothing: inside the command line", "ackd.client", called)
    types = {module.name: quoted for module in known if (quoted := set(types_in_quotes(module)))}
    now = f"one table; in quotes {len(set[str]().union(*types.values()))} in {len(types)} modules"
    yield Figure("types of log lines", "87 in 49 modules, six tables", "one table", now)
    twice = sum(count > 1 for count in class_names(known).values())
    yield Figure("class names used twice or more", "54", "none to confuse", f"{twice}")
    yield Figure("constructors fed from tuples", "9 calls", "none", f"{len(fed_from_tuples(known))} calls")
    yield Figure("functions that stand in two modules", "-", "none", f"{len(functions_in_two_modules(known))}")
    taken = collaborators(known)
    large = sum(count > MOST_COLLABORATORS for count in taken.values())
    now = f"{large}, the largest {max(taken.values())}"
    what = f"constructors that take more than {MOST_COLLABORATORS}, records apart"
    yield Figure(what, "up to 19", "at most about 7", now)
    texts = docstrings(known)
    now = f"{sum(map(is_subjectless, texts)):,} of {len(texts):,}"
    yield Figure("docstrings without a subject", "456 of 1,897", "rare", now)
    yield Figure("product lines", "50,016", "~44,000", f"{sum(module.lines for module in known):,}")


def main() -> int:
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    rows = list(figures(modules(package)))
    if package == PACKAGE:
        from tests.house_walk import walk

        steps = walk()
        what = "one inbox message: functions / modules / changes of room"
        now = f"{steps.functions} / {steps.modules} / {steps.changes}"
        rows.insert(0, Figure(what, "364 / 69 / 318", "- / 40 / 120", now))
    table = [Figure("", "fc89f2f", "aim", "now"), *rows]
    widths = [max(len(getattr(row, name)) for row in table) for name in ("what", "before", "aim")]
    for row in table:
        print(f"{row.what:{widths[0]}}  {row.before:{widths[1]}}  {row.aim:{widths[2]}}  {row.now}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
