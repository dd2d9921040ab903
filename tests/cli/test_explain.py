from __future__ import annotations

import fcntl
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.client.explain import find_id
from ackd.config.site import find_site
from ackd.storage.session_log import SessionLog
from tests.cli.runner import Result, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = time.time()
ID = "1763.42.ab12@ignite.local"
MESSAGE = "MIME-Version: 1.0\nMessage-ID: <{id}>\nFrom: leader\nTo: builder\nX-IGNITE-Type: task_assignment\nX-IGNITE-Priority: high\n{more}\nbody: 1\n"


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".ackd").mkdir()
    return tmp_path / ".ackd"


@pytest.fixture
def log(root: Path) -> Iterator[SessionLog]:
    opened = SessionLog.open(root / "logs", started_at=NOW)
    yield opened
    opened.close()


def put(log: SessionLog, type_: str, after_s: float = 0, **data: Any) -> None:
    log.record(type_, {"message_id": ID, "agent": "builder", **data}, NOW + after_s)
    log.flush()


def queued(log: SessionLog, **data: Any) -> None:
    put(
        log,
        "message_queued",
        **{"from": "leader", "message_type": "task_assignment", "priority": "high", "file": "builder/a.mime", **data},
    )


def file(root: Path, where: str, message_id: str = ID, more: str = "") -> Path:
    path = root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MESSAGE.format(id=message_id, more=more))
    return path


def ran(root: Path, *arguments: str) -> Result:
    return run(["explain", "--root", str(root), *arguments])


def text(root: Path, *arguments: str) -> str:
    result = ran(root, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def data(root: Path, *arguments: str) -> dict[str, Any]:
    content = json.loads(text(root, *arguments, "--json"))
    assert isinstance(content, dict)
    return content


def dead_story(log: SessionLog) -> None:
    queued(log, task_id="T1")
    put(log, "message_claimed", 0.1, file="builder/processed/a.mime")
    put(log, "message_told", 0.2, attempt=1, proof="child started")
    put(
        log,
        "message_retry",
        3,
        reason="exit 3",
        counted=True,
        retry_count=1,
        retry_limit=1,
        delay_s=2.0,
        next_retry_after="2026-11-16T01:00:00Z",
    )
    put(log, "message_told", 5, attempt=2, proof="child started")
    put(log, "message_dead", 8, **{"from": "leader"}, reason="exit 3", retry_count=1, file="builder/dead_letter/a.mime")


def test_the_whole_story_of_a_dead_letter(root: Path, log: SessionLog) -> None:
    dead_story(log)
    path = file(root, "queue/dead_letter/a.mime", more="X-IGNITE-Recipient: builder\n")
    clock = [time.strftime("%H:%M:%S", time.gmtime(NOW + after)) for after in (0, 0.1, 5)]
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW))
    assert text(root, "1763").splitlines() == [
        ID,
        "  leader → builder, task_assignment, high, task T1",
        "",
        "builder: dead: exit 3",
        f"  queued     {clock[0]}  builder/a.mime",
        f"  claimed    {clock[1]}  builder/processed/a.mime",
        f"  told       {clock[2]}  child started (attempt 2)",
        "  seen       no proof",
        "  acked      no proof",
        "  completed  no proof",
        f"  file       {path}",
        "  next       nothing, unless somebody has it delivered again: `ackd dead requeue 1763.42.ab12`",
        "",
        day,
        "  +0 s       queued      from leader: task_assignment, high, task T1",
        "  +0.1 s     claimed     taken up: builder/processed/a.mime",
        "  +0.2 s     told        attempt 1, proof: child started",
        "  +3 s       retry       1 of 1, again in 2 s: exit 3",
        "  +5 s       told        attempt 2, proof: child started",
        "  +8 s       dead        exit 3, after 1 retry",
    ]


def tried(log: SessionLog, number: int, at: float, reason: str = "exit 3") -> None:
    """One try to have the message done, which failed."""
    put(log, "message_told", at, attempt=number, proof=f"exec pid {number}")
    put(log, "child_started", at, message_id=None, pid=number)
    put(
        log,
        "message_retry",
        at + 1,
        reason=reason,
        counted=True,
        retry_count=number,
        retry_limit=9,
        delay_s=2.0,
        next_retry_after="2026-11-16T01:00:00Z",
    )


def test_tries_that_are_alike_are_one_row_with_their_number_and_the_last_reason(root: Path, log: SessionLog) -> None:
    queued(log)
    for number in range(1, 5):
        tried(log, number, 10 * number, f"exit {number}")
    put(log, "checkpoint", 35, at=35, text="half way")
    put(log, "message_told", 50, attempt=5, proof="exec pid 5")
    rows = text(root, ID).partition("\n\n2026")[2].splitlines()[1:]
    kinds = [row.split()[2] for row in rows]
    assert kinds.count("retry") == 2
    assert kinds.count("told") == 2
    assert "retry       1 of 9, again in 2 s: exit 1" in "\n".join(rows)
    assert "retry       3 more tries, the last: 4 of 9, again in 2 s: exit 4" in "\n".join(rows)
    assert len([event for event in data(root, ID)["events"] if event["type"] == "message_retry"]) == 4


