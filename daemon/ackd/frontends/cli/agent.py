"""`ackd agent` and `ackd nudge`: agents by hand.

Owns the command lines. How the daemon is asked, and what counts as an answer: asking.py. How agents stand is the
picture of `ackd status` (status.py), and looking in on one is attach.py's.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.core.requests import NEED_A_LIFE
from ackd.core.words import ReceiptKind
from ackd.frontends.cli.options import Commands, site_options
from ackd.frontends.cli.output import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.site import Site

K = ReceiptKind

#: How long an answer may take: a word on disk; a life that is ended (TERM, 10 s, KILL) and started, or keys typed.
PATIENCE_S: Final = 5.0
LIFE_PATIENCE_S: Final = 20.0


@click.group(cls=Commands)
def agent() -> None:
    """Agents by hand: how they stand, and pausing, starting, ending, looking in on them."""


def _complete_agent(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: the names that begin so. A team that cannot be read has none."""
    from ackd.core.errors import AckdError
    from ackd.site import find_site

    try:
        site = find_site(ctx.params.get("root"), ctx.params.get("config"))
        return [name for name in site.known_agents() if name.startswith(incomplete)]
    except (AckdError, OSError):
        return []


@agent.command("list")
@click.argument("names", nargs=-1, metavar="[AGENT...]", shell_complete=_complete_agent)
@site_options
def list_(site: Site, as_json: bool, names: tuple[str, ...]) -> None:
    """How agents stand: available, busy, parked (why, until when), paused or down; whether they live, and as what."""
    from ackd.frontends.cli import status
    from ackd.frontends.cli.agent_table import print_agents

    wanted = [site.resolve_agent(name) for name in names]
    picture = status.take(site)
    agents = {name: said for name, said in picture["agents"].items() if not wanted or name in wanted}
    if as_json:
        print_json(agents)
        return
    if not picture["daemon"]["running"]:
        say(status.daemon_line(site, picture["daemon"]))
        click.echo()
    print_agents(agents, time.time())


def _asking(command: Callable[..., Any], patience_s: float) -> Callable[..., Any]:
    """Whom, and how long the answer is waited for."""
    whom = click.argument("names", nargs=-1, required=True, metavar="AGENT...", shell_complete=_complete_agent)
    timeout = click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=patience_s,
        metavar="S",
        show_default=True,
        help="Wait so long for what comes of it.",
    )
    no_wait = click.option("--no-wait", is_flag=True, help="Only ask; do not wait for what comes of it.")
    return whom(timeout(no_wait(site_options(command))))


def _request(kind: ReceiptKind, words: str) -> click.Command:
    def run(site: Site, as_json: bool, names: tuple[str, ...], timeout: float, no_wait: bool) -> None:
        from ackd.frontends.cli.asking import ask

        ask(site, kind, names, as_json=as_json, wait=not no_wait, timeout_s=timeout)

    run.__doc__ = words
    patience_s = LIFE_PATIENCE_S if kind in NEED_A_LIFE else PATIENCE_S
    return click.command(kind.value)(_asking(run, patience_s))


agent.add_command(_request(K.START, "Start what lives behind agents' endpoints: a process, a pane that ackd starts."))
agent.add_command(_request(K.STOP, "End what lives behind agents' endpoints. Their mail waits."))
agent.add_command(_request(K.RESTART, "End what lives behind agents' endpoints, and start it again."))
agent.add_command(
    _request(
        K.PAUSE,
        "Give agents nothing more, until they are resumed. What they have in hand goes on, what comes waits; a pause "
        "outlives the daemon, and needs none.",
    )
)
agent.add_command(
    _request(K.RESUME, "Give agents their mail again: paused ones, and those that were parked or given up.")
)
nudge = _request(
    K.NUDGE, "Wake agents for what they have in hand: the first rung of their ladder, whatever the clocks say."
)


@agent.command()
@click.argument("name", metavar="AGENT", shell_complete=_complete_agent)
@site_options
def attach(site: Site, as_json: bool, name: str) -> None:
    """Look in on an agent: its pane, if it has one; else what its process prints to stderr, and its lines of the log.

    Ctrl-C ends the following, the pane is left as tmux is. With --json a pane is not opened: the command is printed.
    """
    from ackd.frontends.cli.attach import look_in

    look_in(site, site.resolve_agent(name), as_json=as_json)
