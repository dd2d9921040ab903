"""How agents stand, as a table: golden pictures, in a pipe and on terminals of two widths."""

from __future__ import annotations

import io
import math
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.cli import agent_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = 1_794_794_802.0  # 2026-11-16T02:06:42Z

PLAIN: dict[str, dict[str, Any]] = {
    "leader": {"endpoint": "inbox", "state": "available", "queued": 0, "in_flight": 2},
    "builder": {"endpoint": "exec", "state": "paused", "queued": 3, "in_flight": 0, "reason": "by hand"},
}
LIVING: dict[str, dict[str, Any]] = {
    **PLAIN,
    "worker_1": {
        "endpoint": "process",
        "state": "busy",
        "queued": 4,
        "in_flight": 1,
        "liveness": "alive",
        "worker_state": "executing",
        "context_usage": 0.453,
        "detail": "pid 4242",
        "generation": 2,
        "deaths": 1,
        "last_life": "2026-11-16T02:06:30Z",
    },
    "critic": {
        "endpoint": "tmux",
        "state": "parked",
        "queued": 1,
        "in_flight": 0,
        "reason": "usage limit",
        "until": "2026-11-16T02:16:42Z",
        "liveness": "suspect",
        "worker_state": "idle",
        "detail": "pane %3",
        "generation": 1,
        "deaths": 0,
    },
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def show(agents: dict[str, dict[str, Any]], columns: int = 0) -> str:
        out = Terminal() if columns else io.StringIO()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setenv("COLUMNS", str(columns or 80))
        monkeypatch.setenv("TERM", "xterm")
        agent_table.print_agents(agents, NOW)
        uncoloured = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
        return "\n".join(line.rstrip() for line in uncoloured.splitlines())

    return show


def test_a_team_without_lives_has_no_columns_for_them(shown: Callable[..., str]) -> None:
    picture = """\
AGENT    ENDPOINT  STATE      QUEUED  IN FLIGHT  NOTE
leader   inbox     available  0       2
builder  exec      paused     3       0          by hand"""
    assert shown(PLAIN) == shown(PLAIN, 80) == shown(PLAIN, 200) == picture


WIDE = """\
AGENT     ENDPOINT  STATE      LIVENESS  LAST SIGN  WORKER     LIVES AS  GEN  DEATHS  CONTEXT  QUEUED  IN FLIGHT  NOTE
leader    inbox     available  -         -          -          -         -    -       -        0       2
builder   exec      paused     -         -          -          -         -    -       -        3       0          by hand
worker_1  process   busy       alive     12 s ago   executing  pid 4242  2    1       45%      4       1
critic    tmux      parked     suspect   -          idle       pane %3   1    0       -        1       0          """


def test_in_a_pipe_and_on_a_wide_terminal_a_life_has_its_columns(shown: Callable[..., str]) -> None:
    until = "usage limit, until 2026-11-16 02:16:42 (in 10 min)"
    assert shown(LIVING) == WIDE + until
    assert shown(LIVING, 200) == WIDE + until
    assert shown(LIVING, 150) == f"{WIDE.rstrip()}\n  {until}"  # never cut: it is why one looks


def test_on_80_columns_it_is_said_in_a_line_below(shown: Callable[..., str]) -> None:
    picture = """\
AGENT     ENDPOINT  STATE      QUEUED  IN FLIGHT  NOTE
leader    inbox     available  0       2
builder   exec      paused     3       0          by hand
worker_1  process   busy       4       1
  alive, sign 12 s ago, executing, pid 4242, context 45%, deaths 1, generation 2
critic    tmux      parked     1       0
  suspect, idle, pane %3, generation 1
  usage limit, until 2026-11-16 02:16:42 (in 10 min)"""
    assert shown(LIVING, 80) == picture


@pytest.mark.parametrize("columns", [0, 80, 200])
def test_whatever_the_daemon_says_it_never_fails(shown: Callable[..., str], columns: int) -> None:
    odd = (
        "liveness",
        "worker_state",
        "context_usage",
        "detail",
        "generation",
        "deaths",
        "last_life",
        "until",
        "reason",
    )
    odd_values: tuple[Any, ...] = (None, True, 7, -1.5, "", "\x1b[2J", "9999-99-99", [], {}, "0001-01-01", math.inf)
    for value in odd_values:
        said: dict[str, dict[str, Any]] = {"x": dict.fromkeys(odd, value), "y": {}}
        assert "\x1b" not in shown(said, columns)


def test_why_and_until_when() -> None:
    assert agent_table.note({"reason": "limit", "until": "5pm"}, NOW) == "limit, until 5pm"
    assert agent_table.note({"until": "2026-11-16T02:06:00Z"}, NOW) == "until 2026-11-16 02:06:00"
    assert agent_table.note({}, NOW) == ""


def test_states_and_liveness_have_their_colours() -> None:
    assert agent_table.STYLES["alive"] == agent_table.STYLES["available"] == "green"
    assert agent_table.STYLES["unresponsive"] == agent_table.STYLES["down"] == "bold red"
