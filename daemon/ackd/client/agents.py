"""Ask something of agents: pause, resume, start, stop, restart, nudge; and wait for what comes of it.

A request is a receipt for each agent. Its answer is a line of the session log: nothing is "done" because it was asked
for. Without a daemon only pausing and resuming work, because they only change a file; the caller's process holds the
root for that. A request that gets no answer in time stays in receipts/ and is heard all the same.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client.errors import NoDaemon
from ackd.client.status import endpoint_of
from ackd.client.writing import check_reader, creating
from ackd.core.agent_facts import NOT_DONE, agent_request, nudged
from ackd.core.errors import RootHeld
from ackd.core.message import USER, ReceiptKind, identity, is_agent_name
from ackd.core.requests import NEED_A_LIFE, refusal
from ackd.endpoints import registry
from ackd.storage import maildrop, root_lock, session_log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.config.site import Site
    from ackd.storage.session_log import Line

K = ReceiptKind

#: How long an answer may take where only a file changes; and where a process is ended (TERM, 10 s, KILL) and started,
#: or keys are typed.
FILE_TIMEOUT_S: Final = 5.0
PROCESS_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.03

#: Results of a request.
DONE: Final = "done"
REFUSED: Final = "refused"
#: There is no answer yet.
ASKED: Final = "asked"

#: Requests that only change a file, so that whoever holds the root can carry them out.
_FILE_ONLY: Final = frozenset({K.PAUSE, K.RESUME})


class AgentAnswer(NamedTuple):
    """The answer to one request: ``result`` is DONE, REFUSED or ASKED, ``answer`` is a sentence."""

    agent: str
    request: str
    result: str
    answer: str


def default_timeout_s(kind: ReceiptKind) -> float:
    return PROCESS_TIMEOUT_S if kind in NEED_A_LIFE else FILE_TIMEOUT_S


def ask(
    site: Site, kind: ReceiptKind, names: Iterable[str], *, timeout_s: float | None = None, wait: bool = True
) -> list[AgentAnswer]:
    """Ask the same of several agents, once it is clear that all of them exist.

    Fails with ``UnknownAgent``, ``NoDaemon`` and ``CannotWrite``, and with ``BadPauses`` where the file of pauses was
    edited and cannot be read.
    """
    agents = list(dict.fromkeys(map(site.resolve_agent, names)))
    kinds = {agent: endpoint_of(site, agent) for agent in agents}
    said = {agent: refusal(kind, agent, of, registry.lifeless(of)) for agent, of in kinds.items()}
    refused = {agent: why for agent, why in said.items() if why}
    meant = [agent for agent in agents if agent not in refused]
    answers = {agent: AgentAnswer(agent, kind.value, REFUSED, why) for agent, why in refused.items()}
    if meant:
        check_reader(site)
        patience_s = default_timeout_s(kind) if timeout_s is None else timeout_s
        with creating(site.receipts, site.state):
            answers |= _carried_out(site, kind, meant, patience_s if wait else 0.0)
    return [answers[agent] for agent in agents]


def _carried_out(site: Site, kind: ReceiptKind, agents: list[str], timeout_s: float) -> dict[str, AgentAnswer]:
    if kind in _FILE_ONLY:
        maildrop.make_private_directory(site.run, fsync=site.fsync)
        try:
            lock = root_lock.hold(site.run)
        except RootHeld:
            return _Request(site, kind, agents).answers_within(timeout_s)
        try:
            return _without_daemon(site, kind, agents)
        finally:
            lock.release()
    if root_lock.holder(site.run) is None:
        raise NoDaemon("no daemon is running: `ackd run` starts it, and with it whom it keeps alive")
    return _Request(site, kind, agents).answers_within(timeout_s)


def _without_daemon(site: Site, kind: ReceiptKind, agents: list[str]) -> dict[str, AgentAnswer]:
    """Write the pauses for the next daemon, which reads them before it looks at any mail."""
    from ackd.core.escalations import stamp
    from ackd.storage import state_version
    from ackd.storage.backup import restored
    from ackd.storage.paused import Pause, Pauses

    state_version.require(site.state)
    maildrop.make_private_directory(site.state, fsync=site.fsync)
    pauses, answers = Pauses(site.state), {}
    pauses.load()
    if kind is K.RESUME and (mark := restored.pending(site.state)) is not None:
        why = f"{mark.words}, and no daemon has started here since: start it (`ackd run`), then resume"
        return {agent: AgentAnswer(agent, kind.value, REFUSED, why) for agent in agents}
    for agent in agents:
        if kind is K.PAUSE:
            new = pauses.add(agent, Pause(stamp(time.time()), asker()))
            words = "paused: its mail waits" if new else "was paused already"
        else:
            words = "resumed: it was paused" if pauses.remove(agent) else "was not paused"
        answers[agent] = AgentAnswer(agent, kind.value, DONE, f"{words} (no daemon is running)")
    return answers


def asker() -> str:
    """Return the name a request is made in: that of the agent that runs this program, else the person's."""
    name = os.environ.get("ACKD_AGENT", "")
    return name if is_agent_name(name) else USER


# --- with a daemon ----------------------------------------------------------------------------------------------------
class _Request:
    """Receipts for several agents, and their answers. The log is followed from before the receipts are written."""

    def __init__(self, site: Site, kind: ReceiptKind, agents: list[str]) -> None:
        self._kind = kind
        self._follower = session_log.Follower(site.logs)
        paths = maildrop.drop_requests(site.receipts, kind, agents, asker(), fsync=site.fsync)
        self._receipts: dict[str, Path] = paths
        self._answers = {agent: AgentAnswer(agent, kind.value, ASKED, "no answer yet") for agent in agents}

    def answers_within(self, timeout_s: float) -> dict[str, AgentAnswer]:
        deadline = time.monotonic() + timeout_s
        while self._is_open() and time.monotonic() < deadline:
            for line in self._follower.poll():
                self._take(line)
            if self._is_open():
                time.sleep(_POLL_S)
        return self._answers

    def _is_open(self) -> bool:
        return any(one.result == ASKED for one in self._answers.values())

    def _take(self, line: Line) -> None:
        for agent, receipt in self._receipts.items():
            found = self._answer(line, agent, receipt.name) if self._answers[agent].result == ASKED else None
            if found is not None:
                result, words = found
                self._answers[agent] = AgentAnswer(agent, self._kind.value, result, words)

    def _answer(self, line: Line, agent: str, receipt: str) -> tuple[str, str] | None:
        data = line.data
        if self._kind is K.NUDGE and not data.get("refused"):
            return _nudge_answer(line, agent)
        if line.type != agent_request.type or data.get("receipt") != receipt:
            return None
        return (REFUSED if data.get("refused") else DONE), str(data.get("answer"))


def _nudge_answer(line: Line, agent: str) -> tuple[str, str] | None:
    """Read what was done on rung 0, which is a person's nudge; or the engine's own words why there was none."""
    data = line.data
    if identity(str(data.get("agent", ""))) != identity(agent):
        return None
    if line.type == nudged.type and data.get("rung") == 0:
        done, about = str(data.get("done")), data.get("message_id")
        if done.startswith(NOT_DONE):
            return REFUSED, f"not nudged for {about}: {done.removeprefix(NOT_DONE)}"
        return DONE, f"nudged for {about}: {done}"
    if line.type == agent_request.type and data.get("request") == K.NUDGE.value and "receipt" not in data:
        return REFUSED, str(data.get("answer"))
    return None
