"""Redis Streams: XADD from each sender, one consumer of a group, XREADGROUP by 64 and XACK.

The server is Debian's, started for one measurement on a Unix socket of its own and ended by its process id. ``pipeline``:
how many XADDs a sender sends before it waits for the answers; 1 is what a sender does who must know that its message is
safe before it goes on, as with ``ackd send``.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.bench import race
from tests.bench.contender import Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

STREAM, GROUP = "mail", "workers"
READ_AT_ONCE = 64
PATIENCE_S = 10.0


def contender(appendfsync: str, pipeline: int) -> Contender:
    together = f"pipelined by {pipeline}" if pipeline > 1 else "not pipelined"
    return Contender(
        name=f"Redis Streams, {f'by {pipeline}' if pipeline > 1 else 'one by one'}",
        setting=f"appendfsync {appendfsync}, {together}, consumer group with XACK",
        module="redis",
        serving=partial(_serving, appendfsync),
        program="redis-server",
        together=pipeline,
    )


@contextlib.contextmanager
def _serving(appendfsync: str, place: Path) -> Iterator[Callable[[], _Stream]]:
    socket = str(place / "socket")
    words = ["--port", "0", "--unixsocket", socket, "--dir", str(place), "--save", "", "--loglevel", "warning"]
    words += ["--appendonly", "yes", "--appendfsync", appendfsync]
    with (place / "out").open("wb") as out:
        server = subprocess.Popen(["redis-server", *words], stdout=out, stderr=out, start_new_session=True)
    try:
        _wait_for(socket, server)
        _client(socket).xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        yield lambda: _Stream(socket)
    finally:
        server.kill()
        server.wait()


class _Stream:
    def __init__(self, socket: str) -> None:
        self._client = _client(socket)
        self._client.ping()

    def put(self, payloads: Sequence[bytes]) -> None:
        pipe = self._client.pipeline(transaction=False)
        for payload in payloads:
            pipe.xadd(STREAM, {"body": payload})
        pipe.execute()

    def take(self, count: int, handle: Callable[[bytes], None]) -> None:
        done = 0
        while done < count:
            found = self._client.xreadgroup(GROUP, "one", {STREAM: ">"}, count=READ_AT_ONCE, block=5000)
            for _, entries in found.items() if isinstance(found, dict) else found:
                for _, fields in entries:
                    handle(fields[b"body"])
                done += self._client.xack(STREAM, GROUP, *(entry_id for entry_id, _ in entries))


def _wait_for(socket: str, server: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            _client(socket).ping()
        except importlib.import_module("redis").exceptions.ConnectionError:
            if server.poll() is not None or time.monotonic() > give_up_at:
                raise race.BenchFailed("redis-server does not answer on its socket") from None
            time.sleep(0.02)
        else:
            return


def _client(socket: str) -> Any:
    return importlib.import_module("redis").Redis(unix_socket_path=socket)
