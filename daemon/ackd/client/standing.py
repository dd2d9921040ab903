"""How a message that somebody waits for stands with an agent, in words: the last proof there is, and what hinders it.

Both waits use it (`ackd send --wait` and `ackd wait`): at the end, and while they wait, for what hinders.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ackd.client.message_history import OVER, RecipientHistory, takes_no_mail
from ackd.client.status import agent_states
from ackd.core.agent_facts import agent_state
from ackd.core.message import identity
from ackd.facts import duration, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ackd.config.site import Site
    from ackd.storage.session_log import Line


def standing(history: RecipientHistory, retry: Line | None = None) -> str:
    """The last proof there is of one recipient. ``retry``: the line of its last retry, if it had one."""
    name = visible(history.name)
    return {
        "queued": f"{name} has not taken it yet",
        "processing": f"{name} is being told",
        "delivered": f"{name} was told{_proof(history, 'told')} and has {_seen(history)}",
        "acked": f"{name} has acked it{_proof(history, 'acked')}",
        "retrying": f"{name}: {_retrying(history, retry)}",
    }.get(history.state, f"{name}: {history.state}")


class Hindrances:
    """Finds out what keeps agents from taking the mail that somebody waits for: they are parked, paused or down.

    How they stand at first is what the daemon's page says; then the lines of the log are heard. Looking for the last
    such line of each agent could mean to read the whole log.
    """

    def __init__(self, site: Site, say: Callable[[str], None]) -> None:
        """``say`` is called with each hindrance, once, as it is found."""
        self._site = site
        self._say = say
        self._stood: Mapping[str, tuple[object, object]] | None = None
        self._words: dict[str, str] = {}  # by the agent's identity, empty for one that takes its mail

    def look(self, histories: Iterable[RecipientHistory]) -> None:
        """Look at the agents that have an open message and were not looked at before."""
        for one in histories:
            if one.state not in OVER and identity(one.agent) not in self._words:
                if self._stood is None:
                    self._stood = agent_states(self._site)
                self._note(one.agent, *self._stood.get(identity(one.agent), (None, None)))

    def take(self, line: Line) -> None:
        """Take in a line, if it says how an agent stands that was looked at."""
        agent = line.data.get("agent")
        if line.type == agent_state.type and isinstance(agent, str) and identity(agent) in self._words:
            self._note(agent, line.data.get("state"), line.data.get("reason"))

    def words(self, agent: str) -> str:
        """Say what hinders the agent at present; empty if nothing does."""
        return self._words.get(identity(agent), "")

    def _note(self, agent: str, state: object, reason: object) -> None:
        words = takes_no_mail(visible(agent), state, reason)
        if words and words != self._words.get(identity(agent)):
            self._say(words)
        self._words[identity(agent)] = words


def _proof(history: RecipientHistory, receipt: str) -> str:
    proven = history.proof_of(receipt)
    if proven is None:
        return ""
    proof = re.sub(r" \(attempt (\d+)\)$", lambda tried: f", attempt {tried[1]}" * (tried[1] != "1"), proven.proof)
    return f" ({visible(proof)})"


def _seen(history: RecipientHistory) -> str:
    return "seen it" if history.proof_of("seen") else "not acked it"


def _retrying(history: RecipientHistory, retry: Line | None) -> str:
    data = retry.data if retry is not None else {}
    count = f"{data.get('retry_count')} of {data.get('retry_limit')}" if data.get("counted", True) else "not counted"
    return f"retrying after: {visible(history.reason)} ({count}), {_again(data)}"


def _again(data: dict[str, Any]) -> str:
    try:
        due = datetime.fromisoformat(str(data.get("next_retry_after"))).timestamp()
    except (ValueError, OverflowError):
        return "again when it is due"
    return f"again in {duration(round(due - time.time()))}" if due > time.time() else "again now"
