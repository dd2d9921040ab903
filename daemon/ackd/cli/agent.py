"""`ackd agent` and `ackd nudge`: list agents, and pause, resume, start, stop, restart, nudge or look in on them.

client/agents.py asks and waits for the answers, client/status.py says how agents stand, attach.py looks in on one.
Exit 1 where an answer is no, 69 without a daemon, 75 if there was no answer in time; the request stays and is heard all
the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ackd.cli.command_line import Command, Group, argument, at_least, for_team, shows_content
from ackd.cli.errors import NO, NO_DAEMON, TRY_AGAIN, Ended, Failure, accepted
from ackd.cli.output import echo, print_json, printable, say
from ackd.cli.waiting import waiting
from ackd.client import Client, agents
from ackd.core.words import ReceiptKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.client.agents import AgentAnswer
    from ackd.config.site import Site

K = ReceiptKind


agent = Group("""List agents; start, stop, restart, pause, resume them, or look in on one.""")


@agent.command
@argument("names", nargs="*", complete="agents", metavar="[AGENT...]")
@shows_content
@for_team
def list_(site: Site, as_json: bool, names: tuple[str, ...]) -> None:
    """Show each agent's state (available, busy, parked, paused or down), with the reason, and its process or pane."""
    from ackd.cli.agent_table import print_agents
    from ackd.cli.status import daemon_line
    from ackd.cli.table import say_folded

    wanted = [site.resolve_agent(name) for name in names]
    found = Client.at(site).status()
    listed = {name: agent.details for name, agent in found.agents.items() if not wanted or name in wanted}
    if as_json:
        print_json({"agents": listed})
        return
    if not found.daemon.running:
        say_folded(daemon_line(site, found.daemon))
        echo("")
    print_agents(listed, time.time())


def _request_options(command: Callable[..., Any], timeout_s: float) -> Callable[..., Any]:
    """Add the agents that are meant, and how long their answers are waited for."""
    whom = argument("names", nargs="+", complete="agents", metavar="AGENT...")
    timeout = argument(
        "--timeout",
        type=at_least(0),
        default=timeout_s,
        metavar="S",
        help="Wait at most so many seconds for the result.  [default: %(default)s]",
    )
    no_wait = argument(
        "--no-wait", action="store_true", help="Return once the request is written; do not wait for the result."
    )
    return whom(timeout(no_wait(for_team(command))))


def _request(kind: ReceiptKind, words: str) -> Command:
    def run(site: Site, as_json: bool, names: tuple[str, ...], timeout: float, no_wait: bool) -> None:
        client = Client.at(site)
        words = f"for the daemon to {kind.value} {', '.join(names)}, {timeout:g} s at most"
        with waiting(words, stays="interrupted: the request stays in receipts/, and the daemon hears it all the same"):
            answers = client.ask(kind, *names, wait=not no_wait, timeout_s=timeout)
        _report(client, answers, as_json=as_json, waited=not no_wait)

    run.__doc__ = words
    return Command(_request_options(run, agents.default_timeout_s(kind)), kind.value)


def _report(client: Client, answers: Sequence[AgentAnswer], *, as_json: bool, waited: bool) -> None:
    results = {one.result for one in answers}
    failure = _no_answer(client) if agents.ASKED in results and agents.REFUSED not in results and waited else None
    with accepted(f"{len(answers)} asked for"):
        if as_json:
            listed = [one._asdict() for one in answers]
            if failure is not None:
                raise failure.with_results(answers=listed)
            print_json({"answers": listed})
        else:
            for one in answers:
                _say(one)
    if agents.REFUSED in results:
        raise Ended(NO)
    if failure is not None:
        raise failure


def _no_answer(client: Client) -> Failure:
    if not client.daemon_running:
        return Failure(NO_DAEMON, "the daemon has gone; the request waits in receipts/ for the next one")
    return Failure(TRY_AGAIN, "the daemon has not answered yet; it has the request: `ackd agent list` shows the rest")


def _say(one: AgentAnswer) -> None:
    match one.result:
        case agents.REFUSED:
            echo(f"ackd: {one.agent}: {printable(one.answer)}", err=True)
        case agents.ASKED:
            say(f"{one.agent}: {one.request} asked for, {one.answer}")
        case _:
            say(f"{one.agent}: {one.answer}")


agent.add(_request(K.START, "Start agents' processes, or their panes where ackd starts them."))
agent.add(_request(K.STOP, "End agents' processes or panes. Their mail waits."))
agent.add(_request(K.RESTART, "End agents' processes or panes, and start them again."))
agent.add(
    _request(
        K.PAUSE,
        "Deliver nothing more to agents until they are resumed. Work in hand goes on, new mail waits. A pause outlives "
        "the daemon, and can be set without one.",
    )
)
agent.add(_request(K.RESUME, "Deliver to agents again that were paused, parked or given up."))
nudge = _request(K.NUDGE, "Wake agents now for the messages in their hands, with the first rung of their wake ladder.")


@agent.command
@argument("name", complete="agents", metavar="AGENT")
@shows_content
@for_team
def attach(site: Site, as_json: bool, name: str) -> None:
    """Show an agent at work: open its pane, or follow its process's stderr and its lines of the session log.

    Ctrl-C ends the following; a pane is left with tmux's own keys. With --json the command for it is printed.
    """
    from ackd.client.status import endpoint_of
    from ackd.endpoints import registry

    found = site.resolve_agent(name)
    kind = endpoint_of(site, found)
    if kind not in registry.KINDS:
        raise Failure(NO, f"{found}: {kind} has nothing to look in on")
    registry.part(kind, "attach").attach(site, found, as_json=as_json)
