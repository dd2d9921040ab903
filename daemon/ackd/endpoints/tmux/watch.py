"""Looks at a pane at intervals, and posts what changes: signs of life, work begun, prompts, ends, and "ready".

The watch runs only while there is a reason: work in hand, an agent that was away and is waited for, or a pulse that was
asked for a moment ago. Each change is posted once: ``Seen`` when a told agent goes busy, or its own words stand below
the line; ``AgentStuck`` when a prompt stands there at two looks, and again when another one does; ``AgentReady`` or
``AgentStarted`` when it takes work again; ``RunEnded`` and ``AgentDied`` when it is gone at two looks; ``TroubleSeen``
when somebody's words stay on its input line. The watch does not look while a line is typed, because our own keys are no
sign of life. A line of ours that was left behind is taken back by the wake ladder when the watch sees it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

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
from ackd.endpoints.tmux.activity import PaneActivity
from ackd.endpoints.tmux.availability import absence
from ackd.endpoints.tmux.client import AmbiguousPane, NoPane, NoServer, NoTmux, TmuxFault
from ackd.endpoints.tmux.facts import pane_gone, pane_stuck
from ackd.endpoints.tmux.screen import UNMARKED, Busy, Key, Mark, Prompt, Unknown, answered, mark

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.core.ports import Post, Record, Tasks
    from ackd.endpoints.tmux.activity import CpuActivity
    from ackd.endpoints.tmux.availability import Away
    from ackd.endpoints.tmux.pane_finder import PaneFinder, PaneView
    from ackd.endpoints.tmux.typist import Submitted
    from ackd.endpoints.tmux.wake_ladder import WakeLadder

#: The number of looks after the last pulse that was asked for.
_ATTENTION_LOOKS: Final = 20
#: A pane that is gone is looked for this many times less often.
_GONE_LOOKS: Final = 4
#: A person is told of a screen that is not understood and stands still for this many looks.
_PUZZLED_LOOKS: Final = 5
GONE: Final = (NoTmux, NoServer, NoPane, AmbiguousPane)


@dataclass(slots=True)
class ToldMessage:
    """A message that the agent was told of. ``line``, ``before``: the line that told of it last, and the transcript
    before that (``Submitted``)."""

    attempt: int
    seen: bool
    line: str = ""
    before: Mark = UNMARKED


@dataclass(kw_only=True, eq=False)
class Watch:
    """``supervised``: deaths and starts are posted by the supervisor."""

    agent: str
    finder: PaneFinder
    post: Post
    record: Record
    tasks: Tasks
    look_every_s: float
    supervised: bool
    ladder: WakeLadder
    cpu: CpuActivity
    #: How long somebody's words may stand on the input line until a person is told.
    taken_timeout_s: float = 900.0
    #: Called once when the agent is ready, for a caller that found it busy.
    when_ready: Callable[[PaneView], Awaitable[None]] | None = None
    #: Called, one at each look that shows it ready, to tell the agent of what was cancelled while it could not be told.
    called_off: deque[Callable[[], Awaitable[None]]] = field(default_factory=deque, init=False)
    in_hand: dict[int, ToldMessage] = field(default_factory=dict, init=False)
    waiting: Absence | None = field(default=None, init=False)
    _digest: bytes = field(default=b"", init=False)
    _sign: str | None = field(default=None, init=False)
    _pid: int = field(default=0, init=False)
    _usage: float | None = field(default=None, init=False)
    _attention: int = field(default=0, init=False)
    _again: tuple[str, int] = field(default=("", 0), init=False)
    #: Why the agent is stuck, as it was posted last.
    _stuck: Away | None = field(default=None, init=False)
    _taken_at: float | None = field(default=None, init=False)
    _taken_told: bool = field(default=False, init=False)
    _scope: anyio.CancelScope | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.activity = PaneActivity(agent=self.agent, finder=self.finder, post=self.post, cpu=self.cpu)

    # --- called by the endpoint
    def told(self, key: int, attempt: int, how: Submitted) -> None:
        self.in_hand[key] = ToldMessage(attempt, how.seen, how.line, how.before)
        self.waiting = None
        self.activity.show_again()
        self.attend()

    def told_again(self, key: int, how: Submitted) -> None:
        if (work := self.in_hand.get(key)) is not None:
            work.seen, work.line, work.before = work.seen or how.seen, how.line, how.before

    def away(self, away: Away) -> None:
        """Called when the agent could not be told: a change is posted when it can be."""
        self.waiting = away.why
        if away.why is Absence.STUCK:
            self._stuck = away
        self.attend()

    def pulse(self) -> str | None:
        sign, self._sign = self._sign, None
        if self._pid and self.waiting in {None, Absence.BUSY}:
            sign = sign or self.cpu.take(self._pid, busy=self.activity.is_busy) or self.activity.child(self._pid)
        self._attention = _ATTENTION_LOOKS
        self.attend()
        return sign

    def saw(self, view: PaneView) -> None:
        """Compare with this view from now on: what we have just typed is no sign of life."""
        self._digest = _digest(view)
        self.activity.saw(view)

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
                if not self.ladder.typing:
                    await self.look_once()
        self._scope = None

    def _has_reason(self) -> bool:
        return bool(self.in_hand or self.waiting or self.when_ready or self.called_off or self._attention)

    async def look_once(self) -> None:
        try:
            view = await self.finder.look()
        except GONE as gone:
            self._is_gone(str(gone))
            return
        except (TmuxFault, OSError) as fault:
            self.activity.is_blind(str(fault))
            return
        if self.ladder.typing:  # typing began while we looked
            return
        changed = self._compare(view)
        self._note_usage(view)
        self._note_answers(view)
        typed = self.when_ready is not None
        await self._judge(view, changed=changed)
        if typed and self.when_ready is None:
            self.activity.show_again()  # the next look posts what the agent shows, even if it is the same
        elif self.waiting is not Absence.GONE:
            away = absence(view, self.ladder.typist.standing(view))
            self.activity.show(view, can_be_told=away is None, changed=changed)

    def _compare(self, view: PaneView) -> bool:
        self._pid = view.pane.pid
        digest = _digest(view)
        changed = bool(self._digest) and digest != self._digest
        self._digest = digest
        stirred = self.activity.stirred(view)
        if stirred and self.waiting in {None, Absence.BUSY}:  # a clock that ticks beside a prompt is no sign of life
            self._sign = "its pane changed"
        return changed

    def _note_usage(self, view: PaneView) -> None:
        usage, before = view.reading.context_usage, self._usage
        # None is kept, too, so that a context that is cleared and fills up to the same share again is posted again.
        self._usage = usage
        if usage is None or usage == before:
            return
        self.post(WorkerSaid(self.agent, context_usage=usage))

    def _note_answers(self, view: PaneView) -> None:
        """Post ``Seen`` for lines that were answered: a turn may begin and end between two looks."""
        for key, work in self.in_hand.items():
            if not work.seen and work.line and self._is_answered(view, work):
                work.seen = True
                self.post(Seen(key, "its own words stand below the line"))

    def _is_answered(self, view: PaneView, work: ToldMessage) -> bool:
        profile = self.finder.profile
        return answered(mark(view.text, work.line, profile), work.before, profile)

    async def _judge(self, view: PaneView, *, changed: bool) -> None:
        if self.ladder.typist.unsent is not None and self.ladder.typist.allows(view, Key.TAKE_BACK):
            await self.ladder.take_back_unsent()
            return
        away = absence(view, self.ladder.typist.standing(view))
        if away is None or away.why is not Absence.TAKEN:
            self._taken_at, self._taken_told = None, False
        if away is None:
            await self._is_ready(view)
        elif away.why is Absence.BUSY:
            self._is_busy(view)
        elif away.why is Absence.TAKEN:
            self._is_taken(away)
        elif away.why is Absence.GONE:
            self._is_gone(away.reason)
        elif not isinstance(view.state, Unknown):
            self._is_stuck(away, looks=2)
        elif not changed:  # an agent whose screen changes is at work, whatever it looks like
            self._is_stuck(away, looks=_PUZZLED_LOOKS)

    async def _is_ready(self, view: PaneView) -> None:
        self._again = ("", 0)
        self.ladder.typist.unsent = None  # gone, by whomever it was removed
        if self.called_off:  # first, so that it does no more of what nobody wants
            await self.called_off.popleft()()
            return
        if self.when_ready is not None:  # before anything else is typed
            action, self.when_ready = self.when_ready, None
            await action(view)
            return
        waited, self.waiting = self.waiting, None
        if waited is Absence.GONE and not self.supervised:
            self.post(AgentStarted(self.agent, f"pane {view.pane.pane_id}"))
        elif waited is not None:
            self.post(AgentReady(self.agent, "its pane shows that it waits for a line"))

    def _is_taken(self, away: Away) -> None:
        """Wait while somebody's words stand on the input line, and tell a person when they stay there."""
        now = anyio.current_time()
        if self._taken_at is None:
            self._taken_at = now
        if self.waiting is Absence.STUCK:  # the question that it was stuck at has been answered
            self.waiting = Absence.TAKEN
            self.post(AgentReady(self.agent, away.reason))
        if self._taken_told or now - self._taken_at < self.taken_timeout_s:
            return
        self._taken_told = True
        self.post(
            TroubleSeen(
                "taken",
                self.agent,
                f"{self.agent} cannot be told: {away.reason} for {now - self._taken_at:.0f} s",
                f"Look at it with `ackd agent attach {self.agent}`, and submit or remove them; ackd goes on by itself",
                agent=self.agent,
            )
        )

    def _is_busy(self, view: PaneView) -> None:
        self._again = ("", 0)
        assert isinstance(view.state, Busy)
        for key, work in self.in_hand.items():
            if not work.seen:
                work.seen = True
                self.post(Seen(key, f"the pane went busy: {view.state.text}"))
        if self.waiting is Absence.STUCK:  # somebody has answered, and the agent continues its work
            self.waiting = None
            self.post(AgentReady(self.agent, "it works again"))

    def _is_stuck(self, away: Away, looks: int) -> None:
        """Post that the agent is stuck: again when the words change, and as new if it asks or shows something else."""
        if self._seen_again(away.reason) < looks:
            return
        before, self._stuck = (self._stuck if self.waiting is Absence.STUCK else None), away
        if before is not None and before.reason == away.reason:
            return
        new = before is None or away.shows is not before.shows or away.shows is Prompt
        self.waiting = Absence.STUCK
        self.record(pane_stuck(agent=self.agent, why=away.reason))
        self.post(AgentStuck(self.agent, away.reason, away.until, new=new))

    def _is_gone(self, why: str) -> None:
        if self._seen_again(why) < 2 or (self.waiting is Absence.GONE and not self.in_hand):
            return
        before, self.waiting = self.waiting, Absence.GONE
        self.record(pane_gone(agent=self.agent, why=why))
        for key, work in list(self.in_hand.items()):
            self.post(RunEnded(key, Outcome.FAILED, f"its agent is gone: {why}", work.attempt))
        self.in_hand.clear()
        if not self.supervised and before is not Absence.GONE:
            self.post(AgentDied(self.agent, why))
        elif self.supervised and before in (Absence.BUSY, Absence.TAKEN, Absence.STUCK):  # what kept it away is over
            self.post(AgentReady(self.agent, "its program has ended: it is started when it is told"))

    def _seen_again(self, what: str) -> int:
        """The number of looks in a row at which this was seen."""
        before, times = self._again
        self._again = (what, times + 1 if before == what else 1)
        return self._again[1]


def _digest(view: PaneView) -> bytes:
    return hashlib.blake2b(view.text.encode(), digest_size=16).digest()
