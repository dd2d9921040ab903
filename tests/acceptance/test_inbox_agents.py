"""Inboxes: mail that is fetched by whoever it is for, through the command line or by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.acceptance.teams import Team, mime, running

if TYPE_CHECKING:
    from pathlib import Path


def processed(team: Team, agent: str = "user") -> list[Path]:
    return sorted((team.root / "queue" / agent / "processed").glob("*.mime"))


def mail(team: Team, agent: str = "user") -> dict[str, str]:
    listed = team.ackd("inbox", agent, "--json")
    assert listed.returncode == 0, listed.stderr
    messages: list[dict[str, Any]] = json.loads(listed.stdout)["messages"]
    return {message["message_id"]: message["state"] for message in messages}


def test_mail_is_claimed_shown_read_acknowledged_and_completed(tmp_path: Path) -> None:
    team = Team(tmp_path)
    with running(team):
        one = team.send("user", "--from", "leader", body="the build is red")
        assert team.fact("message_told", message=one)["proof"].startswith("placed in the inbox")
        assert not team.facts("message_seen", message=one)
        (file,) = processed(team)
        team.until(lambda: team.header(file, "X-IGNITE-Status") == "delivered")
        assert team.header(file, "X-IGNITE-Processed-At")
        assert mail(team) == {one: "delivered"}

        words = team.ackd("read", one)  # nobody's: no proof of anything
        assert "the build is red" in words.stdout
        assert team.ackd("read", one, "--agent", "user").returncode == 0
        team.fact("message_seen", message=one)

        assert team.ackd("ack", one, "--agent", "user").returncode == 0
        assert team.fact("message_acked", message=one)["by"] == "ackd ack"
        team.until(lambda: team.header(file, "X-IGNITE-Status") == "acked")
        assert mail(team) == {one: "acked"}

        assert team.ackd("done", one, "--agent", "user").returncode == 0
        assert team.fact("message_completed", message=one)["by"] == "ackd done"
        assert mail(team) == {}
        team.until(lambda: not team.files("receipts"))
    assert len(team.facts("message_seen", message=one)) == 1


def test_mail_that_was_read_is_not_unread_after_a_restart_nor_while_no_daemon_runs(tmp_path: Path) -> None:
    team = Team(tmp_path)

    def unread() -> int:
        found: int = json.loads(team.ackd("status", "--json").stdout)["agents"]["user"]["unread"]
        return found

    with running(team):
        one = team.send("user", "--from", "leader")
        team.fact("message_told", message=one)
        team.until(lambda: unread() == 1)
        assert team.ackd("read", one, "--agent", "user").returncode == 0
        team.fact("message_seen", message=one)
        (file,) = processed(team)
        team.until(lambda: team.header(file, "X-IGNITE-Seen") == "yes")
        assert team.stop() == 0
        assert unread() == 0
        team.start()
        assert unread() == 0


def test_a_restart_does_not_log_unread_mail_as_new(tmp_path: Path) -> None:
    team = Team(tmp_path)
    with running(team):
        told, acked = (team.send("user", "--from", "leader", body=text) for text in ("one", "two"))
        assert team.ackd("ack", acked, "--agent", "user").returncode == 0
        team.fact("message_told", message=told)
        team.fact("message_acked", message=acked)
        team.until(lambda: sorted(mail(team).values()) == ["acked", "delivered"])
    with running(team):
        later = team.send("user", "--from", "leader", body="three")
        team.fact("message_told", message=later)
        assert team.ackd("done", told, "--agent", "user").returncode == 0
        team.fact("message_completed", message=told)
        # Its header says that it was told a moment after the log does.
        team.until(lambda: mail(team) == {acked: "acked", later: "delivered"})
    queued = [fact["message_id"] for fact in team.facts("message_queued")]
    assert sorted(queued) == sorted([told, acked, later])
    explained = team.ackd("explain", acked, "--json")
    assert json.loads(explained.stdout)["state"] == "acked"


def test_status_tells_unread_and_retried_mail_apart_and_who_waits_for_whom(tmp_path: Path) -> None:
    team = Team(
        tmp_path,
        '[agents.leader]\n[agents.broken]\nendpoint = "exec"\ncommand = ["false"]\nbackoff_base_s = 3600\n'
        "backoff_cap_s = 3600\n",
    )
    with running(team):
        read = team.send("leader", "--from", "user", body="one")
        team.send("leader", "--from", "user", body="two")
        failing = team.send("broken", "--from", "leader", body="three")
        team.fact("message_retry", message=failing)
        assert team.ackd("read", read, "--agent", "leader").returncode == 0
        team.fact("message_seen", message=read)
        found = team.until(lambda: (page := team.status())["agents"]["leader"].get("unread") == 1 and page)
        assert (found["agents"]["leader"]["in_flight"], found["agents"]["broken"]["retrying"]) == (2, 1)
        waits = {(one["agent"], one["for"], one["what"]) for one in found["waits"]}
        assert waits == {("user", "leader", "2 messages"), ("leader", "broken", "1 message")}
        shown = team.ackd("status").stdout
        assert "0 queued  1 in flight  1 retrying  1 unread  0 completed" in shown
        assert "waits: user for leader, 2 messages, the oldest came " in shown
        assert "waits: leader for broken, 1 message, which came " in shown
        rows = {line.split()[0]: line.split()[3:7] for line in shown.splitlines() if line.count("  ") > 3}
        assert (rows["leader"], rows["broken"]) == (["0", "1", "0", "1"], ["0", "0", "1", "0"])


def test_check_tells_when_the_running_daemon_has_another_config(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.leader]\n")
    with running(team):
        team.until(lambda: team.status()["daemon"].get("config_hash"))
        assert "is not what the running daemon" not in team.ackd("check").stdout
        config = team.place / "ackd.toml"
        config.write_text(f"{config.read_text()}[agents.newcomer]\n")
        assert "is not what the running daemon" in team.ackd("check").stdout


def test_deleting_the_file_completes_it_and_giving_it_back_does_not(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.helper]\nretry_limit = 1\n")
    with running(team):
        kept = {word: team.post("helper", body=f"content: {word}\n") for word in ("delete", "refuse", "defer")}
        for one in kept.values():
            team.fact("message_told", message=one)
        deleted = next(path for path in processed(team, "helper") if kept["delete"] in path.read_text())
        deleted.unlink()
        assert team.fact("message_completed", message=kept["delete"])["by"] == "file deleted by its agent"

        assert team.ackd("refuse", kept["refuse"], "--agent", "helper", "--reason", "wrong desk").returncode == 0
        assert team.fact("message_dead", message=kept["refuse"])["reason"] == "ackd refuse: wrong desk"

        for count in (1, 2):
            told = len(team.facts("message_told", message=kept["defer"]))
            assert team.ackd("defer", kept["defer"], "--agent", "helper", "--reason", "after lunch").returncode == 0
            if count == 1:
                team.until(lambda told=told: len(team.facts("message_told", message=kept["defer"])) > told)  # type: ignore[misc]
        assert team.fact("message_dead", message=kept["defer"])["reason"] == "ackd defer: after lunch"
    assert [fact["retry_count"] for fact in team.facts("message_retry")] == [1]


def test_unread_mail_is_reminded_of_once_with_the_message_on_stdin(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.user]\nremind_after_s = 0.3\n", top='on_escalation = ["./bell"]')
    team.script("bell", "cat >>bell.txt; echo ======= >>bell.txt")
    with running(team):
        one, two = (team.post("user", sender="leader", body=f"content: {n} words\n") for n in ("first", "second"))
        assert team.fact("reminder")["message_id"] in (one, two)
        team.until(lambda: (tmp_path / "bell.txt").exists() and "=======" in (tmp_path / "bell.txt").read_text())
        other = team.post("leader", body="content: a third, for somebody else\n")
        team.fact("message_told", message=other)  # the clock of the second has rung long since
        assert len(team.facts("reminder")) == 1
        for message in (one, two):
            assert team.ackd("read", message, "--agent", "user").returncode == 0
            team.fact("message_seen", message=message)
    assert "words" in (tmp_path / "bell.txt").read_text()


def test_every_door_works_without_a_daemon_and_is_honoured_by_the_next_start(tmp_path: Path) -> None:
    team = Team(tmp_path, "[agents.helper]\nretry_limit = 0\n")
    with running(team):
        ids = {
            word: team.post("helper", body=f"content: {word}\n")
            for word in ("ack", "done", "refuse", "defer", "read", "delete")
        }
        for one in ids.values():
            team.fact("message_told", message=one)
        team.stop()
        for word in ("ack", "done"):
            said = team.ackd(word, ids[word], "--agent", "helper")
            assert (said.returncode, "no daemon is running" in said.stdout) == (0, True)
        for word in ("refuse", "defer"):
            assert team.ackd(word, ids[word], "--agent", "helper", "--reason", "later").returncode == 0
        assert team.ackd("read", ids["read"], "--agent", "helper").returncode == 0
        next(path for path in processed(team, "helper") if ids["delete"] in path.read_text()).unlink()
        new = team.send("helper", body="sent meanwhile")
        assert mail(team, "helper")[new] == "queued"
        assert len(team.files("receipts")) == 5

        team.start()
        team.fact("message_acked", message=ids["ack"])
        team.fact("message_completed", message=ids["done"])
        team.fact("message_dead", message=ids["refuse"])
        team.fact("message_dead", message=ids["defer"])
        team.fact("message_seen", message=ids["read"])
        team.fact("message_completed", message=ids["delete"])
        team.fact("message_told", message=new)
        team.until(lambda: not team.files("receipts"))
    told = {one: len(team.facts("message_told", message=one)) for one in ids.values()}
    assert set(told.values()) == {1}


def test_a_directory_that_turns_up_is_an_agent_from_then_on(tmp_path: Path) -> None:
    team = Team(tmp_path)
    with running(team):
        assert team.ackd("send", "newcomer", "--body", "hello").returncode == 67
        (team.root / "queue/newcomer").mkdir()
        team.until(lambda: "newcomer" in team.status()["agents"])
        one = team.post("newcomer")
        team.fact("message_told", message=one)
        ((only, status),) = mail(team, "newcomer").items()
        assert only == one
        assert status in {"processing", "delivered"}  # a moment later


def test_a_message_as_large_as_may_be_survives_the_headers_that_it_gets(tmp_path: Path) -> None:
    """Told, kept through a crash, read to its last byte, buried, dug up, kept again, and completed."""
    team = Team(tmp_path, "[agents.helper]\n", top="max_message_bytes = 3000")
    body = "x" * (3000 - len(mime(to="helper", body="content: end\n")))
    with running(team):
        message = team.post("helper", body=f"content: {body}end\n")
        for again in (False, True):
            file = team.until(lambda: delivered(team, "helper"))
            assert file.stat().st_size > 3000
            team.kill()
            team.start()
            assert team.ackd("read", message).stdout.endswith("xend\n")
            if again:
                break
            assert team.ackd("refuse", message, "--agent", "helper", "--reason", "no").returncode == 0
            team.fact("message_dead", message=message)
            assert "xend" in team.ackd("dead", "show", message).stdout
            assert team.ackd("dead", "requeue", message).returncode == 0
            team.fact("message_requeued", message=message)
        assert team.ackd("done", message, "--agent", "helper").returncode == 0
        team.fact("message_completed", message=message)
    assert team.facts("message_rejected", "message_withdrawn") == []


def delivered(team: Team, agent: str) -> Path | None:
    """The one file in its hands, once its header says so."""
    return next((path for path in processed(team, agent) if team.header(path, "X-IGNITE-Status") == "delivered"), None)


def test_an_agent_that_writes_every_word_about_a_message_under_one_name_is_heard_each_time(tmp_path: Path) -> None:
    team = Team(tmp_path)
    with running(team):
        one = team.post("user", sender="leader")
        team.fact("message_told", message=one)
        for kind, fact in (("ack", "message_acked"), ("done", "message_completed")):
            word = {"kind": kind, "message_id": one, "agent": "user"}
            (team.root / "receipts/.word").write_text(json.dumps(word))
            (team.root / "receipts/.word").rename(team.root / "receipts/word.json")
            assert team.fact(fact, message=one)["by"] == f"ackd {kind}"
        team.until(lambda: not team.files("receipts"))
