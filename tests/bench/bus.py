"""A message bus: how many posts a second from 8 processes while the daemon tails, and how long until an event file.

Beside it: the same bytes appended by open, write and close, which is what `echo >>` does, with nothing checked, no id, no
time and nobody reading. And the seed's way of noticing an event: looking once a second.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ackd.bus import Bus
from ackd.coordination.bus.tracks import own_track
from tests.bench import daemon, letters, pace, race
from tests.bench.figures import Figure, at_least, at_most, percentile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.acceptance.teams import Team
    from tests.bench.scale import Scale

WRITERS = 8
PATIENCE_S = 120.0
_POSTS_PER_MESSAGE = 8
PAYLOAD: dict[str, object] = {"task_id": "1.1", "progress_pct": 40, "current_subtask": "tests of the login form"}


def measure(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    return [*_posting(place, scale, tell), *_detecting(place, scale, tell)]


# --- posting ------------------------------------------------------------------------------------------------------------
def _posting(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    count = scale.messages * _POSTS_PER_MESSAGE
    ours: list[float] = []
    limits: list[float] = []
    for turn in range(scale.repetitions):
        limits.append(count / _appended(place / f"plain{turn}", count))
        ours.append(count / _posted(place / f"posted{turn}", count))
        tell(f"{ours[-1]:,.0f} posts/s, plain appends {limits[-1]:,.0f}/s")
    what = f"bus posts, {WRITERS} processes, the daemon tailing"
    return [Figure("bus", what, "/s", tuple(ours), "O_APPEND of the same bytes", tuple(limits), at_least(0.3))]


def _posted(place: Path, count: int) -> float:
    team = daemon.make_team(place, [letters.AGENT])
    bus = _house_bus(team)
    with daemon.serving(team):
        posting = [partial(_post, bus, race.share(count, WRITERS, number)) for number in range(WRITERS)]
        return race.seconds(posting, partial(_until_size, Path(bus.track.queue), count * len(_line(bus))))


def _appended(place: Path, count: int) -> float:
    place.mkdir(parents=True)
    path = place / "queue.jsonl"
    bus = Bus(place / "sample")
    bus.make()
    line = _line(bus)
    appending = [partial(_append, str(path), line, race.share(count, WRITERS, number)) for number in range(WRITERS)]
    return race.seconds(appending, partial(_until_size, path, count * len(line)))


def _post(bus: Bus, numbers: range, ready: Callable[[], object]) -> None:
    ready()
    for _ in numbers:
        bus.post("PROGRESS", "worker-1.1", PAYLOAD)


def _append(path: str, line: bytes, numbers: range, ready: Callable[[], object]) -> None:
    ready()
    for _ in numbers:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(fd, line)
        os.close(fd)


def _until_size(path: Path, size: int, ready: Callable[[], object]) -> None:
    ready()
    give_up_at = time.monotonic() + PATIENCE_S
    while not path.exists() or path.stat().st_size < size:
        if time.monotonic() > give_up_at:
            raise race.BenchFailed(f"{path} did not grow to {size} bytes")
        time.sleep(0.005)


def _line(bus: Bus) -> bytes:
    """One as it is posted: all of them are of one length."""
    sample = Bus(Path(bus.track.bus).parent / "sample")
    sample.make()
    sample.post("PROGRESS", "worker-1.1", PAYLOAD)
    return Path(sample.track.queue).read_bytes().splitlines(keepends=True)[-1]


def _house_bus(team: Team) -> Bus:
    team.root.mkdir(mode=0o700)
    bus = Bus(own_track(team.root))
    bus.make()
    return bus


# --- from an append to the event file -------------------------------------------------------------------------------------
def _detecting(place: Path, scale: Scale, tell: Callable[[str], None]) -> list[Figure]:
    ours: list[list[float]] = []
    polled: list[list[float]] = []
    for turn in range(scale.repetitions):
        quick, slow = _echoed(place / f"echoed{turn}", scale.latency_messages)
        ours.append(quick)
        polled.append(slow)
        tell(f"p50 {percentile(quick, 50):.2f} ms, polled {percentile(slow, 50):.0f} ms")
    return [
        Figure(
            "bus",
            f"appended by hand → event file, {pace.PER_S}/s, p{percent}",
            "ms",
            tuple(percentile(one, percent) for one in ours),
            "seen by looking once a second",
            tuple(percentile(one, percent) for one in polled),
            at_most(factor),
        )
        for percent, factor in ((50, 0.05), (99, 0.2))
    ]


def _echoed(place: Path, count: int) -> tuple[list[float], list[float]]:
    team = daemon.make_team(place, [letters.AGENT])
    bus = _house_bus(team)
    events, sent = Path(bus.track.events), place / "sent"
    seen, polled = place / "seen", place / "polled"
    with (
        daemon.serving(team),
        race.background(partial(_watch, events, seen)),
        race.background(partial(_poll, events, polled)),
    ):
        race.seconds([], partial(pace.paced, sent, count, lambda: partial(_echo, bus.track.queue)))
        for notes in (seen, polled):
            _until_all(notes, count + pace.WARM_UP)
    return tuple(pace.waits_ms(pace.read(sent), pace.read(notes)) for notes in (seen, polled))  # type: ignore[return-value]


def _echo(queue: str, number: int) -> None:
    line = b'{"type": "TASK_COMPLETE", "source": "w", "payload": {"task_id": "%d"}}\n' % number
    fd = os.open(queue, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.write(fd, line)
    os.close(fd)


def _watch(events: Path, notes: Path, ready: Callable[[], object]) -> None:
    """Who is woken by the file system notes each event as it comes."""
    import inotify_simple

    watch = inotify_simple.INotify()
    watch.add_watch(str(events), inotify_simple.flags.CREATE)
    notes.touch()
    ready()
    while True:
        for event in watch.read():
            if number := _number(event.name):
                pace.note(notes, number)


def _poll(events: Path, notes: Path, ready: Callable[[], object]) -> None:
    """As the seed waits for an event."""
    known: set[str] = set()
    notes.touch()
    ready()
    while True:
        for name in {path.name for path in events.iterdir()} - known:
            known.add(name)
            if number := _number(name):
                pace.note(notes, number)
        time.sleep(1)


def _number(name: str) -> str:
    return name.removeprefix("TASK_COMPLETE_").removesuffix(".event") if name.startswith("TASK_COMPLETE_") else ""


def _until_all(notes: Path, count: int) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while len(notes.read_text().splitlines()) < count:
        if time.monotonic() > give_up_at:
            raise race.BenchFailed(f"{notes.name}: {len(pace.read(notes))} of {count} events were seen")
        time.sleep(0.05)
