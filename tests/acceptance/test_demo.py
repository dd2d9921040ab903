"""``ackd demo``, as a person types it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.acceptance.teams import Team


def test_the_demo_ends_well_in_half_a_minute_and_shows_what_it_promises(tmp_path: Path) -> None:
    environment = Team(tmp_path / "unused").environment | {"TMPDIR": str(tmp_path), "COLUMNS": "120"}
    began = time.monotonic()
    demo = subprocess.run(
        [sys.executable, "-m", "ackd", "demo"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    took_s = time.monotonic() - began
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr
    assert took_s < 30
    assert demo.stderr == ""
    assert "Every message ended where it should." in demo.stdout
    status = demo.stdout.partition("Where everybody stands")[2].partition("What became of the dead letter")[0]
    rows = dict(re.findall(r"^(\w+) +exec +(\w+)", status, re.MULTILINE))
    assert rows == dict.fromkeys(["leader", "coordinator", "ignitian_1", "ignitian_2", "ignitian_3"], "available")
    assert "ended: SIGTERM" in status  # it was still running when it was asked
    story = demo.stdout.partition("What became of the dead letter")[2]
    assert "no connection to the site" in story
    (place,) = re.findall(r"^  cd (.*)$", demo.stdout, re.MULTILINE)
    assert Path(place).parent == tmp_path
    assert (Path(place) / "ackd.toml").exists()
    kept = subprocess.run(
        [sys.executable, "-m", "ackd", "status"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "not running" in kept.stdout
    shutil.rmtree(place)
