"""Dead letters and quarantined files: listed with their reasons, requeued and purged, with and without a daemon."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client import Client, NoRecipient, NotRequeueable
from ackd.client.dead_letters import PENDING, PURGED, REQUEUED, RETURNED, AmbiguousDeadLetter
from ackd.core.errors import BadName, UnknownAgent, UnknownMessage
from ackd.core.message import Folder, ReceiptKind
from ackd.formats import ignite
from ackd.storage import maildrop, root_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

Team = Any  # conftest.py's: test files do not import each other


MARKS = [
    ("X-IGNITE-Status", "retrying"),
    ("X-IGNITE-Seen", "yes"),
    ("X-IGNITE-Retry-Count", "3"),
    ("X-IGNITE-Next-Retry-After", "2026-11-16T01:00:00+00:00"),
    ("X-IGNITE-Processed-At", "2026-11-16T01:00:00+00:00"),
    ("X-IGNITE-Error-Reason", "exit 1"),
    ("X-IGNITE-Error-At", "2026-11-16T01:02:03+00:00"),
    ("X-IGNITE-Recipient", "worker-1"),
]


def bury(team: Team, to: str = "worker_1") -> tuple[str, bytes]:
    """A dead letter, and its bytes as they were before delivery wrote into it."""
    message_id = team.send(to, "--body", "x")
    path = next(path for path in team.files() if path.parent.name == to)
    fresh = path.read_bytes()
    (team.root / "queue" / "dead_letter").mkdir(exist_ok=True)
    (team.root / "queue" / "dead_letter" / path.name).write_bytes(ignite.rewrite(fresh, MARKS))
    path.unlink()
    return message_id, fresh


def quarantine(team: Team, content: bytes = b"\xff\0broken", queue: str = "leader", name: str = "task_1.mime") -> Path:
    corrupt: Path = team.root / "queue" / "corrupt"
    corrupt.mkdir(parents=True, exist_ok=True)
    (corrupt / "kept.mime").write_bytes(content)
    reason = {"queue": queue, "folder": "queue", "name": name, "code": "not_utf8", "detail": "byte 0", "at": "2026Z"}
    (corrupt / "kept.mime.reason").write_text(json.dumps(reason))
    return corrupt / "kept.mime"


def left(team: Team) -> list[str]:
    return [path.name for where in ("queue/dead_letter", "queue/corrupt") for path in team.files(where)]


@pytest.fixture
def client(team: Team) -> Client:
    team.root.mkdir(exist_ok=True)
    return Client(team.root, team.home / "ackd.toml")


# --- listing ------------------------------------------------------------------------------------------------------------
def test_both_kinds_are_listed_with_their_reasons(team: Team, client: Client) -> None:
    assert client.dead_letters() == []
    message_id, _ = bury(team)
    quarantine(team)
    dead, corrupt = client.dead_letters()
    assert (dead.kind, dead.message_id, dead.agent, dead.sender) == ("dead", message_id, "worker-1", "user")
    assert (dead.reason, dead.retry_count, dead.at) == ("exit 1", 3, "2026-11-16T01:02:03+00:00")
    assert (corrupt.kind, corrupt.reason, corrupt.agent) == ("corrupt", "not_utf8: byte 0", "leader")


def test_one_is_read_as_it_lies_there(team: Team, client: Client) -> None:
    kept = quarantine(team, b"hello \x1b[2J")
    assert client.read_dead_letter("kept.mime") == b"hello \x1b[2J"
    kept.with_name("directory").mkdir()
    assert client.read_dead_letter("directory") is None


def test_what_is_no_message_is_called_what_it_is_and_status_counts_the_same(team: Team, client: Client) -> None:
    bury(team)
    quarantine(team)
    directory = team.root / "queue" / "dead_letter"
    (directory / "processed").mkdir()
    (directory / "note.reason").write_text("x")
    (directory / "link.mime").symlink_to("nowhere")
    listed = {letter.name: letter.reason for letter in client.dead_letters()}
    assert listed["processed"] == "a directory, no message: nothing of ackd's"
    assert listed["link.mime"] == "not a regular file, no message: nothing of ackd's"
    assert listed["note.reason"].startswith("unreadable: ")
    totals = client.status().totals
    assert totals["dead"] + totals["corrupt"] == len(listed) == 5


# --- which one is meant -------------------------------------------------------------------------------------------------
def test_one_is_found_by_its_id_a_beginning_or_its_hash(team: Team, client: Client) -> None:
    message_id, _ = bury(team)
    bury(team)
    hashed = message_id.split(".")[2].partition("@")[0]
    for wanted in (message_id, f"<{message_id}>", message_id.partition("@")[0], hashed[:8]):
        assert client.dead_letter(wanted).message_id == message_id
    with pytest.raises(UnknownMessage):
        client.dead_letter("nothing")


def bury_twice(team: Team) -> tuple[str, list[Path]]:
    """One message, dead at two recipients."""
    message_id, _ = bury(team)
    (one,) = team.files("queue/dead_letter")
    other = one.with_name("message_2.mime")
    other.write_bytes(ignite.rewrite(one.read_bytes(), [("X-IGNITE-Recipient", "leader")]))
    return message_id, [one, other]


@pytest.mark.parametrize("spelled", ["{}", "<{}>", "{0:.20}"], ids=["whole", "in brackets", "its beginning"])
def test_an_id_that_died_at_two_recipients_means_neither(team: Team, client: Client, spelled: str) -> None:
    message_id, paths = bury_twice(team)
    for act in (client.dead_letter, client.requeue, client.purge):
        with pytest.raises(AmbiguousDeadLetter) as caught:
            act(spelled.format(message_id))
        found = {letter.path: letter.agent for letter in caught.value.letters}
        assert found == dict(zip(paths, ("worker-1", "leader"), strict=True))
    assert team.files("queue/dead_letter") == sorted(paths)


def test_the_file_tells_which_of_two_is_meant(team: Team, client: Client) -> None:
    _, (one, other) = bury_twice(team)
    client.purge(f"queue/dead_letter/{other.name}")
    assert team.files("queue/dead_letter") == [one]
    client.purge(one.name)
    assert left(team) == []


@pytest.mark.parametrize("spelled", ["queue/corrupt/", "corrupt/", ".ackd/queue/corrupt/", "{root}/queue/corrupt/"])
def test_a_path_means_the_file_that_lies_there_and_no_other_of_that_name(
    team: Team, client: Client, spelled: str
) -> None:
    _, (one, other) = bury_twice(team)
    wanted = f"{spelled.format(root=team.root)}{one.name}"
    with pytest.raises(UnknownMessage):
        client.purge(wanted)
    assert team.files("queue/dead_letter") == sorted([one, other])
    kept = quarantine(team)
    kept = kept.rename(kept.with_name(one.name))
    with pytest.raises(AmbiguousDeadLetter):
        client.purge(one.name)
    client.purge(wanted)
    assert not kept.exists()
    assert team.files("queue/dead_letter") == sorted([one, other])


# --- without a daemon ---------------------------------------------------------------------------------------------------
def test_a_requeued_dead_letter_is_as_it_was_before(team: Team, client: Client) -> None:
    message_id, fresh = bury(team)
    (result,) = client.requeue(message_id.partition("@")[0])
    (path,) = team.files()
    assert path.read_bytes() == fresh
    assert path.parent.name == "worker_1"
    assert (result.outcome, result.to) == (REQUEUED, path)


def test_a_requeued_quarantined_file_goes_back_byte_for_byte(team: Team, client: Client) -> None:
    quarantine(team)
    (result,) = client.requeue("kept.mime")
    (path,) = team.files()
    assert (path.parent.name, path.name, path.read_bytes()) == ("leader", "task_1.mime", b"\xff\0broken")
    assert (result.outcome, result.to) == (REQUEUED, path)


def test_nothing_is_replaced_on_the_way_back(team: Team, client: Client) -> None:
    (team.root / "queue" / "leader").mkdir(parents=True)
    (team.root / "queue" / "leader" / "task_1.mime").write_bytes(b"other")
    quarantine(team)
    client.requeue(*client.dead_letters())
    assert [path.name for path in team.files()] == ["task_1-1.mime", "task_1.mime"]


@pytest.mark.parametrize(
    ("queue", "error"),
    [("../../etc", UnknownAgent), ("nobody", UnknownAgent), ("", NoRecipient), ("dead_letter", UnknownAgent)],
)
def test_a_reason_that_leads_elsewhere_moves_nothing(
    team: Team, client: Client, queue: str, error: type[Exception]
) -> None:
    """Without a daemon and with one."""
    bury(team)
    quarantine(team, queue=queue, name="x")
    before = left(team)
    with pytest.raises((error, BadName)):
        client.requeue(*client.dead_letters())
    lock = root_lock.hold(team.root / "run")
    with pytest.raises((error, BadName)):
        client.requeue(*client.dead_letters())
    lock.release()
    assert left(team) == before


def test_a_dead_letter_that_is_too_large_is_refused_with_and_without_a_daemon(team: Team, client: Client) -> None:
    message_id, fresh = bury(team)
    (path,) = team.files("queue/dead_letter")
    path.write_bytes(fresh + bytes(2 * client.site.max_message_bytes))
    with pytest.raises(NotRequeueable):
        client.requeue(message_id)
    lock = root_lock.hold(team.root / "run")
    with pytest.raises(NotRequeueable):
        client.requeue(message_id)
    lock.release()
    assert (team.files("queue/dead_letter"), team.files("receipts")) == ([path], [])


def test_a_letter_for_several_that_does_not_say_whose_copy_it_is_stays(team: Team, client: Client) -> None:
    """Without a daemon and with one."""
    message_id, fresh = bury(team)
    (path,) = team.files("queue/dead_letter")
    path.write_bytes(fresh.replace(b"To: worker_1", b"To: worker_1, leader"))
    assert client.dead_letter(message_id).agent is None
    with pytest.raises(NoRecipient, match="does not say whose it was"):
        client.requeue(message_id)
    lock = root_lock.hold(team.root / "run")
    with pytest.raises(NoRecipient):
        client.requeue(message_id)
    lock.release()
    assert (team.files("queue/dead_letter"), team.files("receipts")) == ([path], [])


def test_a_name_that_leads_elsewhere_is_replaced_by_the_one_it_has(team: Team, client: Client) -> None:
    quarantine(team, name="../../../evil")
    client.requeue("kept.mime")
    assert [path.name for path in team.files()] == ["kept.mime"]


def test_whatever_lies_there_can_be_purged(team: Team, client: Client) -> None:
    bury(team)
    kept = quarantine(team)
    for directory in (kept.with_name("directory.mime"), team.root / "queue" / "dead_letter" / "directory"):
        (directory / "inner").mkdir(parents=True)
    results = client.purge(*client.dead_letters())
    assert [one.outcome for one in results] == [PURGED] * 4
    assert list(kept.parent.iterdir()) == list((team.root / "queue" / "dead_letter").iterdir()) == []


# --- with a daemon running ----------------------------------------------------------------------------------------------
@pytest.fixture
def held(team: Team) -> Iterator[None]:
    lock = root_lock.hold(team.root / "run")
    yield
    lock.release()


def obey(team: Team, seen: list[Any]) -> None:
    """What the daemon does with one such receipt: the file leaves."""
    deadline = time.monotonic() + 10
    while not (receipts := [path for path in team.files("receipts") if path.suffix == ".json" and path.name[0] != "."]):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    receipt = maildrop.read_receipt(receipts[0])
    seen.append(receipt)
    for where in ("dead_letter", "corrupt"):
        (team.root / "queue" / where / str(receipt.file)).unlink(missing_ok=True)


@pytest.mark.usefixtures("held")
def test_the_daemon_is_asked_and_the_file_is_watched_until_it_has_left(team: Team, client: Client) -> None:
    message_id, _ = bury(team)
    seen: list[Any] = []
    thread = threading.Thread(target=obey, args=(team, seen))
    thread.start()
    (result,) = client.requeue(message_id)
    thread.join()
    assert (result.outcome, result.to) == (REQUEUED, None)
    assert (seen[0].kind, seen[0].message_id, seen[0].agent) == (ReceiptKind.REQUEUE, message_id, None)


@pytest.mark.usefixtures("held")
def test_a_file_that_is_still_broken_is_back_at_once(team: Team, client: Client) -> None:
    quarantine(team)

    def obey_and_reject_again() -> None:
        obey(team, [])
        quarantine(team)

    thread = threading.Thread(target=obey_and_reject_again)
    thread.start()
    (result,) = client.requeue("kept.mime")
    thread.join()
    assert result.outcome == RETURNED
    assert left(team) == ["kept.mime", "kept.mime.reason"]


@pytest.mark.usefixtures("held")
def test_a_daemon_that_does_not_answer_leaves_it_pending(
    team: Team, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackd.client.dead_letters.DAEMON_TIMEOUT_S", 0.05)
    kept = quarantine(team)
    (result,) = client.purge("kept.mime")
    assert result.outcome == PENDING
    assert kept.exists()
    receipt = maildrop.read_receipt(Path(team.files("receipts")[0]))
    assert (receipt.file, receipt.folder) == ("kept.mime", Folder.CORRUPT)


@pytest.mark.usefixtures("held")
def test_a_file_that_takes_a_moment_to_come_back_is_waited_for(team: Team, client: Client) -> None:
    """It leaves quarantine, lies in its queue for a moment, and comes back."""
    kept = quarantine(team)
    back_in_queue = team.root / "queue" / "leader" / "task_1.mime"
    back_in_queue.parent.mkdir(parents=True, exist_ok=True)

    def obey_slowly() -> None:
        deadline = time.monotonic() + 10
        while not team.files("receipts"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        kept.with_name("kept.mime.reason").unlink()
        kept.rename(back_in_queue)
        time.sleep(0.1)  # so that the client sees it gone
        back_in_queue.rename(kept)

    thread = threading.Thread(target=obey_slowly)
    thread.start()
    (result,) = client.requeue("kept.mime")
    thread.join()
    assert result.outcome == RETURNED


@pytest.mark.usefixtures("held")
def test_a_dead_letter_that_is_rewritten_before_it_leaves_did_not_come_back(team: Team, client: Client) -> None:
    message_id, fresh = bury(team)
    (path,) = team.files("queue/dead_letter")

    def obey_in_two_steps() -> None:
        deadline = time.monotonic() + 10
        while not team.files("receipts"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        path.with_name(".new").write_bytes(fresh)
        path.with_name(".new").replace(path)
        time.sleep(0.1)  # so that the client sees it changed, and still there
        path.rename(team.root / "queue" / "worker_1" / "processed" / path.name)

    thread = threading.Thread(target=obey_in_two_steps)
    thread.start()
    (result,) = client.requeue(message_id)
    thread.join()
    assert result.outcome == REQUEUED
