"""Sending once: the same key, sender, recipient and content is one message, wherever it has come."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import BadText, Client
from ackd.config.site import find_site

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.client.sending import Sent
    from ackd.config.site import Site

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def site(team: Team) -> Site:
    team.root.mkdir()
    return find_site(team.root, team.home / "ackd.toml")


def send(site: Site, to: str | list[str] = "worker_1", body: str = "hello", **more: Any) -> Sent:
    return Client.at(site).send(to, body, **{"once": "k", "sender": "leader", **more})


def queued(site: Site, box: str = "worker_1") -> list[Path]:
    return sorted((site.queue / box).rglob("[!.]*.mime"))


@pytest.mark.parametrize("folder", ["processed", "dead_letter", "archive", "archive, renamed"])
def test_the_first_one_is_found_wherever_it_has_come(site: Site, folder: str) -> None:
    first = send(site)
    (path,) = queued(site)
    today = time.strftime("%Y%m%d", time.gmtime())
    into = {
        "processed": site.queue / "worker_1/processed",
        "dead_letter": site.dead_letter,
        "archive": site.archive / today / "worker_1",
        "archive, renamed": site.archive / today / "worker_1",
    }[folder]
    into.mkdir(parents=True, exist_ok=True)
    name = path.name
    if folder == "archive, renamed":
        (into / name).write_text("another\n")
        name = f"{path.stem}-1.mime"
    path.rename(into / name)
    again = send(site)
    assert (again.message_id, again.repeated, again.files) == (first.message_id, ("worker_1",), (str(into / name),))
    assert not list((site.queue / "worker_1").glob("*.mime"))


@pytest.mark.parametrize("place", ["workers", "w1/processed", "archive/w2", "dead_letter"])
def test_what_was_sent_to_a_pool_is_found_with_its_members_too(team: Team, place: str) -> None:
    """The daemon moves it from the pool's queue to whoever is free first, and into that member's archive."""
    members = '[agents.w1]\n[agents.w2]\n[pools.workers]\nmembers = ["w1", "w2"]\n'
    (team.home / "ackd.toml").write_text(members)
    team.root.mkdir()
    site = find_site(team.root, team.home / "ackd.toml")
    first = send(site, "workers")
    (path,) = queued(site, "workers")
    today = time.strftime("%Y%m%d", time.gmtime())
    into = site.archive / today / "w2" if place == "archive/w2" else site.queue / place
    into.mkdir(parents=True, exist_ok=True)
    now = path.rename(into / path.name)
    again = send(site, "workers")
    assert (again.message_id, again.repeated, again.files) == (first.message_id, ("workers",), (str(now),))
    assert send(site, "w1").repeated == (), "its member is another recipient"


def test_after_the_dedup_window_it_is_another_sending(site: Site) -> None:
    first = send(site)
    (path,) = queued(site)
    site.dead_letter.mkdir(parents=True, exist_ok=True)
    old = path.rename(site.dead_letter / path.name)
    long_ago = time.time() - site.dedup_window_s - 60
    os.utime(old, (long_ago, long_ago))
    again = send(site)
    assert (again.message_id, again.repeated) == (first.message_id, ())
    assert len(queued(site)) == 1


def test_each_recipient_gets_it_once_and_one_that_lacks_it_gets_it(site: Site) -> None:
    first = send(site)
    both = send(site, ["worker_1", "user"])
    assert (both.message_id, both.repeated) == (first.message_id, ("worker_1",))
    assert (len(queued(site)), len(queued(site, "user"))) == (1, 1)


def test_other_content_is_another_message_with_a_warning(site: Site) -> None:
    first = send(site)
    other = send(site, body="something else")
    assert other.message_id != first.message_id
    assert other.warnings[0].startswith(f"the key was used before for another message to worker_1, {first.message_id}")
    assert send(site, body="something else").repeated == ("worker_1",)
    assert len(queued(site)) == 2


@pytest.mark.parametrize("differs", [{"once": "other"}, {"sender": "user"}])
def test_another_key_or_sender_is_another_message(site: Site, differs: dict[str, str]) -> None:
    first, other = send(site), send(site, **differs)
    assert (other.message_id != first.message_id, other.repeated, other.warnings) == (True, (), ())


def test_a_deadline_is_no_content_for_it_is_later_each_time(site: Site) -> None:
    assert send(site, deadline="2h").message_id == send(site, deadline="3h").message_id
    assert len(queued(site)) == 1


def test_of_many_senders_at_once_one_sends(site: Site) -> None:
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda _: send(site), range(24)))
    assert len({one.message_id for one in sent}) == 1
    assert [one.repeated for one in sent].count(()) == 1
    assert len(queued(site)) == 1


def test_a_key_is_not_empty(site: Site) -> None:
    with pytest.raises(BadText, match="--once needs a key"):
        send(site, once="")
