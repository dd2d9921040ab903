"""Tests that must not run beside each other do not: their group keeps them on one worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

GROUPED = """
import os, pathlib, pytest
pytestmark = pytest.mark.xdist_group("some group")
@pytest.mark.parametrize("number", range(8))
def test_one(number):
    pathlib.Path(f"by-{os.environ['PYTEST_XDIST_WORKER']}").touch()
    assert number != 3
"""


def test_a_group_is_one_workers_and_what_fails_in_it_is_noted_by_its_own_id(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    run = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "--import-mode=importlib"]
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }  # it is no worker of ours
    ended = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert "1 failed, 7 passed" in ended.stdout, ended.stdout + ended.stderr
    assert len(list(tmp_path.glob("by-*"))) == 1
    noted = json.loads((tmp_path / ".pytest_cache/v/cache/lastfailed").read_text())
    assert list(noted) == ["test_grouped.py::test_one[3]"]
