"""ackd.toml as a whole: its meaning, and the problems that are reported."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ackd.config.agents import TEAM_ONLY, DeliverySettings, agent_keys, settings_of
from ackd.config.model import Config, PoolSettings, load, load_site
from ackd.config.site import Site
from ackd.coordination.board.settings import BoardSettings
from ackd.coordination.bus.settings import BusSettings
from ackd.coordination.ensemble.settings import EnsembleSettings
from ackd.coordination.pipeline.settings import PipelineSettings, StageWorker
from ackd.core.errors import BadConfig
from ackd.core.policy import UNLIMITED, AgentPolicy, CompletesOn, EnginePolicy
from ackd.endpoints import registry
from ackd.endpoints.exec.settings import ExecSettings
from ackd.endpoints.process.settings import ProcessSettings
from ackd.endpoints.tmux.screen import load_profile
from ackd.endpoints.tmux.settings import TmuxSettings

REFERENCE = Path(__file__).parents[2] / "config" / "ackd.toml"


def config_of(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "ackd.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def problems_of(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(BadConfig) as caught:
        config_of(tmp_path, text)
    return [str(problem) for problem in caught.value.problems]


def config_with(**agents: dict[str, object]) -> Config:
    return Config.model_validate({"agents": agents})


def one_of_each_kind() -> Config:
    more: dict[str, dict[str, object]] = {"exec": {"command": ["x"]}, "process": {"command": ["x"]}}
    return config_with(**{kind: {"endpoint": kind, **more.get(kind, {})} for kind in registry.KINDS})


# --- what it means ----------------------------------------------------------------------------------------------------
def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    config = config_of(tmp_path, "")
    assert config.model_dump() == Config().model_dump()
    assert config.root_dir == tmp_path / ".ackd"
    assert config.path == tmp_path / "ackd.toml"


def test_defaults_are_those_of_the_engine() -> None:
    config = config_with(e={"endpoint": "exec", "command": ["true"]})
    assert config.policy("e") == AgentPolicy(volatile=True)
    assert config.engine_policy() == EnginePolicy()


def test_what_completes_a_message_follows_the_endpoint_then_the_table_then_the_type(tmp_path: Path) -> None:
    text = """
