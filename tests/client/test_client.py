"""``ackd.client`` as a program uses it: the documented lines against a real daemon, and the same without one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import ackd.client
from ackd.client import (
    BadText,
    Client,
    MessageOver,
    NoSpeaker,
    NotHolder,
    UnknownType,
)
from ackd.client.sending import Progress
from ackd.core.errors import BadConfig, UnknownAgent, UnknownMessage
from tests.acceptance.pages import DOCS, python_of
from tests.acceptance.teams import Team as RealTeam
from tests.acceptance.teams import running

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.client.sending import RecipientState, Sent

Team = Any  # conftest.py's: test files do not import each other

SLOW = ("asyncio", "anyio", "pydantic", "structlog", "rich", "dataclasses", "inspect", "tomllib", "argparse")


def documented_lines() -> str:
    """The program in the docstring of the package."""
    text = ackd.client.__doc__ or ""
    begin = text.index("    from ackd.client import Client")
    return textwrap.dedent(text[begin : text.index("Everything works")])


def test_the_documented_lines_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    team = RealTeam(tmp_path, '[agents.builder]\nendpoint = "exec"\ncommand = ["true"]\n[agents.reviewer]\n')
    for name in ("ACKD_ROOT", "ACKD_CONFIG", "ACKD_AGENT", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(team.place)
    with running(team):
        names: dict[str, Any] = {}
        exec(documented_lines(), names)
        sent = names["sent"]
        assert sent.outcome == "done"
        assert sent.daemon_running
        assert sent.waited.recipients["builder"].state == "completed"
        assert capsys.readouterr().out == f"{sent.message_id} done\n"
        message = names["message"]
        team.fact("message_completed", message=message.message_id)
        (answer,) = team.until(lambda: Client(agent="user").inbox().messages)
        assert Client().read(answer.message_id, agent="user").headers["In-Reply-To"] == f"<{message.message_id}>"


def test_the_documented_lines_about_buses_and_leases_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = python_of(DOCS / "python.md", "Message buses and leases")
    for name in ("ACKD_ROOT", "ACKD_CONFIG", "ACKD_AGENT", "ACKD_TRACK", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ackd.toml").write_text("")
    (tmp_path / ".ackd").mkdir()
    monkeypatch.chdir(tmp_path)
    exec(lines, {})
    assert capsys.readouterr().out.splitlines() == ["house True COMPLETE", "True ['src/app.py']", "[]"]


# --- without a daemon ---------------------------------------------------------------------------------------------------
def test_what_is_sent_can_be_listed_read_and_answered_without_a_daemon(team: Team) -> None:
    sent = Client().send("worker-1", "hello", cc="leader")
    assert (sent.recipients, sent.outcome, sent.daemon_running) == (("worker_1", "leader"), "queued", False)
    assert [path.rpartition("/")[0] for path in sent.files] == [
        f"{team.root}/queue/worker_1",
        f"{team.root}/queue/leader",
    ]
    me = Client(agent="worker_1")
    (entry,) = me.inbox().messages
    assert (entry.message_id, entry.sender, entry.state, entry.subject) == (sent.message_id, "user", "queued", "hello")
    message = me.read(sent.message_id)
    assert (message.body, message.state, message.is_own) == ('content: "hello"\n', "queued", True)
    answered = me.reply(sent.message_id, "here")
    assert answered.recipients == ("user",)
    (written,) = me.ack(sent.message_id)
    assert (written.message_id, written.agent) == (sent.message_id, "worker_1")
    me.checkpoint(sent.message_id, "half way", step=3)
    me.done(sent.message_id)
    assert sorted(one["kind"] for one in team.receipts()) == ["ack", "checkpoint", "done", "seen"]


def test_a_client_may_be_told_where_the_team_is(team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadConfig):
        Client().send("leader", "x")
    assert Client(config=team.home / "ackd.toml").send("leader", "x").recipients == ("leader",)
    assert Client(root=team.root).send("leader", "x").recipients == ("leader",)


def test_statements_need_no_readable_config(team: Team) -> None:
    sent = Client().send("leader", "x")
    (team.home / "ackd.toml").write_text("[agents.leader]\nretry_limit = \n")
    with pytest.raises(BadConfig):
        Client().send("leader", "y")
    assert Client().ack(sent.message_id)[0].path is not None


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client, _: client.send("nobody", "x"), UnknownAgent),
        (lambda client, _: client.send("leader", "x", type="user_gaol"), UnknownType),
        (lambda client, _: client.send("leader", "\udcff"), BadText),
        (lambda client, one: client.ack(one, agent="worker_1"), NotHolder),
        (lambda client, _: client.ack("1.2.absent"), UnknownMessage),
        (lambda client, _: client.inbox(), NoSpeaker),
        (lambda client, one: client.checkpoint(one, " "), BadText),
        (lambda client, one: client.checkpoint(one, "x", step=-1), BadText),
    ],
)
def test_what_is_refused_is_a_named_error_and_changes_nothing(team: Team, call: Any, error: type[Exception]) -> None:
    message_id = Client().send("leader", "x").message_id
    before = team.files(".")
    with pytest.raises(error):
        call(Client(), message_id)
    assert team.files(".") == before


def test_what_is_over_cannot_be_given_back(team: Team) -> None:
    message_id = Client().send("leader", "x").message_id
    (path,) = team.files("queue")
    archive = team.root / "archive" / "20261116" / "leader"
    archive.mkdir(parents=True)
    path.rename(archive / path.name)
    with pytest.raises(MessageOver) as over:
        Client().refuse(message_id, reason="no")
    assert (over.value.message_id, over.value.state) == (message_id, "completed")
    assert Client().done(message_id)[0].path is None


def test_a_body_may_be_read_after_the_names_were_checked(team: Team) -> None:
    def never() -> str:
        raise AssertionError("asked for a body that cannot be sent")

    with pytest.raises(UnknownAgent):
        Client().send("nobody", never)
    assert Client().send("leader", lambda: "hello").recipients == ("leader",)


def test_progress_is_told_as_it_happens(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackd.client.waiting.DAEMON_GRACE_S", 0.01)
    told: list[str] = []

    class Noted(Progress):
        def warned(self, words: str) -> None:
            told.append(words)

        def queued(self, sent: Sent) -> None:
            told.append(f"queued {sent.message_id}")

        def settled(self, sent: Sent, one: RecipientState) -> None:
            told.append(one.state)

    sent = Client().send("leader", "x: 1", type="user_goal", force=True, wait="acked", timeout_s=5, progress=Noted())
    assert sent.outcome == "no daemon"
    assert not sent.daemon_running
    assert told == [*sent.warnings, f"queued {sent.message_id}"]
    assert len(sent.warnings) == 1


# --- doors of capabilities ----------------------------------------------------------------------------------------------
def test_capabilities_are_reached_by_their_names(team: Team) -> None:
    assert type(Client().board).__name__ == "BoardDoor"
    with pytest.raises(BadConfig, match="no pipeline"):
        _ = Client().stories
    with pytest.raises(AttributeError, match="no 'bored'"):
        _ = Client().bored


# --- quickness ----------------------------------------------------------------------------------------------------------
def test_sending_and_acking_load_nothing_slow(team: Team) -> None:
    code = (
        "import sys\nfrom ackd.client import Client\n"
        "me = Client(agent='leader')\nsent = me.send('leader', 'hello')\nme.inbox()\nme.read(sent.message_id)\n"
        f"me.ack(sent.message_id)\nprint(*set(sys.modules) & set({SLOW!r}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr) == ("", "")


# --- check ----------------------------------------------------------------------------------------------------------------
def test_a_check_is_typed_findings_and_a_bad_config_is_one(tmp_path: Path) -> None:
    config = tmp_path / "ackd.toml"
    config.write_text('[agents.builder]\nendpoint = "exec"\ncommand = ["no-such-program-here"]\n')
    found = Client(config=config).check()
    assert (found.is_good, found.config_is_good) == (False, True)
    (failed,) = [one for one in found.findings if one.level == "fail"]
    assert (failed.subject, failed.words) == ("agent builder", "no-such-program-here is not in PATH")
    config.write_text("max_message_bytes = true\n")
    found = Client(config=config).check()
    assert (found.is_good, found.config_is_good) == (False, False)
    assert [(one.level, one.subject) for one in found.findings] == [("fail", "config")]
