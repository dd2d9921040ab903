"""Waiting until messages have ended, and all that comes of them.

The end of a message is a line of the log. Whether more has come of a message than the log tells is looked up once
everything seems to have ended: a part may lie in a queue that the daemon has not read yet. That is done twice, a moment
apart, because between a file's leaving its queue and its line in the log there is an instant. Nothing here withdraws a
message: whoever stops waiting leaves everything as it is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.client import explain, message_history, threads
from ackd.client.message_history import OVER, RecipientHistory, addressee, after_line
from ackd.client.sending import RecipientState
from ackd.client.standing import Hindrances, standing
from ackd.client.waiting import CATCH_UP_S, DAEMON_GRACE_S, POLL_S
from ackd.core.message import identity
from ackd.core.message_facts import message_duplicate, message_queued, message_retry
from ackd.facts import short_id
from ackd.storage import root_lock, session_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ackd.config.site import Site
    from ackd.storage.session_log import Line

#: The second look comes after this. A daemon writes its lines within a few ms.
CONFIRM_S: Final = 0.25
#: How many open messages are named when the time is over.
_NAMED: Final = 5


class AwaitedMessage(NamedTuple):
    """A message, and how far it has come with one recipient."""

    message_id: str
    agent: str
    state: str
    reason: str | None = None
    #: For a message to a pool: the member that has it, or had it when it ended.
    holder: str = ""


class Awaited(NamedTuple):
    """The end of a wait. ``outcome`` is one of:

    done       all have ended, and all were completed (``any``: all of one of them)
    failed     all have ended, and some are dead or were withdrawn (``any``: some of each)
    timeout    the time was over first, or the log could not be read (``trouble``)
    no daemon  none came, or the one there was went away

    After the last two everything goes on without the caller; ``words`` says what is open.
    """

    outcome: str
    messages: tuple[AwaitedMessage, ...]
    words: str = ""
    trouble: str = ""

    def recipients_of(self, message_id: str) -> dict[str, RecipientState]:
        found = (one for one in self.messages if one.message_id == message_id)
        return {one.agent: RecipientState(one.agent, one.state, one.reason, holder=one.holder) for one in found}


#: Message id and identity of the agent.
_About = tuple[str, str]


class ThreadWaiter:
    """Follows the log from the moment it is made. ``tree``: wait for all parts as well. ``any_of``: until all of one
    message has been completed, instead of all messages."""

    def __init__(self, site: Site, *, tree: bool, any_of: bool = False, grace_s: float | None = None) -> None:
        self._site = site
        self._tree = tree
        self._any_of = any_of
        self._grace_s = DAEMON_GRACE_S if grace_s is None else grace_s
        self._follower = session_log.Follower(site.logs)
        #: By the message that was asked for: it and all that came of it; True for those that are waited for.
        self._members: dict[str, dict[str, bool]] = {}
        self._histories: dict[_About, RecipientHistory] = {}
        self._before: dict[_About, RecipientHistory] = {}  # as it stood when the newest message_queued came
        self._reported: dict[_About, str] = {}
        self._read: set[bytes] = set()  # lines that the last look took in: the follower brings some of them again
        self._heard: Callable[[AwaitedMessage], None] = lambda _one: None
        self._met_daemon = False
        self._retries: dict[_About, Line] = {}
        self._hindrances = Hindrances(site, lambda _words: None)

    def wait(
        self,
        ids: Sequence[str],
        timeout_s: float,
        heard: Callable[[AwaitedMessage], None],
        hindered: Callable[[str], None] = lambda _words: None,
    ) -> Awaited:
        """Wait for these messages, by their whole ids. ``heard`` is called once with each end, ``hindered`` with what
        keeps an agent from taking one."""
        self._hindrances = Hindrances(self._site, hindered)
        self._members, self._heard = {one: {one: True} for one in ids}, heard
        trouble = ""
        try:
            self._look()
            outcome = self._follow(time.monotonic() + timeout_s)
        except OSError as error:
            trouble, outcome = str(error), "timeout"
        words = "" if outcome in ("done", "failed") else self._words(outcome, timeout_s)
        return Awaited(outcome, tuple(self._awaited()), words, trouble)

    # --- following ----------------------------------------------------------------------------------------------------
    def _follow(self, deadline: float) -> str:
        last_alive = time.monotonic()
        for line in session_log.follow(self._follower, poll_s=POLL_S):
            now = time.monotonic()
            if line is not None:
                self._hindrances.take(line)
                if not self._take(line):
                    continue
            if self._outcome() is not None and (outcome := self._confirmed()) is not None:
                return outcome
            if root_lock.holder(self._site.run) is not None:
                last_alive, self._met_daemon = now, True
            if now - last_alive > self._grace_s:
                return "no daemon"
            if now >= (deadline if line is None else deadline + CATCH_UP_S):
                return "timeout" if self._met_daemon else "no daemon"
        raise AssertionError("follow() ended")

    def _confirmed(self) -> str | None:
        """Look again before it is said that all is over."""
        if self._tree:
            time.sleep(CONFIRM_S)
        self._look()
        return self._outcome()

    def _take(self, line: Line) -> bool:
        """Take in a line. Returns False if it is about none of the messages."""
        message_id = line.data.get("message_id")
        if not isinstance(message_id, str):
            return False
        if self._tree and (link := threads.link_of(line)) is not None:
            self._join(link)
        who = message_history.recipient_of(line)
        if who is None or line.raw in self._read or not any(message_id in one for one in self._members.values()):
            return False
        about = (message_id, who)
        one = self._histories.get(about) or RecipientHistory(addressee(line))
        if line.type == message_queued.type:
            self._before[about] = one
        elif line.type == message_duplicate.type:  # the queued line was a copy's
            one = self._before.get(about, one)
        self._histories[about] = after_line(one, line)
        if line.type == message_retry.type:
            self._retries[about] = line
        self._report(about)
        return True

    def _join(self, link: threads.Link) -> None:
        for found in self._members.values():
            if link.parent in found:
                found.setdefault(link.message_id, link.how == threads.PART)

    def _look(self) -> None:
        """Read anew what has come of the messages and how far each is, from the queues and the whole log."""
        known = threads.links(self._site) if self._tree else {}
        told = threads.settled(self._site, known, lambda: self._wanted(known))
        self._read.clear()
        for message_id, history in told.items():
            self._read.update(line.raw for line in history.events)
            retries = (line for line in history.events if line.type == message_retry.type)
            self._retries |= {(message_id, identity(addressee(line))): line for line in retries}
            for one in history.recipients:
                about = (message_id, identity(one.agent))
                self._histories[about] = one
                self._report(about)

    def _wanted(self, known: dict[str, threads.Link]) -> list[str]:
        if self._tree:
            self._members = {asked: threads.members(known, asked) for asked in self._members}
        return [one for found in self._members.values() for one, counts in found.items() if counts]

    def _report(self, about: _About) -> None:
        one = self._histories[about]
        if one.state not in OVER:
            self._reported.pop(about, None)
            if self._is_wanted(about):
                self._hindrances.look([one])
        elif self._reported.get(about) != one.state and self._is_wanted(about):
            self._reported[about] = one.state
            self._heard(_awaited(about[0], one))

    def _is_wanted(self, about: _About) -> bool:
        return any(found.get(about[0]) for found in self._members.values())

    # --- deciding -----------------------------------------------------------------------------------------------------
    def _outcome(self) -> str | None:
        """Return the outcome, as far as is known now; None: go on."""
        ends = [self._end_of(found) for found in self._members.values()]
        if self._any_of and "done" in ends:
            return "done"
        if None in ends:
            return None
        return "done" if all(end == "done" for end in ends) else "failed"

    def _end_of(self, found: dict[str, bool]) -> str | None:
        states = [one.state for (message_id, _), one in self._histories.items() if found.get(message_id)]
        if not states or any(state not in OVER for state in states):
            return None
        return "done" if all(state == "completed" for state in states) else "failed"

    def _awaited(self) -> Iterator[AwaitedMessage]:
        wanted = {one for found in self._members.values() for one, counts in found.items() if counts}
        for (message_id, _), one in self._histories.items():
            if message_id in wanted:
                yield _awaited(message_id, one)

    # --- saying -------------------------------------------------------------------------------------------------------
    def _words(self, outcome: str, timeout_s: float) -> str:
        wanted = [about for about in self._histories if self._is_wanted(about)]
        still = [about for about in wanted if self._histories[about].state not in OVER]
        named = [self._standing(about) for about in still[:_NAMED]]
        if len(still) > _NAMED:
            named.append(f"and {len(still) - _NAMED} more")
        how_many = "" if len(wanted) == 1 else f"{_how_many(len(still), len(wanted))}: "
        stand = f"{how_many}{'; '.join(named)}"
        if outcome == "timeout":
            return f"not over within {timeout_s:g} s: {stand}"
        if not self._met_daemon:
            return f"no daemon is running: the messages stay as they are until one starts (`ackd run`); {stand}"
        return f"the daemon has stopped: {stand}; the next one goes on from there"

    def _standing(self, about: _About) -> str:
        one = self._histories[about]
        why = self._hindrances.words(one.agent) if one.state in ("queued", "retrying") else ""
        return f"{standing(one, self._retries.get(about))} ({short_id(about[0])})" + (f"; {why}" if why else "")


def _how_many(still: int, wanted: int) -> str:
    if still == wanted:
        return f"all {wanted} are open"
    return f"{still} of {wanted} {'is' if still == 1 else 'are'} open"


def _awaited(message_id: str, one: RecipientHistory) -> AwaitedMessage:
    reason = one.reason if one.state != "completed" else None
    return AwaitedMessage(message_id, one.agent, one.state, reason, one.holder)


def wait(
    site: Site,
    wanted: Sequence[str],
    *,
    tree: bool,
    any_of: bool,
    timeout_s: float,
    heard: Callable[[AwaitedMessage], None],
    hindered: Callable[[str], None],
) -> Awaited:
    """Wait for messages that are named by whole ids, unique beginnings, hashes or paths."""
    waiter = ThreadWaiter(site, tree=tree, any_of=any_of)
    ids = list(dict.fromkeys(explain.find_id(site, one) for one in wanted))
    return waiter.wait(ids, timeout_s, heard, hindered)
