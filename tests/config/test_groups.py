"""Groups, pools and templates of ackd.toml: who is in them, by the model and by the fast reader, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.config.model import load
from ackd.config.site import find_site
from ackd.core.errors import BadConfig, BadName, NotOneAgent, UnknownAgent
from ackd.endpoints.exec.settings import ExecSettings
from ackd.endpoints.process.settings import ProcessSettings
from ackd.endpoints.tmux.settings import TmuxSettings

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.config.model import Config
    from ackd.config.site import Site

TEAM = """
[groups]
reviewers = ["alice", "bob_b", "user"]
[pools.workers]
template = "coder"
size = 3
[pools.both]
members = ["alice", "workers_2"]
pool_timeout_s = 5
[templates.coder]
endpoint = "exec"
command = ["./code", "--name", "{agent}", "${agent}", "{other}"]
cwd = "work/{pool}/{number}"
env = { NAME = "{agent}" }
labels = ["gpu", "py3.12"]
[agents.alice]
labels = ["gpu"]
[agents.bob-b]
"""


def read_both(tmp_path: Path, text: str) -> tuple[Config, Site]:
    (tmp_path / "ackd.toml").write_text(text, encoding="utf-8")
    return load(tmp_path / "ackd.toml"), find_site(config=tmp_path / "ackd.toml", env={})


def refusals(tmp_path: Path, text: str) -> tuple[list[str], list[str]]:
    """What the model and the fast reader refuse, each problem as text."""
    path = tmp_path / "ackd.toml"
    path.write_text(text, encoding="utf-8")
    said = []
    for read in (lambda: load(path), lambda: find_site(config=path, env={})):
        with pytest.raises(BadConfig) as caught:
            read()
        said.append([str(problem) for problem in caught.value.problems])
    return said[0], said[1]


# --- who is there -----------------------------------------------------------------------------------------------------
def test_the_model_and_the_fast_reader_have_the_same_agents_groups_and_pools(tmp_path: Path) -> None:
    config, site = read_both(tmp_path, TEAM)
    assert list(config.agents) == list(site.agents) == ["alice", "bob-b", "workers-1", "workers-2", "workers-3"]
    assert {name: config.group_members(name) for name in config.groups} == site.groups
    assert {name: config.pool_members(name) for name in config.pools} == site.pools
    assert site.groups == {"reviewers": ("alice", "bob-b", "user")}
    assert site.pools == {"workers": ("workers-1", "workers-2", "workers-3"), "both": ("alice", "workers-2")}
    assert config.pools["workers"].pool_timeout_s == 900
    assert config.pools["both"].pool_timeout_s == 5


def test_a_name_is_found_in_any_spelling(tmp_path: Path) -> None:
    config, site = read_both(tmp_path, '[groups]\nthe-few = ["a"]\n[pools.the_many]\nmembers = []\n[agents.a]\n')
    for place in (config, site):
        assert place.group_called("the_few") == "the-few"
        assert place.pool_called("the-many") == "the_many"
        assert place.group_called("the-many") is None
        assert place.pool_called("a") is None
    assert config.group_members("the_few") == ("a",)
    assert config.pool_members("the-many") == ()
    with pytest.raises(KeyError):
        config.pool_members("a")


def test_an_agent_of_a_template_has_its_table_with_its_own_name_in_it(tmp_path: Path) -> None:
    config, site = read_both(tmp_path, TEAM)
    table = config.agent("workers_2")
    assert isinstance(table, ExecSettings)
    assert table.command == ("./code", "--name", "workers-2", "${agent}", "{other}")
    assert (table.cwd, table.env, table.labels) == ("work/workers/2", {"NAME": "workers-2"}, ("gpu", "py3.12"))
    assert site.agents["workers-2"]["cwd"] == "work/workers/2"
    assert config.policy("workers-2") == config.policy("workers-1")
    assert config.agent("coder").endpoint == "inbox", "a template is no agent"
    assert "coder" not in site.known_agents()


def test_a_template_may_be_a_process_or_a_pane(tmp_path: Path) -> None:
    text = """
