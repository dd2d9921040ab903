from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ackd.coordination.leases.files import Ticket, tickets

if TYPE_CHECKING:
    from pathlib import Path


def test_a_ticket_lives_as_long_as_its_process_has_it_open(tmp_path: Path) -> None:
    place = str(tmp_path / "waiting")
    ticket = Ticket(place)
    assert not tickets.is_dead(place, ticket.name)
    ticket.close()
    assert tickets.is_dead(place, ticket.name)
    assert list((tmp_path / "waiting").iterdir()) == []
    assert (tmp_path / "waiting").stat().st_mode & 0o777 == 0o700


def test_a_process_that_is_killed_is_known_to_be_dead_at_once(tmp_path: Path) -> None:
    place = str(tmp_path)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, Ticket(place).name.encode())
        time.sleep(60)
        os._exit(0)
    name = os.read(reader, 100).decode()
    assert not tickets.is_dead(place, name)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert tickets.is_dead(place, name)
    tickets.remove(place, name)
    assert list(tmp_path.iterdir()) == []


def test_who_was_looked_at_or_rung_still_sleeps_until_it_is_rung_again(tmp_path: Path) -> None:
    """A FIFO whose last writer has gone is at its end for a reader, and poll() then never waits again."""
    ticket = Ticket(str(tmp_path))
    assert not tickets.is_dead(str(tmp_path), ticket.name)
    tickets.ring(str(tmp_path), ticket.name)
    assert ticket.wait(60)
    began = time.monotonic()
    assert not ticket.wait(0.05)
    assert time.monotonic() - began >= 0.05
    ticket.close()


def test_who_waits_is_woken_by_the_bell_and_rings_do_not_pile_up(tmp_path: Path) -> None:
    ticket = Ticket(str(tmp_path))
    assert not ticket.wait(0)
    for _ in range(3):
        tickets.ring(str(tmp_path), ticket.name)
    assert ticket.wait(60)
    assert not ticket.wait(0)
    ticket.close()
    tickets.ring(str(tmp_path), ticket.name)  # too late, and no error


def test_hostile_names_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    for name in ("../secret", "secret", "", "1-0" * 9, "/etc/passwd"):
        assert tickets.is_dead(f"{tmp_path}/waiting", name)
        tickets.remove(str(tmp_path), name)
    assert (tmp_path / "secret").exists()


def test_what_a_crash_left_is_swept_when_it_is_old(tmp_path: Path) -> None:
    live, name = Ticket(str(tmp_path)), "12-0123456789abcdef"
    os.mkfifo(tmp_path / name)
    tickets.sweep(str(tmp_path), time.time() - 60)
    assert (tmp_path / name).exists()
    tickets.sweep(str(tmp_path), time.time() + 60)
    assert [path.name for path in tmp_path.iterdir()] == [live.name]
    live.close()
    tickets.sweep(f"{tmp_path}/absent", 0)
