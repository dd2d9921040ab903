from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from ackd.core.message import AutoSubmitted, Priority
from ackd.dialects import yaml_body
from ackd.runtime.gateways.ensemble import shelf
from ackd.runtime.gateways.gateway import LookRefused
from tests.runtime.gateways.ensemble.house import House

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


# --- what becomes mail --------------------------------------------------------------------------------------------------
async def test_a_task_is_mail_for_its_worker_and_a_report_for_dispatch(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml", "title: a page\ninstructions: write it\n")
    await house.look()
    house.later(house.put("reports/T-1-completed.yaml", "status: success\n"))
    await house.look()
    assert house.summary() == [
        ("dispatch", "worker-1", "task_assignment"),
        ("worker-1", "dispatch", "task_completed"),
    ]
    task, report = house.mail
    assert task.body["task_id"] == report.body["task_id"] == "T-1"
    assert report.body["status"] == "success"
    assert report.body["ensemble"] == {"file": "queue/reports/T-1-completed.yaml", "version": 1}
    assert report.in_reply_to == task.message_id


async def test_what_the_conductor_writes_for_dispatch_is_mail_that_is_over_when_it_was_seen(house: House) -> None:
    """[Ensemble] queue/conductor/dispatch-instruction.yaml: written anew for each piece of work."""
    await house.look()
    house.put("conductor/dispatch-instruction.yaml", "type: start_workers\nworker_count: 2\npriority: high\n")
    house.put("conductor/notes.yaml")
    await house.look()
    await house.look()
    (draft,) = house.mail
    assert (draft.sender, draft.recipient, draft.type) == ("conductor", "dispatch", "message")
    assert (draft.body["worker_count"], draft.priority, draft.auto) == (2, Priority.HIGH, AutoSubmitted.GENERATED)
    house.put("conductor/dispatch-instruction.yaml", "type: start_workers\nworker_count: 3\n")
    await house.look()
    assert [one.body["worker_count"] for one in house.mail] == [2, 3]
    assert not house.said("stray_file")
    assert str(house.queue / "conductor") in house.gateway.places()


async def test_an_instruction_of_a_time_before_us_is_given_unless_it_was_summed_up(tmp_path: Path) -> None:
    for name, mail in (("open", 1), ("over", 0)):
        (tmp_path / name).mkdir()
        house = House(tmp_path / name)
        house.put("conductor/dispatch-instruction.yaml", "worker_count: 2\n")
        if not mail:
            house.later(house.put("reports/completion-summary.yaml"))
        await house.look()
        assert len([one for one in house.mail if one.recipient == "dispatch"]) == mail
        assert len(house.said("task_passed_over")) == 1 - mail


async def test_vague_words_in_a_report_are_a_line_and_a_note_to_its_reader_and_no_refusal(house: House) -> None:
    house.put("reports/T-1-completed.yaml", "status: success\nsummary: several errors, 一部 fixed\n")
    house.put("reports/T-2-completed.yaml", "status: success\nsummary: 3 errors in src/a.py:45\n")
    await house.look()
    vague, plain = sorted(house.mail, key=lambda one: str(one.body["task_id"]))
    noted = vague.body["ensemble"]["vague"]  # type: ignore[index]
    assert ["several" in noted[0], "一部" in noted[1], len(noted)] == [True, True, 2]
    assert "vague" not in plain.body["ensemble"]  # type: ignore[operator]
    (line,) = house.said("vague_report")
    assert (line["file"], line["words"]) == ("queue/reports/T-1-completed.yaml", noted)


async def test_the_directories_are_made_private_and_watched(house: House) -> None:
    assert house.gateway.places() == frozenset({str(house.place)})
    await house.look()
    there = {str(house.queue), *(str(house.queue / name) for name in ("tasks", "reports", "ack"))}
    assert house.gateway.places() == there
    assert {path.stat().st_mode & 0o777 for path in (house.queue, *house.queue.iterdir())} == {0o700}


async def test_a_task_for_nobody_is_told_of_once_and_not_lost(house: House) -> None:
    house.put("tasks/T-1.yaml")
    await house.look()
    await house.look()
    assert house.summary() == [("queue_monitor", "leader", "escalation")]
    assert "queue/tasks/T-1.yaml" in str(house.mail[0].body["summary"])
    house.put("tasks/T-1.yaml", "assigned_to: worker-2\n")
    await house.look()
    assert house.summary()[1:] == [("dispatch", "worker-2", "task_assignment")]


@pytest.mark.parametrize("name", ["user-login.yaml", "system-check.yaml", "queue_monitor.yaml"])
async def test_a_task_that_begins_like_one_of_ackds_own_is_not_theirs(house: House, name: str) -> None:
    house.put(f"tasks/{name}")
    await house.look()
    assert house.summary() == [("queue_monitor", "leader", "escalation")]


async def test_what_was_there_before_is_taken_in_but_no_task_that_has_its_report(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml", "task_id: JOB-1\n")
    house.put("tasks/worker-2-T-2.yaml")
    house.later(house.put("reports/JOB-1-completed.yaml"))
    house.put("reports/T-0-completed.yaml")
    await house.look()
    assert sorted(house.summary()) == [
        ("dispatch", "worker-2", "task_assignment"),
        ("ensemble", "dispatch", "task_completed"),
        ("ensemble", "dispatch", "task_completed"),
    ]
    assert [line["file"] for line in house.said("task_passed_over")] == ["queue/tasks/worker-1-T-1.yaml"]
    house.put("tasks/worker-1-T-1.yaml", "task_id: JOB-1\nonce: more\n")
    await house.look()
    assert house.summary()[-1] == ("dispatch", "worker-1", "task_assignment")


# --- versions -----------------------------------------------------------------------------------------------------------
def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def in_pieces(path: Path, text: str) -> None:
    path.write_text("")
    for letter in text:
        with path.open("a") as file:
            file.write(letter)


def renamed(path: Path, text: str) -> None:
    (path.parent / f"{path.name}.tmp").write_text(text)
    (path.parent / f"{path.name}.tmp").rename(path)


def linked(path: Path, text: str) -> None:
    (path.parent / ".draft").write_text(text)
    path.unlink(missing_ok=True)
    path.hardlink_to(path.parent / ".draft")
    (path.parent / ".draft").unlink()


WRITERS = [in_place, in_pieces, renamed, linked]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("again", WRITERS)
async def test_one_message_for_each_version_however_it_was_written(
    house: House, write: Callable[[Path, str], None], again: Callable[[Path, str], None]
) -> None:
    await house.look()
    report = house.queue / "reports/T-1-completed.yaml"
    write(report, "status: success\n")
    for _ in range(3):
        await house.look()
    report.touch()
    await house.look()
    again(report, "status: success\n")
    await house.look()
    assert len(house.mail) == 1
    again(report, "status: failed\n")
    await house.look()
    await house.look()
    assert [draft.body["status"] for draft in house.mail] == ["success", "failed"]
    assert [draft.body["ensemble"]["version"] for draft in house.mail] == [1, 2]  # type: ignore[index]


async def test_the_first_content_once_more_is_a_third_version(house: House) -> None:
    """Its id must be another, or it would be taken for a message that was completed long ago."""
    for status in ("success", "failed", "success"):
        house.put("reports/T-1.yaml", f"status: {status}\n")
        await house.look()
    assert len({draft.message_id for draft in house.mail}) == 3


async def test_a_file_that_was_away_and_is_written_anew_is_another_version(house: House) -> None:
    for _ in range(2):
        house.put("reports/completion-summary.yaml").unlink()
        house.put("reports/completion-summary.yaml")
        await house.look()
        (house.queue / "reports/completion-summary.yaml").rename(house.place / "kept")
        await house.look()
        (house.place / "kept").rename(house.queue / "reports/completion-summary.yaml")
        await house.look()
    assert len(house.mail) == 1  # the same bytes, and never seen away or only moved
    path = house.queue / "reports/completion-summary.yaml"
    path.rename(house.place / "kept")
    await house.look()
    path.write_bytes((house.place / "kept").read_bytes())
    house.clock.advance(100)  # what is written is later than its being missed
    now = house.clock.now().wall - 50
    os.utime(path, (now, now))
    await house.look()
    assert [draft.body["ensemble"]["version"] for draft in house.mail] == [1, 2]  # type: ignore[index]


async def test_a_directory_that_is_moved_away_and_back_makes_nothing_new(house: House) -> None:
    house.put("tasks/worker-1.yaml")
    house.put("reports/T-9.yaml")
    await house.look()
    (house.queue).rename(house.place / "elsewhere")
    await house.look()
    (house.place / "elsewhere").rename(house.queue)
    await house.look()
    assert len(house.mail) == 2


# --- writers that are not through -------------------------------------------------------------------------------------------
async def test_a_file_that_someone_has_open_is_waited_for(house: House) -> None:
    await house.look()
    await house.look()
    with (house.queue / "reports/T-1.yaml").open("w") as file:
        file.write("status: succ")
        file.flush()
        wish = await house.look()
        assert wish is not None
        assert wish <= 1
        assert house.mail == []
        file.write("ess\n")
    await house.look()
    assert [draft.body["status"] for draft in house.mail] == ["success"]


async def test_an_empty_file_is_left_alone_for_a_while_and_then_told_of(house: House) -> None:
    await house.look()
    (house.queue / "reports/T-1-completed.yaml").touch()
    await house.look(at_once=True)
    assert house.mail == []
    await house.look()
    assert house.mail[0].body["ensemble"]["note"] == "the file is empty"  # type: ignore[index]


async def test_a_look_where_something_changed_looks_there_only(house: House) -> None:
    await house.look()
    await house.look()
    house.put("tasks/worker-1.yaml")
    house.put("reports/T-9.yaml")
    house.clock.advance(1)
    await house.gateway.look(frozenset({str(house.queue / "reports")}))
    assert [draft.recipient for draft in house.mail] == ["dispatch"]
    await house.gateway.look(frozenset({str(house.queue)}))
    assert [draft.recipient for draft in house.mail] == ["dispatch", "worker-1"]


async def test_a_directory_that_is_new_is_looked_at_twice(house: House) -> None:
    """What came into it between the look and the watch, no hint tells of."""
    wish = await house.look()
    assert wish is not None
    assert wish <= 0.1
    house.put("reports/T-1.yaml")
    house.clock.advance(1)
    assert await house.gateway.look(frozenset()) is None
    assert len(house.mail) == 1


# --- what cannot be taken in ----------------------------------------------------------------------------------------------
def bound_to(path: Path) -> socket.socket:
    """Through a descriptor: a socket's path must be short."""
    bound, here = socket.socket(socket.AF_UNIX), os.open(path.parent, os.O_PATH)
    bound.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)
    return bound


async def test_what_is_no_regular_file_is_never_opened_and_said_once(house: House) -> None:
    await house.look()
    reports = house.queue / "reports"
    os.mkfifo(reports / "fifo-completed.yaml")
    (reports / "link-completed.yaml").symlink_to("/etc/passwd")
    (reports / "directory.yaml").mkdir()
    (reports / "attachments").mkdir()
    with bound_to(reports / "s.yaml"):
        await house.look()
        await house.look()
    assert house.mail == []
    names = ["directory.yaml", "fifo-completed.yaml", "link-completed.yaml", "s.yaml"]
    assert sorted(str(line["file"]) for line in house.said("stray_file")) == [f"queue/reports/{name}" for name in names]


async def test_one_file_that_cannot_be_read_keeps_no_other_waiting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = shelf.read

    def guarded(found: shelf.Found, limit: int) -> bytes | None:
        if found.name == "T-1-completed.yaml":
            raise PermissionError(13, "Permission denied", found.path)
        return read(found, limit)

    monkeypatch.setattr(shelf, "read", guarded)
    house.put("reports/T-1-completed.yaml", "status: success\n")
    house.put("reports/T-2-completed.yaml", "status: success\n")
    with pytest.raises(LookRefused, match=r"reports/T-1-completed\.yaml: .*denied"):
        await house.look()
    assert [draft.body["ensemble"]["file"] for draft in house.mail] == ["queue/reports/T-2-completed.yaml"]  # type: ignore[index]


async def test_what_is_too_large_is_told_of_without_being_read(house: House) -> None:
    path = house.put("reports/T-1-completed.yaml")
    os.truncate(path, 2**33)  # sparse
    await house.look()
    await house.look()
    (draft,) = house.mail
    assert (draft.recipient, draft.type, draft.body["content"]) == ("dispatch", "task_completed", "")
    assert "8589934592 bytes" in draft.body["ensemble"]["note"]  # type: ignore[index]
    assert len(house.said("stray_file")) == 1


async def test_what_would_be_too_large_as_a_message_is_cut(tmp_path: Path) -> None:
    """Written as YAML, each of these is several times its size."""
    house = House(tmp_path, max_message_bytes=100_000)
    house.put("reports/a.yaml", "x: " + "[" * 31 + "1," * 9_000 + "]" * 31)
    house.put("reports/b.yaml", b"\x01" * 60_000)
    await house.look()
    sizes = [len(yaml_body.dump(draft.body)) for draft in house.mail]
    assert len(sizes) == 2
    assert max(sizes) < 100_000
    notes = [str(draft.body["ensemble"]["note"]) for draft in house.mail]  # type: ignore[index]
    assert notes == ["too wide for a message: this is the text", "this is how it begins"]


async def test_a_report_by_a_name_that_no_report_has_is_said_once_but_no_lock_and_no_draft(house: House) -> None:
    for name in ("T-1.json", "T-1.yaml.lock", "T-1.yaml.tmp", ".T-1.yaml"):
        house.put(f"reports/{name}")
    await house.look()
    await house.look()
    assert [line["file"] for line in house.said("stray_file")] == ["queue/reports/T-1.json"]


async def test_names_that_are_no_text_are_served(house: House) -> None:
    house.put("reports/\udcff\n-completed.yaml")
    await house.look()
    house.start()
    await house.look()
    assert [draft.body["ensemble"]["file"] for draft in house.mail] == ["queue/reports/\\udcff\n-completed.yaml"]  # type: ignore[index]


# --- crashes ------------------------------------------------------------------------------------------------------------
async def test_what_was_mailed_and_not_noted_is_mailed_again_as_the_same_message(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    house.later(house.put("reports/T-1-completed.yaml"))
    (house.root / "state/gateways/ensemble.json").write_text(
        '{"version": 1, "files": {}, "tasks": [], "work": null, "said": []}'
    )

    def dies(*_: object) -> None:
        raise OSError(5, "died")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="died"):
        patch.setattr("ackd.runtime.gateways.ensemble.register.Register._put", dies)
        await house.look()
    before, house.mail = house.mail, []
    house.start()
    await house.look()
    assert house.mail == before
    assert len(before) == 2
    house.start()
    await house.look()
    assert house.mail == before


async def test_a_disk_that_refuses_the_mail_loses_nothing(house: House) -> None:
    house.put("reports/T-1.yaml")
    house.put("reports/T-2.yaml")
    house.refuses = True
    with pytest.raises(OSError, match="No space"):
        await house.look()
    house.refuses = False
    await house.look()
    assert len(house.mail) == 2


async def test_a_register_that_is_none_is_said_and_begun_anew(house: House) -> None:
    house.put("reports/T-1.yaml")
    (house.root / "state/gateways/ensemble.json").write_text("{not json")
    await house.look()
    assert len(house.mail) == 1
    assert len(house.said("io_error")) == 1


def test_the_page_says_what_is_owed(house: House) -> None:
    assert house.gateway.page() == {"queue": str(house.queue), "tasks_without_report": [], "polling": False}
