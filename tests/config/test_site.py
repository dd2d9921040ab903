"""Finding the team's directory and its agents."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ackd.config.site import Site, find_site
from ackd.core.errors import BadConfig, BadName, NoRoot, NoTeam, UnknownAgent
from tests.nobody import needs_root

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def configured(project: Path, text: str = "") -> Path:
    (project / "ackd.toml").write_text(text)
    return project


# --- finding ------------------------------------------------------------------------------------------------------------
def test_ackd_toml_is_found_upwards_and_its_root_is_relative_to_it(project: Path) -> None:
    configured(project, 'root = "mail/.ackd"\n')
    site = find_site(cwd=project / "src" / "deep", env={})
    assert (site.config_path, site.root) == (project / "ackd.toml", project / "mail" / ".ackd")


@pytest.mark.parametrize("name", [".ackd", ".ignite"])
def test_a_bare_root_is_found_upwards(project: Path, name: str) -> None:
    (project / name).mkdir()
    site = find_site(cwd=project / "src", env={})
    assert (site.config_path, site.root) == (None, project / name)


def test_a_config_above_beats_a_bare_root_nearer_by(project: Path) -> None:
    configured(project)
    (project / "src" / ".ignite").mkdir()
    assert find_site(cwd=project / "src", env={}).root == project / ".ackd"


def test_nothing_found_says_what_to_do(project: Path) -> None:
    with pytest.raises(NoTeam, match="run `ackd init`"):
        find_site(cwd=project, env={})


def test_a_given_root_takes_the_config_above_it(project: Path, tmp_path: Path) -> None:
    configured(project, "[agents.here]\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    configured(elsewhere, "[agents.there]\n")
    (elsewhere / ".ackd").mkdir()
    site = find_site(root="../elsewhere/.ackd", cwd=project, env={})
    assert (list(site.agents), site.root) == (["there"], elsewhere / ".ackd")


def test_a_given_root_without_a_config_above_takes_the_one_where_we_stand(project: Path, tmp_path: Path) -> None:
    configured(project, "[agents.here]\n")
    (tmp_path / "mail").mkdir()
    site = find_site(root=tmp_path / "mail", cwd=project, env={})
    assert (list(site.agents), site.root) == (["here"], tmp_path / "mail")


def test_a_given_root_that_does_not_exist_and_has_no_config_is_refused(project: Path) -> None:
    with pytest.raises(NoRoot, match=r"--root names .*/nowhere, which is no directory: `ackd init --root"):
        find_site(root="nowhere", cwd=project, env={})


@pytest.mark.parametrize("given", [{"root": "nowhere"}, {"root": "nowhere", "config": "ackd.toml"}])
def test_a_root_that_was_named_and_is_not_there_is_refused_although_there_is_a_config(
    project: Path, given: dict[str, str]
) -> None:
    configured(project)
    with pytest.raises(NoRoot, match="--root names"):
        find_site(**given, cwd=project, env={})
    with pytest.raises(NoRoot, match="ACKD_ROOT names"):
        find_site(cwd=project, env={"ACKD_ROOT": "nowhere"})
    (project / "nowhere").write_text("a file")
    with pytest.raises(NoRoot):
        find_site(**given, cwd=project, env={})


def test_config_and_root_together(project: Path, tmp_path: Path) -> None:
    configured(project, 'root = "a"\n[agents.x]\n')
    (tmp_path / "b").mkdir()
    site = find_site(root="b", config=project / "ackd.toml", cwd=tmp_path, env={})
    assert (list(site.agents), site.root) == (["x"], tmp_path / "b")


def test_the_environment_is_used_unless_the_command_line_says_anything(project: Path, tmp_path: Path) -> None:
    configured(project)
    other = tmp_path / "other"
    other.mkdir()
    configured(other)
    (tmp_path / "r").mkdir()
    env = {"ACKD_CONFIG": str(other / "ackd.toml"), "ACKD_ROOT": str(tmp_path / "r")}
    assert find_site(cwd=project, env=env) == find_site(config=other / "ackd.toml", root=tmp_path / "r", env={})
    assert find_site(config="ackd.toml", cwd=project, env=env).root == project / ".ackd"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("root = 3", "root: must be a string"),
        ("agents = 3", "agents: must be a table"),
        ("[agents]\nx = 3", "x: must be a table"),
        ("max_message_bytes = true", "max_message_bytes: must be a whole number"),
        ("[agents.corrupt]", "agents.corrupt: 'corrupt' cannot be an agent's name"),
        ("[agents.'../../etc']", "'../../etc' cannot be an agent's name"),
        ("root = ", "line 1: not TOML: Invalid value (the file ends here)"),
        ("root = \n", "line 1: not TOML: Invalid value (column 8)"),
    ],
)
def test_what_the_quick_commands_need_is_checked(project: Path, text: str, problem: str) -> None:
    configured(project, text)
    with pytest.raises(BadConfig) as caught:
        find_site(cwd=project, env={})
    assert problem in str(caught.value)


def test_durability_process_lets_writers_skip_the_flush(project: Path) -> None:
    configured(project, '[delivery]\ndurability = "process"\n')
    assert not find_site(cwd=project, env={}).fsync


# --- agents -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def site(tmp_path: Path) -> Site:
    for name in ("ignitian-1", "evaluator", "dead_letter", "corrupt", ".hidden", "not a name"):
        (tmp_path / "queue" / name).mkdir(parents=True)
    (tmp_path / "queue" / "file").touch()
    (tmp_path / "queue" / "link").symlink_to(tmp_path)
    return Site(config_path=None, root=tmp_path, agents={"ignitian_1": {}, "leader": {}})


def test_agents_are_the_configs_the_directories_and_the_built_in(site: Site) -> None:
    assert site.known_agents() == ["ignitian_1", "leader", "evaluator", "user", "system", "queue_monitor"]


def test_a_missing_queue_directory_has_no_boxes(tmp_path: Path) -> None:
    assert Site(None, tmp_path / "absent").known_agents() == ["user", "system", "queue_monitor"]


def test_both_spellings_mean_the_agent_of_the_config(site: Site) -> None:
    assert {site.resolve_agent(name) for name in ("ignitian-1", "ignitian_1")} == {"ignitian_1"}


def test_the_existing_directory_is_the_box_whatever_its_spelling(site: Site) -> None:
    assert site.box_dir("ignitian_1").name == "ignitian-1"
    (site.queue / "ignitian_1").mkdir()
    assert site.box_dir("ignitian_1").name == "ignitian_1"
    assert site.box_dir("leader") == site.queue / "leader"


def test_unknown_agents_are_named_with_the_known(site: Site) -> None:
    with pytest.raises(UnknownAgent) as caught:
        site.resolve_agent("evaluater")
    assert "evaluator" in caught.value.known


@pytest.mark.parametrize(
    "name", ["../../etc", "", ".", "..", "a/b", "dead_letter", "corrupt", "processed", "-x", "a\nb"]
)
def test_names_that_lead_elsewhere_are_refused(site: Site, name: str) -> None:
    for call in (site.resolve_agent, site.box_dir):
        with pytest.raises(BadName):
            call(name)


def test_reading_a_site_imports_nothing_heavy() -> None:
    heavy = "{'asyncio', 'anyio', 'pydantic', 'structlog', 'rich', 'yaml'}"
    code = f"import sys, ackd.config.site, ackd.storage.maildrop; assert not {heavy} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- trust --------------------------------------------------------------------------------------------------------------
FOUND = ["ackd.toml", ".ackd", ".ignite"]
STRANGER = 12_345


def make(place: Path, name: str) -> Path:
    path = place / name
    if name == "ackd.toml":
        path.write_text("[agents.theirs]\n")
    else:
        path.mkdir()
    return path


def option_for(path: Path) -> str:
    return "--config" if path.name == "ackd.toml" else "--root"


@needs_root
@pytest.mark.parametrize("name", FOUND)
def test_what_is_found_and_is_a_strangers_is_refused_with_its_owner_and_the_cure(project: Path, name: str) -> None:
    path = make(project, name)
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(BadConfig) as refused:
        find_site(cwd=project / "src" / "deep", env={})
    words = str(refused.value)
    assert f"{path}: belongs to uid {STRANGER}, neither to you (root, uid 0) nor to root" in words
    assert f"say {option_for(path)} {path}, or set ACKD_TRUST={path}" in words


@needs_root
@pytest.mark.parametrize("name", FOUND)
def test_what_is_named_is_trusted(project: Path, name: str) -> None:
    path = make(project, name)
    os.chown(path, STRANGER, STRANGER)
    os.chown(project, STRANGER, STRANGER)
    for trusted in (path, project, f"/elsewhere:{path}:", project / "src" / ".." / name):
        find_site(cwd=project / "src", env={"ACKD_TRUST": str(trusted)})
    for not_it in ("", "/", "*", str(project / "src"), str(project.parent)):
        with pytest.raises(BadConfig, match="if you trust it"):
            find_site(cwd=project / "src", env={"ACKD_TRUST": not_it})
    named = {"config": path} if name == "ackd.toml" else {"root": path}
    find_site(cwd=project / "src", env={}, **named)
    find_site(cwd=project / "src", env={f"ACKD_{option_for(path)[2:].upper()}": str(path)})


@pytest.mark.parametrize("name", FOUND)
def test_what_everybody_can_write_is_refused(project: Path, name: str) -> None:
    path = make(project, name)
    path.chmod(path.stat().st_mode | 0o022)
    with pytest.raises(BadConfig, match=r"can be written by everybody \(mode 0[67][67][67]"):
        find_site(cwd=project / "src", env={})
    path.chmod(path.stat().st_mode & ~0o002)
    find_site(cwd=project / "src", env={})


@pytest.mark.parametrize("name", FOUND)
def test_what_everybody_can_replace_is_refused_and_a_sticky_directory_is_fine(project: Path, name: str) -> None:
    make(project, name)
    project.chmod(0o777)
    with pytest.raises(BadConfig, match="can be replaced by everybody"):
        find_site(cwd=project / "src", env={})
    project.chmod(0o1777)
    find_site(cwd=project / "src", env={})


@needs_root
@pytest.mark.parametrize("name", FOUND)
def test_a_strangers_link_to_what_is_ours_is_the_strangers(project: Path, tmp_path: Path, name: str) -> None:
    """Paths in a config are relative to the link: the stranger's scripts would be run."""
    (project / name).symlink_to(make(tmp_path, name))
    os.chown(project / name, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(BadConfig, match=f"belongs to uid {STRANGER}"):
        find_site(cwd=project / "src", env={})
    os.chown(project / name, 0, 0, follow_symlinks=False)
    find_site(cwd=project / "src", env={})


@needs_root
def test_a_strangers_config_above_a_root_that_was_named_is_refused(project: Path) -> None:
    os.chown(make(project, "ackd.toml"), STRANGER, STRANGER)
    make(project, ".ackd")
    with pytest.raises(BadConfig, match="--config"):
        find_site(root=project / ".ackd", cwd=project, env={})


@needs_root
def test_a_root_that_a_stranger_made_beside_our_config_is_refused(project: Path) -> None:
    make(project, "ackd.toml")
    os.chown(make(project, ".ackd"), STRANGER, STRANGER)
    with pytest.raises(BadConfig, match="--root"):
        find_site(cwd=project, env={})
    assert find_site(root=".ackd", cwd=project, env={}).root == project / ".ackd"
    assert find_site(config="ackd.toml", cwd=project, env={}).root == project / ".ackd"
