"""The plan of the rooms, held by reading every import.

Each room may import from the rooms that ``MAY_IMPORT`` names. A capability (a folder of ``coordination/``) and an endpoint
kind (a folder of ``endpoints/``) may import its own folder and those that ``REQUIRES`` declares, and no other. ``core``,
``formats`` and every ``rules`` and ``wire`` are pure. And: what `ackd send` and `ackd ack` import stays small.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Container

PACKAGE: Final = Path(__file__).parents[1] / "daemon" / "ackd"

#: Which rooms each room may import from, beside itself.
MAY_IMPORT: Final = {
    "core": set(),
    "formats": {"core"},
    "pure": {"core", "formats"},  # rules and wire of a capability or an endpoint kind
    "system": {"core"},
    "storage": {"formats", "core", "facts", "system"},
    "facts": {"core", "formats", "registries"},  # what each folder declares is imported by name
    "config": {"core", "formats", "registries", "settings"},
    "settings": {"core", "config", "pure"},  # a folder's own table of ackd.toml
    "coordination": {"storage", "formats", "core", "facts", "config", "system", "pure", "settings"},
    "endpoints": {"storage", "formats", "core", "facts", "config", "system", "pure", "settings"},
    "runtime": {
        "registries",
        "coordination",
        "endpoints",
        "storage",
        "formats",
        "core",
        "facts",
        "config",
        "settings",
        "system",
        "pure",
    },
    "client": {"registries", "storage", "formats", "core", "facts", "config", "system"},
    "cli": {"client", "registries", "config", "facts", "formats", "core", "storage", "system"},
    # Front doors to come: each is its folder, on top of the client.
    "mcp": {"client", "config", "facts", "formats", "core"},
    "hooks": {"client", "config", "facts", "formats", "core"},
    "web": {"client", "config", "facts", "formats", "core"},
    # What a capability or an endpoint kind adds to the command line.
    "commands": {"cli", "client", "config", "facts", "formats", "core", "storage", "pure", "settings", "coordination"},
    # `ackd run` and `ackd demo` start the daemon, or a process that does.
    "starters": {"cli", "client", "runtime", "config", "facts", "formats", "core", "storage", "system"},
    "registries": set(),  # names of modules as text, imported when they are used
    "protocol": {"core"},  # the public words of the worker protocol, which stamp messages with the time
    "worker": set(),  # the SDK: a process of its own, which starts quickly and knows nothing of the daemon
    "the demo's team": {"worker"},  # programs that are laid out, and run as anybody's would be
}
#: The folders that a folder of coordination/ or endpoints/ may import beside its own.
REQUIRES: Final = {
    "board": {"bus"},
    "leases": {"bus"},
    "deadlock": {"bus", "leases"},
    "ensemble": {"tmux"},  # ackd.ack wakes who does not acknowledge
    "pipeline": {"exec", "process", "tmux", "handler"},  # its workers are agents, its lead is a handler
}
ENDPOINT_KINDS: Final = {path.name for path in (PACKAGE / "endpoints").iterdir() if path.is_dir()}
#: Public modules directly below the package, and the room and folder each belongs to.
PUBLIC: Final = {
    "ack": ("coordination", "ensemble"),
    "bus": ("coordination", "bus"),
    "files": ("storage", ""),
    "handlers": ("endpoints", ""),
    "leases": ("coordination", "leases"),
    "log": ("coordination", "ensemble"),  # the seed's logger: its directory stands in [ensemble]
    "protocol": ("protocol", ""),
    "stage": ("coordination", "pipeline"),
    "__main__": ("cli", ""),
}
#: Imports against the plan that are still there. None may be added; whoever mends one strikes it out.
BREACHES: Final[frozenset[tuple[str, str]]] = frozenset()

#: What reaches outside, or keeps time, chance or concurrency of its own.
IMPURE: Final = frozenset(
    "asyncio concurrent contextvars ctypes fcntl fileinput glob io logging mmap multiprocessing os pathlib platform "
    "queue random resource sched secrets select selectors shutil signal socket sqlite3 ssl subprocess sys syslog "
    "tempfile termios threading time tty urllib uuid warnings http signal pty".split()
)
#: Formats turn bytes into values: they may shape a time that they are given, and have libraries, but touch nothing.
IMPURE_FOR_FORMATS: Final = IMPURE - {"io", "time", "sys", "warnings"}

CLOCK: Final = re.compile(r"\b(datetime|date|dt)\.(now|utcnow|today)$")

FAST_PATH: Final = (
    "ackd.client",
    "ackd.client.sending",
    "ackd.client.receipts",
    "ackd.client.mail",
    "ackd.cli.main",
    "ackd.cli.send",
    "ackd.cli.receipts",
    "ackd.coordination.leases.commands.lock",
    "ackd.leases",
    "ackd.storage.maildrop",
    "ackd.formats.ignite",
    "ackd.coordination.bus.commands.post",
    "ackd.bus",
    "ackd.coordination.pipeline.commands.stage",
    "ackd.stage",
    "ackd.config.site",
    "ackd.worker",
)
SLOW: Final = tuple("asyncio anyio pydantic structlog rich click dataclasses inspect tomllib ctypes sqlite3".split())


@dataclass(frozen=True)
class Import:
    of: str
    line: int
    for_types: bool


def modules() -> dict[str, Path]:
    """Dotted name below the package → file."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


