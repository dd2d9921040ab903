from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ackd.storage.inotify_watch import DirectoryWatch
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Listener:
    def __init__(self) -> None:
        self.heard: list[frozenset[str]] = []

    def hear(self, where: frozenset[str]) -> None:
        self.heard.append(where)

    def take(self) -> set[str]:
        heard, self.heard = self.heard, []
        return set().union(*heard)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def watch(listener: Listener) -> AsyncIterator[DirectoryWatch]:
    watch = DirectoryWatch(listener.hear)
    watch.open()
    yield watch
    watch.close()


async def test_whatever_happens_in_a_directory_is_said_to_happen_there(
    watch: DirectoryWatch, listener: Listener, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    watch.follow({str(here), str(there)})
    with (here / "log").open("a") as log:  # kept open: only what is written says so
        await until(lambda: listener.take() == {str(here)})
        log.write("a line\n")
        log.flush()
        await until(lambda: listener.take() == {str(here)})
    (there / "flag").touch()
    await until(lambda: str(there) in listener.take())


async def test_a_directory_that_is_replaced_is_watched_again_when_it_is_followed_again(
    watch: DirectoryWatch, listener: Listener, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    watch.follow({str(here)})
    here.rename(tmp_path / "away")
    await until(lambda: str(here) in listener.take())
    here.mkdir()
    watch.follow({str(here)})
    (tmp_path / "away" / "x").touch()
    (here / "x").touch()
    await until(lambda: listener.take() == {str(here)})


async def test_what_is_followed_no_more_is_not_heard_of(
    watch: DirectoryWatch, listener: Listener, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    watch.follow({str(here), str(there), str(tmp_path / "not there yet")})
    watch.follow({str(there)})
    (here / "x").touch()
    (there / "x").touch()
    await until(lambda: bool(listener.heard))
    await asyncio.sleep(0.05)
    assert listener.take() == {str(there)}
