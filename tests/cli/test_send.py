"""`ackd send` and `ackd reply`: queued for everyone, or nothing written at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ackd.cli.errors import Ended
from ackd.cli.send import report
from ackd.client import waiting
from ackd.client.sending import RecipientState, Sent, Waited
from ackd.formats import ignite, yaml_body
from ackd.storage import root_lock
from ackd.storage.session_log import SessionLog
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Team = Any  # conftest.py's: test files do not import each other


def body_of(path: Path) -> Any:
    return yaml_body.load(ignite.split(path.read_bytes()).body.decode())


def headers_of(path: Path) -> dict[str, str]:
    return dict(ignite.headers(path.read_bytes()))


# --- what is written ----------------------------------------------------------------------------------------------------
def test_one_file_for_each_recipient_with_one_id_and_distinct_names(team: Team) -> None:
    sent = team.json("send", "leader", "worker_1", "--cc", "user", "--body", "hello")
    files = team.files()
    assert sorted(sent["files"]) == [str(path) for path in files]
    assert {path.parent.name for path in files} == {"leader", "worker_1", "user"}
    assert len({path.name for path in files}) == 3
    assert {headers_of(path)["Message-ID"] for path in files} == {f"<{sent['message_id']}>"}
    assert {headers_of(path)["To"] for path in files} == {"leader, worker_1"}
    for path in files:
        assert ignite.decode(path.read_bytes(), path.parent.name).sender == "user"
        assert path.stat().st_mode & 0o777 == 0o600


def test_someone_named_twice_in_any_spelling_gets_one_file(team: Team) -> None:
    team.send("worker_1", "worker-1", "--cc", "worker_1", "--body", "x")
    assert len(team.files()) == 1


def test_it_never_says_sent(team: Team) -> None:
    result = team.ackd("send", "leader", "--body", "x")
    assert result.exit_code == 0
    assert result.stdout.startswith("queued ")
    assert result.stdout.endswith(" for leader (not yet delivered: no daemon is running)\n")


def test_all_headers_can_be_set(team: Team) -> None:
    team.send(
        "leader", "--type", "code_review", "--from", "worker-1", "--priority", "high", "--thread-id", "t1",
        "--in-reply-to", "<1@x>", "--repo", "owner/repo", "--issue", "42", "--body", "a: 1",
    )  # fmt: skip
    (path,) = team.files()
    headers = headers_of(path)
    assert path.name.startswith("code_review_")
    assert (headers["From"], headers["In-Reply-To"], headers["X-IGNITE-Thread-ID"]) == ("worker_1", "<1@x>", "t1")
    assert (headers["X-IGNITE-Repository"], headers["X-IGNITE-Issue"]) == ("owner/repo", "42")


def test_the_sender_is_the_agent_of_the_environment(team: Team) -> None:
    team.ackd("send", "leader", "--body", "x", env={"ACKD_AGENT": "worker-1"})
    assert headers_of(team.files()[0])["From"] == "worker_1"


@pytest.mark.parametrize(
    "text",
    [
        "hello", "Note: call me", 'say "hi" \\ bye', "- a\n- b\n", "two\nlines", "trailing \n  space", "\ttab", "ünï ✓",
        "content is king", "bell \x07 and \x85", "no", "{", "", "#hash", "content: [", "a\n\ncontent: is a word here",
    ],
)  # fmt: skip
def test_plain_words_come_back_as_content(team: Team, text: str) -> None:
    assert team.ackd("send", "leader", "--body", text).exit_code == 0
    loaded = body_of(team.files()[0])
    assert loaded["content"].removesuffix("\n") == text.removesuffix("\n")


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("content: hello\nsummary: hi\n", {"content": "hello", "summary": "hi"}),
        ("name: Ada", {"name": "Ada"}),
        ("# a comment\n\n---\nname: Ada\n", {"name": "Ada"}),
        ("{name: Ada, age: 36}", {"name": "Ada", "age": 36}),
        ('"name": Ada\nnotes:\n- one: 1\n', {"name": "Ada", "notes": [{"one": 1}]}),
    ],
)
def test_a_yaml_body_of_type_message_with_keys_stays_yaml(team: Team, text: str, loaded: dict[str, Any]) -> None:
    team.send("leader", "--body", text)
    assert body_of(team.files()[0]) == loaded


@pytest.mark.parametrize("body", ["goal: [", "- no goal", "task: 1"])
def test_force_sends_a_body_that_validation_refuses_with_a_warning(team: Team, body: str) -> None:
    refused = team.ackd("send", "leader", "--type", "user_goal", "--body", body)
    assert (refused.exit_code, team.files()) == (65, [])
    forced = team.ackd("send", "leader", "--type", "user_goal", "--body", body, "--force")
    assert forced.exit_code == 0
    assert "sent all the same" in forced.stderr
    assert team.files()[0].read_text().endswith(f"\n\n{body}\n")


@pytest.mark.parametrize("args", [["-"], ["--body", "-"], ["--body-file", "-"]])
def test_the_body_may_come_from_stdin(team: Team, args: list[str]) -> None:
    assert team.ackd("send", "leader", "--type", "user_goal", *args, stdin="goal: more\n").exit_code == 0
    assert body_of(team.files()[0]) == {"goal": "more"}


def test_the_body_may_come_from_a_file(team: Team) -> None:
    (team.home / "b.yaml").write_text("goal: less\n")
    team.send("leader", "--type", "user_goal", "--body-file", "b.yaml")
    assert body_of(team.files()[0]) == {"goal": "less"}


# --- what is refused, and writes nothing --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["leadr", "--body", "x"], 67, "no agent 'leadr': did you mean leader?"),
        (["leader", "nobody", "--body", "x"], 67, "no agent 'nobody'"),
        (["leader", "--cc", "nobody", "--body", "x"], 67, "no agent 'nobody'"),
        (["../../etc", "--body", "x"], 67, "cannot be an agent's name"),
        (["dead_letter", "--body", "x"], 67, "reserved"),
        (["leader", "--from", "a b", "--body", "x"], 67, "cannot be an agent's name"),
        (["leader", "--type", "user_gaol", "--body", "x"], 65, "unknown type 'user_gaol': did you mean user_goal?"),
        (["leader", "--type", "user_goal", "--body", "gaol: x"], 65, "goal"),
        (["leader", "--type", "user_goal", "--body", "goal: [}"], 65, "not YAML"),
        (["leader", "--type", "user_goal", "--body", "goal: &a x"], 65, "anchor"),
        (["leader", "--body", "x", "--thread-id", "a\nTo: all"], 65, "X-IGNITE-Thread-ID"),
        (["leader", "--body", "x", "--in-reply-to", "a b"], 65, "message id"),
        (["leader", "--body", "\udc80"], 65, "not UTF-8"),
        (["leader", "--body", "x" * 1_048_576], 65, "max_message_bytes is 1048576"),
        (["leader", "--body-file", "absent"], 66, "absent"),
        (["leader"], 2, "needs a body"),
        (["-"], 2, "at least one recipient"),
        (["leader", "-", "--body", "x"], 2, "already means stdin"),
        (["leader", "--body", "x", "--body-file", "y"], 2, "not both"),
        (["leader", "--body", "x", "--priority", "urgent"], 2, "critical"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(team: Team, args: list[str], code: int, words: str) -> None:
    result = team.ackd("send", *args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
    assert team.files() == []


def test_a_body_that_is_not_utf8_is_refused(team: Team) -> None:
    result = team.ackd("send", "leader", "-", stdin=b"\xff\xfe")
    assert (result.exit_code, team.files()) == (65, [])


def test_a_root_that_cannot_be_written_is_exit_73(team: Team) -> None:
    team.root.write_text("a file where the root should be")
    result = team.ackd("send", "leader", "--body", "x")
    assert result.exit_code == 73
    assert len(result.stderr.splitlines()) == 1


def test_a_queue_that_is_a_link_is_not_followed(team: Team) -> None:
    (team.root / "queue").mkdir(parents=True)
    (team.home / "elsewhere").mkdir()
    (team.root / "queue" / "leader").symlink_to(team.home / "elsewhere")
    assert team.ackd("send", "leader", "--body", "x").exit_code == 73
    assert list((team.home / "elsewhere").rglob("*.mime")) == []


# --- reply --------------------------------------------------------------------------------------------------------------
def test_a_reply_goes_to_the_sender_in_the_thread(team: Team) -> None:
    asked = team.send("worker_1", "--from", "leader", "--thread-id", "t9", "--body", "how far?")
    team.json("reply", asked.partition("@")[0], "--body", "nearly")
    (answer,) = (path for path in team.files() if path.parent.name == "leader")
    headers = headers_of(answer)
    assert (headers["From"], headers["In-Reply-To"]) == ("worker_1", f"<{asked}>")
    assert headers["X-IGNITE-Thread-ID"] == "t9"


def test_a_reply_to_nothing_is_exit_66(team: Team) -> None:
    assert team.ackd("reply", "1.2.3", "--body", "x").exit_code == 66


# --- whom ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words",
    [
        ["--to", "leader,worker-1"],
        ["--to", "leader", "--to", "worker_1"],
        ["--to", "leader", "worker_1"],
        ["leader", "--to", "worker_1, leader"],
    ],
)
def test_recipients_may_be_named_by_an_option_as_in_message_build(team: Team, words: list[str]) -> None:
    team.send(*words, "--body", "x")
    assert sorted({path.parent.name for path in team.files()}) == ["leader", "worker_1"]
    assert len(team.files()) == 2


def test_an_option_that_names_nobody_is_wrong_usage(team: Team) -> None:
    result = team.ackd("send", "--to", " , ", "--body", "x")
    assert (result.exit_code, team.files()) == (2, [])
    assert "name at least one recipient" in result.stderr


# --- waiting ------------------------------------------------------------------------------------------------------------
class LogWriter:
    """Plays the daemon as far as the one who waits can see: the lock, and lines about whatever arrives."""

    def __init__(self, team: Team, *facts: tuple[str, dict[str, object]]) -> None:
        self._team = team
        self._facts = facts
        self._log = SessionLog.open(team.root / "logs", started_at=time.time())
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (files := self._visible()):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        message_id = ignite.bare_id(headers_of(files[0])["Message-ID"])
        for kind, data in self._facts:
            self._log.record(kind, {"message_id": message_id, "file": files[0].name, **data}, time.time())
        self._log.flush()

    def _visible(self) -> list[Path]:
        """The messages as a daemon sees them: not those that are still written, under a dot-name."""
        return [path for path in self._team.files() if path.suffix == ".mime" and path.name[0] != "."]

    def answers_first(self, patch: pytest.MonkeyPatch) -> None:
        """Have the time of a wait begin when everything is in the log, however busy the machine is."""
        wait = waiting.LogWaiter.wait

        def once_answered(*args: Any) -> Waited:
            self._thread.join()
            return wait(*args)

        patch.setattr(waiting.LogWaiter, "wait", once_answered)

    def close(self) -> None:
        self._thread.join()
        self._log.close()


@pytest.fixture
def held(team: Team) -> Iterator[None]:
    lock = root_lock.hold(team.root / "run")
    yield
    lock.release()


@pytest.mark.parametrize(
    ("until", "facts", "code", "words"),
    [
        ("acked", [("message_acked", {"agent": "leader"})], 0, "acked: leader"),
        ("acked", [("message_completed", {"agent": "leader"})], 0, "completed: leader"),
        ("told", [("message_told", {"agent": "leader", "attempt": 1, "proof": "in the inbox"})], 0, "told: leader"),
        ("told", [("message_acked", {"agent": "leader"})], 0, "acked: leader"),
        (
            "seen",
            [
                ("message_told", {"agent": "leader", "attempt": 1, "proof": "in the inbox"}),
                ("message_seen", {"agent": "leader", "evidence": "ackd read"}),
            ],
            0,
            "seen: leader",
        ),
        ("seen", [("message_completed", {"agent": "leader"})], 0, "completed: leader"),
        (
            "completed",
            [("message_acked", {"agent": "leader"}), ("message_completed", {"agent": "leader"})],
            0,
            "completed: leader",
        ),
        ("acked", [("message_dead", {"agent": "leader", "reason": "no such tool"})], 1, "dead: leader (no such tool)"),
        ("acked", [("message_withdrawn", {"agent": "leader", "reason": "x"})], 1, "withdrawn: leader"),
        (
            "acked",
            [("message_rejected", {"agent": "leader", "message_id": None, "reason": "x"})],
            1,
            "rejected: leader",
        ),
    ],
)
@pytest.mark.usefixtures("held")
def test_waiting_ends_with_what_the_log_says(
    team: Team, until: str, facts: list[tuple[str, dict[str, object]]], code: int, words: str
) -> None:
    writer = LogWriter(team, *facts)
    result = team.ackd("send", "leader", "--body", "x", "--wait", until, "--timeout", "20")
    writer.close()
    assert result.exit_code == code
    assert words in result.stdout


@pytest.mark.usefixtures("held")
def test_told_is_not_yet_seen(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LogWriter(team, ("message_told", {"agent": "leader", "attempt": 1, "proof": "in the inbox"}))
    writer.answers_first(monkeypatch)
    result = team.ackd("send", "leader", "--body", "x", "--wait", "seen", "--timeout", "0.3")
    writer.close()
    assert result.exit_code == 75
    assert "not seen within 0.3 s: leader was told (in the inbox)" in result.stderr


@pytest.mark.usefixtures("held")
def test_waiting_for_all_is_not_over_with_the_first(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LogWriter(team, ("message_acked", {"agent": "leader"}))
    writer.answers_first(monkeypatch)
    result = team.ackd("send", "leader", "user", "--body", "x", "--wait", "acked", "--timeout", "0.3", "--json")
    writer.close()
    assert result.exit_code == 75
    told = json.loads(result.stdout)
    assert told["recipients"]["leader"]["state"] == "acked"
    assert told["recipients"]["user"] == {"state": "queued", "receipts": []}


@pytest.mark.usefixtures("held")
def test_silence_is_a_timeout_and_the_message_stays(team: Team) -> None:
    result = team.ackd("send", "leader", "--body", "x", "--wait", "acked", "--timeout", "0.1")
    assert result.exit_code == 75
    assert result.stderr == "not acked within 0.1 s: leader has not taken it yet\n"
    assert len(team.files()) == 1


def test_waiting_without_a_daemon_queues_says_so_and_exits_69(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "DAEMON_GRACE_S", 0.01)
    result = team.ackd("send", "leader", "--body", "x", "--wait", "acked")
    assert result.exit_code == 69
    assert result.stdout.startswith("queued ")
    assert "no daemon is running: the message stays queued" in result.stderr
    assert len(team.files()) == 1


# --- what is accepted stays accepted ------------------------------------------------------------------------------------
def run_ackd(*args: str, stdout: int, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ackd", *args], stdout=stdout, stderr=stderr, text=True, check=False)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_behind_stdout_is_no_reason_to_send_again(team: Team, form: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = run_ackd("send", "leader", "--body", "x", *form, stdout=full)
    os.close(full)
    assert done.returncode == 0
    assert "is queued; saying so failed: No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert len(team.files()) == 1


def test_a_reader_who_left_is_no_reason_to_send_again(team: Team) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_ackd("send", "leader", "--body", "x", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(team.files()) == 1


def test_a_queue_that_refuses_is_named(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system says it of a file below an open directory: with its own name alone."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", ".message_1.mime.2.c5a3b1b3")

    monkeypatch.setattr("ackd.storage.maildrop.drop_all", refuse)
    result = team.ackd("send", "leader", "--body", "x")
    assert result.exit_code == 73
    assert result.stderr == f"ackd: cannot write in {team.root}/queue/leader: Permission denied\n"


# --- quickness ----------------------------------------------------------------------------------------------------------
def test_sending_and_acking_import_nothing_heavy(team: Team) -> None:
    code = (
        "import sys\nfrom ackd.cli.main import run\n"
        "assert run(sys.argv[1:]) == 0\n"
        "print(sorted({'asyncio', 'anyio', 'pydantic', 'structlog', 'rich', 'orjson', 'email'} & sys.modules.keys()))"
    )
    env = {**os.environ, "ACKD_AGENT": "leader"}
    message_id = team.send("leader", "--body", "x")
    for args in (
        ["send", "leader", "--type", "user_goal", "--body", "goal: x"],
        ["ack", message_id],
        ["read", message_id],
        ["inbox", "leader"],
    ):
        done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, env=env, check=True)
        assert done.stdout.splitlines()[-1] == "[]", args


@pytest.mark.parametrize(("outcome", "code"), [("done", 0), ("failed", 1), ("no daemon", 69), ("timeout", 75)], ids=str)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_outcome_of_a_wait_is_the_exit_code(
    outcome: str, code: int, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RecipientState("slow", "delivered", "it sleeps", (("told", "2026-01-01T00:00:00Z", "exec pid 42"),))
    waited = Waited(outcome, {"slow": state}, "" if code < 69 else "how it stands")
    sent = Sent("1.2.abc@x", ("slow",), ("queue/slow/f.mime",), daemon_running=code != 69, waited=waited)
    ended = 0
    try:
        report(sent, as_json=as_json)
    except Ended as end:
        ended = end.exit_code
    out, err = capsys.readouterr()
    assert ended == code
    if not as_json:
        assert (out, err) == ("", "" if code < 69 else "how it stands\n")
        return
    assert err == ""
    assert json.loads(out) == {
        "message_id": "1.2.abc@x",
        "files": ["queue/slow/f.mime"],
        "daemon_running": code != 69,
        "outcome": outcome,
        "recipients": {
            "slow": {
                "state": "delivered",
                "receipts": [{"receipt": "told", "at": "2026-01-01T00:00:00Z", "proof": "exec pid 42"}],
                "reason": "it sleeps",
            }
        },
    }
