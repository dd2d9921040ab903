"""Where there is no systemd to speak with, somebody is told what to do. The real one is tests/system_manager's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackd.client.errors import ManagerRefused, NoServiceManager
from ackd.client.service import systemctl
from ackd.client.service.systemctl import SYSTEM, USER, Manager


def test_without_systemd_the_advice_is_to_let_something_else_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemctl, "_BOOTED", tmp_path / "none")
    for scope in (USER, SYSTEM):
        with pytest.raises(NoServiceManager, match="ackd run --quiet"):
            Manager(scope).require()


def test_without_one_of_the_users_own_the_advice_is_linger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemctl, "_BOOTED", tmp_path)
    with pytest.raises(NoServiceManager, match="loginctl enable-linger"):
        Manager(USER, {"XDG_RUNTIME_DIR": str(tmp_path)}).require()
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd/private").touch()
    Manager(USER, {"XDG_RUNTIME_DIR": str(tmp_path)}).require()
    Manager(SYSTEM, {}).require()


def test_a_command_that_is_missing_or_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoServiceManager, match="systemctl is not installed"):
        Manager(SYSTEM, {"PATH": str(tmp_path)}).run("start", "x")
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho 'no such unit' >&2; exit 5\n")
    (tmp_path / "systemctl").chmod(0o755)
    with pytest.raises(ManagerRefused, match="systemctl --user start x: no such unit"):
        Manager(USER, {"PATH": str(tmp_path)}).run("start", "x")


def test_directories_are_those_of_the_users_own_choice() -> None:
    chosen = Manager(USER, {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"})
    assert (chosen.unit_directory, chosen.data_directory) == (Path("/c/systemd/user"), Path("/d"))
    relative = Manager(USER, {"XDG_CONFIG_HOME": "c"})
    assert relative.unit_directory == Path.home() / ".config/systemd/user"
    assert Manager(SYSTEM, {}).unit_directory == Path("/etc/systemd/system")
