"""Faults of the machine, told once."""

from __future__ import annotations

import errno
import os

import pytest

from ackd.core.faults import ADVICE
from ackd.runtime.faults import Faults


def failed(code: int, what: str = "move") -> dict[str, object]:
    return {"what": what, "error": str(OSError(code, os.strerror(code), "/some/where"))}


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_a_fault_is_news_once_with_what_to_do_about_it(code: int) -> None:
    faults = Faults()
    news = faults.met(failed(code), 1.0)
    assert news is not None
    assert news["advice"] == ADVICE[code]
    assert faults.met(failed(code, "scan"), 2.0) is None
    assert faults


def test_two_faults_are_two() -> None:
    faults = Faults()
    assert faults.met(failed(errno.ENOSPC), 1.0) is not None
    assert faults.met(failed(errno.EMFILE), 2.0) is not None
    assert [one["error"] for one in faults.page()] == ["No space left on device", "Too many open files"]


def test_what_is_no_fault_of_the_machine_passes_as_it_is() -> None:
    faults, denied = Faults(), failed(errno.EACCES)
    assert faults.met(denied, 1.0) == denied
    assert faults.met(denied, 2.0) == denied
    assert not faults


def test_the_page_says_what_since_when_and_how_often() -> None:
    faults = Faults()
    for _ in range(3):
        faults.met(failed(errno.EROFS), 0.0)
    [fault] = faults.page()
    assert fault == {
        "error": "Read-only file system",
        "what": "move",
        "since": "1970-01-01T00:00:00Z",
        "times": 3,
    }


def test_once_over_it_is_news_again() -> None:
    faults = Faults()
    faults.met(failed(errno.ENOSPC), 1.0)
    assert [one.times for one in faults.over()] == [1]
    assert not faults
    assert faults.page() == []
    assert faults.met(failed(errno.ENOSPC), 5.0) is not None


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_what_was_refused_to_a_process_or_thread_is_told_apart(code: int) -> None:
    faults = Faults()
    faults.met(failed(errno.EDQUOT), 1.0)
    faults.met(failed(code), 1.0)
    assert faults.of_starting == (code in {errno.EAGAIN, errno.ENOMEM})
    faults.over()
    assert not faults.of_starting
