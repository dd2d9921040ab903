"""The table of what may differ between two configs, cell by cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.config.comparing import Changes, When, compare, in_force
from ackd.config.model import Config, load, load_again
from ackd.config.site import find_site
from ackd.core.errors import BadConfig

if TYPE_CHECKING:
    from pathlib import Path

EXEC = '[agents.worker]\nendpoint = "exec"\ncommand = ["a"]\n'
PROCESS = '[agents.worker]\nendpoint = "process"\ncommand = ["a"]\n'
PANE = '[agents.worker]\nendpoint = "tmux"\ntitle = "a"\nprofile = "mine"\n[profiles.mine]\nlike = "shell"\n'
INBOX = "[agents.worker]\n"
HANDLER = '[agents.worker]\nendpoint = "handler"\nhandler = "a"\n'
TWO = "[agents.a]\n[agents.b]\n"
TEMPLATE = '[templates.crew]\nendpoint = "exec"\ncommand = ["a", "{agent}"]\n'

NOW, NEXT, FREE = When.NOW, When.NEXT_MESSAGE, When.WHEN_FREE


def config(place: Path, text: str) -> Config:
    path = place / "ackd.toml"
    path.write_text(text)
    return load(path)


def changes(place: Path, before: str, after: str, *known: str) -> Changes:
    return compare(config(place, before), config(place, after), known)


# --- one agent --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "when"),
    [
        # Another table of the same kind.
        (EXEC, EXEC.replace('"a"', '"b"'), NEXT),
        (EXEC, EXEC + 'cwd = "b"', NEXT),
        (EXEC, EXEC + 'env = { A = "b" }', NEXT),
        (EXEC, EXEC + "timeout_s = 5", NEXT),
        (HANDLER, HANDLER.replace('"a"', '"b"'), NEXT),
        (PROCESS, PROCESS.replace('"a"', '"b"'), FREE),
        (PROCESS, PROCESS + 'env = { A = "b" }', FREE),
        (PROCESS, PROCESS + 'restart = "never"', FREE),
        (PROCESS, PROCESS + "context_threshold = 0.5", FREE),
        (PROCESS, PROCESS + "[liveness]\ncontext_threshold = 0.5", FREE),
        (PANE, PANE.replace('"a"', '"b"'), FREE),
        (PANE, PANE.replace('"mine"', '"shell"'), FREE),
        (PANE, PANE + 'line_prefix = "# "', FREE),
        (PANE, PANE + "[delivery]\nbusy_timeout_s = 7", FREE),
        # Numbers, labels, rules: the engine's.
        (EXEC, EXEC + "max_in_flight = 3", NOW),
        (EXEC, EXEC + 'labels = ["gpu"]', NOW),
        (PROCESS, PROCESS + "retry_limit = 1", NOW),
        (PROCESS, PROCESS + 'ladder = ["nudge"]', NOW),
        (PROCESS, PROCESS + "heartbeat_timeout_s = 3", NOW),
        (PANE, PANE.replace('title = "a"', 'title = "a"\ncompletes_on = "seen"'), NOW),
        (INBOX, INBOX + 'completes_on = "seen"', NOW),
        (INBOX, INBOX + "remind_after_s = 3", NOW),
        # The team's numbers, as far as they reach the agent.
        (EXEC, EXEC + "[delivery]\nretry_limit = 1", NOW),
        (EXEC + "retry_limit = 3\n", EXEC + "retry_limit = 3\n[delivery]\nretry_limit = 1", None),
        (PROCESS, PROCESS + "[liveness]\nheartbeat_timeout_s = 9", NOW),
        (EXEC, EXEC + "[liveness]\nheartbeat_timeout_s = 9", None),
        (EXEC, EXEC + "[daemon]\ndrain_timeout_s = 9", None),
        (EXEC, EXEC + "[watch]\nreconcile_interval_s = 9", None),
        # Another kind, each from each.
        *(
            (one, other, FREE)
            for one in (EXEC, PROCESS, PANE, INBOX, HANDLER)
            for other in (EXEC, PROCESS, PANE, INBOX, HANDLER)
            if one is not other
        ),
        # Gone from the file: an inbox. Come into it: was one, by its queue directory.
        *((one, "", FREE) for one in (EXEC, PROCESS, PANE, HANDLER)),
        *(("", one, FREE) for one in (EXEC, PROCESS, PANE, HANDLER)),
        (INBOX, "", None),
        ("", INBOX, None),
        (INBOX + "remind_after_s = 3", "", NOW),
        # The same, and the same in other words.
        *((one, one, None) for one in (EXEC, PROCESS, PANE, INBOX, HANDLER)),
        (EXEC, "# a comment\n" + EXEC.replace(" = ", "="), None),
    ],
)
def test_an_agent_is_another_from_the_moment_that_the_table_says(
    tmp_path: Path, before: str, after: str, when: When | None
) -> None:
    assert changes(tmp_path, before, after).agents.get("worker") is when


@pytest.mark.parametrize(
    ("before", "after", "added", "changed", "removed"),
    [
        ("", EXEC, ["worker"], [], []),
        (EXEC, "", [], [], ["worker"]),
        (EXEC, PROCESS, [], ["worker"], []),
        (EXEC, EXEC + "max_in_flight = 3", [], ["worker"], []),
        (EXEC, EXEC + "[delivery]\nretry_limit = 1", [], [], []),
        (PANE, PANE + 'line_prefix = "# "', [], ["worker"], []),
        (INBOX, INBOX.replace("worker", "wor-ker") + "[agents.new]", ["wor-ker", "new"], [], ["worker"]),
        ("[agents.a_b]", "[agents.a-b]", [], [], []),
        (TWO, f'{TWO}[groups]\nall = ["a"]', ["all"], [], []),
        (f'{TWO}[groups]\nall = ["a"]', f'{TWO}[groups]\nall = ["a", "b"]', [], ["all"], []),
        (f'{TWO}[groups]\nall = ["a"]', TWO, [], [], ["all"]),
        (TWO, f'{TWO}[pools.crew]\nmembers = ["a"]', ["crew"], [], []),
        (f'{TWO}[pools.crew]\nmembers = ["a"]', f'{TWO}[pools.crew]\nmembers = ["b"]', [], ["crew"], []),
        (f'{TWO}[pools.crew]\nmembers = ["a"]', TWO, [], [], ["crew"]),
    ],
)
def test_who_came_who_is_another_and_who_went(
    tmp_path: Path, before: str, after: str, added: list[str], changed: list[str], removed: list[str]
) -> None:
    found = changes(tmp_path, before, after)
    assert ([*found.added], [*found.changed], [*found.removed]) == (added, changed, removed)


# --- groups, pools, templates -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "who", "when"),
    [
        (TWO, f'{TWO}[groups]\nall = ["a"]', "all", FREE),
        (f'{TWO}[groups]\nall = ["a"]', f'{TWO}[groups]\nall = ["a", "b"]', "all", None),  # looked up for each message
        (f'{TWO}[groups]\nall = ["a"]', TWO, "all", FREE),
        (TWO, f'{TWO}[pools.crew]\nmembers = ["a"]', "crew", FREE),
        (f'{TWO}[pools.crew]\nmembers = ["a"]', f'{TWO}[pools.crew]\nmembers = ["b"]', "crew", NOW),
        (f'{TWO}[pools.crew]\nmembers = ["a"]', f'{TWO}[pools.crew]\nmembers = ["a"]\npool_timeout_s = 5', "crew", NOW),
        (f'{TWO}[pools.crew]\nmembers = ["a"]', TWO, "crew", FREE),
        (f'{TWO}[groups]\nall = ["a"]', f'{TWO}[pools.all]\nmembers = ["a"]', "all", FREE),
        (f'{TWO}[groups]\nall = ["a"]', f'{TWO}[agents.all]\nendpoint = "handler"', "all", FREE),
        (f'{TWO}[pools.all]\nmembers = ["a"]', f"{TWO}[agents.all]", "all", FREE),
    ],
)
def test_groups_and_pools(tmp_path: Path, before: str, after: str, who: str, when: When | None) -> None:
    assert changes(tmp_path, before, after).agents.get(who) is when


def test_a_pool_that_grows_or_shrinks_adds_and_removes_the_members_that_are_made_of_its_template(
    tmp_path: Path,
) -> None:
    def of(size: int, template: str = TEMPLATE) -> str:
        return f'{template}[pools.crew]\ntemplate = "crew"\nsize = {size}\n'

    grown = changes(tmp_path, of(2), of(3))
    assert (grown.added, grown.removed) == (("crew-3",), ())
    assert grown.agents == {"crew": NOW, "crew-3": FREE}
    shrunk = changes(tmp_path, of(3), of(2))
    assert (shrunk.added, shrunk.removed) == ((), ("crew-3",))
    assert shrunk.waiting == ("crew-3",)
    other = changes(tmp_path, of(2), of(2, TEMPLATE.replace('"a"', '"b"')))
    assert other.agents == {"crew-1": NEXT, "crew-2": NEXT}


# --- the team ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('on_escalation = ["true"]', "on_escalation"),
        ("archive_days = 3", "archive_days"),
        ("max_message_bytes = 2048", "max_message_bytes"),
        ('extra_types = ["song"]', "extra_types"),
        ('unknown_types = "deliver"', "unknown_types"),
        ("[delivery]\ndedup_window_s = 3", "delivery.dedup_window_s"),
        ("[delivery]\nloop_limit = 3", "delivery.loop_limit"),
        ("[watch]\nsettle_s = 3", "watch.settle_s"),
        ("[watch]\npoll_interval_s = 3", "watch.poll_interval_s"),
        ("[liveness]\nprobe_timeout_s = 3", "liveness.probe_timeout_s"),
        ("[daemon]\nstop_timeout_s = 3", "daemon.stop_timeout_s"),
        ("[daemon]\nwatch_config = true", "daemon.watch_config"),
    ],
)
def test_a_value_of_the_team_is_live_and_named(tmp_path: Path, text: str, key: str) -> None:
    old, new = config(tmp_path, ""), config(tmp_path, text)
    assert in_force(old, new) == (new, ())
    assert compare(old, new).settings == (key,)


def test_escalations_go_to_another_from_now_on(tmp_path: Path) -> None:
    old, new = config(tmp_path, TWO), config(tmp_path, f'escalate_to = "b"\n{TWO}')
    assert compare(old, new).settings == ("escalate_to",)
    assert new.engine_policy().escalate_to == "b"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[delivery]\ndurability = "process"', "delivery.durability"),
        ('[watch]\nmode = "polling"', "watch.mode"),
        ('[tmux]\nsocket = "mine"', "tmux.socket"),
        ('[bus]\ntracks = ["a/*.jsonl"]', "bus"),
    ],
)
def test_what_is_not_live_is_named_and_keeps_its_value_while_the_rest_holds(
    tmp_path: Path, text: str, key: str
) -> None:
    old = config(tmp_path, "")
    kept, named = in_force(old, config(tmp_path, f"archive_days = 3\n{text}\n"))
    assert named == (key,)
    assert kept.archive_days == 3
    assert kept.model_dump(exclude={"archive_days"}) == old.model_dump(exclude={"archive_days"})
    back, named = in_force(kept, config(tmp_path, ""))
    assert (named, back.fingerprint()) == ((), old.fingerprint())


def test_every_key_of_the_config_is_live_or_named(tmp_path: Path) -> None:
    """A key that is added to the model gets into one of the two, or into the agents' tables."""
    about_agents = {"agents", "groups", "pools", "templates", "profiles"}
    base = config(tmp_path, "")
    for key in Config.model_fields.keys() - about_agents - {"root"}:
        other = base.model_copy(update={key: object()})
        if key in ("delivery", "watch", "liveness", "daemon", "tmux"):
            continue  # by their own keys, above
        kept, named = in_force(base, other)
        assert named == (key,) or compare_settings(base, kept) == (key,), key


def compare_settings(old: Config, new: Config) -> tuple[str, ...]:
    from ackd.config.comparing import _settings

    return tuple(_settings(old, new))


def test_an_agent_without_a_table_goes_by_the_teams_numbers_too(tmp_path: Path) -> None:
    found = changes(tmp_path, "", "[delivery]\nremind_after_s = 5", "newcomer")
    assert found.agents == {"newcomer": NOW}


def test_a_file_that_needs_what_is_not_live_is_refused(tmp_path: Path) -> None:
    before = f'{TWO}[board]\ndirectors = {{ a = "sound", b = "useful" }}\n'
    (tmp_path / "ackd.toml").write_text(before)
    site = find_site(cwd=tmp_path)
    old = load(tmp_path / "ackd.toml")
    (tmp_path / "ackd.toml").write_text(before.replace("[agents.b]\n", "").replace(', b = "useful"', ""))
    with pytest.raises(BadConfig, match=r"start the daemon again"):
        load_again(site, old)
