"""The files of leases: the seed's acquire and release, and the faults that these and other tools' locks had."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ackd.coordination.leases.rules import leases as rules
from ackd.coordination.leases.rules.words import Ask, Change, LeaseTable
from ackd.formats import utc_times
from ackd.leases import LeaseHeld, Leases

P = "src/a.py"


@pytest.fixture
def leases(tmp_path: Path) -> Leases:
    (tmp_path / "bus").mkdir()
    return Leases(tmp_path / "bus", tmp_path)


def locks(leases: Leases) -> dict[str, Any]:
    with open(leases.track.locks, "rb") as file:  # noqa: PTH123
        found: dict[str, Any] = json.load(file)
    return found


def write(leases: Leases, **entries: object) -> None:
    with open(leases.track.locks, "w") as file:  # noqa: PTH123
        json.dump(entries, file, indent=2)


def entry(worker: str, expires_at: str) -> dict[str, str]:
    return {"worker_id": worker, "acquired_at": "2026-02-01T12:00:00Z", "expires_at": expires_at}


# --- the seed's behaviour -------------------------------------------------------------------------------------------------
def test_a_free_file_is_leased_for_30_minutes_in_the_seeds_own_shape(leases: Leases) -> None:
    lease = leases.acquire(P, "worker-1.1-xxx")
    found = locks(leases)[P]
    assert found.items() >= {"worker_id": "worker-1.1-xxx", "lock_type": "exclusive", "token": 1}.items()
    begun, until = (datetime.fromisoformat(found[key]) for key in ("acquired_at", "expires_at"))
    assert until - begun == timedelta(minutes=30)
    assert abs(datetime.now(UTC) - begun) < timedelta(minutes=1)
    assert lease.token == 1


def test_another_is_refused_and_told_who_and_until_when(leases: Leases) -> None:
    first = leases.acquire(P, "w1")
    with pytest.raises(LeaseHeld) as held:
        leases.acquire(f"./{P}", "w2")
    assert (held.value.holder, held.value.path) == ("w1", P)
    assert held.value.until == pytest.approx(first.expires_at, abs=1e-5)


def test_the_holder_may_ask_again_and_only_the_holder_may_let_go(leases: Leases) -> None:
    assert leases.acquire(P, "w1").token == leases.acquire(P, "w1").token
    assert leases.release("w2", P) == []
    assert [one.path for one in leases.release("w1", P)] == [P]
    assert locks(leases) == {}
    assert leases.acquire(P, "w2").token == 2


def test_both_are_said_on_the_bus_with_the_seeds_events(leases: Leases, tmp_path: Path) -> None:
    leases.acquire(P, "w1")
    leases.release("w1", P)
    lines = [json.loads(line) for line in (tmp_path / "bus/queue.jsonl").read_text().splitlines()]
    assert [(line["type"], line["source"], line["payload"]["filepath"]) for line in lines] == [
        ("FILE_LOCK", "w1", P),
        ("FILE_UNLOCK", "w1", P),
    ]
    assert lines[0]["payload"]["lock_type"] == "exclusive"
    names = sorted(path.name for path in (tmp_path / "bus/events").iterdir())
    assert names[1] == "FILE_UNLOCK_all.event" or names[0] == "FILE_UNLOCK_all.event"
    assert len(names) == 2


# --- faults of other tools ------------------------------------------------------------------------------------------------
def test_the_lock_file_is_never_unlinked_and_one_that_others_unlink_makes_no_second_holder(
    leases: Leases, tmp_path: Path
) -> None:
    """Ensemble's lock.py unlinks the file after use, even if its process never held it: then there are two holders."""
    leases.acquire(P, "w1")
    inode = (tmp_path / "bus/locks.json.lock").stat().st_ino
    leases.release("w1", P)
    with pytest.raises(LeaseHeld):
        other = Leases(tmp_path / "bus", tmp_path)
        other.acquire(P, "w2")
        leases.acquire(P, "w1")
    assert (tmp_path / "bus/locks.json.lock").stat().st_ino == inode
    (tmp_path / "bus/locks.json.lock").unlink()
    with pytest.raises(LeaseHeld):
        leases.acquire(P, "w1")
    assert leases.acquire("other", "w1").token > 2  # the file is made anew, and the token still grows


