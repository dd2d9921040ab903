"""The facts about an Ensemble team's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.fact import CYAN, YELLOW, fact

if TYPE_CHECKING:
    from ackd.core.fact import Shown


@fact("file", "+", CYAN, lambda of: f"{of['file']}, version {of['version']}, became mail{of('from', ' from {}')}")
def file_taken_in(
    *, message_id: str, agent: str, file: str, version: int, from_: str | None = None, task_id: str | None = None
) -> None:
    """A task or a report became a message."""


@fact("report", "~", YELLOW, lambda of: f"vague words in {of['file']}: {of['words']}")
def vague_report(*, message_id: str, agent: str, file: str, words: list[str], from_: str | None = None) -> None:
    """A report has words that say neither who nor how many (ensemble-v3's ban on vague words)."""


@fact("task", "-", YELLOW, lambda of: f"not given out: {of['file']}: {of['reason']}")
def task_passed_over(*, file: str, reason: str, task_id: str | None = None) -> None:
    """A task was not given out to its worker."""


@fact(
    "stale ack",
    "!",
    YELLOW,
    lambda of: f"{of['file']} is {of.time('older_s', '{}')} older than its task: it does not count",
)
def ack_stale(*, message_id: str, agent: str, file: str, older_s: float, task_id: str | None = None) -> None:
    """An ACK file is older than the task that it would acknowledge."""


def _overdue(of: Shown) -> str:
    polled = of.time("poll_s", ": the reports are looked at every {}")
    return f"no report{of('task_id', ' on {}')}{of.time('seconds', ' for {}')}{polled}"


@fact("overdue", "!", YELLOW, _overdue, loud=True)
def report_overdue(
    *,
    message_id: str,
    agent: str,
    seconds: float,
    file: str | None = None,
    task_id: str | None = None,
    poll_s: float | None = None,
) -> None:
    """A task's report, or the summary of all of them, does not come."""