MODULES: Final = modules()


def imports_of(name: str) -> list[Import]:
    tree = ast.parse(MODULES[name].read_bytes())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [
        Import(target, node.lineno, id(node) in for_types)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for target in targets(node, name)
    ]


def targets(node: ast.Import | ast.ImportFrom, importer: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = importer if MODULES[importer].name == "__init__.py" else importer.rpartition(".")[0]
        up = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join(part for part in ["ackd", *up, base] if part)
    # `from ackd.storage import maildrop` imports a module, `from ackd.core.ports import Clock` a name in one.
    return [
        f"{base}.{alias.name}" if f"{base}.{alias.name}".removeprefix("ackd.") in MODULES else base
        for alias in node.names
    ]


def place(name: str) -> tuple[str, str]:
    """The room of a module, by its dotted name below the package, and the folder of coordination/ or endpoints/ if any."""
    top, _, rest = name.partition(".")
    if top in PUBLIC and not rest:
        return PUBLIC[top]
    if name.startswith("cli.demo_team"):
        return "the demo's team", ""
    if name in ("cli.run", "cli.demo"):
        return "starters", ""
    if top not in ("coordination", "endpoints"):
        return top, ""
    folder, _, inner = rest.partition(".")
    if not (PACKAGE / top / folder).is_dir():
        return ("registries" if folder == "registry" else top), ""
    part = inner.partition(".")[0]
    special = {"rules": "pure", "wire": "pure", "screen": "pure", "settings": "settings"}
    special |= dict.fromkeys(("commands", "check", "attach"), "commands")
    return special.get(part, top), folder


def may_import(importer: str, imported: str) -> bool:
    room, folder = place(importer)
    of_room, of_folder = place(imported)
    if of_folder and of_folder in {folder, *REQUIRES.get(folder, ())}:
        return True
    if of_room == "endpoints" and not of_folder and REQUIRES.get(folder, set()) & ENDPOINT_KINDS:
        return True  # a folder that makes endpoints of some kind needs what all kinds have in common
    return (of_room == room or of_room in MAY_IMPORT[room]) and (not of_folder or room == "runtime")


def inside(name: str) -> list[tuple[str, int]]:
    """The modules of our own that a module imports."""
    found = [(one.of, one.line) for one in imports_of(name)]
    return [(of.removeprefix("ackd").removeprefix("."), line) for of, line in found if of.split(".")[0] == "ackd"]


def outside(name: str, *, types_too: bool) -> list[tuple[str, int]]:
    found = [one for one in imports_of(name) if types_too or not one.for_types]
    return [(one.of, one.line) for one in found if one.of.split(".")[0] not in ("ackd", "__future__")]


def in_room(*rooms: str) -> list[str]:
    return [name for name in MODULES if name and place(name)[0] in rooms]


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_imports_keep_to_the_plan_of_the_rooms(name: str) -> None:
    assert place(name)[0] in MAY_IMPORT, f"{name} is in no known room: give it one in PUBLIC or MAY_IMPORT"
    wrong = [
        f"{name}:{line} imports {of}"
        for of, line in inside(name)
        if of and (name, of) not in BREACHES and not may_import(name, of)
    ]
    assert wrong == []


def test_a_breach_that_was_mended_is_struck_out() -> None:
    there = {(name, of) for name in MODULES if name for of, _ in inside(name)}
    assert BREACHES - there == set()


@pytest.mark.parametrize("name", in_room("core"))
def test_core_is_pure_standard_library(name: str) -> None:
    for of, line in outside(name, types_too=True):
        assert of.split(".")[0] in sys.stdlib_module_names, f"{name}:{line} imports {of}"
    for of, line in outside(name, types_too=False):
        assert of.split(".")[0] not in IMPURE, f"{name}:{line} imports {of}"


@pytest.mark.parametrize("name", in_room("core"))
def test_core_reads_no_clock(name: str) -> None:
    """datetime is a value type with a clock hidden in it."""
    calls = [node for node in ast.walk(ast.parse(MODULES[name].read_bytes())) if isinstance(node, ast.Call)]
    called = [ast.unparse(call.func) for call in calls]
    assert [one for one in called if CLOCK.search(one)] == []


@pytest.mark.parametrize("name", in_room("formats", "pure"))
def test_formats_and_rules_touch_nothing_outside(name: str) -> None:
    for of, line in outside(name, types_too=False):
        assert of.split(".")[0] not in IMPURE_FOR_FORMATS, f"{name}:{line} imports {of}"


@pytest.mark.parametrize("name", FAST_PATH)
def test_what_send_ack_and_workers_need_loads_quickly(name: str) -> None:
    assert importlib.util.find_spec(name) is not None, "the fast path has moved: say where to in FAST_PATH"
    code = f"import sys, {name}; print(*sorted(set(sys.modules) & set({SLOW!r})))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr, ended.returncode) == ("", "", 0)


# --- one room that touches the file system ----------------------------------------------------------------------------
#: Calls that make a file durable or lock it, and the names that begin or end a temporary file.
DISK_CALLS: Final = frozenset(
    "os.fsync os.fdatasync os.sync fcntl.flock fcntl.lockf os.replace os.rename os.link".split()
)
TEMPORARY_ENDS: Final = (".tmp", ".temp", ".new", ".part")
#: Modules outside storage/ that do it all the same, and why.
OUTSIDE_STORAGE: Final = {
    "system.syscalls": "renameat2, and what stands for it where the kernel has none: storage is built on it",
    "coordination.leases.files.files": "os.link keeps a file that cannot be read under a second name; nothing is replaced",
}
#: Modules of storage/ that do it beside ``atomic_file`` and ``file_lock``, and why they cannot call them.
INSIDE_STORAGE: Final = {
    "storage.atomic_file": "the one atomic write",
    "storage.file_lock": "the one lock",
    "storage.group_flush": "the one flush that many writers share",
    "storage.maildrop": "one flush of an open directory and its file, for `ackd send`, which loads nothing more",
    "storage.journal.journal": "a compacted journal is written line by line, and its descriptor goes on being appended to",
    "storage.log_index.index_file": "SQLite writes the file; what is flushed here is the seal on it",
    "storage.json_state": "os.link keeps a file that cannot be read under a second name; nothing is replaced",
    "storage.spool.undeliverable": "its temporary file is the spool's, in a directory that the spool holds",
}


def disk_work_in(name: str) -> list[str]:
    """What a module does by itself that is storage's to do."""
    found = []
    for node in ast.walk(ast.parse(MODULES[name].read_bytes())):
        match node:
            case ast.Attribute() if ast.unparse(node) in DISK_CALLS:
                found.append(f"{name}:{node.lineno} {ast.unparse(node)}")
            case ast.ImportFrom(module="os" | "fcntl", names=names):
                found += [f"{name}:{node.lineno} {one.name}" for one in names if f"os.{one.name}" in DISK_CALLS]
            case ast.JoinedStr(values=[*_, ast.Constant(value=str(end))]) if end.endswith(TEMPORARY_ENDS):
                found.append(f"{name}:{node.lineno} makes a temporary name ending in {end}")
            case ast.Call(func=ast.Attribute(attr="with_suffix" | "with_name"), args=[ast.Constant(value=str(end))]):
                found += [f"{name}:{node.lineno} makes a temporary name {end}"] if end.endswith(TEMPORARY_ENDS) else []
    return found


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in MODULES
        if name.partition(".")[0] not in ("", "storage", "worker") and name not in OUTSIDE_STORAGE
    ],
)
def test_only_storage_flushes_locks_and_renames_into_place(name: str) -> None:
    """Everybody else uses atomic_file, file_lock and json_state (the SDK's worker/ is a process of its own)."""
    assert disk_work_in(name) == []