[pools.children]
template = "child"
size = 1
[pools.panes]
template = "pane"
size = 2
[templates.child]
endpoint = "process"
command = ["./w"]
[templates.pane]
endpoint = "tmux"
title = "pane {number}"
start = "claude"
"""
    config, _ = read_both(tmp_path, text)
    child, pane = config.agent("children-1"), config.agent("panes-2")
    assert isinstance(child, ProcessSettings)
    assert isinstance(pane, TmuxSettings)
    assert (pane.title, pane.start) == ("pane 2", "claude")


def test_an_empty_pool_is_a_pool(tmp_path: Path) -> None:
    _, site = read_both(tmp_path, '[pools.a]\nmembers = []\n[pools.b]\ntemplate = "t"\nsize = 0\n[templates.t]\n')
    assert site.pools == {"a": (), "b": ()}


# --- addresses --------------------------------------------------------------------------------------------------------
def test_groups_and_pools_are_addresses_and_no_agents(tmp_path: Path) -> None:
    _, site = read_both(tmp_path, TEAM)
    for box in ("reviewers", "both", "stray"):
        (site.queue / box).mkdir(parents=True)
    assert {"stray", "alice"} <= set(site.known_agents())
    assert not {"reviewers", "both", "workers"} & set(site.known_agents())
    assert site.addresses()[-3:] == ["reviewers", "workers", "both"]
    assert [site.resolve_address(name) for name in ("reviewers", "both", "bob_b", "user")] == [
        "reviewers",
        "both",
        "bob-b",
        "user",
    ]
    with pytest.raises(NotOneAgent, match="'reviewers' is a group of alice, bob-b, user, not an agent"):
        site.resolve_agent("reviewers")
    with pytest.raises(UnknownAgent) as unknown:
        site.resolve_address("reviewer")
    assert "reviewers" in unknown.value.known
    with pytest.raises(BadName):
        site.resolve_address("../etc")


def test_whoever_gets_mail_may_be_a_group_or_a_pool_and_whoever_works_may_not(tmp_path: Path) -> None:
    text = """