[delivery]
completes_on_type = { task_completed = "seen", escalation = "done" }
[agents.pane]
endpoint = "tmux"
pane = "a:0.0"
[agents.reader]
completes_on = "seen"
completes_on_type = { task_completed = "done" }
[agents.run]
endpoint = "exec"
command = ["true"]
"""
    config, done, seen = config_of(tmp_path, text), CompletesOn.DONE, CompletesOn.SEEN
    by_type = (("escalation", done), ("task_completed", seen))
    pane, reader, run, user = (config.policy(name) for name in ("pane", "reader", "run", "user"))
    assert (pane.completes_on, pane.notices_complete_on, pane.completes_on_type) == (done, seen, by_type)
    assert (user.completes_on, user.notices_complete_on, user.completes_on_type) == (done, done, by_type)
    assert (reader.completes_on, reader.notices_complete_on) == (seen, seen)
    assert reader.completes_on_type == (("escalation", done), ("task_completed", done))
    assert (run.completes_on, run.notices_complete_on, run.completes_on_type) == (done, done, ())


def test_the_end_of_a_turn_cannot_complete_what_no_endpoint_can_prove(tmp_path: Path) -> None:
    pane = '[agents.a]\nendpoint = "tmux"\npane = "a:0.0"\n'
    problems = problems_of(tmp_path, f'{pane}completes_on = "turn"\ncompletes_on_type = {{ message = "turn" }}')
    assert len(problems) == 2
    assert "must be 'done' or 'seen', not 'turn'" in problems[0]
    assert problems_of(tmp_path, '[delivery]\ncompletes_on = "turn"')
    (meaningless,) = problems_of(tmp_path, '[agents.a]\nendpoint = "exec"\ncommand = ["x"]\ncompletes_on = "seen"')
    assert "has no meaning for endpoint exec" in meaningless
    (unknown,) = problems_of(tmp_path, f'{pane}completes_on_type = {{ task_complete = "seen" }}')
    assert "did you mean `task_completed`?" in unknown
    config_of(tmp_path, f'unknown_types = "deliver"\n{pane}completes_on_type = {{ our_own = "seen" }}')


def test_the_example_of_the_design_loads(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        """
escalate_to = "leader"
max_message_bytes = 1_048_576
[delivery]
max_in_flight = 1
durability = "power"
[agents.leader]
endpoint = "tmux"
pane = "team:0.0"
profile = "claude"
[agents.ignitian_1]
endpoint = "process"
command = ["python3", "worker.py"]
cwd = "."
env = { LANG = "C.UTF-8" }
[agents.evaluator]
endpoint = "exec"
command = ["./evaluate.sh"]
timeout_s = 600
[agents.user]
endpoint = "inbox"
""",
    )
    evaluator, ignitian = config.agents["evaluator"], config.agents["ignitian_1"]
    assert isinstance(evaluator, ExecSettings)
    assert evaluator.command == ("./evaluate.sh",)
    assert isinstance(ignitian, ProcessSettings)
    assert ignitian.env == {"LANG": "C.UTF-8"}
    assert config.engine_policy().escalate_to == "leader"


def test_what_was_told_to_a_run_inside_the_daemons_reach_does_not_outlive_it() -> None:
    config = one_of_each_kind()
    assert {name for name in config.agents if config.policy(name).volatile} == {"exec", "handler", "process"}


def test_windows_ladders_and_reminders_follow_the_endpoint() -> None:
    config = one_of_each_kind()
    agents = config.agents
    seen = {
        name: (config.policy(name).max_in_flight, config.policy(name).rungs, config.policy(name).reminds)
        for name in agents
    }
    assert seen == {
        "tmux": (1, 3, False),
        "process": (1, 3, False),
        "exec": (1, None, False),
        "inbox": (UNLIMITED, None, True),
        "handler": (UNLIMITED, None, False),
    }


def test_an_agents_own_number_beats_the_teams(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        """
[delivery]
ack_timeout_s = 20
max_in_flight = 4
[agents.a]
endpoint = "exec"
command = ["true"]
ack_timeout_s = 5
retry_limit = 0
[agents.b]
endpoint = "exec"
command = ["true"]
[agents.c]
max_in_flight = 2
[agents.d]
""",
    )
    assert (config.policy("a").ack_timeout_s, config.policy("a").retry_limit) == (5, 0)
    assert (config.policy("b").ack_timeout_s, config.policy("b").max_in_flight) == (20, 4)
    assert config.policy("c").max_in_flight == 2
    assert config.policy("d").max_in_flight == UNLIMITED


def test_every_delivery_key_but_the_teams_own_may_stand_in_an_agents_table() -> None:
    assert DeliverySettings.model_fields.keys() - TEAM_ONLY <= set(agent_keys())


def test_spellings_of_one_agent_find_one_table() -> None:
    config = Config.model_validate({"escalate_to": "work-er", "agents": {"work_er": {"retry_limit": 7}}})
    assert config.policy("work-er").retry_limit == 7
    assert config.engine_policy().escalate_to == "work_er"


def test_agents_without_a_table_are_inboxes_or_live_inside_the_daemon() -> None:
    config = Config()
    assert config.agent("anyone").endpoint == "inbox"
    assert config.agent("user").endpoint == "inbox"
    assert config.agent("system").endpoint == "handler"
    assert config.agent("queue_monitor").endpoint == "handler"


def test_the_fingerprint_tells_meanings_apart_not_spellings(tmp_path: Path) -> None:
    one = config_of(tmp_path, "archive_days = 30\n").fingerprint()
    same = config_of(tmp_path, "# a comment\n[watch]\nsettle_s = 1\n").fingerprint()
    other = config_of(tmp_path, "archive_days = 31\n").fingerprint()
    assert one == same != other


def test_a_given_root_replaces_the_files_own(tmp_path: Path) -> None:
    (tmp_path / "ackd.toml").write_text('root = "here"\n')
    site = Site(config_path=tmp_path / "ackd.toml", root=tmp_path / "there")
    assert load_site(site).root_dir == tmp_path / "there"


def test_a_bare_root_has_the_defaults(tmp_path: Path) -> None:
    config = load_site(Site(config_path=None, root=tmp_path / ".ignite"))
    assert config.root_dir == tmp_path / ".ignite"
    assert config.base_dir == tmp_path
    assert config.policy("leader").reminds


# --- what is wrong ----------------------------------------------------------------------------------------------------
def test_an_unknown_key_answers_with_the_nearest_known_one(tmp_path: Path) -> None:
    text = "[delivery]\nretry_limit = 3\nack_timout_s = 5\n"
    assert problems_of(tmp_path, text) == [
        "line 3: delivery.ack_timout_s: unknown key `ack_timout_s`: did you mean `ack_timeout_s`?"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arcive_days = 3", "line 1: arcive_days: unknown key `arcive_days`: did you mean `archive_days`?"),
        ("settle_s = 3", "line 1: settle_s: unknown key `settle_s` here: it belongs in [watch]"),
        ("[agents.a]\nendpont = 'inbox'", "line 2: agents.a.endpont: unknown key `endpont`: did you mean `endpoint`?"),
        ("[agents.a]\nloop_limit = 2", "line 2: agents.a.loop_limit: `loop_limit` holds for the whole team"),
        (
            "[agents.a]\nendpoint = 'email'",
            "line 2: agents.a.endpoint: must be 'tmux', 'process', 'exec', 'inbox' or 'handler'",
        ),
        ("[delivery]\nack_timeout_s = 0", "line 2: delivery.ack_timeout_s: must be greater than 0, not 0"),
        ("[delivery]\nack_timeout_s = '5'", "line 2: delivery.ack_timeout_s: must be a number, not '5'"),
        ("[delivery]\nretry_limit = true", "line 2: delivery.retry_limit: must be a whole number, not True"),
        ("[delivery]\naging_s = nan", "line 2: delivery.aging_s: must be a finite number"),
        ("[delivery]\naging_s = inf", "line 2: delivery.aging_s:"),
        ("[delivery]\ndurability = 'hope'", "line 2: delivery.durability: must be 'power' or 'process', not 'hope'"),
        ("[watch]\nmode = 'fanotify'", "line 2: watch.mode: must be 'auto', 'inotify' or 'polling', not 'fanotify'"),
        ("[liveness]\ncontext_threshold = 1.5", "line 2: liveness.context_threshold: must be less than or equal to 1"),
        ("max_message_bytes = 10", "line 1: max_message_bytes: must be greater than or equal to 1024, not 10"),
        ("on_escalation = 'mail'", "line 1: on_escalation: must be a list, not 'mail'"),
        ("extra_types = ['No Good']", "line 1: extra_types: 'No Good' is no type"),
        ("[delivery]\nbackoff_base_s = 9\nbackoff_cap_s = 8", "line 3: delivery.backoff_cap_s: must not be less than"),
        (
            "escalate_to = 'leadr'\n[agents.leader]",
            "line 1: escalate_to: 'leadr' is not an agent: did you mean `leader`?",
        ),
        ("escalate_to = 'queue_monitor'", "line 1: escalate_to: queue_monitor lives inside the daemon"),
        ("escalate_to = '../../etc'", "line 1: escalate_to: '../../etc' is not an agent"),
        ("[agents.dead_letter]", "line 1: agents.dead_letter: 'dead_letter' cannot be an agent's name"),
        ("[agents.'../../etc']", "line 1: agents.../../etc: '../../etc' cannot be an agent's name"),
        ("[agents.a-b]\n\n[agents.a_b]", "line 3: agents.a_b: is the same agent as `a-b`"),
        ("[agents.a]\nendpoint = 'exec'", "line 1: agents.a.command: endpoint exec needs a command"),
        ("[agents.a]\nendpoint = 'exec'\ncommand = ['']", "line 3: agents.a.command: endpoint exec needs a command"),
        (
            "[agents.a]\ncommand = ['x']",
            'line 2: agents.a.command: has no meaning for endpoint inbox (endpoint = "exec"?)',
        ),
        ("[agents.a]\nendpoint = 'exec'\ncommand = 'x y'", "line 3: agents.a.command: must be a list, not 'x y'"),
        (
            "[agents.a]\nendpoint = 'exec'\ncommand = ['x']\nenv = {'A=B' = '1'}",
            "line 4: agents.a.env: a variable's name",
        ),
        (
            "[agents.queue_monitor]\nendpoint = 'inbox'",
            "line 2: agents.queue_monitor.endpoint: queue_monitor lives inside",
        ),
        ("agents = 3", "line 1: agents: must be a table, not 3"),
        ("[delivery]\nretry_limit = \n", "line 2: not TOML: Invalid value (column 15)"),
        ("[delivery]\nretry_limit = 3\nretry_limit = 4\n", "not TOML: Cannot overwrite a value"),
    ],
)
def test_each_mistake_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert expected in problem


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "[watch]\nmod = 'auto'\n[delivery]\nretry_limit = -1\n[agents.x]\nendpoint = 'exce'\n"
    assert [problem.split(":")[0] for problem in problems_of(tmp_path, text)] == ["line 2", "line 4", "line 6"]


def test_lines_are_right_behind_strings_of_several_lines(tmp_path: Path) -> None:
    text = 'root = """\nfoo = 1\n[agents.a]\n"""\n[agents.a]\nendpoint = "no"\n'
    assert problems_of(tmp_path, text)[0].startswith("line 6: agents.a.endpoint")


def test_a_file_that_is_not_utf8_or_not_there_is_a_bad_config(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"root = '\xe9'\n")
    for name in ("latin.toml", "absent.toml"):
        with pytest.raises(BadConfig):
            load(tmp_path / name)


def test_a_terminal_is_found_by_its_pane_or_its_title_or_started() -> None:
    for key in ("pane", "title", "start"):
        config = Config.model_validate({"agents": {"a": {"endpoint": "tmux", key: "x"}}})
        assert getattr(config.agents["a"], key) == "x"


def test_a_terminal_that_nobody_could_find_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "[agents.a]\nendpoint = 'tmux'\n")
    assert "needs a pane, a title to find it by, or a command to start one with" in problem


def test_a_tmux_socket_with_a_slash_is_a_path_beside_the_config(tmp_path: Path) -> None:
    assert config_of(tmp_path, "[tmux]\nsocket = './sock'\n").tmux_socket == str(tmp_path / "sock")
    assert config_of(tmp_path, "[tmux]\nsocket = '/run/sock'\n").tmux_socket == "/run/sock"
    assert config_of(tmp_path, "[tmux]\nsocket = 'team'\n").tmux_socket == "team"


def test_an_agents_ladder_and_liveness_are_its_own(tmp_path: Path) -> None:
    text = "[liveness]\nprobe_timeout_s = 5\n[agents.a]\nendpoint = 'tmux'\npane = 'x'\n"
    text += "ladder = ['nudge', 'reset']\nheartbeat_timeout_s = 7\n"
    policy = config_of(tmp_path, text).policy("a")
    assert (policy.rungs, policy.ladder, policy.heartbeat_timeout_s, policy.probe_timeout_s) == (2, (1, 3), 7, 5)
    assert not policy.restarts


def test_who_has_no_life_behind_its_endpoint_is_not_watched() -> None:
    config = one_of_each_kind()
    agents = config.agents
    assert {name for name in agents if config.policy(name).heartbeat_timeout_s is not None} == {"tmux", "process"}
    assert {name for name in agents if config.policy(name).restarts} == {"process"}


def test_escalation_may_go_to_a_queue_directory_that_exists(tmp_path: Path) -> None:
    (tmp_path / ".ackd" / "queue" / "leader").mkdir(parents=True)
    assert config_of(tmp_path, "escalate_to = 'leader'\n").escalate_to == "leader"


# --- the reference ------------------------------------------------------------------------------------------------------
def uncommented() -> str:
    return re.sub(r"(?m)^#(?=[a-z\[])", "", REFERENCE.read_text(encoding="utf-8"))


def test_the_reference_as_it_stands_changes_nothing() -> None:
    assert load(REFERENCE).model_dump() == Config().model_dump()


def test_the_reference_documents_every_key_with_its_default() -> None:
    documented = tomllib.loads(uncommented())
    example = documented.pop("agents")["example"]
    pool = documented.pop("pools")["example"]
    assert pool.keys() == PoolSettings.model_fields.keys()
    assert pool["pool_timeout_s"] == PoolSettings(members=()).pool_timeout_s
    stories = PipelineSettings(worker=StageWorker())
    tables = {"ensemble": EnsembleSettings(), "bus": BusSettings(), "board": BoardSettings(), "pipeline": stories}
    whole = Config.model_validate(tables)  # those work only where they stand
    assert Config.model_validate(documented) == whole
    expected = whole.model_dump(mode="json", exclude={"agents", "pools"})
    assert {name: set(value) for name, value in documented.items() if isinstance(value, dict)} == {
        name: set(value) for name, value in expected.items() if isinstance(value, dict)
    }
    assert documented.keys() == expected.keys()
    own = set(agent_keys()) - DeliverySettings.model_fields.keys()
    assert example.keys() == own
    for kind in registry.KINDS:
        defaults = settings_of(kind)().model_dump(mode="json")
        has = {key for key in own & defaults.keys() if defaults[key] is not None}
        assert {key: example[key] for key in has} == {key: defaults[key] for key in has}


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "config/examples").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_example_is_a_config_that_runs(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (tmp_path / "ackd.toml").write_text(text, encoding="utf-8")
    config = load(tmp_path / "ackd.toml")
    for table in config.agents.values():
        if isinstance(table, TmuxSettings):
            load_profile(table.profile, config.profiles)


def test_the_example_of_an_ignite_team_has_an_endpoint_for_each_of_its_agents(tmp_path: Path) -> None:
    """The seed's list of agents, watchers of others' events besides; `system` and `queue_monitor` are ackd's own."""
    text = (Path(__file__).parents[2] / "config/examples/ignite.toml").read_text(encoding="utf-8")
    (tmp_path / "ackd.toml").write_text(text, encoding="utf-8")
    agents = load(tmp_path / "ackd.toml").agents.keys()
    team = "user leader strategist architect evaluator coordinator innovator ignitian_1 github_watcher slack_watcher"
    assert set(team.split()) <= agents


