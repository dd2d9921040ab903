"""Threads: what came of a message, by the log and by the files in the queues, and who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import Client, threads
from ackd.client.threads import Link, Thread, members
from ackd.core.errors import UnknownMessage
from ackd.storage.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ackd").mkdir()
    return tmp_path / ".ackd"


class Log:
    """A session log, written line by line; each line is a second after the one before."""

    def __init__(self, root: Path) -> None:
        self.at = 1_794_794_800.0
        self._log = SessionLog.open(root / "logs", started_at=self.at)

    def __call__(self, type_: str, message_id: str, agent: str, **data: Any) -> None:
        self.at += 1
        self._log.record(type_, {"message_id": message_id, "agent": agent, **data}, self.at)
        self._log.flush()

    def queued(self, message_id: str, sender: str, agent: str, **data: Any) -> None:
        more = {"message_type": "message", "priority": "normal", "file": f"queue/{agent}/{message_id}.mime"}
        self("message_queued", message_id, agent, **{"from": sender, **more, **data})

    def close(self) -> None:
        self._log.close()


@pytest.fixture
def log(root: Path) -> Iterator[Log]:
    opened = Log(root)
    yield opened
    opened.close()


def rows(found: Thread) -> list[tuple[int, str, str | None]]:
    return [(one.depth, one.message_id, one.how) for one in found.messages]


def waits(found: Thread) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(one.message_id, to.agent): to.waits_for for one in found.messages for to in one.recipients}


def test_the_whole_thread_is_shown_whichever_of_its_messages_is_asked_for(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m2", "leader", "worker", part_of="m1")
    log.queued("m3", "leader", "helper", part_of="m1")
    log.queued("m4", "worker", "helper", part_of="m2")
    log.queued("m5", "helper", "worker", in_reply_to="m4")
    log.queued("other", "user", "leader")
    expected = [(0, "m1", None), (1, "m2", "part"), (2, "m4", "part"), (3, "m5", "answer"), (1, "m3", "part")]
    for asked in ("m1", "m4", "m5"):
        found = Client(root).thread(asked)
        assert (found.asked, found.root, rows(found)) == (asked, "m1", expected)


def test_a_branch_begins_with_the_message_itself(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m2", "leader", "worker", part_of="m1")
    log.queued("m4", "worker", "helper", part_of="m2")
    assert rows(Client(root).thread("m2", whole=False)) == [(0, "m2", None), (1, "m4", "part")]


def test_whoever_has_a_message_waits_for_those_who_have_its_open_parts(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log("message_acked", "m1", "leader", by="ackd ack")
    log.queued("m2", "leader", "worker", part_of="m1")
    log.queued("m3", "leader", "helper", part_of="m1")
    log.queued("m4", "helper", "worker", part_of="m3")
    log("message_completed", "m2", "worker", by="exit 0")
    found = waits(Client(root).thread("m1"))
    assert found == {
        ("m1", "leader"): ("helper",),
        ("m2", "worker"): (),
        ("m3", "helper"): ("worker",),
        ("m4", "worker"): (),
    }
    log("message_completed", "m1", "leader", by="exit 0")
    assert waits(Client(root).thread("m1"))["m1", "leader"] == ()


def test_what_a_pane_waits_for_besides_is_shown_too(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log("message_waits", "m1", "leader", waits_for=["board meeting b1"])
    assert waits(Client(root).thread("m1")) == {("m1", "leader"): ("board meeting b1",)}
    log("message_waits", "m1", "leader")
    assert waits(Client(root).thread("m1")) == {("m1", "leader"): ()}


def test_only_the_holder_that_sent_the_parts_waits_for_them(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m1", "user", "second")
    log.queued("m2", "second", "worker", part_of="m1")
    found = waits(Client(root).thread("m1"))
    assert (found["m1", "leader"], found["m1", "second"]) == ((), ("worker",))


def test_a_state_has_the_time_of_the_line_that_made_it(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    queued_at = log.at
    log("message_told", "m1", "leader", attempt=1, proof="typed")
    told_at = log.at
    log("message_seen", "m1", "leader", evidence="ackd seen")
    ((one,),) = [each.recipients for each in Client(root).thread("m1").messages]
    assert (one.state, one.queued_at, one.since) == ("delivered", queued_at, told_at)


@pytest.mark.parametrize(
    ("type_", "end", "state"),
    [
        ("message_dead", None, "dead"),
        ("message_dead", "expired", "dead"),
        ("message_dead", "cancelled", "cancelled"),
        ("message_withdrawn", None, "withdrawn"),
    ],
)
def test_a_part_that_was_not_completed_has_its_reason(
    root: Path, log: Log, type_: str, end: str | None, state: str
) -> None:
    log.queued("m1", "user", "leader")
    log(type_, "m1", "leader", reason="refused: no", **({"end": end} if end else {}))
    ((one,),) = [each.recipients for each in Client(root).thread("m1").messages]
    assert (one.state, one.reason) == (state, "refused: no")


def test_mail_of_ackd_itself_is_a_notice_and_no_answer(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log.queued("n1", "queue_monitor", "user", in_reply_to="m1", message_type="dead_letter")
    assert rows(Client(root).thread("m1"))[1] == (1, "n1", "notice")


def test_messages_that_go_round_in_a_circle_are_shown_once_each(root: Path, log: Log) -> None:
    """Anybody can write such headers."""
    log.queued("m1", "a", "b", part_of="m3")
    log.queued("m2", "b", "c", part_of="m1")
    log.queued("m3", "c", "a", part_of="m2")
    log.queued("me", "c", "a", part_of="me")
    assert sorted(one.message_id for one in Client(root).thread("m2").messages) == ["m1", "m2", "m3"]
    assert rows(Client(root).thread("me")) == [(0, "me", None)]


def test_a_very_deep_thread_is_no_trouble(root: Path, log: Log) -> None:
    log.queued("m0", "user", "leader")
    for number in range(1, 3000):
        log.queued(f"m{number}", "a", "b", part_of=f"m{number - 1}")
    assert Client(root).thread("m2999").messages[-1].depth == 2999


def test_a_part_that_no_daemon_has_met_is_found_in_its_queue(root: Path) -> None:
    client = Client(root, agent="leader")
    for name in ("leader", "worker"):
        (root / "queue" / name).mkdir(parents=True)
    goal = client.send("leader", "the goal", sender="user").message_id
    part = client.send("worker", "a part", part_of=goal).message_id
    found = client.thread(part)
    assert rows(found) == [(0, goal, None), (1, part, "part")]
    assert [one.state for each in found.messages for one in each.recipients] == ["queued", "queued"]
    assert waits(found)[goal, "leader"] == ("worker",)


def test_an_unknown_message_has_no_thread(root: Path) -> None:
    with pytest.raises(UnknownMessage):
        Client(root).thread("nobody-knows-it")


def test_answers_are_not_waited_for_and_what_comes_of_them_is() -> None:
    known = {
        one.message_id: one
        for one in (
            Link("part", "goal", "part"),
            Link("answer", "goal", "answer"),
            Link("more", "answer", "part"),
            Link("other", "elsewhere", "part"),
        )
    }
    assert members(known, "goal") == {"goal": True, "part": True, "answer": False, "more": True}


def test_the_log_is_searched_for_ids_and_not_for_words(root: Path, log: Log) -> None:
    log.queued("m1", "user", "leader")
    log("message_acked", "m2", "leader", by='"message_id":"m1"')
    found = threads.lines_of(Client(root).site, {"m1"})
    assert [line.type for line in found["m1"]] == ["message_queued"]


# --- headers that name nothing, or somebody else ----------------------------------------------------------------------
def test_a_thread_begins_with_the_first_message_that_is_known(root: Path, log: Log) -> None:
    """The one before it may be another system's, or its day of the log and the archive is removed."""
    log.queued("m1", "user", "leader", in_reply_to="gone")
    log.queued("m2", "leader", "worker", part_of="m1")
    for asked in ("m1", "m2"):
        assert rows(Client(root).thread(asked)) == [(0, "m1", None), (1, "m2", "part")]


