"""Asking the daemon something about agents, and waiting for what it says came of it.

Owns the request (a receipt for each agent) and which lines of the session log answer it: never "done" because it was
asked for. Without a daemon only pausing and resuming can be done, because they are a word on disk; for that the command
holds the root itself. Ends 1 where the answer is no, 69 without a daemon, 75 if there was no answer in time; the
request stays and is heard all the same.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackd.adapters import maildrop, root_lock, session_log
from ackd.core.errors import RootHeld
from ackd.core.message import USER, ReceiptKind, identity, is_agent_name
from ackd.core.requests import refusal
from ackd.frontends.cli.errors import NO, NO_DAEMON, TRY_AGAIN, Ended, Failure, accepted, creating
from ackd.frontends.cli.output import echo, print_json, printable, say
from ackd.frontends.cli.status import endpoint_of
from ackd.frontends.cli.whose import check_reader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ackd.adapters.session_log import Line
    from ackd.site import Site

POLL_S: Final = 0.03
#: How the line of a nudge begins that did not reach its agent.
_NOT_DONE: Final = "not done: "
K = ReceiptKind
DONE: Final = "done"
REFUSED: Final = "refused"
ASKED: Final = "asked"
#: What can be done by whoever holds the root.
_ON_DISK: Final = frozenset({K.PAUSE, K.RESUME})


class Result(NamedTuple):
    agent: str
    request: str
    result: str
    answer: str


def ask(
    site: Site, kind: ReceiptKind, names: Sequence[str], *, as_json: bool, wait: bool = True, timeout_s: float
) -> None:
    """Of every agent that is named, once it is clear that all there are."""
    agents = list(dict.fromkeys(map(site.resolve_agent, names)))
    refused = {agent: why for agent in agents if (why := refusal(kind, agent, endpoint_of(site, agent)))}
    meant = [agent for agent in agents if agent not in refused]
    results = {agent: Result(agent, kind.value, REFUSED, why) for agent, why in refused.items()}
    if meant:
        check_reader(site)
        with creating(site.receipts, site.state):
            results |= _carried_out(site, kind, meant, timeout_s if wait else 0.0)
    _report(site, [results[agent] for agent in agents], as_json=as_json, waited=wait)


def _carried_out(site: Site, kind: ReceiptKind, agents: list[str], patience_s: float) -> dict[str, Result]:
    if kind in _ON_DISK:
        maildrop.make_private_directory(site.run, fsync=site.fsync)
        try:
            lock = root_lock.hold(site.run)
        except RootHeld:
            return _Asking(site, kind, agents).until(patience_s)
        try:
            return _on_disk(site, kind, agents)
        finally:
            lock.release()
    if root_lock.holder(site.run) is None:
        raise Failure(NO_DAEMON, "no daemon is running: `ackd run` starts it, and with it whom it keeps alive")
    return _Asking(site, kind, agents).until(patience_s)


def _on_disk(site: Site, kind: ReceiptKind, agents: list[str]) -> dict[str, Result]:
    """For the next daemon, which hears of it before it looks at any mail."""
    from ackd import state_version
    from ackd.core.escalations import stamp
    from ackd.runtime.pauses import Pause, Pauses

    state_version.require(site.state)
    maildrop.make_private_directory(site.state, fsync=site.fsync)
    pauses, results = Pauses(site.state), {}
    pauses.load()
    for agent in agents:
        if kind is K.PAUSE:
            new = pauses.add(agent, Pause(stamp(time.time()), asker()))
            words = "paused: its mail waits" if new else "was paused already"
        else:
            words = "resumed: it was paused" if pauses.remove(agent) else "was not paused"
        results[agent] = Result(agent, kind.value, DONE, f"{words} (no daemon is running)")
    return results


def asker() -> str:
    """In whose name it is asked: an agent's, if one runs the command, else the person's."""
    name = os.environ.get("ACKD_AGENT", "")
    return name if is_agent_name(name) else USER


# --- with a daemon ----------------------------------------------------------------------------------------------------
class _Asking:
    """Follows the log from before the request is written."""

    def __init__(self, site: Site, kind: ReceiptKind, agents: list[str]) -> None:
        self._site = site
        self._kind = kind
        self._follower = session_log.Follower(site.logs)
        paths = maildrop.drop_requests(site.receipts, kind, agents, asker(), fsync=site.fsync)
        self._receipts: dict[str, Path] = paths
        self._results = {agent: Result(agent, kind.value, ASKED, "no answer yet") for agent in agents}

    def until(self, patience_s: float) -> dict[str, Result]:
        deadline = time.monotonic() + patience_s
        while self._open() and time.monotonic() < deadline:
            for line in self._follower.poll():
                self._take(line)
            if self._open():
                time.sleep(POLL_S)
        return self._results

    def _open(self) -> bool:
        return any(one.result == ASKED for one in self._results.values())

    def _take(self, line: Line) -> None:
        for agent, receipt in self._receipts.items():
            found = self._answer(line, agent, receipt.name) if self._results[agent].result == ASKED else None
            if found is not None:
                self._results[agent] = Result(agent, self._kind.value, *found)

    def _answer(self, line: Line, agent: str, receipt: str) -> tuple[str, str] | None:
        data = line.data
        if self._kind is K.NUDGE and not data.get("refused"):
            return _nudge_answer(line, agent)
        if line.type != "agent_request" or data.get("receipt") != receipt:
            return None
        return (REFUSED if data.get("refused") else DONE), str(data.get("answer"))


def _nudge_answer(line: Line, agent: str) -> tuple[str, str] | None:
    """What was done on rung 0, which is a person's; or the engine's own word, why there was no nudge."""
    data = line.data
    if identity(str(data.get("agent", ""))) != identity(agent):
        return None
    if line.type == "nudged" and data.get("rung") == 0:
        done, about = str(data.get("done")), data.get("message_id")
        if done.startswith(_NOT_DONE):
            return REFUSED, f"not nudged for {about}: {done.removeprefix(_NOT_DONE)}"
        return DONE, f"nudged for {about}: {done}"
    if line.type == "agent_request" and data.get("request") == K.NUDGE.value and "receipt" not in data:
        return REFUSED, str(data.get("answer"))
    return None


# --- saying -----------------------------------------------------------------------------------------------------------
def _report(site: Site, results: list[Result], *, as_json: bool, waited: bool) -> None:
    with accepted(f"{len(results)} asked for"):
        if as_json:
            print_json([_as_data(one) for one in results])
        else:
            for one in results:
                _say(one)
    kinds = {one.result for one in results}
    if REFUSED in kinds:
        raise Ended(NO)
    if ASKED in kinds and waited:
        if root_lock.holder(site.run) is None:
            raise Failure(NO_DAEMON, "the daemon has gone; the request waits in receipts/ for the next one")
        raise Failure(
            TRY_AGAIN, "the daemon has not answered yet; it has the request: `ackd agent list` shows the rest"
        )


def _as_data(one: Result) -> dict[str, Any]:
    return {"agent": one.agent, "request": one.request, "result": one.result, "answer": one.answer}


def _say(one: Result) -> None:
    match one.result:
        case "refused":
            echo(f"ackd: {one.agent}: {printable(one.answer)}", err=True)
        case "asked":
            say(f"{one.agent}: {one.request} asked for, {one.answer}")
        case _:
            say(f"{one.agent}: {one.answer}")