def test_unknown_types_are_quarantined_or_delivered_and_nothing_else(tmp_path: Path) -> None:
    assert Config().unknown_types == "quarantine"
    (tmp_path / "ackd.toml").write_text('unknown_types = "skip"\n')
    with pytest.raises(BadConfig, match="unknown_types"):
        load(tmp_path / "ackd.toml")


# --- coordination -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[ensemble]\nconductor = "user"', "ensemble.dispatch"),
        ('[ensemble]\ndispatch = "user"\nconductor = "user"\nworkers = { w1 = "nobody" }', "ensemble.workers.w1"),
        ('[bus]\norchestrator = "nobody"', "bus.orchestrator"),
        ('[board]\ndirectors = { user = "all" }\nagents = { CA = "user" }', "board.agents.CA"),
        ("[board]\ndirectors = {}", "board.directors"),
        ("[bus]\ntrack = []", "bus.track"),
    ],
)
def test_whoever_coordination_names_must_be_an_agent(tmp_path: Path, table: str, key: str) -> None:
    path = tmp_path / "ackd.toml"
    path.write_text(table)
    with pytest.raises(BadConfig) as found:
        load(path)
    assert key in [problem.where for problem in found.value.problems]


# --- stories --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("[pipeline]\nmax_parallel = 2", "pipeline.worker"),
        ("[pipeline.worker]", "pipeline.worker.command"),
        ('[pipeline.worker]\ncommand = ["x"]\nstart = "x"', "pipeline.worker.start"),
        ('[pipeline.worker]\nendpoint = "tmux"', "pipeline.worker.start"),
        ('[pipeline.worker]\nendpoint = "tmux"\nstart = "x"\ncommand = ["x"]', "pipeline.worker.command"),
        ('[pipeline.worker]\ncommand = ["x"]\nenv = { "" = "x" }', "pipeline.worker.env"),
        ('[pipeline.worker]\ncommand = ["x\\u0000"]', "pipeline.worker"),
        ('[pipeline]\nid_pattern = "["\n[pipeline.worker]\ncommand = ["x"]', "pipeline.id_pattern"),
        ('[pipeline.worker]\ncommand = ["x"]\n[agents.pipeline_lead]', "agents.pipeline_lead"),
        ('[pipeline.worker]\ncommand = ["x"]\n[agents.story-A-1-s0]', "agents.story-A-1-s0"),
        ('[pipeline.worker]\ncommand = ["x"]\ncomand = ["x"]', "pipeline.worker.comand"),
    ],
)
def test_a_pipeline_that_cannot_be_is_named(tmp_path: Path, table: str, key: str) -> None:
    path = tmp_path / "ackd.toml"
    path.write_text(table)
    with pytest.raises(BadConfig) as found:
        load(path)
    assert key in [problem.where for problem in found.value.problems]


def test_a_stage_worker_is_made_by_the_template_and_has_no_ladder(tmp_path: Path) -> None:
    path = tmp_path / "ackd.toml"
    path.write_text('[pipeline]\nrespawns = 3\n[pipeline.worker]\nendpoint = "process"\ncommand = ["./w"]')
    config = load(path)
    worker = config.agent("story-A-1-s2")
    assert isinstance(worker, ProcessSettings)
    assert (worker.command, worker.restart) == (("./w",), "never")
    assert config.policy("story-A-1-s2").rungs is None
    assert config.agent("story-a-s2").endpoint == "inbox"
    assert config.agent("pipeline_lead").endpoint == "handler"
    pipeline = config.settings(PipelineSettings)
    assert pipeline is not None
    assert pipeline.budgets.respawns == 3
