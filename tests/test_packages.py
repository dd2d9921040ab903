"""The wheel and the sdist: what is in them, and that they work where nothing else of ackd is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Final

import pytest

import ackd
from tests.acceptance import pages

REPOSITORY: Final = Path(__file__).parents[1]
PACKAGE: Final = REPOSITORY / "daemon" / "ackd"
DATA: Final = f"ackd-{ackd.__version__}.data/data"
#: Where people, shells and man look, and where each file comes from.
SHARED: Final = {
    "share/ackd/config": "config",
    "share/ackd/systemd": "systemd",
    "share/man": "docs/man",
    "share/bash-completion/completions/ackd": "daemon/ackd/cli/shell_scripts/ackd.bash",
    "share/zsh/site-functions/_ackd": "daemon/ackd/cli/shell_scripts/_ackd",
    "share/fish/vendor_completions.d/ackd.fish": "daemon/ackd/cli/shell_scripts/ackd.fish",
}
#: Parts of paths that no package may have.
UNWANTED: Final = frozenset(
    "__pycache__ .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz .venv .clis .ackd .git .ci".split()
)
#: As directories only: an example's program is called build, too.
UNWANTED_DIRECTORIES: Final = frozenset({"build", "dist"})
PATIENCE_S: Final = 240.0

one_by_one = pytest.mark.xdist_group("packages")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the sdist."""
    place = tmp_path_factory.mktemp("built")
    build(REPOSITORY, place)
    return place


def build(source: Path, place: Path, *kinds: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(place), *kinds]
    done(command, cwd=source)


def done(command: list[str], **more: object) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, **more)  # type: ignore[call-overload]
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return str(ended.stdout)


def wheel(place: Path) -> zipfile.ZipFile:
    (path,) = place.glob("*.whl")
    return zipfile.ZipFile(path)


def sdist(place: Path) -> tarfile.TarFile:
    (path,) = place.glob("*.tar.gz")
    return tarfile.open(path)


def files_below(place: Path) -> dict[str, Path]:
    if place.is_file():
        return {"": place}
    return {
        str(path.relative_to(place)): path
        for path in place.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


# --- what is in them --------------------------------------------------------------------------------------------------
@one_by_one
def test_the_wheel_has_every_file_of_the_package(built: Path) -> None:
    with wheel(built) as archive:
        there = {name.removeprefix("ackd/") for name in archive.namelist() if name.startswith("ackd/")}
    assert {name for name in there if not name.startswith("shipped/")} == set(files_below(PACKAGE))


@one_by_one
@pytest.mark.parametrize(("target", "source"), SHARED.items())
def test_the_wheel_has_what_is_read_elsewhere(built: Path, target: str, source: str) -> None:
    with wheel(built) as archive:
        for name, path in files_below(REPOSITORY / source).items():
            assert archive.read(f"{DATA}/{target}/{name}".rstrip("/")) == path.read_bytes()


@one_by_one
def test_neither_has_a_file_that_nobody_wants(built: Path) -> None:
    with wheel(built) as archive, sdist(built) as source:
        for name in (*archive.namelist(), *source.getnames()):
            path = Path(name)
            assert not path.is_absolute()
            assert not {*path.parts} & {*UNWANTED, ".."}, name
            assert not {*path.parts[:-1]} & UNWANTED_DIRECTORIES, name
            assert path.suffix not in {".pyc", ".pyo", ".so", ".swp", ".orig", ".rej"}, name
        assert {name.partition("/")[0] for name in source.getnames()} == {f"ackd-{ackd.__version__}"}
        assert all(member.isfile() for member in source.getmembers())


@one_by_one
def test_neither_names_a_place_of_the_machine_that_made_it(built: Path) -> None:
    machine = [f"{REPOSITORY}/daemon".encode(), f"{sys.prefix}/".encode(), f"{built}".encode()]
    with wheel(built) as archive, sdist(built) as source:
        contents = {name: archive.read(name) for name in archive.namelist()}
        for member in source.getmembers():
            file = source.extractfile(member)
            assert file is not None
            contents[member.name] = file.read()
    assert [name for name, data in contents.items() if any(place in data for place in machine)] == []


@one_by_one
def test_every_link_of_a_page_in_the_sdist_leads_to_a_file_in_it(built: Path, tmp_path: Path) -> None:
    with sdist(built) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    there = [source / page.relative_to(REPOSITORY) for page in pages.PAGES]
    assert [path for path in there if not path.is_file()] == []
    links = [(page, link) for page in there for link in pages.links_of(page) if not link.startswith("https://")]
    assert len(links) > 50
    assert [(page, link) for page, link in links if not (page.parent / link.partition("#")[0]).exists()] == []


@one_by_one
def test_the_sdist_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    with sdist(built) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    build(source, tmp_path / "again", "-t", "wheel")
    with wheel(built) as first, wheel(tmp_path / "again") as again:
        assert {name: first.read(name) for name in first.namelist()} == {
            name: again.read(name) for name in again.namelist()
        }


# --- installed --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and with our own libraries, so that none has to be fetched."""
    place = tmp_path_factory.mktemp("installed") / "env"
    venv.create(place, symlinks=True)
    (archive,) = built.glob("*.whl")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(place / "bin" / "python"),
        "install",
        "--no-deps",
        "--no-compile",
    ]
    done([*pip, "--no-index", "--quiet", "--disable-pip-version-check", str(archive)])
    (packages,) = (place / "lib").glob("python3.*/site-packages")
    ours = sysconfig.get_path("purelib")  # its .pth files are not read from there, so our own ackd is not found
    (packages / "libraries.pth").write_text(f"{ours}\n")
    return place


