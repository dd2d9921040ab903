"""Looks at a pane now and then, while someone wants to know: signs of life, work begun, prompts, ends, and "ready".

Owns what was last seen and what is waited for. It runs only while there is a reason: work in hand, an agent that was
away and is waited for, or somebody who asked for a pulse a moment ago. Posts each change once: ``Seen`` when a told
agent goes busy, or its own words stand below the line; ``AgentStuck`` when a prompt stands there at two looks, and
again when another one does; ``AgentReady`` or ``AgentStarted`` when it takes work again; ``RunEnded`` and
``AgentDied`` when it is gone at two looks; ``TroubleSeen`` when somebody's words stay on its input line. Refuses to
type, and does not look while someone does: our own keys are no sign of life. A line of ours that was left behind it has
taken back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from ackd.adapters.tmux import AmbiguousPane, NoPane, NoServer, NoTmux, TmuxFault
from ackd.core.events import (
    Absence,
    AgentDied,
    AgentReady,
    AgentStarted,
    AgentStuck,
    Outcome,
    RunEnded,
    Seen,
    TroubleSeen,
    WorkerSaid,
)
from ackd.dialects.screen import UNMARKED, Busy, Key, Mark, Prompt, Unknown, answered, mark
from ackd.runtime.terminals.doings import Doings
from ackd.runtime.terminals.words import absence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from ackd.ports import Post
    from ackd.runtime.terminals.exertion import Exertion
    from ackd.runtime.terminals.eye import Eye, Sight
    from ackd.runtime.terminals.rungs import Rungs
    from ackd.runtime.terminals.typist import Submitted
    from ackd.runtime.terminals.words import Away

#: For so many looks after the last pulse that was asked for.
_ATTENTION_LOOKS: Final = 20
#: A pane that is gone is looked for less often.
_GONE_LOOKS: Final = 4
#: A screen that is not understood and stands still for so many looks is someone's business.
_PUZZLED_LOOKS: Final = 5
GONE: Final = (NoTmux, NoServer, NoPane, AmbiguousPane)


@dataclass(slots=True)
class Work:
    """``line``, ``before``: what told of it last, and its transcript before that (``Submitted``)."""

    attempt: int
    seen: bool
    line: str = ""
    before: Mark = UNMARKED


@dataclass(kw_only=True, eq=False)
class Watch:
    """``supervised``: deaths and starts are told of by its supervisor."""

    agent: str
    eye: Eye
    post: Post
    record: Callable[[str, dict[str, object]], None]
    tasks: TaskGroup
    look_every_s: float
    supervised: bool
    typist: Rungs
    exertion: Exertion
    #: How long somebody's words may stand on its input line until someone hears of it.
    taken_timeout_s: float = 900.0
    #: Done when it is ready, by whoever could not do it before.
    wish: Callable[[Sight], Awaitable[None]] | None = None
    hand: dict[int, Work] = field(default_factory=dict, init=False)
    waiting: Absence | None = field(default=None, init=False)
    _digest: bytes = field(default=b"", init=False)
    _sign: str | None = field(default=None, init=False)
    _pid: int = field(default=0, init=False)
    _usage: float | None = field(default=None, init=False)
    _attention: int = field(default=0, init=False)
    _again: tuple[str, int] = field(default=("", 0), init=False)
    #: Why it is stuck, as it was said last.
    _stuck: Away | None = field(default=None, init=False)
    _taken_at: float | None = field(default=None, init=False)
    _taken_told: bool = field(default=False, init=False)
    _scope: anyio.CancelScope | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.doings = Doings(agent=self.agent, eye=self.eye, post=self.post, exertion=self.exertion)

    # --- what the endpoint says
    def told(self, key: int, attempt: int, how: Submitted) -> None:
        self.hand[key] = Work(attempt, how.seen, how.line, how.before)
        self.waiting = None
        self.doings.anew()
        self.attend()

    def told_again(self, key: int, how: Submitted) -> None:
        if (work := self.hand.get(key)) is not None:
            work.seen, work.line, work.before = work.seen or how.seen, how.line, how.before

    def away(self, away: Away) -> None:
        """It could not be told: whoever waits is told when it can."""
        self.waiting = away.why
        if away.why is Absence.STUCK:
            self._stuck = away
        self.attend()

    def pulse(self) -> str | None:
        sign, self._sign = self._sign, None
        if self._pid and self.waiting in {None, Absence.BUSY}:
            sign = sign or self.exertion.take(self._pid, busy=self.doings.is_busy) or self.doings.child(self._pid)
        self._attention = _ATTENTION_LOOKS
        self.attend()
        return sign

    def saw(self, sight: Sight) -> None:
        """What we have just typed is not a sign of life: it counts from here."""
        self._digest = _digest(sight)
        self.doings.saw(sight)

    def attend(self) -> None:
        if self._scope is None and not self._stopped:
            self._scope = anyio.CancelScope()
            self.tasks.start_soon(self._run, self._scope, name=f"pane of {self.agent}")

    def stop(self) -> None:
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    # --- looking
    async def _run(self, scope: anyio.CancelScope) -> None:
        with scope:
            while self._has_reason():
                await anyio.sleep(self.look_every_s * (_GONE_LOOKS if self.waiting is Absence.GONE else 1))
                self._attention -= self._attention > 0
                if not self.typist.typing:
                    await self.glance()
        self._scope = None

    def _has_reason(self) -> bool:
        return bool(self.hand or self.waiting or self.wish or self._attention)

    async def glance(self) -> None:
        try:
            sight = await self.eye.look()
        except GONE as gone:
            self._is_gone(str(gone))
            return
        except (TmuxFault, OSError) as fault:
            self.doings.is_blind(str(fault))
            return
        if self.typist.typing:  # meanwhile
            return
        changed = self._compare(sight)
        self._note_usage(sight)
        self._note_answers(sight)
        typed = self.wish is not None
        await self._judge(sight, changed=changed)
        if typed and self.wish is None:
            self.doings.anew()  # what it shows is to be seen at the next look
        elif self.waiting is not Absence.GONE:
            away = absence(sight, self.typist.typist.standing(sight))
            self.doings.show(sight, can_be_told=away is None, changed=changed)

    def _compare(self, sight: Sight) -> bool:
        self._pid = sight.pane.pid
        digest = _digest(sight)
        changed = bool(self._digest) and digest != self._digest
        self._digest = digest
        stirred = self.doings.stirred(sight)
        if stirred and self.waiting in {None, Absence.BUSY}:  # a clock that ticks beside a prompt is no life
            self._sign = "its pane changed"
        return changed

    def _note_usage(self, sight: Sight) -> None:
        usage, before = sight.reading.context_usage, self._usage
        self._usage = usage  # not shown: a cleared one that fills up to the same again is said again
        if usage is None or usage == before:
            return
        self.post(WorkerSaid(self.agent, context_usage=usage))

    def _note_answers(self, sight: Sight) -> None:
        """A turn may begin and end between two looks."""
        for key, work in self.hand.items():
            if not work.seen and work.line and self._is_answered(sight, work):
                work.seen = True
                self.post(Seen(key, "its own words stand below the line"))

    def _is_answered(self, sight: Sight, work: Work) -> bool:
        profile = self.eye.profile
        return answered(mark(sight.text, work.line, profile), work.before, profile)

    async def _judge(self, sight: Sight, *, changed: bool) -> None:
        if self.typist.typist.unsent is not None and self.typist.typist.allows(sight, Key.TAKE_BACK):
            await self.typist.tidy()
            return
        away = absence(sight, self.typist.typist.standing(sight))
        if away is None or away.why is not Absence.TAKEN:
            self._taken_at, self._taken_told = None, False
        if away is None:
            await self._is_ready(sight)
        elif away.why is Absence.BUSY:
            self._is_busy(sight)
        elif away.why is Absence.TAKEN:
            self._is_taken(away)
        elif away.why is Absence.GONE:
            self._is_gone(away.reason)
        elif not isinstance(sight.state, Unknown):
            self._is_stuck(away, looks=2)
        elif not changed:  # what changes is at work, whatever it looks like
            self._is_stuck(away, looks=_PUZZLED_LOOKS)

    async def _is_ready(self, sight: Sight) -> None:
        self._again = ("", 0)
        self.typist.typist.unsent = None  # whoever removed it
        if self.wish is not None:  # before anything else is typed there
            wish, self.wish = self.wish, None
            await wish(sight)
            return
        waited, self.waiting = self.waiting, None
        if waited is Absence.GONE and not self.supervised:
            self.post(AgentStarted(self.agent, f"pane {sight.pane.pane_id}"))
        elif waited is not None:
            self.post(AgentReady(self.agent, "its pane shows that it waits for a line"))

    def _is_taken(self, away: Away) -> None:
        """Nothing is typed beside somebody's words; that they stay there is somebody's business after a while."""
        now = anyio.current_time()
        if self._taken_at is None:
            self._taken_at = now
        if self.waiting is Absence.STUCK:  # whatever it was asked has been answered
            self.waiting = Absence.TAKEN
            self.post(AgentReady(self.agent, away.reason))
        if self._taken_told or now - self._taken_at < self.taken_timeout_s:
            return
        self._taken_told = True
        self.post(
            TroubleSeen(
                "taken",
                self.agent,
                f"{self.agent} cannot be told: {away.reason} for {now - self._taken_at:.0f} s, in 1 of 1 panes (100%)",
                f"Look at it with `ackd agent attach {self.agent}`, and submit or remove them; ackd goes on by itself",
                agent=self.agent,
            )
        )

    def _is_busy(self, sight: Sight) -> None:
        self._again = ("", 0)
        assert isinstance(sight.state, Busy)
        for key, work in self.hand.items():
            if not work.seen:
                work.seen = True
                self.post(Seen(key, f"the pane went busy: {sight.state.text}"))
        if self.waiting is Absence.STUCK:  # someone has answered, and it goes on with its work
            self.waiting = None
            self.post(AgentReady(self.agent, "it works again"))

    def _is_stuck(self, away: Away, looks: int) -> None:
        """Said again when its words change; as something new if it asks something else now, or shows another thing."""
        if self._seen_again(away.reason) < looks:
            return
        before, self._stuck = (self._stuck if self.waiting is Absence.STUCK else None), away
        if before is not None and before.reason == away.reason:
            return
        new = before is None or away.shows is not before.shows or away.shows is Prompt
        self.waiting = Absence.STUCK
        self.record("pane_stuck", {"agent": self.agent, "why": away.reason})
        self.post(AgentStuck(self.agent, away.reason, away.until, new=new))

    def _is_gone(self, why: str) -> None:
        if self._seen_again(why) < 2 or (self.waiting is Absence.GONE and not self.hand):
            return
        before, self.waiting = self.waiting, Absence.GONE
        self.record("pane_gone", {"agent": self.agent, "why": why})
        for key, work in list(self.hand.items()):
            self.post(RunEnded(key, Outcome.FAILED, f"its agent is gone: {why}", work.attempt))
        self.hand.clear()
        if not self.supervised and before is not Absence.GONE:
            self.post(AgentDied(self.agent, why))
        elif self.supervised and before in (Absence.BUSY, Absence.TAKEN, Absence.STUCK):  # whatever it was at is over
            self.post(AgentReady(self.agent, "its program has ended: it is started when it is told"))

    def _seen_again(self, what: str) -> int:
        """At how many looks in a row."""
        before, times = self._again
        self._again = (what, times + 1 if before == what else 1)
        return self._again[1]


def _digest(sight: Sight) -> bytes:
    return hashlib.blake2b(sight.text.encode(), digest_size=16).digest()
