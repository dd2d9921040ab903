"""The facts about message buses and the workers on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.fact import DIM, DIM_CYAN, GREEN, RED, YELLOW, fact

if TYPE_CHECKING:
    from ackd.core.fact import Shown


@fact("bus", "·", DIM, lambda of: f"{of['track']}: {of['state']}{of('bus', ', {}')}")
def bus_track(*, track: str, bus: str, state: str) -> None:
    """A bus was found, or is gone."""


def _message(of: Shown) -> str:
    about = of("task_id", " {}") or of("filepath", " {}") or of("director", " of {}")
    return f"{of['track']}: {of['source']} says {of['bus_type']}{about}{of.mark('recovered', ', read again')}"


@fact("bus", "▸", DIM_CYAN, _message)
def bus_message(
    *,
    track: str,
    bus_type: str,
    source: str,
    message_id: str | None = None,
    offset: int | None = None,
    task_id: str | None = None,
    filepath: str | None = None,
    director: str | None = None,
    event: str | None = None,
    recovered: bool | None = None,
) -> None:
    """Somebody said something on a bus. ``recovered``: it is acted on once more after a crash."""


@fact(
    "bad line",
    "!",
    YELLOW,
    lambda of: f"{of['track']}: byte {of['offset']} is no message ({of['error']}): {of['text']}",
    loud=True,
)
def bus_bad_line(*, track: str, offset: int, code: str, error: str, text: str) -> None:
    """A line of a bus is no message."""


@fact("bus", "!", YELLOW, lambda of: f"{of['track']}: {of['file']}: {of['error']}")
def bus_bad_file(*, track: str, file: str, error: str) -> None:
    """A file of a bus cannot be read, or is not what it should be."""


@fact("bus", "!", YELLOW, lambda of: f"{of['track']}: {of['file']} is read from its beginning: {of['why']}")
def bus_restarted(*, track: str, file: str, why: str, offset: int) -> None:
    """A bus's file was cut short or replaced: it is read from its beginning."""


@fact("bus", "·", DIM, lambda of: f"{of['track']}: {of['number']} old event files removed")
def bus_events_cleared(*, track: str, number: int) -> None:
    """Old event files of a bus were removed."""


def _stale(of: Shown) -> str:
    task = of("task_id", " with {}")
    told = of("to", ": told {}")
    return f"{of['track']}: {of['worker']} is silent{of.time('silent_s', ' for {}')}, {of['status']}{task}{told}"


@fact("silent", "▲", RED, _stale, loud=True)
def worker_stale(
    *,
    track: str,
    worker: str,
    status: str,
    task_id: str | None = None,
    agent: str | None = None,
    silent_s: float | None = None,
    to: str | None = None,
) -> None:
    """A worker of a bus that should be at work has said nothing for too long."""


@fact("heard", "✓", GREEN, lambda of: f"{of['track']}: {of['worker']} is heard again, {of['status']}")
def worker_back(*, track: str, worker: str, status: str, task_id: str | None = None, agent: str | None = None) -> None:
    """A worker that was silent is heard again."""