def test_letting_go_waits_for_whoever_changes_the_file_as_taking_does(leases: Leases, tmp_path: Path) -> None:
    """supaconductor acquires under a mutex and releases without it, so that a release may be overwritten."""
    leases.acquire(P, "w1")
    fd = os.open(tmp_path / "bus/locks.json.lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    thread = threading.Thread(target=leases.release, args=("w1", P))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert P in locks(leases)
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
    thread.join(60)
    assert locks(leases) == {}


@pytest.mark.parametrize("zone", ["", "Z", "+00:00"])
@pytest.mark.parametrize(("minutes", "gets"), [(-1, True), (1, False)])
def test_times_with_and_without_a_zone_are_compared_as_what_they_are(
    leases: Leases, zone: str, minutes: int, gets: bool
) -> None:
    """The seed writes utcnow() with a Z and compares it with a naive time: a TypeError, or hours of difference."""
    until = datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=minutes)
    write(leases, **{P: entry("w1", until.isoformat() + zone)})
    if gets:
        assert leases.acquire(P, "w2").agent == "w2"
    else:
        with pytest.raises(LeaseHeld):
            leases.acquire(P, "w2")


# --- edits by hand --------------------------------------------------------------------------------------------------------
def test_what_others_wrote_stays_as_they_wrote_it(leases: Leases) -> None:
    until = utc_times.write(time.time() + 600)
    write(leases, **{"./b.py": {**entry("w1", until), "note": "mine"}, "odd": 5, "c.py": {"x": 1}})
    leases.acquire(P, "w2")
    with pytest.raises(LeaseHeld):
        leases.acquire("b.py", "w2")
    found = locks(leases)
    assert found["odd"] == 5
    assert found["c.py"] == {"x": 1}
    assert found["./b.py"].items() >= {"worker_id": "w1", "token": 1, "by": "hand"}.items()
    assert leases.acquire("c.py", "w2").token > 0  # the entry named no holder


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "\x00", "[" * 100_000])
def test_a_file_that_cannot_be_read_is_kept_under_another_name(leases: Leases, tmp_path: Path, content: str) -> None:
    leases.files._patience_s = 0.02
    (tmp_path / "bus/locks.json").write_text(content)
    leases.acquire(P, "w1")
    (kept,) = leases.files.set_aside
    assert (tmp_path / "bus" / kept).read_text() == content
    assert list(locks(leases)) == [P]


def test_a_file_that_somebody_is_writing_in_place_is_waited_for(leases: Leases, tmp_path: Path) -> None:
    path = tmp_path / "bus/locks.json"
    path.write_text("")
    timer = threading.Timer(0.05, path.write_text, ['{"src/a.py": {"worker_id": "w1"}}'])
    timer.start()
    with pytest.raises(LeaseHeld, match="held by w1"):
        leases.acquire(P, "w2")
    timer.join()
    assert leases.files.set_aside == []


@pytest.mark.parametrize("how", ["in place", "replaced", "removed", "made"])
def test_a_hand_that_writes_while_a_change_is_decided_is_not_overwritten(
    leases: Leases, tmp_path: Path, how: str
) -> None:
    locks = tmp_path / "bus/locks.json"
    if how != "made":
        leases.acquire("other", "a")
    hands = [{"by-hand": {"worker_id": "h"}}]

    def decide(table: LeaseTable, now: float, dead: frozenset[str]) -> Change:
        if hands:
            entry = hands.pop()
            if how in ("replaced", "removed"):
                locks.unlink()
            if how != "removed":
                locks.write_text(json.dumps(entry))
        return rules.acquire(table, P, Ask("b"), now, dead)

    change = leases.files.change(decide)
    assert set(change.table.held) == {P} | (set() if how == "removed" else {"by-hand"})
    assert set(json.loads(locks.read_bytes())) == set(change.table.held)
    assert sorted(path.name for path in locks.parent.iterdir() if ".tmp" in path.name) == []


def test_a_hand_that_never_stops_writing_is_given_up_on_in_words(leases: Leases, tmp_path: Path) -> None:
    locks = tmp_path / "bus/locks.json"
    leases.acquire("other", "a")
    edits = iter(range(1000))

    def decide(table: LeaseTable, now: float, dead: frozenset[str]) -> Change:
        locks.write_text(json.dumps({"by-hand": {"worker_id": f"h{next(edits):4}"}}))
        return rules.acquire(table, P, Ask("b"), now, dead)

    with pytest.raises(OSError, match="again and again"):
        leases.files.change(decide)
    assert list(json.loads(locks.read_bytes())) == ["by-hand"]
    assert leases.acquire(P, "b")


def test_its_mode_stays_what_the_team_made_it(leases: Leases, tmp_path: Path) -> None:
    path = tmp_path / "bus/locks.json"
    path.write_text("{}")
    path.chmod(0o664)
    leases.acquire(P, "w1")
    assert path.stat().st_mode & 0o777 == 0o664
    assert (tmp_path / "bus/locks.json.lock").stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_a_file_is_not_followed(leases: Leases, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("{}")
    (tmp_path / "bus/locks.json").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match=r"symbolic links|Too many"):
        leases.acquire(P, "w1")
    assert (tmp_path / "target").read_text() == "{}"