escalate_to = "the_few"
[groups]
the-few = ["a"]
[pools.many]
members = ["a"]
[agents.a]
[ensemble]
dispatch = "the-few"
conductor = "many"
routes = [{ match = "x", to = "many" }]
[bus]
orchestrator = "the-few"
[board]
directors = { a = "all", many = "some" }
"""
    config, _ = read_both(tmp_path, text)
    assert config.engine_policy().escalate_to == "the-few"
    (tmp_path / "ackd.toml").write_text(text + '[bus.workers]\nw = "many"\n')
    with pytest.raises(BadConfig, match="'many' is not an agent"):
        load(tmp_path / "ackd.toml")


# --- what is refused --------------------------------------------------------------------------------------------------
AGENTS = "[agents.a]\n[agents.b-c]\n"
SHARED = "agents, groups and pools share one name space"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[groups]\na = ['b-c']", f"line 4: groups.a: 'a' is also the agent `a`: {SHARED}"),
        ("[groups]\nb_c = ['a']", f"groups.b_c: 'b_c' is also the agent `b-c` (`-` and `_` are one): {SHARED}"),
        ("[pools.a]\nmembers = ['a']", f"line 3: pools.a: 'a' is also the agent `a`: {SHARED}"),
        ("[groups]\nx = ['a']\n[pools.x]\nmembers = ['a']", f"line 5: pools.x: 'x' is also a group `x`: {SHARED}"),
        ("[groups]\nx_y = ['a']\nx-y = ['a']", "groups.x-y: 'x-y' is also a group `x_y` (`-` and `_` are one)"),
        ("[groups]\nuser = ['a']", "groups.user: 'user' is also user, who is in every team"),
        ("[groups]\nqueue-monitor = ['a']", "'queue-monitor' is also queue_monitor, who is in every team (`-`"),
        ("[pools.system]\nmembers = ['a']", "pools.system: 'system' is also system, who is in every team"),
        ("[groups]\ndead_letter = ['a']", "groups.dead_letter: 'dead_letter' cannot be the name of a group: the name is"),
        ("[groups]\n'../x' = ['a']", "groups.../x: '../x' cannot be the name of a group: a name is 1 to 64"),
        ("[groups]\nx = []", "line 4: groups.x: has no members: mail to it would reach nobody"),
        ("[groups]\nx = ['alice']", "groups.x: 'alice' is not an agent"),
        ("[groups]\nx = ['b-d']", "groups.x: 'b-d' is not an agent: did you mean `b-c`?"),
        ("[groups]\nx = ['a', 'a']", "groups.x: `a` stands in it twice"),
        ("[groups]\nx = ['a', 'system']", "groups.x: `system` lives inside the daemon"),
        ("[groups]\nx = ['a']\ny = ['x']", "line 5: groups.y: `x` is a group: groups and pools have agents as members"),
        ("[groups]\nx = ['x']", "groups.x: `x` is a group: groups and pools have agents as members, and cannot be"),
        ("[groups]\nx = ['p']\n[pools.p]\nmembers = ['a']", "groups.x: `p` is a pool: groups and pools have agents"),
        ("[pools.p]\nmembers = ['p']", "line 4: pools.p.members: `p` is a pool: groups and pools have agents"),
        ("[pools.p]\nmembers = ['b-c', 'b_c']", "line 4: pools.p.members: `b_c` stands in it twice"),
        ("[pools.p]", 'line 3: pools.p: needs its members (members = ["a", "b"]), or a template and a size'),
        ("[pools.p]\nsize = 2", "line 4: pools.p.size: says how many agents are made of a template: which?"),
        ("[pools.p]\ntemplate = 't'\n[templates.t]", "line 4: pools.p.template: how many agents are made of it?"),
        ("[pools.p]\ntemplate = 'u'\nsize = 1\n[templates.t]", "there is no [templates.u]"),
        ("[pools.p]\ntemplate = 'codr'\nsize = 1\n[templates.coder]", "[templates.codr]: did you mean `coder`?"),
        ("[pools.p]\nmembers = ['a']\nsize = 1", "line 5: pools.p.size: a pool has either members, or a template and"),
        (
            "[pools.p]\ntemplate = 't'\nsize = 2\n[templates.t]\n[agents.p_2]",
            "line 3: pools.p: its member 'p-2' is also the agent `p_2` (`-` and `_` are one)",
        ),
        (
            "[groups]\np-1 = ['a']\n[pools.p]\ntemplate = 't'\nsize = 1\n[templates.t]",
            "line 5: pools.p: its member 'p-1' is also a group `p-1`",
        ),
        (
            f"[pools.{'p' * 63}]\ntemplate = 't'\nsize = 1\n[templates.t]",
            "-1' cannot be the name of an agent: a name is 1 to 64",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_the_daemon_and_by_the_quick_commands(
    tmp_path: Path, text: str, expected: str
) -> None:
    of_model, of_site = refusals(tmp_path, AGENTS + text + "\n")
    assert len(of_model) == len(of_site) == 1, (of_model, of_site)
    assert expected in of_model[0]
    assert of_model[0].partition(": ")[2] == of_site[0], "the same words, but for the line"
    assert of_model[0].startswith("line ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[groups]\nx = 'a'", "groups.x: must be a list, not 'a'"),
        ("[pools]\nx = ['a']", "pools.x: must be a table"),
        ("[pools.x]\nmembers = 'a'", "pools.x.members: must be a list, not 'a'"),
        ("[pools.x]\ntemplate = 't'\nsize = '4'\n[templates.t]", "pools.x.size: must be a whole number, not '4'"),
    ],
)
def test_what_has_the_wrong_type_is_refused_by_both(tmp_path: Path, text: str, expected: str) -> None:
    of_model, of_site = refusals(tmp_path, AGENTS + text)
    assert len(of_model) == len(of_site) == 1
    assert expected in of_model[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[pools.x]\nmember = ['a']\nmembers = []", "line 4: pools.x.member: unknown key `member`: did you mean `members`"),
        ("[pools.x]\nmembers = []\npool_timeout_s = 0", "line 5: pools.x.pool_timeout_s: must be greater than 0, not 0"),
        ("[pools.x]\ntemplate = 't'\nsize = 1001\n[templates.t]", "line 5: pools.x.size: must be less than or equal to"),
        ("[pools.x]\ntemplate = 't'\nsize = -1\n[templates.t]", "line 5: pools.x.size: must be greater than or equal"),
        ("[templates.t]\nendpoint = 'exec'", "line 3: templates.t.command: endpoint exec needs a command"),
        ("[templates.t]\ncommand = ['x']", "line 4: templates.t.command: has no meaning for endpoint inbox"),
        ("[templates.t]\ncomand = ['x']", "line 4: templates.t.comand: unknown key `comand`: did you mean `command`?"),
        ("[templates.t]\nendpoint = 'tmux'\npane = 'a:{pool}'", "line 5: templates.t.pane: all agents made of this"),
        ("[templates.t]\nendpoint = 'tmux'\ntitle = 'a'", "line 5: templates.t.title: all agents made of this template"),
        ("[templates.t]\nloop_limit = 3", "templates.t.loop_limit: `loop_limit` holds for the whole team"),
        ("[agents.d]\nlabels = ['g p u']", "line 4: agents.d.labels: 'g p u' is no label: 1 to 64 letters"),
        ("[agents.d]\nlabels = 'gpu'", "line 4: agents.d.labels: must be a list, not 'gpu'"),
        ("[templates.t]\nlabels = ['']", "line 4: templates.t.labels: '' is no label"),
    ],
)  # fmt: skip
def test_what_only_the_daemon_needs_is_refused_by_the_model(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "ackd.toml"
    path.write_text(AGENTS + text)
    with pytest.raises(BadConfig) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert expected in str(problem)


def test_the_mistakes_of_a_template_are_told_once_however_many_are_made_of_it(tmp_path: Path) -> None:
    path = tmp_path / "ackd.toml"
    path.write_text(
        "[pools.p]\ntemplate = 't'\nsize = 9\n[templates.t]\nendpoint = 'tmux'\npane = 'x'\n"
        "completes_on_type = { nonsense = 'seen' }\n"
    )
    with pytest.raises(BadConfig) as caught:
        load(path)
    assert [problem.where for problem in caught.value.problems] == [
        "templates.t.pane",
        "templates.t.completes_on_type.nonsense",
    ]


def test_names_that_a_capability_gives_its_own_agents_are_refused(tmp_path: Path) -> None:
    text = "[pipeline.worker]\ncommand = ['x']\n[agents.a]\n[groups]\npipeline_lead = ['a']\nstory-A-1-s0 = ['a']\n"
    of_model, _ = refusals(tmp_path, text)
    assert len(of_model) == 2
    assert "is also pipeline-lead, which [pipeline] brings" in of_model[0]
    assert "'story-A-1-s0' is a name that [pipeline] gives its own agents" in of_model[1]
