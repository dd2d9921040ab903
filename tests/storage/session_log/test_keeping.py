"""Compressing and removing: at no moment is a line in no file, and whatever was interrupted is finished later."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pytest

from ackd.storage import atomic_file
from ackd.storage.session_log import SessionLog, iter_logs, keeping, read_lines, session_files, show_in, stored
from ackd.storage.session_log.stored import packed_path
from tests.storage.session_log.bench import AT, fact, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "session-20261116-010000.ndjson"
OTHER = "session-20261116-020000.ndjson"


def always(_took_s: float) -> bool:
    return True


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "PIECE_BYTES", 200)


def filled(logs: Path, name: str = NAME, count: int = 40) -> Path:
    return put(logs, name, *(fact(n, message_id=f"1.{n}.a@x") for n in range(count)))


class Killed(BaseException):
    """As a kill is: nothing is tidied up that takes a system call."""


CALLS = ("open", "write", "utime", "fsync", "replace", "unlink")


def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """From the call of this number on nothing is done any more. Returns the calls that were made."""
    made: list[str] = []

    def dies(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*args: object, **kwargs: object) -> object:
            if len(made) >= at:
                raise Killed
            made.append(name)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, dies(name))
    return made


@pytest.mark.usefixtures("small")
def test_a_kill_at_any_call_leaves_every_line_once_and_the_next_round_finishes(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(logs)
    content, lines = path.read_bytes(), list(read_lines(path))
    for at in range(200):
        with monkeypatch.context() as patched:
            made = dying(patched, at)
            try:
                done = keeping.compress(path, always)
            except Killed:
                done = None
        assert list(iter_logs(logs)) == lines, made
        assert list(iter_logs(logs, newest_first=True)) == lines[::-1], made
        atomic_file.remove_temporaries(logs)
        if done is not None:
            break
    assert at > 20
    assert [one.name for one in logs.iterdir()] == [f"{NAME}.gz"]
    packed_path(path).unlink()
    path.write_bytes(content)


@pytest.mark.usefixtures("small")
def test_of_two_forms_the_plain_one_is_the_log_and_the_other_is_made_anew_if_it_says_something_else(logs: Path) -> None:
    path = filled(logs)
    aside = path.with_name("aside")
    os.link(path, aside)
    assert keeping.compress(path, always) is not None
    aside.rename(path)
    put(logs, NAME, fact(99))
    assert [line.seq for line in iter_logs(logs)][-1] == 99
    assert keeping.compress(path, always) is not None
    assert [line.seq for line in iter_logs(logs)] == [*range(40), 99]
    assert not path.exists()


@pytest.mark.usefixtures("small")
def test_of_two_forms_that_say_the_same_only_the_plain_one_is_removed(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(logs)
    os.link(path, path.with_name("aside"))
    assert keeping.compress(path, always) is not None
    path.with_name("aside").rename(path)
    made = packed_path(path).stat().st_ino

    def written(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", written)
        assert keeping.compress(path, always) is not None
    assert packed_path(path).stat().st_ino == made
    assert not path.exists()


@pytest.mark.usefixtures("small")
def test_what_is_given_up_leaves_everything_as_it_was(logs: Path) -> None:
    path = filled(logs)
    steps: list[float] = []

    def twice(took_s: float) -> bool:
        steps.append(took_s)
        return len(steps) < 3

    assert keeping.compress(path, twice) is None
    assert [one.name for one in logs.iterdir()] == [NAME]


@pytest.mark.usefixtures("small")
def test_a_log_that_somebody_writes_to_meanwhile_stays_as_it_is(logs: Path) -> None:
    path = filled(logs)

    def writing(_took_s: float) -> bool:
        put(logs, NAME, fact(99))
        return True

    assert keeping.compress(path, writing) is None
    assert [one.name for one in logs.iterdir()] == [NAME]


def test_a_full_disk_leaves_no_half_of_a_compressed_log(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(logs)

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(os, "write", full)
        keeping.compress(path, always)
    assert [one.name for one in logs.iterdir()] == [NAME]


def test_a_daemon_does_not_write_under_the_name_of_a_compressed_log(logs: Path) -> None:
    log = SessionLog.open(logs, started_at=AT)
    log.record("fact", {}, AT)
    log.close()
    assert keeping.compress(log.path, always) is not None
    assert SessionLog.open(logs, started_at=AT).path.name == f"{log.path.stem}-2.ndjson"


def test_only_what_a_daemon_wrote_is_a_daemons(logs: Path) -> None:
    assert keeping.is_daemons(filled(logs))
    assert not keeping.is_daemons(put(logs, OTHER, {**fact(1), "writer": "python:12"}))
    assert not keeping.is_daemons(put(logs, "session-20261116-030000.ndjson"))


# --- what is needed ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_names_a_message_by_any_of_the_keys(logs: Path, *, packed: bool) -> None:
    odd = 'a"b\\ü'
    path = put(
        logs, NAME, fact(1, message_id="1.1.a@x"), fact(2, in_reply_to="1.2.a@x", part_of=odd), fact(3, body="1.3.a@x")
    )
    if packed:
        keeping.compress(path, always)
    assert keeping.names_any(path, {"1.1.a@x", "none"}, always) == "1.1.a@x"
    assert keeping.names_any(path, {"1.2.a@x"}, always) == "1.2.a@x"
    assert keeping.names_any(path, {odd}, always) == odd
    assert keeping.names_any(path, {"1.3.a@x", "1.1"}, always) is None
    assert keeping.names_any(path, set(), always) is None
    assert keeping.names_any(path, {"none"}, lambda _: False) == "", "given up: it is not known"


def test_a_log_is_removed_in_whichever_form_it_is_there(logs: Path) -> None:
    path = filled(logs)
    os.link(path, path.with_name("aside"))
    keeping.compress(path, always)
    path.with_name("aside").rename(path)
    keeping.remove(path)
    keeping.remove(path)
    assert session_files(logs) == []
    assert list(logs.iterdir()) == []


# --- links ------------------------------------------------------------------------------------------------------------
def test_links_lead_to_the_logs_as_they_are_stored(logs: Path, tmp_path: Path) -> None:
    team = tmp_path / "team"
    first, second, third = (filled(logs, f"session-20261116-0{n}0000.ndjson") for n in (1, 2, 3))
    put(team, first.name, b"mine\n")
    for path in (first, second, third):
        show_in(team, path)
    (team / "elsewhere").symlink_to(tmp_path / "nothing")
    content = first.read_bytes()
    keeping.compress(first, always)
    keeping.remove(second)
    for _ in range(2):
        keeping.mend_links(team, logs)
        assert sorted(path.name for path in team.iterdir()) == [
            "elsewhere",
            "session-20261116-010000-2.ndjson.gz",
            "session-20261116-010000.ndjson",
            "session-20261116-030000.ndjson",
        ]
    assert gzip.decompress((team / "session-20261116-010000-2.ndjson.gz").read_bytes()) == content
    keeping.remove(first)
    keeping.mend_links(team, logs)
    assert not (team / "session-20261116-010000-2.ndjson.gz").is_symlink()
    keeping.mend_links(tmp_path / "none", logs)