@pytest.mark.parametrize(
    "name", [name for name in MODULES if name.startswith("storage.") and name not in INSIDE_STORAGE]
)
def test_within_storage_there_is_one_atomic_write_and_one_lock(name: str) -> None:
    assert disk_work_in(name) == []


def test_an_exception_that_is_none_any_more_is_struck_out() -> None:
    assert [name for name in (*OUTSIDE_STORAGE, *INSIDE_STORAGE) if not disk_work_in(name)] == []


@pytest.mark.parametrize(
    "line",
    [
        "os.fsync(fd)",
        "fcntl.flock(fd, fcntl.LOCK_EX)",
        "flush = os.fsync",
        "from os import replace",
        'temp = path.with_name(f".{path.name}.tmp")',
        'temp = path.with_suffix(".tmp")',
    ],
)
def test_disk_work_outside_storage_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(line)
    monkeypatch.setitem(MODULES, "runtime.probe", probe)
    with pytest.raises(AssertionError, match=r"runtime\.probe:1"):
        test_only_storage_flushes_locks_and_renames_into_place("runtime.probe")


# --- no behaviour on English sentences --------------------------------------------------------------------------------
#: Modules that compare a text of several words with another, and whose text that is.
READ_WORDS: Final = {
    "cli.agent_table": "the titles of columns",
    "cli.completion_values": "what an argument names, which nobody is shown (cli.completion_values)",
    "cli.demo_team.reviewer": "the line that was typed for it, as any agent in a pane reads it",
    "client.agents": "a nudge's answer is the log's line, whose only field says `not done: …` (core.agent_facts)",
    "client.sending": "an outcome of a wait, one of five (client.waiting), which programs read in --json",
    "coordination.bus.rules.words": "a holder's name that no worker can have",
    "coordination.pipeline.wire.forms": "the lead's protocol is exact English (pipeline-lead)",
    "coordination.pipeline.wire.reading": "as above",
    "core.message_facts": "only how a line is worded, by what its receipt names",
    "endpoints.tmux.client.server": "what tmux says",
    "endpoints.tmux.screen.profile": "what pydantic says, to be said again without its prefix",
    "endpoints.tmux.started_pane": "what tmux shows in a dead pane",
    "formats.bodies": "what pydantic says, to be said again in other words",
    "formats.ignite.fields": "a header's value in the native format",
    "formats.json_line": "what pydantic says, to be said again without its prefix",
    "system.threads": "what Python says; it raises the same error for other reasons",
}
_LOOKS_INTO: Final = frozenset("startswith endswith removeprefix removesuffix partition find index".split())


