from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from ackd.coordination.ensemble import directory
from ackd.coordination.gateway import LookRefused
from ackd.core.message import AutoSubmitted, Priority
from ackd.formats import yaml_body
from tests.coordination.ensemble.ensemble_team import EnsembleTeam

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def team(tmp_path: Path) -> EnsembleTeam:
    return EnsembleTeam(tmp_path)


# --- files that become mail -------------------------------------------------------------------------------------------
async def test_a_task_is_mail_for_its_worker_and_a_report_for_dispatch(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml", "title: a page\ninstructions: write it\n")
    await team.look()
    team.later(team.put("reports/T-1-completed.yaml", "status: success\n"))
    await team.look()
    assert team.summary() == [
        ("dispatch", "worker-1", "task_assignment"),
        ("worker-1", "dispatch", "task_completed"),
    ]
    task, report = team.mail
    assert task.body["task_id"] == report.body["task_id"] == "T-1"
    assert report.body["status"] == "success"
    assert report.body["ensemble"] == {"file": "queue/reports/T-1-completed.yaml", "version": 1}
    assert report.in_reply_to == task.message_id


async def test_what_the_conductor_writes_for_dispatch_is_mail_that_is_over_when_it_was_seen(team: EnsembleTeam) -> None:
    """[Ensemble] queue/conductor/dispatch-instruction.yaml: written anew for each piece of work."""
    await team.look()
    team.put("conductor/dispatch-instruction.yaml", "type: start_workers\nworker_count: 2\npriority: high\n")
    team.put("conductor/notes.yaml")
    await team.look()
    await team.look()
    (draft,) = team.mail
    assert (draft.sender, draft.recipient, draft.type) == ("conductor", "dispatch", "message")
    assert (draft.body["worker_count"], draft.priority, draft.auto) == (2, Priority.HIGH, AutoSubmitted.GENERATED)
    team.put("conductor/dispatch-instruction.yaml", "type: start_workers\nworker_count: 3\n")
    await team.look()
    assert [one.body["worker_count"] for one in team.mail] == [2, 3]
    assert not team.said("stray_file")
    assert str(team.queue / "conductor") in team.gateway.places()


async def test_an_instruction_of_a_time_before_us_is_given_unless_it_was_summed_up(tmp_path: Path) -> None:
    for name, mail in (("open", 1), ("over", 0)):
        (tmp_path / name).mkdir()
        team = EnsembleTeam(tmp_path / name)
        team.put("conductor/dispatch-instruction.yaml", "worker_count: 2\n")
        if not mail:
            team.later(team.put("reports/completion-summary.yaml"))
        await team.look()
        assert len([one for one in team.mail if one.recipient == "dispatch"]) == mail
        assert len(team.said("task_passed_over")) == 1 - mail


async def test_vague_words_in_a_report_are_a_line_and_a_note_to_its_reader_and_no_refusal(team: EnsembleTeam) -> None:
    team.put("reports/T-1-completed.yaml", "status: success\nsummary: several errors, 一部 fixed\n")
    team.put("reports/T-2-completed.yaml", "status: success\nsummary: 3 errors in src/a.py:45\n")
    await team.look()
    vague, plain = sorted(team.mail, key=lambda one: str(one.body["task_id"]))
    noted = vague.body["ensemble"]["vague"]  # type: ignore[index]
    assert ["several" in noted[0], "一部" in noted[1], len(noted)] == [True, True, 2]
    assert "vague" not in plain.body["ensemble"]  # type: ignore[operator]
    (line,) = team.said("vague_report")
    assert (line["file"], line["words"]) == ("queue/reports/T-1-completed.yaml", noted)


async def test_the_directories_are_made_private_and_watched(team: EnsembleTeam) -> None:
    assert team.gateway.places() == frozenset({str(team.place)})
    await team.look()
    there = {str(team.queue), *(str(team.queue / name) for name in ("tasks", "reports", "ack"))}
    assert team.gateway.places() == there
    assert {path.stat().st_mode & 0o777 for path in (team.queue, *team.queue.iterdir())} == {0o700}


async def test_a_task_for_nobody_is_told_of_once_and_not_lost(team: EnsembleTeam) -> None:
    team.put("tasks/T-1.yaml")
    await team.look()
    await team.look()
    assert team.summary() == [("queue_monitor", "leader", "escalation")]
    assert "queue/tasks/T-1.yaml" in str(team.mail[0].body["summary"])
    team.put("tasks/T-1.yaml", "assigned_to: worker-2\n")
    await team.look()
    assert team.summary()[1:] == [("dispatch", "worker-2", "task_assignment")]


@pytest.mark.parametrize("name", ["user-login.yaml", "system-check.yaml", "queue_monitor.yaml"])
async def test_a_task_that_begins_like_one_of_ackds_own_is_not_theirs(team: EnsembleTeam, name: str) -> None:
    team.put(f"tasks/{name}")
    await team.look()
    assert team.summary() == [("queue_monitor", "leader", "escalation")]


async def test_what_was_there_before_is_taken_in_but_no_task_that_has_its_report(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml", "task_id: JOB-1\n")
    team.put("tasks/worker-2-T-2.yaml")
    team.later(team.put("reports/JOB-1-completed.yaml"))
    team.put("reports/T-0-completed.yaml")
    await team.look()
    assert sorted(team.summary()) == [
        ("dispatch", "worker-2", "task_assignment"),
        ("ensemble", "dispatch", "task_completed"),
        ("ensemble", "dispatch", "task_completed"),
    ]
    assert [line["file"] for line in team.said("task_passed_over")] == ["queue/tasks/worker-1-T-1.yaml"]
    team.put("tasks/worker-1-T-1.yaml", "task_id: JOB-1\nonce: more\n")
    await team.look()
    assert team.summary()[-1] == ("dispatch", "worker-1", "task_assignment")


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
    team: EnsembleTeam, write: Callable[[Path, str], None], again: Callable[[Path, str], None]
) -> None:
    await team.look()
    report = team.queue / "reports/T-1-completed.yaml"
    write(report, "status: success\n")
    for _ in range(3):
        await team.look()
    report.touch()
    await team.look()
    again(report, "status: success\n")
    await team.look()
    assert len(team.mail) == 1
    again(report, "status: failed\n")
    await team.look()
    await team.look()
    assert [draft.body["status"] for draft in team.mail] == ["success", "failed"]
    assert [draft.body["ensemble"]["version"] for draft in team.mail] == [1, 2]  # type: ignore[index]


async def test_the_first_content_once_more_is_a_third_version(team: EnsembleTeam) -> None:
    """The third version needs an id of its own, or it would be taken for the first, which was completed long ago."""
    for status in ("success", "failed", "success"):
        team.put("reports/T-1.yaml", f"status: {status}\n")
        await team.look()
    assert len({draft.message_id for draft in team.mail}) == 3


async def test_a_file_that_was_away_and_is_written_anew_is_another_version(team: EnsembleTeam) -> None:
    for _ in range(2):
        team.put("reports/completion-summary.yaml").unlink()
        team.put("reports/completion-summary.yaml")
        await team.look()
        (team.queue / "reports/completion-summary.yaml").rename(team.place / "kept")
        await team.look()
        (team.place / "kept").rename(team.queue / "reports/completion-summary.yaml")
        await team.look()
    assert len(team.mail) == 1  # the same bytes, and never seen away or only moved
    path = team.queue / "reports/completion-summary.yaml"
    path.rename(team.place / "kept")
    await team.look()
    path.write_bytes((team.place / "kept").read_bytes())
    team.clock.advance(100)  # the file is written after it was missed
    now = team.clock.now().wall - 50
    os.utime(path, (now, now))
    await team.look()
    assert [draft.body["ensemble"]["version"] for draft in team.mail] == [1, 2]  # type: ignore[index]


async def test_a_directory_that_is_moved_away_and_back_makes_nothing_new(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1.yaml")
    team.put("reports/T-9.yaml")
    await team.look()
    (team.queue).rename(team.place / "elsewhere")
    await team.look()
    (team.place / "elsewhere").rename(team.queue)
    await team.look()
    assert len(team.mail) == 2


# --- writers that are not through -------------------------------------------------------------------------------------------
async def test_a_file_that_someone_has_open_is_waited_for(team: EnsembleTeam) -> None:
    await team.look()
    await team.look()
    with (team.queue / "reports/T-1.yaml").open("w") as file:
        file.write("status: succ")
        file.flush()
        next_look_s = await team.look()
        assert next_look_s is not None
        assert next_look_s <= 1
        assert team.mail == []
        file.write("ess\n")
    await team.look()
    assert [draft.body["status"] for draft in team.mail] == ["success"]


async def test_an_empty_file_is_left_alone_for_a_while_and_then_told_of(team: EnsembleTeam) -> None:
    await team.look()
    (team.queue / "reports/T-1-completed.yaml").touch()
    await team.look(at_once=True)
    assert team.mail == []
    await team.look()
    assert team.mail[0].body["ensemble"]["note"] == "the file is empty"  # type: ignore[index]


async def test_a_look_where_something_changed_looks_there_only(team: EnsembleTeam) -> None:
    await team.look()
    await team.look()
    team.put("tasks/worker-1.yaml")
    team.put("reports/T-9.yaml")
    team.clock.advance(1)
    await team.gateway.look(frozenset({str(team.queue / "reports")}))
    assert [draft.recipient for draft in team.mail] == ["dispatch"]
    await team.gateway.look(frozenset({str(team.queue)}))
    assert [draft.recipient for draft in team.mail] == ["dispatch", "worker-1"]


async def test_a_directory_that_is_new_is_looked_at_twice(team: EnsembleTeam) -> None:
    """No hint tells of files that came between the look and the beginning of the watch."""
    next_look_s = await team.look()
    assert next_look_s is not None
    assert next_look_s <= 0.1
    team.put("reports/T-1.yaml")
    team.clock.advance(1)
    assert await team.gateway.look(frozenset()) is None
    assert len(team.mail) == 1


# --- files that cannot be taken in ------------------------------------------------------------------------------------
def bound_to(path: Path) -> socket.socket:
    """Bind a socket there, by way of a descriptor, because a socket's path must be short."""
    bound, here = socket.socket(socket.AF_UNIX), os.open(path.parent, os.O_PATH)
    bound.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)
    return bound


async def test_what_is_no_regular_file_is_never_opened_and_said_once(team: EnsembleTeam) -> None:
    await team.look()
    reports = team.queue / "reports"
    os.mkfifo(reports / "fifo-completed.yaml")
    (reports / "link-completed.yaml").symlink_to("/etc/passwd")
    (reports / "directory.yaml").mkdir()
    (reports / "attachments").mkdir()
    with bound_to(reports / "s.yaml"):
        await team.look()
        await team.look()
    assert team.mail == []
    names = ["directory.yaml", "fifo-completed.yaml", "link-completed.yaml", "s.yaml"]
    assert sorted(str(line["file"]) for line in team.said("stray_file")) == [f"queue/reports/{name}" for name in names]


async def test_one_file_that_cannot_be_read_keeps_no_other_waiting(
    team: EnsembleTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = directory.read

    def guarded(found: directory.FoundFile, limit: int) -> bytes | None:
        if found.name == "T-1-completed.yaml":
            raise PermissionError(13, "Permission denied", found.path)
        return read(found, limit)

    monkeypatch.setattr(directory, "read", guarded)
    team.put("reports/T-1-completed.yaml", "status: success\n")
    team.put("reports/T-2-completed.yaml", "status: success\n")
    with pytest.raises(LookRefused, match=r"reports/T-1-completed\.yaml: .*denied"):
        await team.look()
    assert [draft.body["ensemble"]["file"] for draft in team.mail] == ["queue/reports/T-2-completed.yaml"]  # type: ignore[index]


async def test_what_is_too_large_is_told_of_without_being_read(team: EnsembleTeam) -> None:
    path = team.put("reports/T-1-completed.yaml")
    os.truncate(path, 2**33)  # sparse
    await team.look()
    await team.look()
    (draft,) = team.mail
    assert (draft.recipient, draft.type, draft.body["content"]) == ("dispatch", "task_completed", "")
    assert "8589934592 bytes" in draft.body["ensemble"]["note"]  # type: ignore[index]
    assert len(team.said("stray_file")) == 1


async def test_what_would_be_too_large_as_a_message_is_cut(tmp_path: Path) -> None:
    """Written as YAML, each of these is several times its size."""
    team = EnsembleTeam(tmp_path, max_message_bytes=100_000)
    team.put("reports/a.yaml", "x: " + "[" * 31 + "1," * 9_000 + "]" * 31)
    team.put("reports/b.yaml", b"\x01" * 60_000)
    await team.look()
    sizes = [len(yaml_body.dump(draft.body)) for draft in team.mail]
    assert len(sizes) == 2
    assert max(sizes) < 100_000
    notes = [str(draft.body["ensemble"]["note"]) for draft in team.mail]  # type: ignore[index]
    assert notes == ["too wide for a message: this is the text", "this is how it begins"]


async def test_a_report_by_a_name_that_no_report_has_is_said_once_but_no_lock_and_no_draft(team: EnsembleTeam) -> None:
    for name in ("T-1.json", "T-1.yaml.lock", "T-1.yaml.tmp", ".T-1.yaml"):
        team.put(f"reports/{name}")
    await team.look()
    await team.look()
    assert [line["file"] for line in team.said("stray_file")] == ["queue/reports/T-1.json"]


async def test_names_that_are_no_text_are_served(team: EnsembleTeam) -> None:
    team.put("reports/\udcff\n-completed.yaml")
    await team.look()
    team.start()
    await team.look()
    assert [draft.body["ensemble"]["file"] for draft in team.mail] == ["queue/reports/\\udcff\n-completed.yaml"]  # type: ignore[index]


# --- crashes ------------------------------------------------------------------------------------------------------------
async def test_what_was_mailed_and_not_noted_is_mailed_again_as_the_same_message(
    team: EnsembleTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    team.later(team.put("reports/T-1-completed.yaml"))
    (team.root / "state/gateways/ensemble.json").write_text(
        '{"version": 1, "files": {}, "tasks": [], "work": null, "said": []}'
    )

    def dies(*_: object) -> None:
        raise OSError(5, "died")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="died"):
        patch.setattr("ackd.storage.json_state.JsonState.save_encoded", dies)
        await team.look()
    before, team.mail = team.mail, []
    team.start()
    await team.look()
    assert team.mail == before
    assert len(before) == 2
    team.start()
    await team.look()
    assert team.mail == before


async def test_a_disk_that_refuses_the_mail_loses_nothing(team: EnsembleTeam) -> None:
    team.put("reports/T-1.yaml")
    team.put("reports/T-2.yaml")
    team.refuses = True
    with pytest.raises(OSError, match="No space"):
        await team.look()
    team.refuses = False
    await team.look()
    assert len(team.mail) == 2


async def test_a_register_that_is_none_is_said_and_begun_anew(team: EnsembleTeam) -> None:
    team.put("reports/T-1.yaml")
    (team.root / "state/gateways/ensemble.json").write_text("{not json")
    await team.look()
    assert len(team.mail) == 1
    assert len(team.said("io_error")) == 1


def test_the_page_says_what_is_owed(team: EnsembleTeam) -> None:
    assert team.gateway.page() == {"queue": str(team.queue), "tasks_without_report": [], "polling": False}
