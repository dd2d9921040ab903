"""Waiting for messages and all that comes of them: when it is over, and how that is found out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ackd.client import Client, thread_waiting, threads
from ackd.client.thread_waiting import Awaited, ThreadWaiter
from ackd.storage import root_lock
from tests.client.test_threads import Log, log, root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ackd.client.thread_waiting import AwaitedMessage

__all__ = ["log", "root"]


@pytest.fixture(autouse=True)
def _served(root: Path) -> Iterator[None]:
    lock = root_lock.hold(root / "run")
    yield
    lock.release()


def wait(
    root: Path, *ids: str, tree: bool = False, any_of: bool = False, timeout_s: float = 60.0,
    heard: Callable[[AwaitedMessage], None] = lambda _one: None,
) -> Awaited:  # fmt: skip
    site = Client(root).site
    return ThreadWaiter(site, tree=tree, any_of=any_of, grace_s=60).wait(ids, timeout_s, heard)


def states(awaited: Awaited) -> dict[tuple[str, str], str]:
    return {(one.message_id, one.agent): one.state for one in awaited.messages}


def done(log: Log, message_id: str, agent: str) -> None:
    log("message_completed", message_id, agent, by="exit 0")


def dead(log: Log, message_id: str, agent: str) -> None:
    log("message_dead", message_id, agent, reason="refused", retry_count=0)


def test_what_is_over_already_is_not_waited_for(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    done(log, "m1", "leader")
    log.queued("m2", "user", "worker")
    done(log, "m2", "worker")
    awaited = wait(root, "m1", "m2")
    assert (awaited.outcome, states(awaited)) == (
        "done",
        {("m1", "leader"): "completed", ("m2", "worker"): "completed"},
    )


def test_one_that_is_dead_makes_the_answer_no(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    done(log, "m1", "leader")
    log.queued("m2", "user", "worker")
    dead(log, "m2", "worker")
    awaited = wait(root, "m1", "m2")
    assert awaited.outcome == "failed"
    assert [one.reason for one in awaited.messages] == [None, "refused"]


def test_it_goes_on_until_all_have_ended_also_when_one_is_dead(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    dead(log, "m1", "leader")
    log.queued("m2", "user", "worker")
    assert wait(root, "m1", "m2", timeout_s=0.2).outcome == "timeout"


def test_a_message_is_over_when_every_recipient_is_through_with_it(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m1", "user", "worker")
    done(log, "m1", "leader")
    awaited = wait(root, "m1", timeout_s=0.2)
    assert awaited.outcome == "timeout"
    assert awaited.words == "not over within 0.2 s: 1 of 2 is open: worker has not taken it yet (m1)"


def test_any_is_content_with_one_that_was_completed(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m2", "user", "worker")
    done(log, "m2", "worker")
    assert wait(root, "m1", "m2", any_of=True).outcome == "done"


def test_any_fails_when_none_can_be_completed_any_more(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    dead(log, "m1", "leader")
    assert wait(root, "m1", any_of=True).outcome == "failed"
    log.queued("m2", "user", "worker")
    assert wait(root, "m1", "m2", any_of=True, timeout_s=0.2).outcome == "timeout"


def test_without_tree_parts_do_not_matter(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m2", "leader", "worker", part_of="m1")
    done(log, "m1", "leader")
    assert wait(root, "m1").outcome == "done"


def test_a_tree_is_over_when_the_deepest_part_is(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m2", "leader", "worker", part_of="m1")
    log.queued("m3", "worker", "helper", part_of="m2")
    done(log, "m1", "leader")
    done(log, "m2", "worker")
    assert wait(root, "m1", tree=True, timeout_s=0.2).outcome == "timeout"
    done(log, "m3", "helper")
    assert wait(root, "m1", tree=True).outcome == "done"


def test_nobody_waits_until_an_answer_is_read(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    done(log, "m1", "leader")
    log.queued("m2", "leader", "user", in_reply_to="m1")
    assert wait(root, "m1", tree=True).outcome == "done"
    log.queued("m3", "user", "worker", part_of="m2")
    assert wait(root, "m1", tree=True, timeout_s=0.2).outcome == "timeout"


def test_a_part_that_lies_unmet_in_a_queue_is_waited_for(root: Path, log: Log) -> None:
    """The log says that everything is over, and knows nothing of it yet."""
    for name in ("leader", "worker"):
        (root / "queue" / name).mkdir(parents=True)
    goal = Client(root).send("leader", "the goal", sender="user")
    log.queued(goal.message_id, "user", "leader")
    part = Client(root).send("worker", "a part", sender="leader", part_of=goal.message_id)
    done(log, goal.message_id, "leader")
    awaited = wait(root, goal.message_id, tree=True, timeout_s=0.2)
    assert awaited.outcome == "timeout"
    assert states(awaited)[part.message_id, "worker"] == "queued"


def test_parts_that_come_while_it_waits_are_waited_for_and_each_end_is_told_once(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    heard: list[tuple[str, str]] = []
    result: list[Awaited] = []

    def waits() -> None:
        result.append(
            wait(root, "m1", tree=True, heard=lambda one: heard.append((one.message_id, one.state)), timeout_s=60)
        )

    thread = threading.Thread(target=waits)
    thread.start()
    log.queued("m2", "leader", "worker", part_of="m1")
    done(log, "m1", "leader")
    dead(log, "m2", "worker")
    log("message_requeued", "m2", "worker", file="queue/worker/m2.mime")
    log.queued("m3", "worker", "helper", part_of="m2")
    done(log, "m3", "helper")
    done(log, "m2", "worker")
    thread.join(60)
    assert result[0].outcome == "done"
    assert [one for one in heard if one[0] != "m2"] in (
        [("m1", "completed"), ("m3", "completed")],
        [("m3", "completed"), ("m1", "completed")],
    )
    assert heard.count(("m2", "completed")) == 1


def test_a_copy_that_is_recognised_does_not_open_what_is_over(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m1", "user", "leader")
    log("message_duplicate", "m1", "leader", of_state="queued", file="archive/x.mime")
    done(log, "m1", "leader")
    log.queued("m1", "user", "leader")
    log("message_duplicate", "m1", "leader", of_state="completed", file="archive/x.mime")
    assert wait(root, "m1").outcome == "done"


def test_several_names_of_one_message_are_one(root: Path, log: Log) -> None:
    long = "1794794802.29247.7c1f00d00001@ignite.local"
    log.queued(long, "user", "leader")
    done(log, long, "leader")
    awaited = thread_waiting.wait(
        Client(root).site,
        [long, "7c1f00d"],
        tree=False,
        any_of=False,
        timeout_s=60,
        heard=lambda _one: None,
        hindered=lambda _words: None,
    )
    assert states(awaited) == {(long, "leader"): "completed"}


def test_only_some_open_messages_are_named(root: Path, log: Log) -> None:
    for number in range(8):
        log.queued(f"m{number}", "user", "leader")
    words = wait(root, *(f"m{number}" for number in range(8)), timeout_s=0.1).words
    assert "all 8 are open" in words
    assert words.endswith("and 3 more")


def test_an_unreadable_log_is_said_and_is_no_answer(root: Path, monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    log.queued("m1", "user", "leader")

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(threads, "histories", refused)
    awaited = wait(root, "m1")
    assert (awaited.outcome, "Permission denied" in awaited.trouble) == ("timeout", True)
