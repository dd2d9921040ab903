"""`ackd dead`: why each lies there, and the two ways out."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackd.adapters import maildrop, root_lock
from ackd.core.message import Folder, ReceiptKind
from ackd.dialects import ignite

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


def test_nothing_dead(team: Team) -> None:
    assert team.ackd("dead", "list").stdout == "nothing is dead or corrupt\n"
    assert team.json("dead", "list") == []


def test_both_kinds_are_listed_with_their_reasons(team: Team) -> None:
    message_id, _ = bury(team)
    quarantine(team)
    dead, corrupt = team.json("dead", "list")
    assert (dead["kind"], dead["message_id"], dead["agent"], dead["from"]) == ("dead", message_id, "worker-1", "user")
    assert (dead["reason"], dead["retry_count"]) == ("exit 1", 3)
    assert (corrupt["kind"], corrupt["reason"], corrupt["agent"]) == ("corrupt", "not_utf8: byte 0", "leader")
    shown = team.ackd("dead", "list").stdout
    assert "exit 1" in shown
    assert "not_utf8: byte 0" in shown


def test_showing_one_prints_why_and_what(team: Team) -> None:
    message_id, _ = bury(team)
    quarantine(team, b"hello \x1b[2J")
    assert "reason: exit 1" in team.ackd("dead", "show", message_id).stdout
    shown = team.ackd("dead", "show", "kept.mime").stdout
    assert "hello ?[2J" in shown


def test_a_requeued_dead_letter_is_as_it_was_before(team: Team) -> None:
    message_id, fresh = bury(team)
    result = team.json("dead", "requeue", message_id.partition("@")[0])
    (path,) = team.files()
    assert path.read_bytes() == fresh
    assert path.parent.name == "worker_1"
    assert result[0]["to"] == str(path)


def test_a_requeued_quarantined_file_goes_back_byte_for_byte(team: Team) -> None:
    quarantine(team)
    assert team.ackd("dead", "requeue", "kept.mime").exit_code == 0
    (path,) = team.files()
    assert (path.parent.name, path.name, path.read_bytes()) == ("leader", "task_1.mime", b"\xff\0broken")


def test_nothing_is_replaced_on_the_way_back(team: Team) -> None:
    (team.root / "queue" / "leader").mkdir(parents=True)
    (team.root / "queue" / "leader" / "task_1.mime").write_bytes(b"other")
    quarantine(team)
    team.json("dead", "requeue", "--all")
    assert [path.name for path in team.files()] == ["task_1-1.mime", "task_1.mime"]


def test_all_means_all(team: Team) -> None:
    bury(team)
    bury(team, "leader")
    quarantine(team)
    assert len(team.json("dead", "requeue", "--all")) == 3
    assert left(team) == []


@pytest.mark.parametrize(
    ("queue", "name", "code"),
    [("../../etc", "x", 67), ("nobody", "x", 67), ("", "x", 65), ("dead_letter", "x", 67)],
)
def test_a_reason_that_leads_elsewhere_moves_nothing(team: Team, queue: str, name: str, code: int) -> None:
    quarantine(team, queue=queue, name=name)
    assert team.ackd("dead", "requeue", "--all").exit_code == code
    assert left(team) == ["kept.mime", "kept.mime.reason"]


def test_a_name_that_leads_elsewhere_is_replaced_by_the_one_it_has(team: Team) -> None:
    quarantine(team, name="../../../evil")
    team.json("dead", "requeue", "--all")
    assert [path.name for path in team.files()] == ["kept.mime"]


def test_purging_needs_a_yes(team: Team) -> None:
    bury(team)
    kept = quarantine(team)
    (kept.parent / "directory.mime").mkdir()
    result = team.ackd("dead", "purge", "--all")
    assert result.exit_code == 2
    assert "3 would be removed for good: say --yes" in result.stderr
    assert len(left(team)) == 3
    assert team.ackd("dead", "purge", "--all", "--yes").exit_code == 0
    assert list(kept.parent.iterdir()) == []
    assert left(team) == []


@pytest.mark.parametrize("args", [["requeue"], ["purge", "--yes"], ["requeue", "x", "--all"]])
def test_say_which(team: Team, args: list[str]) -> None:
    assert team.ackd("dead", *args).exit_code == 2


@pytest.mark.parametrize("command", [["show"], ["requeue"], ["purge", "--yes"]])
def test_no_such_dead_letter(team: Team, command: list[str]) -> None:
    bury(team)
    assert team.ackd("dead", *command, "nothing").exit_code == 66


# --- which one is meant -------------------------------------------------------------------------------------------------
def bury_twice(team: Team) -> tuple[str, list[Path]]:
    """One message, dead at two recipients."""
    message_id, _ = bury(team)
    (one,) = team.files("queue/dead_letter")
    other = one.with_name("message_2.mime")
    other.write_bytes(ignite.rewrite(one.read_bytes(), [("X-IGNITE-Recipient", "leader")]))
    return message_id, [one, other]


@pytest.mark.parametrize("command", [["show"], ["requeue"], ["purge", "--yes"]])
@pytest.mark.parametrize("spelled", ["{}", "<{}>", "{0:.20}"], ids=["whole", "in brackets", "its beginning"])
def test_an_id_that_died_at_two_recipients_means_neither(team: Team, command: list[str], spelled: str) -> None:
    message_id, paths = bury_twice(team)
    result = team.ackd("dead", *command, spelled.format(message_id))
    assert result.exit_code == 2
    assert "name the file of the one that you mean" in result.stderr
    for path, agent in zip(paths, ("worker-1", "leader"), strict=True):
        assert f"  queue/dead_letter/{path.name}  {agent}\n" in result.stderr
    assert team.files("queue/dead_letter") == sorted(paths)


def test_the_file_tells_which_of_two_is_meant(team: Team) -> None:
    _, (one, other) = bury_twice(team)
    assert team.ackd("dead", "purge", f"queue/dead_letter/{other.name}", "--yes").exit_code == 0
    assert team.files("queue/dead_letter") == [one]
    assert team.ackd("dead", "purge", one.name, "--yes").exit_code == 0
    assert left(team) == []


@pytest.mark.parametrize("spelled", ["queue/corrupt/", "corrupt/", ".ackd/queue/corrupt/", "{root}/queue/corrupt/"])
def test_a_path_means_the_file_that_lies_there(team: Team, spelled: str) -> None:
    """And no other of that name."""
    _, (one, other) = bury_twice(team)
    wanted = f"{spelled.format(root=team.root)}{one.name}"
    assert team.ackd("dead", "purge", wanted, "--yes").exit_code == 66
    assert team.files("queue/dead_letter") == sorted([one, other])
    kept = quarantine(team)
    kept = kept.rename(kept.with_name(one.name))
    ambiguous = team.ackd("dead", "purge", one.name, "--yes")
    assert ambiguous.exit_code == 2
    assert f"  queue/corrupt/{one.name}" in ambiguous.stderr
    assert team.ackd("dead", "purge", wanted, "--yes").exit_code == 0
    assert not kept.exists()
    assert team.files("queue/dead_letter") == sorted([one, other])


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
def test_the_daemon_is_asked_and_the_file_is_watched_until_it_has_left(team: Team) -> None:
    message_id, _ = bury(team)
    seen: list[Any] = []
    thread = threading.Thread(target=obey, args=(team, seen))
    thread.start()
    result = team.ackd("dead", "requeue", message_id)
    thread.join()
    assert (result.exit_code, result.stdout) == (0, f"requeued {message_id}\n")
    assert (seen[0].kind, seen[0].message_id, seen[0].agent) == (ReceiptKind.REQUEUE, message_id, None)


@pytest.mark.usefixtures("held")
def test_a_file_that_is_still_broken_is_back_at_once_and_that_is_said(team: Team) -> None:
    quarantine(team)

    def obey_and_reject_again() -> None:
        obey(team, [])
        quarantine(team)

    thread = threading.Thread(target=obey_and_reject_again)
    thread.start()
    result = team.ackd("dead", "requeue", "kept.mime")
    thread.join()
    assert result.exit_code == 1
    assert "requeued" in result.stdout
    assert left(team) == ["kept.mime", "kept.mime.reason"]


@pytest.mark.usefixtures("held")
def test_a_daemon_that_does_not_answer_is_said_so(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.frontends.cli.dead.PATIENCE_S", 0.05)
    kept = quarantine(team)
    result = team.ackd("dead", "purge", "kept.mime", "--yes")
    assert result.exit_code == 75
    assert "asked for kept.mime" in result.stdout
    assert kept.exists()
    receipt = maildrop.read_receipt(Path(team.files("receipts")[0]))
    assert (receipt.file, receipt.folder) == ("kept.mime", Folder.CORRUPT)


def test_what_is_no_message_is_called_what_it_is_and_status_counts_the_same(team: Team) -> None:
    bury(team)
    quarantine(team)
    graves = team.root / "queue" / "dead_letter"
    (graves / "processed").mkdir()
    (graves / "note.reason").write_text("x")
    (graves / "link.mime").symlink_to("nowhere")
    listed = {row["name"]: row["reason"] for row in team.json("dead", "list")}
    assert listed["processed"] == "a directory, no message: nothing of ackd's"
    assert listed["link.mime"] == "not a regular file, no message: nothing of ackd's"
    assert listed["note.reason"].startswith("unreadable: ")
    totals = team.json("status")["totals"]
    assert totals["dead"] + totals["corrupt"] == len(listed) == 5


def test_a_dead_letter_is_found_by_its_hash(team: Team) -> None:
    message_id, _ = bury(team)
    bury(team)
    assert team.json("dead", "show", message_id.split(".")[2].partition("@")[0][:8])["message_id"] == message_id


@pytest.mark.usefixtures("held")
def test_a_file_that_takes_a_moment_to_come_back_is_waited_for(team: Team) -> None:
    """Out of quarantine, a moment in its queue, and back: exit 1, though it had left."""
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
        time.sleep(0.1)  # so that the command sees it gone
        back_in_queue.rename(kept)

    thread = threading.Thread(target=obey_slowly)
    thread.start()
    result = team.ackd("dead", "requeue", "kept.mime")
    thread.join()
    assert result.exit_code == 1
    assert "requeued, and back again: kept.mime" in result.stdout


@pytest.mark.usefixtures("held")
def test_a_dead_letter_that_is_rewritten_before_it_leaves_did_not_come_back(team: Team) -> None:
    message_id, fresh = bury(team)
    (path,) = team.files("queue/dead_letter")

    def obey_in_two_steps() -> None:
        deadline = time.monotonic() + 10
        while not team.files("receipts"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        path.with_name(".new").write_bytes(fresh)
        path.with_name(".new").replace(path)
        time.sleep(0.1)  # so that the command sees it changed, and still there
        path.rename(team.root / "queue" / "worker_1" / "processed" / path.name)

    thread = threading.Thread(target=obey_in_two_steps)
    thread.start()
    result = team.ackd("dead", "requeue", message_id)
    thread.join()
    assert (result.exit_code, result.stdout) == (0, f"requeued {message_id}\n")