def environment(**more: str) -> dict[str, str]:
    """As little as possible, so that nothing of this checkout is found."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **more}


@one_by_one
def test_it_is_the_installed_one_that_runs(installed: Path, tmp_path: Path) -> None:
    where = done([str(installed / "bin" / "python"), "-c", "import ackd; print(ackd.__file__)"], cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed)
    for target in SHARED:
        assert (installed / target).exists()


@one_by_one
def test_an_installed_ackd_prints_what_comes_with_it(installed: Path, tmp_path: Path) -> None:
    program = str(installed / "bin" / "ackd")
    done([program, "init"], cwd=tmp_path, env=environment())
    done([program, "check"], cwd=tmp_path, env=environment())
    reference = done([program, "config", "reference"], cwd=tmp_path, env=environment())
    assert reference == (REPOSITORY / "config" / "ackd.toml").read_text()
    unit = done([program, "example", "show", "ackd.service"], cwd=tmp_path, env=environment())
    assert unit == (REPOSITORY / "systemd" / "ackd.service").read_text()
    assert "workers.toml" in done([program, "example", "list"], cwd=tmp_path, env=environment())
    for shell in ("bash", "zsh", "fish"):
        assert "_ACKD_COMPLETE" in done([program, "completion", shell], cwd=tmp_path, env=environment())


WORKER: Final = """
import sys
from ackd.worker import Task, run
def work(task: Task) -> None:
    with open("done.txt", "w") as file:
        file.write(f"{task.body}|{sys.executable}|{sys.modules['ackd.worker'].__file__}")
run(work)
"""


@one_by_one
def test_a_worker_on_a_python_without_ackd_finds_the_sdk_of_the_installed_one(installed: Path, tmp_path: Path) -> None:
    """As with pipx and uv: ackd is in an environment of its own, and `python3` is another one."""
    program = str(installed / "bin" / "ackd")
    python = f"{sys.base_prefix}/bin/python3"
    table = f'[agents.writer]\nendpoint = "process"\ncommand = [{json.dumps(python)}, "-S", "worker.py"]\n'
    (tmp_path / "ackd.toml").write_text(table)
    (tmp_path / "worker.py").write_text(WORKER)
    with (tmp_path / "log").open("wb") as log:
        daemon = subprocess.Popen([program, "run"], cwd=tmp_path, env=environment(), stdout=log, stderr=log)
    try:
        send = [program, "send", "writer", "--body", "content: hello", "--wait", "completed", "--timeout", "120"]
        end = subprocess.run(send, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        while end.returncode == 69 and daemon.poll() is None:  # it is still starting
            end = subprocess.run(send, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert end.returncode == 0, f"{end.stderr}\n{(tmp_path / 'log').read_text()}"
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE_S)
    body, by, sdk = (tmp_path / "done.txt").read_text().split("|")
    assert "hello" in body
    assert not Path(by).is_relative_to(installed)
    assert Path(sdk).is_relative_to(installed)


# --- as people install it ---------------------------------------------------------------------------------------------
def tool(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_pipx_installs_it_with_its_manual_pages(tmp_path: Path) -> None:
    pipx = [tool("pipx"), "install", "--quiet", "--python", sys.executable, str(REPOSITORY)]
    places = {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}
    done(pipx, env={**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}})
    assert done([str(tmp_path / "bin" / "ackd"), "--version"]) == f"ackd {ackd.__version__}\n"
    assert (tmp_path / "man" / "man1" / "ackd.1").is_file()
    assert (tmp_path / "man" / "man5" / "ackd.toml.5").is_file()


def test_uv_installs_it(tmp_path: Path) -> None:
    uv = [tool("uv"), "tool", "install", "--quiet", "--python", sys.executable, str(REPOSITORY)]
    places = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin"}
    done(uv, env={**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}})
    assert done([str(tmp_path / "bin" / "ackd"), "--version"]) == f"ackd {ackd.__version__}\n"
