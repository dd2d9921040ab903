"""Writes facts to the session log and to the view, and the messages in hand to the journal.

``commit`` ends a turn: everything recorded reaches the kernel before anyone outside is answered. When the disk refuses,
that is logged once, not at every turn, and the lines are tried again at the next turn. Any other fault of the machine
is logged once, too, whichever part meets it (``Faults``).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ackd.core.daemon_facts import io_error, io_recovered
from ackd.core.escalations import stamp
from ackd.core.faults import ADVICE, OF_STARTING
from ackd.storage.session_log import SessionLog, show_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ackd.core.fact import Fact
    from ackd.core.ports import Clock, View
    from ackd.storage.journal import Journal


#: Error texts of the kernel, by which a fault is recognised in any ``io_error``, and the advice for each. The longest
#: come first, because one text may be the beginning of another.
_WORDS: Final = dict(sorted(((os.strerror(code), advice) for code, advice in ADVICE.items()), key=lambda w: -len(w[0])))
_OF_STARTING: Final = frozenset(os.strerror(code) for code in OF_STARTING)


@dataclass(slots=True)
class Fault:
    """A fault of the machine. ``what``: what was refused first. ``since``: wall time in seconds."""

    error: str
    what: str
    since: float
    times: int = 1


@dataclass
class Faults:
    _now: dict[str, Fault] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._now)

    @property
    def of_starting(self) -> bool:
        """True if a process or a thread was refused: that fault is over only when both can be started again."""
        return not _OF_STARTING.isdisjoint(self._now)

    def met(self, data: dict[str, object], now_wall: float) -> dict[str, object] | None:
        """Return the fields to log for an ``io_error``: with advice if a fault begins, None if it is already known."""
        error = next((words for words in _WORDS if words in str(data.get("error"))), None)
        if error is None:
            return data
        known = self._now.get(error)
        if known is not None:
            known.times += 1
            return None
        self._now[error] = Fault(error, str(data.get("what")), now_wall)
        return {**data, "advice": _WORDS[error]}

    def over(self) -> list[Fault]:
        """End all faults, and return them for their last line."""
        ended, self._now = list(self._now.values()), {}
        return ended

    def page(self) -> list[dict[str, object]]:
        """Return the faults as ``ackd status`` shows them."""
        return [
            {"error": one.error, "what": one.what, "since": stamp(one.since), "times": one.times}
            for one in self._now.values()
        ]


@dataclass(kw_only=True)
class Recorder:
    journal: Journal
    clock: Clock
    view: View
    wake: Callable[[], None]
    log: SessionLog = field(init=False)
    faults: Faults = field(default_factory=Faults, init=False)
    _trouble: dict[str, str] = field(default_factory=dict, init=False)
    _unseen: list[tuple[str, dict[str, object], float]] = field(default_factory=list, init=False)

    def open(self, logs_dir: Path, shown_in: Path | None = None) -> None:
        """Open the session log. Called only when it is clear that we can serve: a failed start leaves no empty log.

        ``shown_in``: a directory of the team in which a link to the log is kept.
        """
        self.log = SessionLog.open(logs_dir, started_at=self.clock.now().wall)
        self.journal.ahead = self.written
        if shown_in is not None:
            self.log.moved = partial(self._show_log, shown_in)
            self.log.moved(self.log.path)

    def _show_log(self, directory: Path, path: Path) -> None:
        with self.reporting("link to the session log"):
            show_in(directory, path)

    def written(self) -> bool:
        """Hand the lines so far to the kernel. Returns False if the disk refused them."""
        self.log.flush()
        return self.log.failing is None

    def record(self, fact: Fact) -> None:
        """Write one fact. A fact that is recorded outside a turn is flushed by the next turn."""
        wall = self.clock.now().wall
        type_, data = fact
        if type_ == io_error.type:
            news = self.faults.met(data, wall)
            if news is None:
                return
            data = news
        self.log.record(type_, data, wall)
        self._unseen.append((type_, data, wall))
        self.wake()

    def commit(self) -> None:
        """Flush the log, then the journal. A start asks nothing about messages that the journal has let go of, so their
        lines must be in the log before."""
        self.log.flush()
        try:
            self.journal.flush()
        except OSError as error:
            self._report("journal", error)
        else:
            self._trouble.pop("journal", None)
        if self.log.failing is None:
            self._trouble.pop("session log", None)
        else:
            self._report("session log", self.log.failing)  # written when the log can be written again

    @property
    def has_news(self) -> bool:
        """True if something was recorded that the view has not shown yet."""
        return bool(self._unseen)

    def show(self) -> None:
        """Show new facts in the view. Done after the turn's work, because nothing waits for it."""
        unseen, self._unseen = self._unseen, []
        for type_, data, wall in unseen:
            self.view.show(type_, data, wall)
        self.view.flush()

    def relieved(self) -> None:
        """End all faults of the machine, with one line for each."""
        wall = self.clock.now().wall
        self._trouble.clear()
        for fault in self.faults.over():
            seconds = round(max(0.0, wall - fault.since), 3)
            self.record(io_recovered(error=fault.error, seconds=seconds, times=fault.times))

    @contextlib.contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """Turn an OSError inside into a log line, written once until the action succeeds again."""
        try:
            yield
        except OSError as error:
            self._report(what, error)
        else:
            self._trouble.pop(what, None)

    def _report(self, what: str, error: OSError) -> None:
        if self._is_news(what, error):
            self.record(io_error(what=what, error=str(error)))

    def _is_news(self, what: str, error: OSError) -> bool:
        known, self._trouble[what] = self._trouble.get(what), str(error)
        return known != str(error)

    def close(self) -> None:
        """Write the last entries, and close both files. If the disk is full, the next start treats this as a crash,
        which is safe."""
        with self.reporting("last words"):
            self.journal.stop()
            self.journal.close()
        self.log.close()
        self.show()
