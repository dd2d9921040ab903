"""``Client``: everything that can be done with a team, as one object.

Each method finds the team's directories, calls a function of its own module, and returns values; nothing is printed and
nobody exits. The modules are imported when a method is called, so that a program pays for what it uses.

Boards, stories, message buses and leases have doors of their own in their folders of ``coordination/``:
``Client().board``, ``.stories``, ``.bus`` and ``.leases`` find them by the registry's lines, and nothing here imports a
capability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from ackd.client.agents import AgentAnswer
    from ackd.client.cancelling import CancelRequest
    from ackd.client.check import CheckResult
    from ackd.client.dead_letters import DeadLetter, DeadLetterResult
    from ackd.client.loops import HeldMessage, ReleasedMessage
    from ackd.client.mail import Inbox, ReadMessage
    from ackd.client.message_history import MessageHistory
    from ackd.client.receipts import WrittenReceipt
    from ackd.client.reloading import Reloaded
    from ackd.client.sending import Body, Progress, Sent
    from ackd.client.status import AgentStatus, Status
    from ackd.client.stopping import Draining, Stopped
    from ackd.client.thread_waiting import Awaited, AwaitedMessage
    from ackd.client.threads import Thread
    from ackd.config.site import Site
    from ackd.core.words import ReceiptKind
    from ackd.storage.session_log import Line


class Client:
    """A team, seen by a program.

    ``root`` and ``config`` name the team as ``--root`` and ``--config`` do; without them ACKD_ROOT and ACKD_CONFIG
    count, then the ackd.toml, .ackd/ or .ignite/ here or above. ``agent`` is who speaks; without it ACKD_AGENT counts,
    then the tmux pane, then, for a statement about a message, its only recipient.
    """

    def __init__(
        self, root: str | Path | None = None, config: str | Path | None = None, agent: str | None = None
    ) -> None:
        self._where = (root, config)
        self._site: Site | None = None
        self.agent = agent

    @classmethod
    def at(cls, site: Site, agent: str | None = None) -> Client:
        """A client of a team whose place is known already."""
        client = cls(agent=agent)
        client._site = site
        return client

    @property
    def site(self) -> Site:
        """The team's place on disk, found when it is first needed. Fails with ``BadConfig``."""
        if self._site is None:
            from ackd.config.site import find_site

            self._site = find_site(*self._where)
        return self._site

    def _place(self) -> Site:
        """The team's place, for methods that need its root only: they work although the config cannot be read."""
        from ackd.core.errors import BadConfig

        try:
            return self.site
        except BadConfig:
            from ackd.config.site import find_root

            return find_root(*self._where)

    @property
    def daemon_running(self) -> bool:
        """Tell whether a daemon serves the team now; without one, everything waits on disk until one starts."""
        from ackd.storage import root_lock

        return root_lock.holder(self._place().run) is not None

    def __getattr__(self, name: str) -> Any:
        """The door of a capability, such as ``board`` or ``bus``, made for this team."""
        from ackd.coordination.registry import CAPABILITIES, load

        for one in CAPABILITIES:
            if one.door and name == (one.door_name or one.name):
                return load(one.door)(self.site)
        raise AttributeError(f"a client has no {name!r}", name=name, obj=self)

    # --- sending ------------------------------------------------------------------------------------------------------
    def send(
        self, to: str | Iterable[str], body: Body, *, cc: str | Iterable[str] = (), type: str = "message",  # noqa: A002
        priority: str = "normal", sender: str | None = None, thread_id: str | None = None,
        in_reply_to: str | None = None, repository: str | None = None, issue: str | None = None, force: bool = False,
        part_of: str | None = None, notify_when_done: bool | None = None,
        wait: str | None = None, timeout_s: float = 300.0, progress: Progress | None = None,
        expires: str | None = None, deadline: str | None = None, once: str | None = None,
        needs: str | Iterable[str] = (), prefers: str | Iterable[str] = (),
    ) -> Sent:  # fmt: skip
        """Queue a message for each recipient, all or none.

        ``wait="told"``, ``"seen"``, ``"acked"`` or ``"completed"`` returns when every recipient has come so far, when
        one never will, or after ``timeout_s``: look at ``sent.outcome``. ``wait="all"`` waits for all parts as well.
        Once the message is queued nothing raises, because an error would look like a refusal, and whoever tried again
        would send it twice.

        ``part_of`` names the message that the sender has and sends this one for. What a command sends that ackd started
        for one message is a part of that by itself, unless ``part_of`` is ``none``. ``notify_when_done`` says whether
        the sender is told when all parts have ended; None: as the recipient's table says.

        ``expires`` and ``deadline`` are durations ("20m") or times of RFC 3339: if nobody has it in hand when it
        expires, it is not delivered any more; it should be completed by its deadline. ``once`` is a key: sent again
        with the same key and content within the dedup window, it is the same message (``sent.repeated``).

        ``needs`` and ``prefers`` are labels, for a pool: only a member that has all of ``needs`` gets it, and of these
        the one that has most of ``prefers``.
        """
        from ackd.client import sending

        return sending.send(
            self.site, _tuple(to), body, sending.SendOptions(force, wait, timeout_s, progress or sending.Progress()),
            cc=_tuple(cc), type=type, priority=priority, sender=sender or self.agent, thread_id=thread_id,
            in_reply_to=in_reply_to, repository=repository, issue=issue, part_of=part_of,
            notify=None if notify_when_done is None else "yes" if notify_when_done else "no",
            expires=expires, deadline=deadline, once=once,
            needs=",".join(_tuple(needs)) or None, prefers=",".join(_tuple(prefers)) or None,
        )  # fmt: skip

    def reload(self, *, wait: bool = True, timeout_s: float = 30.0) -> Reloaded | None:
        """Have the running daemon read its config again. Returns what is different; None without an answer in time.
        Fails with ``BadConfig`` if the daemon refuses the file, and with ``NoDaemon``."""
        from ackd.client import reloading

        return reloading.reload(self._place(), wait=wait, timeout_s=timeout_s)

    def cancel(
        self, *message_ids: str, tree: bool = False, reason: str | None = None, agent: str | None = None
    ) -> tuple[CancelRequest, ...]:
        """Ask that messages be worked on no more, which only their sender and ``user`` may; with ``tree`` also the
        open messages that have come of them by now. A completion that comes before the daemon acts on it counts."""
        from ackd.client import cancelling

        return cancelling.cancel(self.site, message_ids, agent or self.agent, reason, tree=tree)

    def reply(
        self, message_id: str, body: Body, *, type: str = "message", priority: str = "normal",  # noqa: A002
        agent: str | None = None, force: bool = False, wait: str | None = None, timeout_s: float = 300.0,
        progress: Progress | None = None,
    ) -> Sent:  # fmt: skip
        """Answer a message: to its sender, in its thread. The answer counts as an ack."""
        from ackd.client import sending

        delivery = sending.SendOptions(force, wait, timeout_s, progress or sending.Progress())
        return sending.reply(
            self.site, message_id, body, delivery, type=type, priority=priority, agent=agent or self.agent
        )

    # --- reading ------------------------------------------------------------------------------------------------------
    def inbox(self, agent: str | None = None, *, everything: bool = False) -> Inbox:
        """List an agent's mail: waiting and open messages; with ``everything`` also completed and dead ones."""
        from ackd.client import mail

        return mail.inbox(self.site, agent or self.agent, everything=everything)

    def read(self, message_id: str, agent: str | None = None, *, seen: bool = True) -> ReadMessage:
        """Read a message. Its recipient's reading counts as having seen it, unless ``seen`` is false."""
        from ackd.client import mail

        message = mail.read(self._place(), message_id, agent or self.agent)
        if seen:
            self.mark_seen(message)
        return message

    def mark_seen(self, message: ReadMessage) -> None:
        """Write the proof that the recipient has read its message; nothing for anybody else."""
        if message.is_own and message.reader is not None:
            from ackd.client import receipts

            receipts.drop_seen(self._place(), message.message_id, message.reader)

    # --- statements about messages ------------------------------------------------------------------------------------
    def ack(self, *message_ids: str, agent: str | None = None) -> tuple[WrittenReceipt, ...]:
        """Say that messages have arrived and are being worked on."""
        from ackd.core.words import ReceiptKind

        return self._say(ReceiptKind.ACK, message_ids, agent)

    def done(self, *message_ids: str, agent: str | None = None, everything: bool = False) -> tuple[WrittenReceipt, ...]:
        """Say that messages are dealt with; with ``everything`` also all that the agent has in hand."""
        from ackd.core.words import ReceiptKind

        if everything:
            from ackd.client import receipts

            message_ids = (*message_ids, *receipts.in_hand(self._place(), agent or self.agent))

        return self._say(ReceiptKind.DONE, message_ids, agent)

    def refuse(self, *message_ids: str, reason: str, agent: str | None = None) -> tuple[WrittenReceipt, ...]:
        """Give messages back for good: they become dead letters, and their senders are told the reason."""
        from ackd.core.words import ReceiptKind

        return self._say(ReceiptKind.REFUSE, message_ids, agent, reason)

    def defer(self, *message_ids: str, reason: str, agent: str | None = None) -> tuple[WrittenReceipt, ...]:
        """Give messages back to be offered again later. Each time counts as a retry."""
        from ackd.core.words import ReceiptKind

        return self._say(ReceiptKind.DEFER, message_ids, agent, reason)

    def checkpoint(
        self, message_id: str, text: str | bytes, *, step: int | None = None, agent: str | None = None
    ) -> WrittenReceipt:
        """Say how far the work on a message has come; whoever goes on with it is told the last checkpoint."""
        from ackd.client import receipts

        data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        return receipts.checkpoint(self._place(), message_id, data, step, agent or self.agent)

    def _say(
        self, kind: ReceiptKind, message_ids: tuple[str, ...], agent: str | None, reason: str | None = None
    ) -> tuple[WrittenReceipt, ...]:
        from ackd.client import receipts

        return receipts.drop(self._place(), kind, message_ids, agent or self.agent, reason)

    # --- how things stand ---------------------------------------------------------------------------------------------
    def status(self) -> Status:
        """Tell how the daemon, the agents and their mail stand now."""
        from ackd.client import status

        return status.status(self.site)

    def stop_daemon(
        self, *, timeout_s: float = 120.0, at_once: bool = False, heard: Callable[[Draining], None] | None = None
    ) -> Stopped:
        """Stop the daemon, however it was started, and wait for its end; ``heard`` is told what it waits for."""
        from ackd.client import stopping

        return stopping.stop(self._place(), timeout_s=timeout_s, at_once=at_once, heard=heard)

    def check(self) -> CheckResult:
        """Look at the config, the agents and the machine, and tell what is wrong and how to mend it.

        A config that cannot be read is a finding, too. Reads the whole config, which loads pydantic.
        """
        from ackd.client import check
        from ackd.core.errors import BadConfig

        try:
            return check.check(self.site)
        except BadConfig as error:
            return check.refused(error)

    def explain(self, message_id: str) -> MessageHistory:
        """Tell the whole history of a message: where each recipient is with it, what proves that, what comes next."""
        from ackd.client import explain

        return explain.explain(self.site, message_id)

    def thread(self, message_id: str, *, whole: bool = True) -> Thread:
        """Tell how far a message and all that came of it have come, and who waits for whom: the whole thread from its
        first message on, or (``whole=False``) from this message on."""
        from ackd.client import threads

        return threads.thread(self.site, message_id, whole=whole)

    def wait(
        self, message_ids: str | Iterable[str], *, tree: bool = False, any_of: bool = False, timeout_s: float = 300.0,
        heard: Callable[[AwaitedMessage], None] | None = None, hindered: Callable[[str], None] | None = None,
    ) -> Awaited:  # fmt: skip
        """Wait until messages have ended, with ``tree`` also all parts that come of them: look at ``outcome``.

        With ``any_of`` it is enough that one of them was completed. ``heard`` is called with each end as it comes,
        ``hindered`` with what keeps an agent from taking its mail: it is parked, paused or down.
        """
        from ackd.client import thread_waiting

        return thread_waiting.wait(
            self.site, _tuple(message_ids), tree=tree, any_of=any_of, timeout_s=timeout_s,
            heard=heard or (lambda _one: None), hindered=hindered or (lambda _words: None),
        )  # fmt: skip

    def tail(
        self, *, types: str | Iterable[str] = (), agent: str | None = None, message: str | None = None,
        since: float | None = None, count: int | None = None, follow: bool = False,
    ) -> Iterator[Line]:  # fmt: skip
        """Yield the last lines of the session log that fit and, with ``follow``, those that come, for ever.

        ``count`` is 20 unless it is given or ``since`` (wall-clock seconds) is.
        """
        from ackd.client import tail

        wanted = tail.LogFilter(types=_tuple(types), agent=agent, message=message, since=since)
        return tail.tail(self.site, wanted, count=count, follow=follow)

    # --- dead letters -------------------------------------------------------------------------------------------------
    def dead_letters(self) -> list[DeadLetter]:
        """List what could not be delivered (dead) or read (corrupt), each with its reason."""
        from ackd.client import dead_letters

        return dead_letters.dead_letters(self.site)

    def dead_letter(self, wanted: str) -> DeadLetter:
        """Find one dead letter or quarantined file by id, a unique beginning of it, its hash, file name or path."""
        from ackd.client import dead_letters

        return dead_letters.find(self.site, wanted)

    def read_dead_letter(self, letter: str | DeadLetter) -> bytes | None:
        """Read one; None for what is not a regular file."""
        from ackd.client import dead_letters

        return dead_letters.content(self.site, self._letter(letter))

    def requeue(self, *letters: str | DeadLetter) -> list[DeadLetterResult]:
        """Put dead letters back into their queues with their counts reset, quarantined files byte for byte."""
        from ackd.client import dead_letters

        return dead_letters.requeue(self.site, [self._letter(letter) for letter in letters])

    def purge(self, *letters: str | DeadLetter) -> list[DeadLetterResult]:
        """Remove dead letters or quarantined files for good."""
        from ackd.client import dead_letters

        return dead_letters.purge(self.site, [self._letter(letter) for letter in letters])

    def _letter(self, letter: str | DeadLetter) -> DeadLetter:
        return self.dead_letter(letter) if isinstance(letter, str) else letter

    # --- loops --------------------------------------------------------------------------------------------------------
    def held_messages(self) -> list[HeldMessage]:
        """List the messages that stay queued, because agents answered each other without end."""
        from ackd.client import loops

        return loops.held_messages(self.site)

    def release(self, *message_ids: str) -> list[ReleasedMessage]:
        """Ask that held messages go to their agents."""
        from ackd.client import loops

        return loops.release(self.site, message_ids)

    # --- agents -------------------------------------------------------------------------------------------------------
    def agents(self) -> Mapping[str, AgentStatus]:
        """Tell how each agent stands, by its name."""
        return self.status().agents

    def pause(self, *agents: str, timeout_s: float | None = None) -> list[AgentAnswer]:
        """Give agents nothing more until they are resumed; works without a daemon, too."""
        from ackd.core.words import ReceiptKind

        return self.ask(ReceiptKind.PAUSE, *agents, timeout_s=timeout_s)

    def resume(self, *agents: str, timeout_s: float | None = None) -> list[AgentAnswer]:
        """Give agents their mail again; works without a daemon, too."""
        from ackd.core.words import ReceiptKind

        return self.ask(ReceiptKind.RESUME, *agents, timeout_s=timeout_s)

    def start(self, *agents: str, timeout_s: float | None = None) -> list[AgentAnswer]:
        """Start the processes or panes behind agents' endpoints."""
        from ackd.core.words import ReceiptKind

        return self.ask(ReceiptKind.START, *agents, timeout_s=timeout_s)

    def stop(self, *agents: str, timeout_s: float | None = None) -> list[AgentAnswer]:
        """End the processes or panes behind agents' endpoints; their mail waits."""
        from ackd.core.words import ReceiptKind

        return self.ask(ReceiptKind.STOP, *agents, timeout_s=timeout_s)

    def restart(self, *agents: str, timeout_s: float | None = None) -> list[AgentAnswer]:
        """End the processes or panes behind agents' endpoints, and start them again."""
        from ackd.core.words import ReceiptKind

        return self.ask(ReceiptKind.RESTART, *agents, timeout_s=timeout_s)

    def nudge(self, *agents: str, timeout_s: float | None = None) -> list[AgentAnswer]:
        """Wake agents for the messages they have in hand."""
        from ackd.core.words import ReceiptKind

        return self.ask(ReceiptKind.NUDGE, *agents, timeout_s=timeout_s)

    def ask(
        self, kind: ReceiptKind, *agents: str, timeout_s: float | None = None, wait: bool = True
    ) -> list[AgentAnswer]:
        """Ask the same of several agents and wait for their answers. A request without an answer is heard later.

        Without ``timeout_s`` the answers are waited for as long as they usually take at most.
        """
        from ackd.client import agents as requests

        return requests.ask(self.site, kind, agents, timeout_s=timeout_s, wait=wait)


def _tuple(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