def test_after_a_requeue_tries_are_counted_anew(root: Path, log: SessionLog) -> None:
    queued(log)
    tried(log, 1, 10)
    tried(log, 2, 20)
    put(log, "message_requeued", 30, file="builder/a.mime", by="user")
    tried(log, 1, 40)
    said = text(root, ID)
    assert "1 more try, the last: 2 of 9" in said
    assert said.count("retry  ") == 3


def test_json_has_the_fixed_keys_and_only_proven_receipts(root: Path, log: SessionLog) -> None:
    dead_story(log)
    content = data(root, ID)
    assert (content["message_id"], content["state"], content["from"], content["to"]) == (
        ID,
        "dead",
        "leader",
        ["builder"],
    )
    assert [(one["receipt"], one["agent"], one["proof"]) for one in content["receipts"]] == [
        ("queued", "builder", "builder/a.mime"),
        ("claimed", "builder", "builder/processed/a.mime"),
        ("told", "builder", "child started (attempt 2)"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]{15}Z", one["at"]) for one in content["receipts"])
    assert content["recipients"][0]["not_proven"] == ["seen", "acked", "completed"]
    assert content["recipients"][0]["path"] is None
    assert [one["type"] for one in content["events"]][0::5] == ["message_queued", "message_dead"]


def test_recipients_are_told_one_by_one(root: Path, log: SessionLog) -> None:
    queued(log)
    queued(log, agent="tester", file="tester/a.mime")
    put(log, "message_completed", 1, by="exit 0", file="builder/archive/a.mime")
    mine = file(root, "archive/20261116/builder/a.mime")
    theirs = file(root, "queue/tester/a.mime")
    content = data(root, ID)
    assert content["state"] == "queued"
    assert [(one["agent"], one["state"], one["path"]) for one in content["recipients"]] == [
        ("builder", "completed", str(mine)),
        ("tester", "queued", str(theirs)),
    ]
    shown = text(root, ID)
    assert "leader → builder, tester" in shown
    assert "  +0 s       queued      tester      from leader" in shown


def test_a_message_that_no_daemon_has_met_is_queued(root: Path) -> None:
    path = file(root, "queue/builder/a.mime")
    shown = text(root, "1763.42")
    assert "builder: queued" in shown
    assert "no daemon has picked it up yet" in shown
    assert "leader → builder, task_assignment, high" in shown
    assert f"  file       {path}" in shown
    assert "no daemon is running: start it with `ackd run`" in shown
    content = data(root, ID)
    assert (content["state"], content["receipts"], content["events"]) == ("queued", [], [])


def test_the_path_of_a_file_is_as_good_as_its_id(root: Path, log: SessionLog) -> None:
    queued(log)
    path = file(root, "queue/builder/a.mime")
    assert data(root, str(path))["message_id"] == ID
    assert data(root, f"<{ID}>")["message_id"] == ID


def test_an_archived_file_is_found_by_its_name_and_else_by_its_id(root: Path, log: SessionLog) -> None:
    queued(log)
    put(log, "message_completed", 1, by="exit 0", file="builder/archive/a.mime")
    today, later = (time.strftime("%Y%m%d", time.gmtime(NOW + days * 86_400)) for days in (0, 3))
    file(root, f"archive/{later}/builder/a.mime", message_id="other@x")
    path = file(root, f"archive/{today}/builder/a.mime")
    assert data(root, ID)["recipients"][0]["path"] == str(path)
    path = path.rename(path.with_name("b.mime"))
    assert data(root, ID)["recipients"][0]["path"] == str(path)
    path.unlink()
    assert "file       not on disk any more" in text(root, ID)


def test_a_dead_letter_dug_up_without_a_daemon_is_queued(root: Path, log: SessionLog) -> None:
    dead_story(log)
    file(root, "queue/builder/a.mime")
    assert data(root, ID)["state"] == "queued"
    assert "note       it was put back into the queue after the last log line" in text(root, ID)


def test_a_running_daemon_is_not_called_missing_and_a_parked_agent_is_named(root: Path, log: SessionLog) -> None:
    queued(log)
    log.record("agent_state", {"agent": "builder", "state": "parked", "reason": "program missing"}, NOW)
    log.flush()
    (root / "run").mkdir()
    fd = os.open(root / "run" / "ackd.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert (
        data(root, ID)["recipients"][0]["next"] == "waits until builder can take it; builder is parked: program missing"
    )
    os.close(fd)


FROM_ACKD: dict[str, Any] = {"from": "queue_monitor"}


def test_answers_are_named(root: Path, log: SessionLog) -> None:
    queued(log)
    put(log, "message_queued", message_id="1764.1.ff@x", in_reply_to=ID, agent="leader")
    put(log, "message_queued", message_id="1764.0.aa@x", in_reply_to=ID, agent="user", **FROM_ACKD)
    assert "answered by 1764.1.ff\n" in text(root, ID)
    assert data(root, ID)["answers"] == ["1764.1.ff@x"]


def test_an_unknown_message_exits_66(root: Path, log: SessionLog) -> None:
    queued(log)
    for wanted in ("nothing", "", "/no/such.mime"):
        result = ran(root, wanted)
        assert (result.exit_code, result.stdout) == (66, "")
        assert result.stderr == f"ackd: no message {wanted!r}\n"


def test_a_beginning_that_fits_several_lists_them_from_logs_and_disk(root: Path, log: SessionLog) -> None:
    queued(log)
    file(root, "queue/builder/b.mime", message_id="1763.99.cd@ignite.local")
    result = ran(root, "1763")
    assert result.exit_code == 2
    assert result.stderr == f"ackd: 1763 fits 2 messages:\n  {ID}\n  1763.99.cd@ignite.local\n"
    assert data(root, "1763.42.ab12")["message_id"] == ID


def test_an_id_whole_up_to_its_at_wins_over_a_longer_one(root: Path, log: SessionLog) -> None:
    queued(log)
    queued(log, message_id="1763.42.ab12ff@ignite.local")
    assert data(root, "1763.42.ab12")["message_id"] == ID


def test_control_characters_of_a_message_do_not_reach_the_terminal(root: Path, log: SessionLog) -> None:
    evil = "\x1b]0;owned\x07"
    queued(log, **{"from": evil, "task_id": evil, "file": f"builder/{evil}"})
    put(log, "message_dead", 1, reason=evil)
    assert "\x1b" not in text(root, ID)
    assert "\\x1b]0;owned\\x07" in text(root, ID)


def test_the_hash_that_a_narrow_terminal_shows_is_enough(root: Path, log: SessionLog) -> None:
    put(log, "message_queued", 0, message_id="1794794802.29247.7c1f00d00001@x", **{"from": "a"}, file="f")
    put(log, "message_queued", 1, message_id="1794794802.29247.7c1fbeef0002@x", **{"from": "a"}, file="g")
    assert find_id(find_site(root), "7c1f00d0") == "1794794802.29247.7c1f00d00001@x"
    result = run(["explain", "7c1f", "--root", str(root)])
    assert (result.exit_code, "fits 2 messages" in result.stderr) == (2, True)


def test_nudges_questions_restarts_and_checkpoints_are_told_in_plain_sentences(root: Path, log: SessionLog) -> None:
    """Also what names no message: that its worker died, and was started again."""
    queued(log)
    put(log, "message_told", 1, attempt=1, proof="assign written to pid 7")
    put(log, "nudge", 61, rung=1)
    put(log, "probe", 181, text="Status check: are you still working on T1?", quiet_s=120)
    put(log, "checkpoint", 200)
    for after, type_, more in (
        (241, "child_ended", {"pid": 7, "exit": 137, "seconds": 240, "why": "killed by SIGKILL"}),
        (241, "child_restart", {"in_s": 1, "count": 1, "why": "killed by SIGKILL"}),
        (242, "child_started", {"pid": 8, "generation": 2}),
    ):
        log.record(type_, {"agent": "builder", **more}, NOW + after)
    log.flush()
    shown = text(root, ID)
    assert "  by ackd    woken once (up to rung 1), checked on once, restarted once, 1 checkpoint\n" in shown
    timeline = [line.split("  ", 1)[1].lstrip() for line in shown.splitlines()[-8:]]
    assert [re.sub(r"^\+[\d.]+ \w+ +", "", line) for line in timeline] == [
        "queued      from leader: task_assignment, high",
        "told        attempt 1, proof: assign written to pid 7",
        "nudge       silent: rung 1 of its ladder",
        "check       quiet for 2 min: “Status check: are you still working on T1?”",
        "checkpoint  said where it stands: whoever goes on begins there",
        "child       pid 7 ended after 4 min: killed by SIGKILL",
        "restart     started again in 1 s: killed by SIGKILL",
        "child       pid 8 started, generation 2",
    ]
    found = data(root, ID)
    assert [event["type"] for event in found["around"]] == ["child_ended", "child_restart", "child_started"]
    assert found["recipients"][0]["care"] == {
        "nudges": 1,
        "highest_rung": 1,
        "status_checks": 1,
        "restarts": 1,
        "checkpoints": 1,
    }


def test_a_state_that_a_worker_only_passed_is_not_told_as_if_it_had_reported_it(root: Path, log: SessionLog) -> None:
    queued(log)
    for state, passed in (("assigned", {}), ("executing", {"passed": True}), ("verifying", {}), ("complete", {})):
        put(log, "worker_state", 1, state=state, **passed)
    shown = [line.split()[3] for line in text(root, ID).splitlines() if "  worker  " in line]
    assert shown == ["assigned", "verifying", "complete"]
    assert [one["data"]["state"] for one in data(root, ID)["events"] if one["type"] == "worker_state"][1] == "executing"
