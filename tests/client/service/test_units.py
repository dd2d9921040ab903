"""The unit of a workspace, as text. What systemd makes of it is tests/system_manager's."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ackd.client import shipped
from ackd.client.service.units import SYSTEM_UNIT, USER_UNIT, Account, UnitWords, text

if TYPE_CHECKING:
    from pathlib import Path

WORDS = UnitWords("ackd@x.service", "/home/me/a b", ["/opt/a b/ackd", "run", "--root", "/r$HOME/50%"], "/opt/a b:/bin")
TEAM = Account("team", "team", "/home/team")


def lines(made: str) -> list[str]:
    return [line for line in made.splitlines() if line and not line.startswith("#")]


def test_only_what_this_installation_knows_better_differs_from_the_unit_that_comes_with_ackd() -> None:
    original = lines(shipped.unit_text(USER_UNIT))
    made = lines(text(shipped.unit_text(USER_UNIT), WORDS))
    assert [line for line in made if line not in original] == [
        "Description=ackd: messages between the coding agents of /home/me/a b",
        "WorkingDirectory=/home/me/a b",
        'ExecStart="/opt/a b/ackd" "run" "--root" "/r$$HOME/50%%"',
        'Environment="PATH=/opt/a b:/bin"',
    ]
    assert {line.partition("=")[0] for line in original if line not in made} == {
        "Description",
        "WorkingDirectory",
        "ExecStart",
    }


def test_a_system_unit_may_write_to_its_workspace_and_home_and_runs_as_its_account() -> None:
    made = lines(text(shipped.unit_text(SYSTEM_UNIT), WORDS._replace(account=TEAM, writes=["/var/root"])))
    assert "User=team" in made
    assert "Group=team" in made
    assert [line for line in made if line.startswith("ReadWritePaths")] == [
        "ReadWritePaths=/tmp /var/tmp",
        'ReadWritePaths="-/home/me/a b"',
        'ReadWritePaths="-/home/team"',
        'ReadWritePaths="-/var/root"',
    ]
    assert not [line for line in made if line.startswith("StateDirectory")]
    assert "UMask=0077" in made


@pytest.mark.parametrize("account", [None, TEAM])
@pytest.mark.parametrize("place", ["plain", 'quote"s', "per%cent", "back\\slash", "umläut", "dollar$HOME", "'"])
def test_systemd_takes_units_of_any_path(tmp_path: Path, place: str, account: Account | None) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    workspace = tmp_path / place
    workspace.mkdir()
    program = tmp_path / "dollar$HOME" / "ackd"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    words = UnitWords("ackd@x.service", str(workspace), [str(program), "run", str(workspace)], str(workspace), account)
    unit = tmp_path / "ackd-test.service"
    unit.write_text(text(shipped.unit_text(SYSTEM_UNIT if account else USER_UNIT), words))
    verified = subprocess.run(
        ["systemd-analyze", "--man=no", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert [line for line in verified.stderr.splitlines() if "ackd-test.service" in line] == []
    assert verified.returncode == 0, verified.stderr
