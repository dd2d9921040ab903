"""What is written down: facts to the session log and to the operator's eyes, what is in hand to the journal.

Owns the end of a turn (``commit``): everything recorded is the kernel's before anyone outside is answered. A disk that
refuses is heard of once, not at every turn, and what it refused is tried again at the next. So is any fault of the
machine, whoever meets it (faults).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ackd.adapters.session_log import SessionLog, show_in
from ackd.runtime.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ackd.adapters.journal import Journal
    from ackd.ports import Clock, View


@dataclass
class Chronicle:
    journal: Journal
    clock: Clock
    view: View
    wake: Callable[[], None]
    log: SessionLog = field(init=False)
    #: Who wants to hear of lines of a type, at once. They only take note.
    listeners: dict[str, list[Callable[[str, dict[str, object]], None]]] = field(default_factory=dict, init=False)
    faults: Faults = field(default_factory=Faults, init=False)
    _trouble: dict[str, str] = field(default_factory=dict, init=False)
    _unseen: list[tuple[str, dict[str, object], float]] = field(default_factory=list, init=False)

    def open(self, logs_dir: Path, shown_in: Path | None = None) -> None:
        """Not before it is clear that we can serve: an attempt that fails leaves no empty log behind.

        ``shown_in``: a directory of the team's where the log shall be found as well, by a link.
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
        """The lines so far are the kernel's: whether the disk took them."""
        self.log.flush()
        return self.log.failing is None

    def record(self, type_: str, data: dict[str, object]) -> None:
        """One fact. What is recorded outside a turn, the next one flushes."""
        wall = self.clock.now().wall
        if type_ == "io_error":
            news = self.faults.met(data, wall)
            if news is None:
                return
            data = news
        self.log.record(type_, data, wall)
        self._unseen.append((type_, data, wall))
        for hear in self.listeners.get(type_, ()):
            hear(type_, data)
        self.wake()

    def commit(self) -> None:
        """The log first: what the journal has let go of is asked about no more, so its line must be there."""
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
            self._report("session log", self.log.failing)  # the log will tell of it when it can

    @property
    def has_news(self) -> bool:
        """Something was recorded that whoever looks on has not been shown."""
        return bool(self._unseen)

    def show(self) -> None:
        """Whoever looks on sees it after it was done: nobody waits for that."""
        unseen, self._unseen = self._unseen, []
        for type_, data, wall in unseen:
            self.view.show(type_, data, wall)
        self.view.flush()

    def relieved(self) -> None:
        """The machine is well again: one line for each fault that was."""
        wall = self.clock.now().wall
        self._trouble.clear()
        for fault in self.faults.over():
            seconds = round(max(0.0, wall - fault.since), 3)
            self.record("io_recovered", {"error": fault.error, "seconds": seconds, "times": fault.times})

    @contextlib.contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """An OSError inside becomes a line, once until it works again."""
        try:
            yield
        except OSError as error:
            self._report(what, error)
        else:
            self._trouble.pop(what, None)

    def _report(self, what: str, error: OSError) -> None:
        if self._is_news(what, error):
            self.record("io_error", {"what": what, "error": str(error)})

    def _is_news(self, what: str, error: OSError) -> bool:
        known, self._trouble[what] = self._trouble.get(what), str(error)
        return known != str(error)

    def close(self) -> None:
        """The last words. On a full disk the next start takes it for a crash, and copes."""
        with self.reporting("last words"):
            self.journal.stop()
            self.journal.close()
        self.log.close()
        self.show()
