"""Tasks that were given out through files, and what is still owed for them: the ACK, the report, the summary.

Three decisions of the Ensemble protocol (ensemble-v3, "timeouts") are made here: which task an ACK file means and
whether it is newer than its dispatch; which task a report is about; when a report or the summary is overdue. ``now`` is
monotonic, times of files are the disk's, in nanoseconds. Nothing fails.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ackd.core.names import identity
from ackd.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The time for which a finished task is remembered: a second report may come, or a second ACK.
KEEP_S: Final = 86_400.0
#: The time for which an unfinished task is remembered. Then nobody waits for it any more.
KEEP_OPEN_S: Final = 7 * 86_400.0
MOST: Final = 10_000


class End(enum.Enum):
    """The end of a task's message."""

    NOT_YET = ""
    COMPLETED = "completed"
    GIVEN_UP = "given up"  # dead or withdrawn: no report is to be expected


@value
class Dispatch:
    """A task that was given out. ``names``: its possible names, the surest first. ``given_ns``: the time of its file.
    ``since``: when it became mail, on the monotonic clock; ``wall``: the same as wall time, for the next daemon."""

    message_id: str
    agent: str
    names: tuple[str, ...]
    file: str
    given_ns: int
    since: float
    wall: float
    acked: bool = False
    reported: bool = False
    overdue: bool = False
    end: End = End.NOT_YET

    @property
    def task_id(self) -> str:
        return self.names[0] if self.names else self.file

    @property
    def owes_report(self) -> bool:
        return not self.reported and self.end is not End.GIVEN_UP


@value
class OpenWork:
    """The work that the conductor waits for a summary of: everything given out since the last one."""

    first: str  # the message that began it
    given_ns: int
    since: float
    wall: float
    told: bool = False


def called(dispatches: Sequence[Dispatch], name: str) -> Dispatch | None:
    """The newest task that ``name`` means: the surer of two names counts, then the later dispatch."""
    fitting = [(-one.names.index(name), number) for number, one in enumerate(dispatches) if name in one.names]
    return dispatches[max(fitting)[1]] if fitting else None


def reported(
    dispatches: Sequence[Dispatch], names: Iterable[str], sender: str | None, at_ns: int, *, review: bool
) -> Dispatch | None:
    """The task that a report is about, which must be older than the report. If it may mean several: the
    sender's, then one that still owes its report, then the newest.

    A review counts as a report only for a task that asked for a review: it bears the name of the reviewed task, too.
    """
    for name in names:
        fitting = [one for one in dispatches if name in one.names and one.given_ns < at_ns]
        if sender is not None:
            fitting = [one for one in fitting if identity(one.agent) == identity(sender)]
        if review:
            fitting = [one for one in fitting if "review" in one.file.lower()]
        if fitting:
            return max(enumerate(fitting), key=lambda each: (each[1].owes_report, each[0]))[1]
    return None


def late(dispatches: Iterable[Dispatch], now: float, timeout_s: float) -> list[Dispatch]:
    """The tasks whose report has just become overdue."""
    return [one for one in dispatches if one.owes_report and not one.overdue and now - one.since >= timeout_s]


def is_polled(dispatches: Iterable[Dispatch]) -> bool:
    return any(one.overdue and one.owes_report for one in dispatches)


def next_in(
    dispatches: Iterable[Dispatch], work: OpenWork | None, now: float, timeout_s: float, summary_s: float
) -> float | None:
    """Seconds until something becomes overdue."""
    waits = [one.since + timeout_s - now for one in dispatches if one.owes_report and not one.overdue]
    if work is not None and not work.told:
        waits.append(work.since + summary_s - now)
    return max(0.0, min(waits)) if waits else None


def summary_is_late(work: OpenWork | None, now: float, timeout_s: float) -> bool:
    return work is not None and not work.told and now - work.since >= timeout_s


def added(dispatches: Sequence[Dispatch], new: Dispatch) -> tuple[Dispatch, ...]:
    """The tasks with a new one, which replaces the same task from an older version of its file."""
    return (*(one for one in dispatches if (one.file, one.agent) != (new.file, new.agent)), new)


def changed(dispatches: Sequence[Dispatch], message_id: str, **what: object) -> tuple[Dispatch, ...]:
    return tuple(
        replace(one, **what) if one.message_id == message_id else one  # type: ignore[arg-type]
        for one in dispatches
    )


def kept(dispatches: Sequence[Dispatch], now: float) -> tuple[Dispatch, ...]:
    """The tasks that somebody may still ask for."""
    young = [one for one in dispatches if now - one.since < (KEEP_OPEN_S if one.owes_report else KEEP_S)]
    return tuple(young[-MOST:])