# --- several --------------------------------------------------------------------------------------------------------------
def test_readers_share_and_the_seeds_reader_sees_the_one_who_holds_longest(leases: Leases) -> None:
    leases.acquire(P, "w1", shared=True, ttl_s=60)
    leases.acquire(P, "w2", shared=True, ttl_s=600)
    leases.acquire(P, "w3", shared=True, ttl_s=6)
    found = locks(leases)[P]
    assert (found["worker_id"], found["lock_type"], set(found["holders"])) == ("w2", "shared", {"w1", "w2", "w3"})
    with pytest.raises(LeaseHeld):
        leases.acquire(P, "w4")
    leases.release("w2", P)
    assert locks(leases)[P]["worker_id"] == "w1"


def test_a_counter_that_was_lost_does_not_make_tokens_go_back(leases: Leases, tmp_path: Path) -> None:
    for _ in range(3):
        leases.acquire(P, "w1")
        leases.release("w1", P)
    held = leases.acquire(P, "w1")
    (tmp_path / "bus/locks.json.lock").write_text("gone")
    assert leases.acquire("other", "w1").token == held.token + 1


def test_a_waiting_thread_gets_its_turn_and_leaves_nothing_behind(leases: Leases, tmp_path: Path) -> None:
    leases.acquire(P, "w1")
    got: list[int] = []
    other = Leases(tmp_path / "bus", tmp_path)
    thread = threading.Thread(target=lambda: got.append(other.acquire(P, "w2", wait_s=30).token))
    thread.start()
    while not leases.look().waiting:
        assert thread.is_alive()
        time.sleep(0.005)
    with pytest.raises(LeaseHeld):
        leases.acquire(P, "w3")
    leases.release("w1", P)
    thread.join(60)
    assert got == [2]
    assert leases.look().waiting == {}
    assert not (tmp_path / "bus/leases.json").exists()
    assert list((tmp_path / "bus/waiting").iterdir()) == []


def test_waiting_in_vain_ends_and_leaves_the_line(leases: Leases) -> None:
    leases.acquire(P, "w1")
    with pytest.raises(LeaseHeld) as held:
        leases.acquire(P, "w2", wait_s=0.05)
    assert held.value.waited_s == 0.05
    assert leases.look().waiting == {}


def test_a_lease_that_is_held_for_a_block_ends_with_it(leases: Leases, tmp_path: Path) -> None:
    with leases.hold(P, "w1") as lease, pytest.raises(LeaseHeld):
        assert locks(leases)[P]["ticket"] == lease.ticket
        leases.acquire(P, "w2")
    assert locks(leases) == {}
    assert list((tmp_path / "bus/waiting").iterdir()) == []


def test_a_lease_of_a_process_that_was_killed_is_free_at_once(leases: Leases, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Leases(tmp_path / "bus", tmp_path).hold(P, "w1"):
            os.write(writer, b".")
            time.sleep(60)
        os._exit(0)
    os.read(reader, 1)
    with pytest.raises(LeaseHeld):
        leases.acquire(P, "w2")
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert leases.acquire(P, "w2").token == 2


def test_a_forked_child_does_not_share_its_parents_lock(leases: Leases, tmp_path: Path) -> None:
    leases.acquire("other", "w0")  # the lock file is open now
    with leases.files._lock.held():
        pid = os.fork()
        if pid == 0:
            leases.acquire(P, "child")
            os._exit(0)
        time.sleep(0.1)
        assert P not in locks(leases)
    os.waitpid(pid, 0)
    assert locks(leases)[P]["worker_id"] == "child"


def test_a_door_that_is_forgotten_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(20):
        Leases(tmp_path / "bus", tmp_path).acquire(f"{number}", "w1")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_bus_that_cannot_be_told_takes_no_lease_away(leases: Leases, tmp_path: Path) -> None:
    (tmp_path / "bus/queue.jsonl").mkdir()
    assert leases.acquire(P, "w1").token == 1
    assert leases.unsaid is not None


def test_somebody_in_line_who_holds_already_is_understood(leases: Leases) -> None:
    """A crash between writing the two files leaves this."""
    leases.acquire(P, "w1")
    leases.ask(P, Ask("w2", until=time.time() + 60))
    found = locks(leases)
    found[P]["worker_id"] = "w2"
    write(leases, **found)
    assert leases.acquire(P, "w2").agent == "w2"
    assert leases.look().waiting == {}
