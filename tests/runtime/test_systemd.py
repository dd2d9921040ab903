"""sd_notify against a real socket."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from ackd.runtime.systemd import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        yield sock


@pytest.mark.parametrize("abstract", [False, True])
def test_each_word_is_one_datagram(tmp_path: Path, manager: socket.socket, abstract: bool) -> None:
    name = f"ackd-test-{os.getpid()}-{tmp_path.name}"
    manager.bind(f"\0{name}" if abstract else str(tmp_path / "notify"))
    environ = {"NOTIFY_SOCKET": f"@{name}" if abstract else str(tmp_path / "notify")}
    service = ServiceManager(environ)
    service.ready("3 agents, 0 queued")
    service.alive()
    service.status("3 agents, 1 queued")
    service.reloading()
    service.stopping()
    assert manager.recv(4096) == b"READY=1\nSTATUS=3 agents, 0 queued"
    assert manager.recv(4096) == b"WATCHDOG=1"
    assert manager.recv(4096) == b"STATUS=3 agents, 1 queued"
    reloading, at, _ = manager.recv(4096).split(b"\n")
    assert reloading == b"RELOADING=1"
    assert 0 < int(at.removeprefix(b"MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    assert manager.recv(4096).startswith(b"STOPPING=1\nSTATUS=stopping")


def test_a_status_is_told_once_and_never_in_place_of_the_stop(tmp_path: Path, manager: socket.socket) -> None:
    manager.bind(str(tmp_path / "notify"))
    service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    service.ready("1 agent")
    for status in ("1 agent", "2 agents", "2 agents"):
        service.status(status)
    service.stopping()
    service.status("0 agents")
    service.reloading()
    service.ready("0 agents")
    manager.settimeout(0)
    assert manager.recv(4096) == b"READY=1\nSTATUS=1 agent"
    assert manager.recv(4096) == b"STATUS=2 agents"
    assert manager.recv(4096).startswith(b"STOPPING=1")
    with pytest.raises(BlockingIOError):
        manager.recv(4096)


def test_what_we_start_does_not_inherit_the_managers_ear() -> None:
    environ = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1", "PATH": "/bin"}
    ServiceManager(environ)
    assert environ == {"PATH": "/bin"}


def test_nobody_listening_is_no_trouble(tmp_path: Path) -> None:
    ServiceManager({}).ready("…")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).alive()
    ServiceManager({"NOTIFY_SOCKET": "x" * 300}).stopping()


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "²"}, None),
    ],
)
def test_the_watchdog_counts_if_it_means_us(environ: dict[str, str], watchdog_s: float | None) -> None:
    assert ServiceManager(environ).watchdog_s == watchdog_s