def sentences() -> set[str]:
    """The names of constants of the package that hold a text of several words."""
    found = set()
    for path in MODULES.values():
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and has_sentence(node.value):
                found.add(node.target.id)
    return found


def has_sentence(node: ast.AST | None, named: Container[str] = ()) -> bool:
    """Whether this is a text of several words, a tuple or set of some, or the name of one."""
    match node:
        case ast.Constant(value=str(text)):
            return " " in text.strip()
        case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.List(elts=parts):
            return any(has_sentence(part, named) for part in parts)
        case ast.Name(id=name):
            return name in named
        case _:
            return False


def compared_sentences(name: str, named: Container[str]) -> list[str]:
    """The places where a module compares a text with a sentence."""
    found: list[ast.expr | ast.pattern] = []
    for node in ast.walk(ast.parse(MODULES[name].read_bytes())):
        match node:
            case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn()]):
                found += [node] if any(has_sentence(one, named) for one in (node.left, *node.comparators)) else []
            case ast.Call(func=ast.Attribute(attr=method)) if method in _LOOKS_INTO:
                found += [node] if any(has_sentence(one, named) for one in node.args) else []
            case ast.MatchValue(value=text):
                found += [node] if has_sentence(text) else []
    return [f"{name}:{node.lineno} {ast.unparse(node)}" for node in found]


