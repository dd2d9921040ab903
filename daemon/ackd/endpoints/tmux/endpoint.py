"""The endpoint of an agent that lives in a pane of tmux: types the line that a person would type, and proves that it
was submitted.

The endpoint decides when something is typed, and that each nudge is made only once; ``wake_ladder`` types. A busy
agent is waited for. Nothing is typed into a prompt, a menu, a limit or a screen that is not understood: a person is
told, and a background watch reports when it is over. Only ackd's own lines (``lines``) are typed, never text of a
message.

Nothing is raised: no tmux, server, pane or program is ``EndpointAway`` (gone), a machine that refuses us a child
``Hindered``, a line that cannot be proven to be submitted ``NotTold``, with what was seen. A pane outlives the daemon:
stopping ends the watch and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio

from ackd.core import delivery_facts
from ackd.core.effects import NudgeAgent
from ackd.core.errors import CannotStart
from ackd.core.events import Absence, EndpointAway, Hindered, LetGo, NotTold, Seen, Told
from ackd.core.ports import Inhabited, Record
from ackd.endpoints.tmux import lines
from ackd.endpoints.tmux.activity import CpuActivity
from ackd.endpoints.tmux.availability import Away
from ackd.endpoints.tmux.facts import keys_sent, pane_found
from ackd.endpoints.tmux.pane_finder import PaneFinder
from ackd.endpoints.tmux.typist import READY_AGAIN_S, NotSubmitted, Submitted
from ackd.endpoints.tmux.wake_ladder import DRAWN_WITHIN_S, WakeLadder
from ackd.endpoints.tmux.watch import Watch
from ackd.system.process_tree import ProcessTable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from ackd.core.effects import AskCheckpoint, CallOff, ProbeAgent, RemindAgent, RenewAgent, TellAgent
    from ackd.core.message import Message, Place
    from ackd.core.ports import Clock, Post, Tasks
    from ackd.endpoints.tmux.client import Pane, Tmux
    from ackd.endpoints.tmux.pane_finder import PaneView
    from ackd.endpoints.tmux.screen import Profile
    from ackd.endpoints.tmux.typist import Typed
    from ackd.storage.checkpoints import CheckpointFiles

    _Asked = NudgeAgent | ProbeAgent | RemindAgent | AskCheckpoint

#: A pane that is closed ends its program; the supervisor hears of that within this time.
_HEARD_WITHIN_S: Final = 0.5
#: How long a turn that ends with the checkpoint may go on before its context is cleared.
RENEW_PATIENCE_S: Final = 60.0


@dataclass(kw_only=True, eq=False)
class TerminalEndpoint(Inhabited):
    """``target`` or ``title`` name the pane; without either it is the one that carries our mark (``owner``).

    ``starter`` and ``restarter`` go through the supervisor, for a pane that we start. ``starter`` returns when the pane
    is up, or raises CannotStart. Without a ``restarter``, a restart is a reset.
    """

    agent: str
    tmux: Tmux
    profile: Profile
    clock: Clock
    resolve: Callable[[Place], Path]
    post: Post
    record: Record
    tasks: Tasks
    owner: str = ""
    target: str | None = None
    title: str | None = None
    restarter: Callable[[str], Coroutine[None, None, None]] | None = None
    starter: Callable[[], Coroutine[None, None, None]] | None = None
    #: The form of the line that tells of a message: the profile's, unless the agent's own table sets one.
    line: Literal["read", "path"] | None = None
    #: Makes the words of that line, for a caller that has its own.
    opening: Callable[[Message, Path], str] | None = None
    #: The checkpoints that agents have written.
    kept: CheckpointFiles | None = None
    table: ProcessTable = field(default_factory=ProcessTable)
    look_every_s: float = 3.0
    renew_patience_s: float = RENEW_PATIENCE_S
    ready_again_s: float = READY_AGAIN_S
    drawn_within_s: float = DRAWN_WITHIN_S
    #: How long somebody's words may stand on the input line until a person is told (``busy_timeout_s``).
    taken_timeout_s: float = 900.0
    _stopping: bool = field(default=False, init=False)
    _nudged: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    #: The number of times that pressed keys were logged.
    _noted: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.finder = PaneFinder(
            tmux=self.tmux,
            profile=self.profile,
            clock=self.clock,
            owner=self.owner or self.agent,
            target=self.target,
            title=self.title,
            found=self._found,
        )
        self._ladder = WakeLadder(
            tmux=self.tmux,
            profile=self.profile,
            finder=self.finder,
            ready_again_s=self.ready_again_s,
            drawn_within_s=self.drawn_within_s,
        )
        self._watch = Watch(
            agent=self.agent,
            finder=self.finder,
            post=self.post,
            record=self.record,
            tasks=self.tasks,
            look_every_s=self.look_every_s,
            supervised=self.restarter is not None,
            ladder=self._ladder,
            taken_timeout_s=self.taken_timeout_s,
            cpu=CpuActivity(self.table),
        )

    # --- the port ---------------------------------------------------------------------------------------------------
    async def tell(self, order: TellAgent) -> Told | NotTold | EndpointAway | Hindered:
        key, attempt = order.key, order.attempt
        if self._stopping:
            return EndpointAway(key, "ackd is stopping", attempt)
        answer = await self._tell(order)
        match answer:
            case Submitted(proof, seen=seen):
                self._watch.told(key, attempt, answer)
                return Told(key, proof, seen=seen, attempt=attempt)
            case Away(why, reason, until):
                self._watch.away(answer)
                return EndpointAway(key, reason, attempt, why, until)
            case NotSubmitted(reason):
                return NotTold(key, reason, attempt)
            case _:
                return Hindered(key, str(answer), attempt)

    async def _tell(self, order: TellAgent) -> Typed | Away | OSError:
        """Type the line. A pane that ackd starts is waited for first. If it disappears meanwhile, telling is tried once
        more, because the supervisor is about to notice and to start it again."""
        line = self._line(order)
        if self.starter is None:
            return await self._type_when_ready(line, order.message, "tell")
        try:
            await self.starter()
            answer = await self._type_when_ready(line, order.message, "tell")
            if isinstance(answer, Away) and answer.why is Absence.GONE:
                await anyio.sleep(_HEARD_WITHIN_S)
                await self.starter()
                answer = await self._type_when_ready(line, order.message, "tell")
        except CannotStart as error:
            return Away(Absence.GONE, error.why)
        return answer

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        """Wake the agent. Rung 0 is a person's request, and may be repeated; the others are made once each. A rung on
        which no key was pressed does not count: an agent that was parked meanwhile is woken from there."""
        key, rung, noted = order.key, order.rung, self._noted
        before = self._nudged.get(key, (0, 0))
        if rung and before >= (order.attempt, rung):
            return NotTold(key, f"nudged on rung {rung} before: never twice", order.attempt)
        if rung:
            self._nudged[key] = (order.attempt, rung)
        if rung <= 1:
            line = self._opening(order.message, self.resolve(order.place))
            answer = await self._type_when_ready(line, order.message, f"nudge {rung}")
            if isinstance(answer, Away) and answer.why is Absence.BUSY:
                self.post(Seen(key, answer.reason))
        else:
            answer = await self._interrupt_or_reset(order)
        if self._nudged.get(key) == (order.attempt, rung) and self._noted == noted:
            self._nudged[key] = before
        return self._answer(order, answer)

    async def probe(self, order: ProbeAgent) -> Told | NotTold:
        line = lines.status_check(order.text, order.message)
        answer = self._answer(order, await self._type_when_ready(line, order.message, "status check"))
        self.record(delivery_facts.probed(order, answer))
        return answer

    async def remind(self, order: RemindAgent) -> Told | NotTold:
        """Type the reminder, only while the agent waits for a line and nothing stands there; once for each order."""
        line = lines.reminder(order.message, self.resolve(order.place))
        answer = await self._type_when_ready(line, order.message, "reminder")
        self._watch.activity.show_again()
        return self._answer(order, answer)

    def call_off(self, order: CallOff) -> None:
        """Type a line that says so: now if the agent is ready, else as soon as it is."""
        self.tasks.start_soon(self._call_off, order, name=f"cancellation for {self.agent}")

    async def _call_off(self, order: CallOff) -> None:
        answer = await self._type_when_ready(lines.cancelled(order.message), order.message, "cancel")
        match answer:
            case Submitted(proof):
                how = proof
            case Away(why, reason) if why is not Absence.GONE:
                self._watch.called_off.append(partial(self._call_off, order))
                self._watch.attend()
                return
            case Away(_, reason) | NotSubmitted(reason):
                how = f"it cannot be told: {reason}"
            case _:
                how = f"it cannot be told: {answer}"
        self.post(LetGo(order.key, how, order.attempt))

    async def ask_checkpoint(self, order: AskCheckpoint) -> Told | NotTold:
        """Ask for a checkpoint. An agent whose context is nearly full is mostly at work: it is asked when it is ready,
        if it still has the work."""
        line = lines.checkpoint(order.message, self.resolve(order.place))
        answer = await self._type_when_ready(line, order.message, "checkpoint")
        if isinstance(answer, Away) and answer.why is Absence.BUSY:

            async def later(_view: PaneView) -> None:
                if order.key in self._watch.in_hand:
                    await self._type_when_ready(line, order.message, "checkpoint")

            self._watch.when_ready = later
            self._watch.attend()
            return NotTold(order.key, f"asked once it is ready: {answer.reason}", order.attempt)
        return self._answer(order, answer)

    def renew(self, order: RenewAgent) -> Coroutine[None, None, None]:
        return self._renew(order.why)

    def restart(self, why: str) -> Coroutine[None, None, None]:
        return self.restarter(why) if self.restarter is not None else self._renew(why)

    def pulse(self) -> str | None:
        return None if self._stopping else self._watch.pulse()

    def leave(self) -> None:
        """Look at the pane no longer. It stays as it is."""
        self._stopping = True
        self._watch.stop()

    async def stop(self, drain_s: float) -> None:  # noqa: ARG002 - a pane outlives us, and so does its work
        self.leave()

    def _line(self, order: TellAgent) -> str:
        """The line for a message. If it was handed over, the line names the checkpoint: the agent starts with an empty
        context, and would do it all again."""
        path, message = self.resolve(order.place), self._named(order.message)
        checkpoint = self.kept.path(self.agent, message.message_id) if self.kept is not None else None
        if checkpoint is not None and checkpoint.exists():
            return lines.goes_on(self.agent, message, path, checkpoint.absolute(), short=self._is_short)
        return self._opening(message, path)

    @property
    def _is_short(self) -> bool:
        return (self.line or self.profile.line) == "read"

    def _named(self, message: Message) -> Message:
        """The message without its type where that would stand in brackets, which mean something to a shell."""
        return replace(message, type="") if self._is_short and self.profile.kind == "shell" else message

    def _opening(self, message: Message, path: Path) -> str:
        return (self.opening or (lines.mail if self._is_short else lines.waits))(message, path)

    def let_go(self, key: int) -> None:
        self._watch.in_hand.pop(key, None)
        self._nudged.pop(key, None)

    # --- typing -----------------------------------------------------------------------------------------------------
    async def _type_when_ready(self, line: str, message: Message, why: str) -> Typed | Away | OSError:
        return await self._ladder.say(line, why, partial(self._note, message))

    async def _interrupt_or_reset(self, order: NudgeAgent) -> Typed | Away | OSError:
        path, message = self.resolve(order.place), self._named(order.message)
        line = self._opening(message, path)
        afresh = lines.mail_for_one_who_knows_nothing if self._is_short else lines.waits_for_one_who_knows_nothing
        fresh = afresh(self.agent, message, path)
        return await self._ladder.interrupt_or_reset(
            order.rung, line, fresh, partial(self._note, order.message), hung=order.hung
        )

    async def _renew(self, why: str) -> None:
        """Clear the agent's context. One that is still at work is cleared when it is through: its work is not cut
        off."""
        answer = await self._ladder.in_turn(partial(self._reset_for, why))
        if not isinstance(answer, Away):
            return
        if answer.why in (Absence.BUSY, Absence.TAKEN):

            async def later(_view: PaneView) -> None:
                await self._ladder.in_turn(partial(self._reset_for, why))

            self._watch.when_ready = later
        self._watch.away(answer)

    async def _reset_for(self, why: str) -> Typed | Away:
        view = await self._ladder.typist.until_ready(self.renew_patience_s)
        away = self._ladder.absence(view)
        if away is not None:
            return away
        typed = await self._ladder.typist.reset(view)
        await self._note(None, f"renew: {why}", typed, self.profile.reset.type)
        return typed

    # --- the log ------------------------------------------------------------------------------------------------------
    async def _note(self, message: Message | None, why: str, typed: Typed, *keys: str) -> None:
        """Log the keys that were pressed, and what was seen of them. The screen has changed by our own keys, which is
        no sign of life."""
        self._noted += 1
        self._watch.saw(await self.finder.look())
        said = typed.proof if isinstance(typed, Submitted) else typed.reason
        data: dict[str, Any] = {"agent": self.agent, "why": why, "keys": [*keys, *typed.keys], "seen": said}
        if message is not None:
            data["message_id"] = message.message_id
        self.record(keys_sent(**data))

    def _found(self, pane: Pane, how: str) -> None:
        self.record(pane_found(agent=self.agent, pane=pane.pane_id, target=pane.target, by=how))

    def _answer(self, order: _Asked, answer: Typed | Away | OSError) -> Told | NotTold:
        match answer:
            case Submitted(proof, seen=seen):
                if isinstance(order, NudgeAgent):
                    self._watch.told_again(order.key, answer)
                return Told(order.key, proof, seen=seen, attempt=order.attempt)
            case Away(_, reason) | NotSubmitted(reason):
                return NotTold(order.key, reason, order.attempt)
            case _:
                return NotTold(order.key, str(answer), order.attempt)
