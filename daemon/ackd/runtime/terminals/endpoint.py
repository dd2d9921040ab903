"""The endpoint of an agent that lives in a pane of tmux: what a person would type is typed, and proven.

Owns when something is typed, and each nudge only once; how a pane is woken is ``rungs``. A busy agent is waited for;
where a prompt, a menu, a limit or a screen that is not understood gets nothing, someone is told, and a background watch
says when it is over.

Refuses to know messages: what it types is ackd's own line (``lines``). Fails by answering: no tmux, server, pane or
program is ``EndpointAway`` (gone), a machine that refuses us a child ``Hindered``, a line that cannot be proven to be
submitted ``NotTold``, with what was seen. A pane outlives us: stopping ends the watch and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from ackd.adapters.process_tree import ProcessTable
from ackd.core import facts
from ackd.core.effects import NudgeAgent
from ackd.core.errors import CannotStart
from ackd.core.events import Absence, EndpointAway, Hindered, NotTold, Seen, Told
from ackd.runtime.terminals import lines
from ackd.runtime.terminals.exertion import Exertion
from ackd.runtime.terminals.eye import Eye
from ackd.runtime.terminals.rungs import DRAWN_WITHIN_S, Rungs
from ackd.runtime.terminals.typist import READY_AGAIN_S, NotSubmitted, Submitted
from ackd.runtime.terminals.watch import Watch
from ackd.runtime.terminals.words import Away

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from anyio.abc import TaskGroup

    from ackd.adapters.checkpoints import Checkpoints
    from ackd.adapters.tmux import Pane, Tmux
    from ackd.core.effects import AskCheckpoint, ProbeAgent, RemindAgent, RenewAgent, TellAgent
    from ackd.core.message import Message, Place
    from ackd.dialects.screen import Profile
    from ackd.ports import Clock, Post
    from ackd.runtime.terminals.eye import Sight
    from ackd.runtime.terminals.typist import Typed

    _Asked = NudgeAgent | ProbeAgent | RemindAgent | AskCheckpoint

#: A pane that is closed ends its program, and that is heard of.
_HEARD_WITHIN_S: Final = 0.5
#: A turn that ends with the checkpoint is let end before its context is cleared.
RENEW_PATIENCE_S: Final = 60.0


@dataclass(kw_only=True, eq=False)
class TerminalEndpoint:
    """``target`` or ``title`` say which pane; without either it is the one that carries our mark (``owner``).

    ``starter`` and ``restarter`` go through the supervisor, for a pane that we start: the one returns when it is up, or
    raises CannotStart; without the other a restart is a reset.
    """

    agent: str
    tmux: Tmux
    profile: Profile
    clock: Clock
    resolve: Callable[[Place], Path]
    post: Post
    record: Callable[[str, dict[str, object]], None]
    tasks: TaskGroup
    owner: str = ""
    target: str | None = None
    title: str | None = None
    restarter: Callable[[str], Coroutine[None, None, None]] | None = None
    starter: Callable[[], Coroutine[None, None, None]] | None = None
    #: Which line tells of a message: the profile's, unless the agent's own table says so.
    line: Literal["read", "path"] | None = None
    #: The words of that line, where whoever made this has its own.
    opening: Callable[[Message, Path], str] | None = None
    #: Where work stands, as agents said it.
    kept: Checkpoints | None = None
    table: ProcessTable = field(default_factory=ProcessTable)
    look_every_s: float = 3.0
    renew_patience_s: float = RENEW_PATIENCE_S
    ready_again_s: float = READY_AGAIN_S
    drawn_within_s: float = DRAWN_WITHIN_S
    #: How long somebody's words may stand on its input line until somebody hears of it (``busy_timeout_s``).
    taken_timeout_s: float = 900.0
    _stopping: bool = field(default=False, init=False)
    _nudged: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    #: How often keys were written down.
    _noted: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.eye = Eye(
            tmux=self.tmux,
            profile=self.profile,
            clock=self.clock,
            owner=self.owner or self.agent,
            target=self.target,
            title=self.title,
            found=self._found,
        )
        self._rungs = Rungs(
            tmux=self.tmux,
            profile=self.profile,
            eye=self.eye,
            ready_again_s=self.ready_again_s,
            drawn_within_s=self.drawn_within_s,
        )
        self._watch = Watch(
            agent=self.agent,
            eye=self.eye,
            post=self.post,
            record=self.record,
            tasks=self.tasks,
            look_every_s=self.look_every_s,
            supervised=self.restarter is not None,
            typist=self._rungs,
            taken_timeout_s=self.taken_timeout_s,
            exertion=Exertion(self.table),
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
        """One that we start is up first, if it can be; one that is gone meanwhile is tried once more, for who keeps it
        is about to hear of that."""
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
        """Rung 0 is a person's own wish, and may be repeated; the others are climbed once each. One on which no
        key was pressed was none: who was parked meanwhile is woken from there."""
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
            answer = await self._shake(order)
        if self._nudged.get(key) == (order.attempt, rung) and self._noted == noted:
            self._nudged[key] = before
        return self._answer(order, answer)

    async def probe(self, order: ProbeAgent) -> Told | NotTold:
        line = lines.status_check(order.text, order.message)
        answer = self._answer(order, await self._type_when_ready(line, order.message, "status check"))
        self.record("probed", facts.probed(order, answer))
        return answer

    async def remind(self, order: RemindAgent) -> Told | NotTold:
        """Typed only while it waits for a line and nothing stands there; once for each order."""
        line = lines.reminder(order.message, self.resolve(order.place))
        answer = await self._type_when_ready(line, order.message, "reminder")
        self._watch.doings.anew()
        return self._answer(order, answer)

    async def ask_checkpoint(self, order: AskCheckpoint) -> Told | NotTold:
        """An agent whose context is nearly full is mostly at work: asked when it is ready, if the work is its still."""
        line = lines.checkpoint(order.message, self.resolve(order.place))
        answer = await self._type_when_ready(line, order.message, "checkpoint")
        if isinstance(answer, Away) and answer.why is Absence.BUSY:

            async def later(_sight: Sight) -> None:
                if order.key in self._watch.hand:
                    await self._type_when_ready(line, order.message, "checkpoint")

            self._watch.wish = later
            self._watch.attend()
            return NotTold(order.key, f"asked once it is ready: {answer.reason}", order.attempt)
        return self._answer(order, answer)

    def renew(self, order: RenewAgent) -> Coroutine[None, None, None]:
        return self._renew(order.why)

    def restart(self, why: str) -> Coroutine[None, None, None]:
        return self.restarter(why) if self.restarter is not None else self._renew(why)

    def pulse(self) -> str | None:
        return None if self._stopping else self._watch.pulse()

    async def stop(self, drain_s: float) -> None:  # noqa: ARG002 - a pane outlives us, and so does its work
        self._stopping = True
        self._watch.stop()

    def _line(self, order: TellAgent) -> str:
        """One that was handed over is told of to somebody with an empty head, or to who would do it all again."""
        path, message = self.resolve(order.place), self._named(order.message)
        checkpoint = self.kept.path(self.agent, message.message_id) if self.kept is not None else None
        if checkpoint is not None and checkpoint.exists():
            return lines.goes_on(self.agent, message, path, checkpoint.absolute(), short=self._is_short)
        return self._opening(message, path)

    @property
    def _is_short(self) -> bool:
        return (self.line or self.profile.line) == "read"

    def _named(self, message: Message) -> Message:
        """The short line has its type in brackets, and those are a shell's own."""
        return replace(message, type="") if self._is_short and self.profile.kind == "shell" else message

    def _opening(self, message: Message, path: Path) -> str:
        return (self.opening or (lines.mail if self._is_short else lines.waits))(message, path)

    def forget(self, key: int) -> None:
        self._watch.hand.pop(key, None)
        self._nudged.pop(key, None)

    # --- typing -----------------------------------------------------------------------------------------------------
    async def _type_when_ready(self, line: str, message: Message, why: str) -> Typed | Away | OSError:
        return await self._rungs.say(line, why, partial(self._note, message))

    async def _shake(self, order: NudgeAgent) -> Typed | Away | OSError:
        path, message = self.resolve(order.place), self._named(order.message)
        line = self._opening(message, path)
        afresh = lines.mail_for_one_who_knows_nothing if self._is_short else lines.waits_for_one_who_knows_nothing
        fresh = afresh(self.agent, message, path)
        return await self._rungs.shake(order.rung, line, fresh, partial(self._note, order.message), hung=order.hung)

    async def _renew(self, why: str) -> None:
        """One that is still at work is cleared when it is through: nobody asked for its work to be cut off."""
        answer = await self._rungs.in_turn(partial(self._reset_for, why))
        if not isinstance(answer, Away):
            return
        if answer.why in (Absence.BUSY, Absence.TAKEN):

            async def later(_sight: Sight) -> None:
                await self._rungs.in_turn(partial(self._reset_for, why))

            self._watch.wish = later
        self._watch.away(answer)

    async def _reset_for(self, why: str) -> Typed | Away:
        sight = await self._rungs.typist.until_ready(self.renew_patience_s)
        away = self._rungs.absence(sight)
        if away is not None:
            return away
        typed = await self._rungs.typist.reset(sight)
        await self._note(None, f"renew: {why}", typed, self.profile.reset.type)
        return typed

    # --- what is written down -----------------------------------------------------------------------------------------
    async def _note(self, message: Message | None, why: str, typed: Typed, *keys: str) -> None:
        """What was pressed, and what was seen of it. What is there now is ours: it is no sign of life."""
        self._noted += 1
        self._watch.saw(await self.eye.look())
        said = typed.proof if isinstance(typed, Submitted) else typed.reason
        data: dict[str, object] = {"agent": self.agent, "why": why, "keys": [*keys, *typed.keys], "seen": said}
        if message is not None:
            data["message_id"] = message.message_id
        self.record("keys_sent", data)

    def _found(self, pane: Pane, how: str) -> None:
        self.record("pane_found", {"agent": self.agent, "pane": pane.pane_id, "target": pane.target, "by": how})

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
