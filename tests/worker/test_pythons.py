"""The SDK on every Python that this machine has, from 3.9 on, as a worker finds it by the path that ackd gives it."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import ackd.worker
from ackd.endpoints.process.child.python_path import OFFERED, with_worker_sdk
from ackd.endpoints.process.wire import Completed, Failed
from tests.worker.children import HANGS, HANGS_ASYNC, child

SDK: Final = Path(ackd.worker.__file__).parent
#: Names of the standard library that came after 3.9 and are the likeliest to be reached for.
NEWER: Final = frozenset(
    "TypeAlias ParamSpec Concatenate TypeGuard Self Never override assert_never assert_type LiteralString Runner "
    "TaskGroup timeout StrEnum UTC tomllib chdir pairwise batched bit_count walk_up EncodingWarning".split()
)

TASKS = """
import asyncio
def plain(task):
    for step in task.steps(["a", "b"]):
        note(f"{step}-{sys.version_info[0]}.{sys.version_info[1]}")
    if task.task_id == "task_2":
        raise ValueError("on purpose")
async def later(task):
    await asyncio.sleep(0)
    plain(task)
def work(task):
    return later(task) if task.task_id == "task_3" else plain(task)
"""


@cache
def others() -> dict[str, str]:
    """The Pythons of this machine from 3.9 on, by version; the one that runs the tests is among them."""
    names = [f"python3.{minor}" for minor in range(9, 20)]
    places = [*filter(None, map(shutil.which, ["python3", *names])), "/usr/bin/python3", sys.executable]
    places += map(str, Path.home().glob(".pyenv/versions/*/bin/python3"))
    found = {}
    for place in places:
        code = "import sys; print('%d.%d' % sys.version_info[:2]); sys.exit(sys.version_info < (3, 9))"
        try:
            said = subprocess.run([place, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        except OSError:
            continue
        if said.returncode == 0:
            found[said.stdout.strip()] = place
    return found


@pytest.mark.parametrize("version", others())
def test_a_worker_runs_without_any_package_but_what_ackd_offers(tmp_path: Path, version: str) -> None:
    # -S: no site-packages, so that no ackd that is installed there is taken, and nothing else either.
    with child(tmp_path, TASKS, python=(others()[version], "-S"), env=with_worker_sdk({})) as worker:
        for task_id, end in (("task_1", Completed), ("task_2", Failed), ("task_3", Completed)):
            worker.assign(task_id)
            worker.hear(end, task_id=task_id)
        worker.shut_down()
        worker.hear_out()
        assert worker.ended() == 0
        assert worker.done() == [f"{step}-{version}" for step in "ababab"]
        assert "ValueError: on purpose" in worker.stderr()


@pytest.mark.parametrize("script", [HANGS, HANGS_ASYNC], ids=["plain", "async"])
@pytest.mark.parametrize("version", others())
def test_work_is_interrupted_on_every_python(tmp_path: Path, version: str, script: str) -> None:
    with child(tmp_path, script, python=(others()[version], "-S"), env=with_worker_sdk({})) as worker:
        worker.assign()
        worker.until_noted("begun")
        worker.process.send_signal(signal.SIGINT)
        assert worker.hear(Failed).error == "interrupted"
        assert worker.done() == ["begun", "left"]


@pytest.mark.parametrize("module", sorted(SDK.rglob("*.py")), ids=lambda path: str(path.relative_to(SDK)))
def test_the_sdk_is_written_for_python_3_9(module: Path) -> None:
    tree = ast.parse(module.read_bytes(), feature_version=(3, 9))
    matches = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Match | ast.TryStar)]
    assert matches == []
    for_types = {id(inner) for node in ast.walk(tree) if is_for_types(node) for inner in ast.walk(node)}
    newer = [ast.unparse(node) for node in ast.walk(tree) if id(node) not in for_types and names_of(node) & NEWER]
    chosen = ["asyncio.Runner() if sys.version_info >= (3, 11) else OlderRunner()"]
    whole = ast.unparse(tree)
    assert [one for one in newer if not any(one in choice and choice in whole for choice in chosen)] == []


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def names_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return {name}
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            return {one.name for one in names}
        case _:
            return set()


def imports_in(module: Path) -> set[str]:
    tree = ast.parse(module.read_bytes())
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return named | {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}


def test_the_sdk_needs_the_standard_library_only() -> None:
    tops = {name.partition(".")[0] for module in SDK.rglob("*.py") for name in imports_in(module)}
    assert tops - sys.stdlib_module_names == {"ackd"}
    ours = {name for module in SDK.rglob("*.py") for name in imports_in(module) if name.startswith("ackd")}
    assert {name for name in ours if not name.startswith("ackd.worker")} == set()


# --- the path ---------------------------------------------------------------------------------------------------------
def said(code: str, environment: dict[str, str], *options: str, cwd: Path) -> str:
    ended = subprocess.run(
        [sys.executable, *options, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_nothing_but_the_sdk_is_offered(tmp_path: Path) -> None:
    code = "import ackd, pkgutil; print([one.name for one in pkgutil.iter_modules(ackd.__path__)])"
    assert said(code, with_worker_sdk({}), "-S", cwd=tmp_path) == "['worker']"
    assert [path.name for path in OFFERED.iterdir() if path.name != "__pycache__"] == ["ackd"]


def test_an_ackd_of_the_workers_own_python_is_taken_first(tmp_path: Path) -> None:
    """Also one that stands behind the offered directory, as site-packages do."""
    code = "import ackd.worker, ackd; print(ackd.worker.__file__, ackd.__version__)"
    worker, version = said(code, with_worker_sdk({}), cwd=tmp_path).split()
    assert (Path(worker), version) == (SDK / "__init__.py", ackd.__version__)


def test_the_users_own_path_stays_and_comes_first(tmp_path: Path) -> None:
    (tmp_path / "own" / "ackd").mkdir(parents=True)
    (tmp_path / "own" / "ackd" / "__init__.py").write_text("mine = True\n")
    environment = with_worker_sdk({"PYTHONPATH": str(tmp_path / "own")})
    assert environment["PYTHONPATH"] == f"{tmp_path / 'own'}{os.pathsep}{OFFERED}"
    assert said("import ackd; print(ackd.mine)", environment, "-S", cwd=tmp_path) == "True"


@pytest.mark.parametrize("given", [{}, {"PYTHONPATH": ""}])
def test_no_working_directory_slips_in_where_no_path_was_set(given: dict[str, str]) -> None:
    assert with_worker_sdk(given)["PYTHONPATH"] == str(OFFERED)


def test_a_directory_that_no_path_can_name_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.endpoints.process.child.python_path.OFFERED", Path("/opt/a:b/on_pythonpath"))
    assert with_worker_sdk({"PYTHONPATH": "/x", "A": "b"}) == {"PYTHONPATH": "/x", "A": "b"}