def test_an_id_in_a_header_is_whole(root: Path, log: Log) -> None:
    """A beginning would make a stranger's message the root, or fit several."""
    log.queued("1794.1.aa@x", "user", "leader")
    log.queued("1794.2.bb@x", "leader", "worker", in_reply_to="1794")
    log.queued("1794.3.cc@x", "leader", "worker", in_reply_to="1794.1")
    for asked in ("1794.2.bb@x", "1794.3.cc@x"):
        assert rows(Client(root).thread(asked)) == [(0, asked, None)]


def test_an_archived_message_is_found_by_its_whole_id_alone(root: Path) -> None:
    client = Client(root)
    old = root / "archive/20261116/leader"
    old.mkdir(parents=True)
    (root / "queue/leader").mkdir(parents=True)
    goal = client.send("leader", "the goal", sender="user")
    (moved,) = (root / "queue/leader").glob("*.mime")
    moved.rename(old / moved.name)
    known = client.send("leader", "an answer", sender="user", in_reply_to=goal.message_id).message_id
    unknown = client.send("leader", "an answer", sender="user", in_reply_to=goal.message_id[:-5]).message_id
    assert rows(client.thread(known)) == [(0, goal.message_id, None), (1, known, "answer")]
    assert rows(client.thread(unknown)) == [(0, unknown, None)]


@pytest.mark.parametrize("named", ["nowhere", "m9"])
def test_a_file_with_the_copied_id_of_a_root_breaks_nobodys_thread(root: Path, log: Log, named: str) -> None:
    log.queued("m1", "user", "leader")
    log.queued("m2", "leader", "worker", part_of="m1")
    log.queued("m9", "user", "worker")
    log.queued("m1", "stranger", "helper", part_of=named)
    for asked in ("m1", "m2"):
        assert [one[:2] for one in rows(Client(root).thread(asked))] == [(0, "m1"), (1, "m2")]
    assert rows(Client(root).thread("m9")) == [(0, "m9", None)]


def test_of_an_id_that_nobody_knows_there_is_no_history_and_no_complaint(root: Path, log: Log) -> None:
    """A part may be removed by hand while somebody waits for it."""
    log.queued("1794.1.aa@x", "user", "leader")
    told = threads.histories(Client(root).site, ["nowhere", "1794"])
    assert [one.recipients for one in told.values()] == [(), ()]