@pytest.fixture(scope="module")
def named_sentences() -> set[str]:
    return sentences()


@pytest.mark.parametrize("name", list(MODULES))
def test_no_behaviour_compares_english_sentences(name: str, named_sentences: set[str]) -> None:
    """What parts tell each other are signals, words of an enum and errors; sentences are for people, and change."""
    assert bool(compared_sentences(name, named_sentences)) is (name in READ_WORDS), compared_sentences(
        name, named_sentences
    )


@pytest.mark.parametrize(
    "line",
    [
        'if why == "its worker is gone": pass',
        'if reason.startswith("disk full: "): pass',
        'if said in ("gone", "not there"): pass',
        'match why:\n    case "not done yet": pass',
    ],
)
def test_a_compared_sentence_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(line)
    monkeypatch.setitem(MODULES, "runtime.probe", probe)
    assert len(compared_sentences("runtime.probe", ())) == 1


# --- the test itself --------------------------------------------------------------------------------------------------
def test_the_reader_of_imports_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "probe.py"
    source.write_text(
        "import os.path\nfrom ackd.storage import maildrop\nfrom ackd.core.ports import Clock\nfrom . import ladder\n"
        "from ..core.ports import Flusher\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import random\n"
        "def late():\n    import socket\n    return datetime.now()\n"
    )
    monkeypatch.setitem(MODULES, "core.probe", source)
    found = {one.of: one.for_types for one in imports_of("core.probe")}
    assert found == {
        "os.path": False,
        "ackd.storage.maildrop": False,
        "ackd.core.ports": False,
        "ackd.core.ladder": False,
        "typing": False,
        "random": True,
        "socket": False,
    }
    with pytest.raises(AssertionError, match=r"imports storage\.maildrop"):
        test_imports_keep_to_the_plan_of_the_rooms("core.probe")
    with pytest.raises(AssertionError, match="imports os"):
        test_core_is_pure_standard_library("core.probe")
    with pytest.raises(AssertionError):
        test_core_reads_no_clock("core.probe")


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("system.clock", "from ackd.storage import maildrop"),
        ("storage.maildrop", "from ackd.config.site import Site"),
        ("storage.maildrop", "import ackd.runtime.pump"),
        ("runtime.pump", "from ackd.cli import main"),
        ("core.ports", "from ackd.system import clock"),
        ("cli.status", "import ackd.coordination.bus.tracks"),
        ("coordination.bus.tracks", "import ackd.coordination.board.room"),
        ("coordination.bus.rules.words", "import ackd.storage.atomic_file"),
        ("endpoints.exec.run", "from ackd.endpoints.tmux import lines"),
        ("endpoints.exec.run", "import ackd.coordination.bus.tracks"),
        ("stray", "import ackd.core"),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importer: str, line: str) -> None:
    source = MODULES.get(importer, tmp_path / "probe.py")
    probe = tmp_path / source.name
    probe.write_text(line)
    monkeypatch.setitem(MODULES, importer, probe)
    with pytest.raises(AssertionError, match=r"imports|no known room"):
        test_imports_keep_to_the_plan_of_the_rooms(importer)
