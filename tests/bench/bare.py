"""The limits: what is left when everything that can be left out is left out. Python too, with the same calls.

*Latency*: asyncio, inotify, open, read, a call. *Spool*: see ``spool_sender`` and ``spool_consumer``. *Backlog*: list the
directories, read every header block. None of them can recover, retry, escalate, find duplicates or say what happened.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import inotify_simple

from tests.bench import letters, race

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: As many as ackd's own flusher takes at a time.
BATCH = 64
_HEADER_BYTES = 4096


def nothing(data: bytes) -> None:
    """The agent."""


# --- latency ----------------------------------------------------------------------------------------------------------
def listener(directory: Path, called: Callable[[str, bytes], None]) -> race.Work:
    """Calls with the name and the bytes of every file that is renamed into ``directory``, for ever."""

    def work(ready: Callable[[], object]) -> None:
        asyncio.run(listen(ready))

    async def listen(ready: Callable[[], object]) -> None:
        watch = inotify_simple.INotify(nonblocking=True)
        watch.add_watch(str(directory), inotify_simple.flags.MOVED_TO)
        asyncio.get_running_loop().add_reader(watch.fileno(), take)
        asyncio.get_running_loop().call_soon(ready)
        watches.append(watch)
        await asyncio.Event().wait()

    def take() -> None:
        for event in watches[0].read(timeout=0):
            fd = os.open(f"{directory}/{event.name}", os.O_RDONLY)
            data = os.read(fd, 1 << 20)
            os.close(fd)
            called(event.name, data)

    watches: list[inotify_simple.INotify] = []
    return work


# --- spool ------------------------------------------------------------------------------------------------------------
def spool_sender(place: Path, numbers: range, *, flush: bool) -> race.Work:
    """Each message: a temporary file, written, flushed, renamed, the directory flushed. Bytes are made beforehand."""

    def work(ready: Callable[[], object]) -> None:
        queue = os.open(place / "queue", os.O_RDONLY | os.O_DIRECTORY)
        todo = [(letters.name(number), letters.letter(number)) for number in numbers]
        ready()
        for name, data in todo:
            fd = os.open(f".{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=queue)
            os.write(fd, data)
            if flush:
                os.fsync(fd)
            os.close(fd)
            os.rename(f".{name}", name, src_dir_fd=queue, dst_dir_fd=queue)
            if flush:
                os.fsync(queue)

    return work


def spool_consumer(place: Path, count: int, *, flush: bool) -> race.Work:
    """What inotify names, in batches of up to 64: read each and move it to processed/; call the agent for each, move it to
    archive/; a line of log for each, with one write. Behind its back, as in ackd, a thread flushes what was moved: the
    data of each file by its descriptor, then processed/ once for all that gathered meanwhile. Its end is waited for.
    """

    def work(ready: Callable[[], object]) -> None:
        for name in ("queue", "processed", "archive"):
            (place / name).mkdir(parents=True, exist_ok=True)
        watch = inotify_simple.INotify()
        watch.add_watch(str(place / "queue"), inotify_simple.flags.MOVED_TO)
        spool = _Spool(place)
        ready()
        done = 0
        with ThreadPoolExecutor(1) as behind:
            while done < count:
                names = [event.name for event in watch.read()]
                for start in range(0, len(names), BATCH):
                    batch = names[start : start + BATCH]
                    spool.consume(batch)
                    done += len(batch)
                    if flush:
                        behind.submit(spool.flush)
                    else:
                        spool.close()

    return work


class _Spool:
    def __init__(self, place: Path) -> None:
        names = ("queue", "processed", "archive")
        self._queue, self._processed, self._archive = (os.open(place / name, os.O_DIRECTORY) for name in names)
        self._log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._unflushed: deque[int] = deque()  # its own methods are safe between two threads

    def consume(self, names: list[str]) -> None:
        files, contents = [], []
        for name in names:
            files.append(os.open(name, os.O_RDONLY, dir_fd=self._queue))
            contents.append(os.read(files[-1], 1 << 20))
            os.rename(name, name, src_dir_fd=self._queue, dst_dir_fd=self._processed)
        for name, data in zip(names, contents, strict=True):
            nothing(data)
            os.rename(name, name, src_dir_fd=self._processed, dst_dir_fd=self._archive)
        os.write(self._log, b"".join(b"%s completed\n" % name.encode() for name in names))
        self._unflushed.extend(files)

    def flush(self) -> None:
        """All that gathered: when it was asked for several times meanwhile, the others find nothing left to do."""
        files = [self._unflushed.popleft() for _ in range(len(self._unflushed))]
        for fd in files:
            os.fdatasync(fd)
            os.close(fd)
        if files:
            os.fsync(self._processed)

    def close(self) -> None:
        while self._unflushed:
            os.close(self._unflushed.popleft())


# --- backlog ----------------------------------------------------------------------------------------------------------
def read_headers(queue: Path) -> int:
    """List every directory and read every header block; how many there were."""
    found = 0
    for box in os.listdir(queue):  # noqa: PTH208 - pathlib is slower, and this is a limit
        for name in os.listdir(f"{queue}/{box}"):  # noqa: PTH208
            fd = os.open(f"{queue}/{box}/{name}", os.O_RDONLY)
            block = os.read(fd, _HEADER_BYTES).partition(b"\n\n")[0]
            os.close(fd)
            found += bool(block)
    return found
