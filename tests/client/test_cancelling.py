"""Asking for messages to be cancelled: who may, what is asked for, and what came of a message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import Client, cancelling
from ackd.client.errors import MessageOver, NotSender
from ackd.config.site import find_site
from ackd.core.errors import UnknownMessage
from ackd.storage import maildrop
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config.site import Site

Team = Any  # conftest.py's: test files do not import each other


@pytest.fixture
def site(team: Team) -> Site:
    team.root.mkdir()
    return find_site(team.root, team.home / "ackd.toml")


@pytest.fixture
def log(site: Site) -> Iterator[SessionLog]:
    opened = SessionLog.open(site.logs, started_at=1_794_794_800.0)
    yield opened
    opened.close()


def arrived(log: SessionLog, message_id: str, sender: str, agent: str, **data: Any) -> None:
    told = {"message_id": message_id, "agent": agent, "from": sender, "message_type": "message", "file": "x.mime"}
    log.record("message_queued", {**told, **data}, 1_794_794_801.0)
    log.flush()


def sent(site: Site, to: str = "worker_1", sender: str = "leader", **more: Any) -> str:
    return Client.at(site).send(to, "hello", sender=sender, **more).message_id


def test_each_recipient_that_has_not_finished_is_asked_about(team: Team, site: Site) -> None:
    message_id = Client.at(site).send(["worker_1", "user"], "hello", sender="leader").message_id
    done = Client.at(site, "leader").cancel(message_id, reason="no need")
    assert {tuple(one)[:3] for one in done} == {(message_id, name, "open") for name in ("worker_1", "user")}
    said = {(one["kind"], one["agent"], one["by"], one["reason"]) for one in team.receipts()}
    assert said == {("cancel", "worker_1", "leader", "no need"), ("cancel", "user", "leader", "no need")}


@pytest.mark.parametrize("by", ["leader", "user", None])
def test_its_sender_and_a_person_may(site: Site, by: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACKD_AGENT", raising=False)
    assert Client.at(site, by).cancel(sent(site))


def test_nobody_else_may_and_then_nothing_is_written(team: Team, site: Site) -> None:
    own, other = sent(site, sender="worker_1"), sent(site)
    with pytest.raises(NotSender, match="only leader, who sent it, and user may cancel it"):
        Client.at(site, "worker_1").cancel(own, other)
    assert team.files("receipts") == []


def test_what_is_over_or_never_was_is_said(site: Site) -> None:
    with pytest.raises(UnknownMessage):
        Client.at(site, "user").cancel("1.2.abcdef")
    message_id = sent(site)
    (path,) = (site.queue / "worker_1").glob("*.mime")
    site.dead_letter.mkdir(parents=True, exist_ok=True)
    path.rename(site.dead_letter / path.name)
    with pytest.raises(MessageOver, match="is dead already: nothing is left to cancel"):
        Client.at(site, "leader").cancel(message_id)


@pytest.mark.parametrize("folder", ["archive/20261119/worker_1", "queue/dead_letter"])
@pytest.mark.parametrize("ended", ["withdrawn", "cancelled", "expired", None])
def test_how_it_ended_is_said(site: Site, folder: str, ended: str | None) -> None:
    message_id = sent(site)
    (path,) = (site.queue / "worker_1").glob("*.mime")
    header = f"X-ACKD-Ended: {ended}\n".encode() if ended is not None else b""
    (site.root / folder).mkdir(parents=True, exist_ok=True)
    (site.root / folder / path.name).write_bytes(header + path.read_bytes())
    path.unlink()
    said = ended or ("dead" if "dead" in folder else "completed")
    with pytest.raises(MessageOver, match=f"is {said} already: nothing is left to cancel"):
        Client.at(site, "leader").cancel(message_id)


def test_a_tree_is_every_open_message_that_came_of_it(team: Team, site: Site) -> None:
    root = sent(site)
    child = sent(site, "user", "worker_1", in_reply_to=root)
    grandchild = sent(site, "leader", "user", thread_id=child)
    sent(site, "user", "worker_1")
    done = Client.at(site, "leader").cancel(root, tree=True)
    assert {one.message_id for one in done} == {root, child, grandchild}
    assert {(one["message_id"], one.get("of")) for one in team.receipts()} == {
        (root, None),
        (child, root),
        (grandchild, root),
    }
    assert {one.message_id for one in cancelling.came_of(site, child)} == {grandchild}


@pytest.mark.parametrize("topic", [{}, {"thread_id": "release 1.0"}])
def test_a_branch_is_its_parts_however_deep(team: Team, site: Site, topic: dict[str, str]) -> None:
    goal = sent(site, "leader", "user")
    branch = sent(site, "user", part_of=goal, **topic)
    part = sent(site, "worker_1", "user", part_of=branch, **topic)
    deep = sent(site, "leader", "worker_1", part_of=part, **topic)
    sent(site, "worker_1", part_of=goal, **topic)
    done = Client.at(site, "leader").cancel(branch, tree=True)
    assert {one.message_id for one in done} == {branch, part, deep}
    assert {one["message_id"] for one in team.receipts()} == {branch, part, deep}


def test_what_came_of_a_part_that_is_over_is_found_by_the_log(site: Site, log: SessionLog) -> None:
    arrived(log, "goal", "user", "leader")
    arrived(log, "over", "leader", "worker_1", part_of="goal")
    part = sent(site, "user", "worker_1", in_reply_to="over")
    goal = sent(site, "leader", "user")
    assert {one.message_id for one in cancelling.came_of(site, "goal")} == {part}
    assert cancelling.came_of(site, goal) == []


def test_a_file_with_a_copied_id_is_not_cancelled_with_what_it_names(site: Site, log: SessionLog) -> None:
    """Else whoever copies a stranger's id into a part of its own message could have the stranger's cancelled."""
    mine, theirs = sent(site), sent(site, "user", "worker_1")
    arrived(log, theirs, "worker_1", "user")
    arrived(log, theirs, "leader", "worker_1", part_of=mine)
    assert cancelling.came_of(site, mine) == []


def drop(site: Site, box: str, head: str) -> None:
    """Put a message by file, as ackd and other programs do."""
    (site.queue / box).mkdir(parents=True, exist_ok=True)
    text = f"MIME-Version: 1.0\nTo: {box}\nX-IGNITE-Priority: high\n{head}\n\ncontent: x\n"
    (site.queue / box / f"message_{time.time_ns() // 1000}.mime").write_text(text)


@pytest.mark.parametrize(
    "head",
    [
        "From: queue_monitor\nX-IGNITE-Type: escalation",
        "From: queue_monitor\nX-IGNITE-Type: status_check",
        "From: worker_1\nX-IGNITE-Type: task_completed",
        "From: worker_1\nX-IGNITE-Type: progress_update",
        "From: worker_1\nX-IGNITE-Type: message\nAuto-Submitted: auto-replied",
    ],
)
def test_what_is_nobodys_work_stays_and_is_followed(site: Site, head: str) -> None:
    root = sent(site)
    drop(site, "user", f"Message-ID: <told@x>\n{head}\nIn-Reply-To: <{root}>\nX-IGNITE-Thread-ID: {root}")
    after = sent(site, "leader", "user", in_reply_to="told@x")
    assert {one.message_id for one in cancelling.came_of(site, root)} == {after}


def test_what_a_person_wrote_is_work(site: Site) -> None:
    root = sent(site)
    drop(
        site,
        "user",
        f"Message-ID: <told@x>\nFrom: a\nX-IGNITE-Type: message\nAuto-Submitted: no\nIn-Reply-To: <{root}>",
    )
    assert [one.message_id for one in cancelling.came_of(site, root)] == ["told@x"]


def test_parts_that_come_while_it_is_asked_are_asked_for_too(
    team: Team, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = sent(site)
    sent(site, "user", "worker_1", part_of=root)
    late: list[str] = []
    drop_cancellations = maildrop.drop_cancellations

    def and_another_part_comes(*said: Any, **more: Any) -> Any:
        if len(late) < 2:
            late.append(sent(site, "user", "worker_1", part_of=root))
        return drop_cancellations(*said, **more)

    monkeypatch.setattr(maildrop, "drop_cancellations", and_another_part_comes)
    done = Client.at(site, "leader").cancel(root, tree=True)
    assert set(late) < {one.message_id for one in done}
    assert len(done) == len(team.receipts()) == 4


def test_whoever_never_stops_sending_parts_does_not_keep_the_command(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = sent(site)
    drop_cancellations = maildrop.drop_cancellations

    def and_another_part_comes(*said: Any, **more: Any) -> Any:
        sent(site, "user", "worker_1", part_of=root)
        return drop_cancellations(*said, **more)

    monkeypatch.setattr(maildrop, "drop_cancellations", and_another_part_comes)
    assert len(Client.at(site, "leader").cancel(root, tree=True)) == 1 + cancelling.LOOKS
