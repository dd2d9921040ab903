"""Bad input, met by the real daemon: what happens to it, where the reason is, and that the others go on being served.

Every case of a file that is no message asks the same five questions (``put_away``): the reason is in the log, it is in
``ackd dead list``, the bytes are kept as they were, nothing is left in the queue, and the next good message is
completed. They share one daemon, which is part of the test: what one of them breaks, the next one finds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import stat
import subprocess
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.teams import Team, mime, running
from tests.cli.runner import run as run_command
from tests.waiting import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AGENTS = """
[agents.worker]
endpoint = "exec"
command = ["sh", "-c", 'cat "$ACKD_BODY" >"out-$ACKD_MESSAGE_ID"']

[agents.failing]
endpoint = "exec"
command = ["false"]
retry_limit = 0

[agents.target]
"""
IMPATIENT = """
[watch]
settle_s = 0.1
reconcile_interval_s = 0.2
[daemon]
drain_timeout_s = 2
stop_timeout_s = 1
"""
BOMB = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else ', '.join(['lol'] * 9)}]\n" for n in range(12))


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with running(Team(tmp_path_factory.mktemp("team"), AGENTS, quick=IMPATIENT)) as team:
        yield team
        assert "Traceback" not in team.output()


@pytest.fixture
def box(team: Team) -> Path:
    return team.root / "queue" / "target"


_serial = iter(range(1, 1_000_000))


def fresh_id() -> str:
    return f"1770263544.{os.getpid()}.{next(_serial):06x}@ignite.local"


def good_message_completed(team: Team, patience_s: float = 60) -> None:
    message = fresh_id()
    team.drop("worker", mime(to="worker", message_id=message), f"good_{next(_serial)}.mime")
    team.until(lambda: team.facts("message_completed", message=message), patience_s)


def rejection(team: Team, file: str) -> dict[str, Any]:
    found = team.until(lambda: [fact for fact in team.facts("message_rejected") if fact["file"] == file])
    assert len(found) == 1
    return dict(found[0])


def asked(team: Team, *words: str) -> str:
    """What a command that only looks says, in this process: it is asked very often here."""
    said = run_command([*words, "--config", str(team.place / "ackd.toml")])
    assert said.exit_code == 0, said.output
    return said.stdout


def dead_list(team: Team) -> list[dict[str, Any]]:
    return list(json.loads(asked(team, "dead", "list", "--json"))["dead_letters"])


def put_away(team: Team, file: str, code: str) -> Path:
    """Where it is kept."""
    fact = rejection(team, file)
    assert fact["code"] == code
    entry = next(one for one in dead_list(team) if one["name"] == fact["kept_as"])
    assert entry["kind"] == "corrupt"
    assert entry["reason"].startswith(code)
    assert not os.path.lexists(team.root / file)
    kept = team.root / "queue" / "corrupt" / str(fact["kept_as"])
    assert os.path.lexists(kept)
    good_message_completed(team)
    return kept


def kind_of(path: Path) -> int:
    return stat.S_IFMT(path.lstat().st_mode)


# --- what is no regular file ------------------------------------------------------------------------------------------
def test_a_symlink_is_moved_as_a_link_and_never_followed(team: Team, box: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(mime(message_id="1.1.5ec4e7@ignite.local"))
    (box / "link.mime").symlink_to(secret)
    kept = put_away(team, "queue/target/link.mime", "not_regular")
    assert kept.readlink() == secret
    assert not team.facts("message_queued", message="1.1.5ec4e7@ignite.local")


def test_a_symlink_to_nowhere(team: Team, box: Path) -> None:
    (box / "dangling.mime").symlink_to("nowhere")
    assert put_away(team, "queue/target/dangling.mime", "not_regular").is_symlink()


def test_a_fifo_does_not_hang_the_daemon(team: Team, box: Path) -> None:
    os.mkfifo(box / "fifo.mime")
    assert kind_of(put_away(team, "queue/target/fifo.mime", "not_regular")) == stat.S_IFIFO


def test_a_device_is_not_opened(team: Team, box: Path) -> None:
    try:
        os.mknod(box / "zero.mime", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device node")
    assert kind_of(put_away(team, "queue/target/zero.mime", "not_regular")) == stat.S_IFCHR


def test_a_directory_is_kept_with_what_is_in_it(team: Team, box: Path) -> None:
    made = team.place / "dir.mime"
    made.mkdir()
    (made / "inside").write_text("kept")
    made.rename(box / "dir.mime")
    assert (put_away(team, "queue/target/dir.mime", "not_regular") / "inside").read_text() == "kept"


def test_a_directory_made_in_the_queue(team: Team, box: Path) -> None:
    (box / "made.mime").mkdir()
    assert put_away(team, "queue/target/made.mime", "not_regular").is_dir()


def test_a_socket(team: Team, box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(box)  # a socket's path is at most 107 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.mime")
        assert kind_of(put_away(team, "queue/target/socket.mime", "not_regular")) == stat.S_IFSOCK


def test_not_regular_in_processed_too(team: Team, box: Path) -> None:
    os.mkfifo(box / "processed" / "fifo2.mime")
    put_away(team, "queue/target/processed/fifo2.mime", "not_regular")


# --- sizes ------------------------------------------------------------------------------------------------------------
def peak_memory_kib(team: Team) -> int:
    status = Path(f"/proc/{team.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def test_a_sparse_file_of_2_gb_is_refused_before_a_byte_is_read(team: Team, box: Path) -> None:
    before = peak_memory_kib(team)
    with (team.place / "sparse").open("wb") as file:
        file.write(mime())
        file.truncate(2 << 30)
    watch = Stopwatch()
    (team.place / "sparse").rename(box / "sparse.mime")
    kept = put_away(team, "queue/target/sparse.mime", "too_large")
    assert watch.unhindered_s() < 10
    assert peak_memory_kib(team) - before < 64 * 1024
    assert kept.stat().st_size == 2 << 30
    assert kept.stat().st_blocks < 64


def test_an_empty_file(team: Team) -> None:
    team.drop("target", b"", "empty.mime")
    assert put_away(team, "queue/target/empty.mime", "empty").read_bytes() == b""


def test_a_message_written_in_two_goes_is_one_message(team: Team, box: Path) -> None:
    message = fresh_id()
    head, blank, body = mime(to="target", message_id=message).partition(b"\n\n")
    (box / "goes.mime").write_bytes(head + b"\n")
    with (box / "goes.mime").open("ab") as file:
        file.write(blank[1:] + body)
    team.fact("message_told", message=message)
    assert not [fact for fact in team.facts("message_rejected") if fact["file"].endswith("goes.mime")]


def test_a_10_mb_header_is_too_large_as_a_file(team: Team) -> None:
    data = mime(extra=f"X-Note: {'x' * 10_000_000}\n")
    team.drop("target", data, "header.mime")
    assert put_away(team, "queue/target/header.mime", "too_large").read_bytes() == data


@pytest.mark.parametrize(
    ("name", "extra"),
    [("one.mime", f"X-Note: {'x' * 10_000_000}\n"), ("to.mime", f"Cc: {'a,' * 5_000_000}a\n")],
)
def test_a_10_mb_header_where_such_files_are_allowed(tmp_path: Path, name: str, extra: str) -> None:
    team = Team(tmp_path, AGENTS, top="max_message_bytes = 33_554_432", quick=IMPATIENT)
    with running(team):
        data = mime(extra=extra)
        watch = Stopwatch()
        team.drop("target", data, name)
        assert put_away(team, f"queue/target/{name}", "header_too_large").read_bytes() == data
        assert watch.unhindered_s() < 10


# --- form -------------------------------------------------------------------------------------------------------------
BROKEN = {
    "duplicate_header": mime(extra="X-IGNITE-Type: escalation\n"),
    "bad_name": mime(to="../../etc"),
    "mixed_line_ends": mime(extra="X-Note: a\r\nX-IGNITE-Status: acked\n"),
    "bare_cr": mime(extra="X-Note: a\rX-IGNITE-Status: acked\n"),
    "control_character": mime(extra="X-Note: a\x1b[2Jb\n"),
    "not_utf8": mime().replace(b"From: user", b"From: us\xe9r"),
    "folded_header": mime(extra="X-Note: a\n b\n"),
    "missing_header": mime().replace(b"Date: Mon, 16 Nov 2026 12:00:00 +0000\n", b""),
    "unknown_type": mime(kind="whatever"),
    "unknown_priority": mime(priority="urgent"),
    "bad_id": mime(message_id="two words"),
    "no_blank_line": mime().partition(b"\n\n")[0] + b"\n",
    "bad_header": mime().replace(b"To: ", b"To : "),
    "bad_content_type": mime().replace(b"text/x-yaml", b"text/html"),
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_form(team: Team, code: str) -> None:
    team.drop("target", BROKEN[code], f"{code}.mime")
    assert put_away(team, f"queue/target/{code}.mime", code).read_bytes() == BROKEN[code]


def test_a_body_that_is_not_utf8(team: Team) -> None:
    data = mime() + b"more: \xff\xfe\n"
    team.drop("target", data, "latin.mime")
    assert put_away(team, "queue/target/latin.mime", "not_utf8").read_bytes() == data


def test_to_names_a_path_and_nothing_is_written_there(team: Team) -> None:
    team.drop("target", mime(to="../../../../etc/cron.d/x"), "path.mime")
    put_away(team, "queue/target/path.mime", "bad_name")
    assert not (team.root / "queue" / "etc").exists()
    assert not (team.place / "etc").exists()


def test_a_quarantined_file_can_be_mended_and_requeued_while_the_daemon_runs(team: Team) -> None:
    message = fresh_id()
    team.drop("worker", mime(to="worker", message_id=message, priority="urgent"), "mend.mime")
    kept = put_away(team, "queue/worker/mend.mime", "unknown_priority")
    kept.write_bytes(kept.read_bytes().replace(b"urgent", b"high"))
    assert team.ackd("dead", "requeue", kept.name).returncode == 0
    team.fact("message_completed", message=message)
    assert not kept.exists()
    assert not kept.with_name(f"{kept.name}.reason").exists()


def test_purge_removes_the_quarantined_file_that_was_meant(team: Team) -> None:
    for box in ("target", "worker"):
        team.drop(box, b"", "same.mime")
        rejection(team, f"queue/{box}/same.mime")
    kept = [fact["kept_as"] for fact in team.facts("message_rejected") if fact["file"].endswith("/same.mime")]
    assert len(set(kept)) == 2
    assert team.ackd("dead", "purge", kept[0], "--yes").returncode == 0
    left = team.files("queue/corrupt")
    assert kept[0] not in left
    assert f"{kept[0]}.reason" not in left
    assert {kept[1], f"{kept[1]}.reason"} <= set(left)


# --- half-written -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cut", ["in the headers", "in the body"])
def test_a_half_written_file_is_not_read_before_its_writer_closes_it(team: Team, cut: str) -> None:
    """Cut in the body the first half is a valid message by itself."""
    message = fresh_id()
    data = mime(to="worker", message_id=message, body="content: first\nmore: second\n")
    at = data.index(b"X-IGNITE-Type") if cut == "in the headers" else data.index(b"more:")
    path = team.root / "queue" / "worker" / f"slow_{next(_serial)}.mime"
    with path.open("wb", buffering=0) as file:
        file.write(data[:at])
        good_message_completed(team)
        waited_out(team)
        assert path.exists()
        assert not team.types_of(message)
        file.write(data[at:])
    team.fact("message_completed", message=message)
    assert (team.place / f"out-{message}").read_text() == "content: first\nmore: second\n"
    assert not team.facts("message_rejected", agent=path.name)


def waited_out(team: Team, seconds: float = 1.0) -> None:
    """Some settling times and reconciling scans have passed: what would happen has happened."""
    over = time.monotonic() + seconds
    team.until(lambda: time.monotonic() > over)


# --- bodies never cause quarantine --------------------------------------------------------------------------------------
BODIES = {
    "alias bomb": BOMB,
    "duplicate keys": "answer: yes\nanswer: no\n",
    "too deep": "[" * 50_000,
    "no yaml": "{[}\t: *nobody\n%",
    "tag": "!!python/object/apply:os.system ['touch hacked']\n",
}


@pytest.mark.parametrize("kind", ["message", "progress_update", "task_assignment"])
@pytest.mark.parametrize("body", BODIES)
def test_a_bad_body_is_delivered_as_it_is(team: Team, body: str, kind: str) -> None:
    message = fresh_id()
    team.drop("worker", mime(to="worker", kind=kind, message_id=message, body=BODIES[body]), f"body_{message}.mime")
    team.fact("message_completed", message=message)
    assert (team.place / f"out-{message}").read_text() == BODIES[body]
    assert not (team.place / "hacked").exists()


@pytest.mark.parametrize("body", ["alias bomb", "too deep"])
def test_the_commands_survive_a_bad_body(team: Team, body: str) -> None:
    message = fresh_id()
    name = f"b_{next(_serial)}.mime"
    team.drop("target", mime(to="target", kind="task_assignment", message_id=message, body=BODIES[body]), name)
    team.fact("message_told", message=message)
    watch = Stopwatch()
    assert message in team.ackd("inbox", "target", "--json").stdout
    assert team.ackd("inbox", "target").returncode == 0
    assert BODIES[body] in team.ackd("read", message).stdout
    assert json.loads(team.ackd("read", message, "--json").stdout)["body"] == BODIES[body]
    path = team.root / "queue" / "target" / "processed" / name
    assert team.ackd("message", "validate", str(path)).returncode == 1
    assert team.ackd("message", "extract-body", str(path)).returncode == 0
    assert team.ackd("explain", message).returncode == 0
    assert watch.unhindered_s() < 15
    assert team.ackd("done", message, "--agent", "target").returncode == 0
    team.fact("message_completed", message=message)


HANDLERS = """
import json, pathlib
from ackd.handlers import Context, Mail

async def parse(mail: Mail, ctx: Context) -> None:
    pathlib.Path(f"seen-{mail.message_id}").write_text(json.dumps(mail.body))
"""


def with_handler(team: Team) -> None:
    """An installed package, as far as entry points can tell."""
    package = team.place / "site"
    info = package / "acceptance_handlers-1.dist-info"
    info.mkdir(parents=True)
    (package / "acceptance_handlers.py").write_text(textwrap.dedent(HANDLERS))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acceptance-handlers\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ackd.handlers]\nparser = acceptance_handlers:parse\n")
    team.extra_env["PYTHONPATH"] = str(package)


def test_a_handler_gets_no_as_a_text_and_survives_the_bomb(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS + '[agents.parser]\nendpoint = "handler"\nretry_limit = 1\n', quick=IMPATIENT)
    with_handler(team)
    bodies = {
        "country: no\nversion: 1.10\n": {"country": "no", "version": 1.1},
        BODIES["alias bomb"]: None,
        BODIES["duplicate keys"]: None,
        BODIES["too deep"]: None,
    }
    with running(team):
        for number, (body, meaning) in enumerate(bodies.items()):
            message = fresh_id()
            team.drop("parser", mime(to="parser", message_id=message, body=body), f"b{number}.mime")
            if meaning is not None:
                team.fact("message_completed", message=message)
                assert json.loads((tmp_path / f"seen-{message}").read_text()) == meaning
            else:
                assert team.fact("message_dead", message=message)["retry_count"] == 1
        good_message_completed(team)


# --- many -------------------------------------------------------------------------------------------------------------
def test_10_000_files_dropped_at_once(tmp_path: Path) -> None:
    """To a handler; meanwhile an exec agent is served."""
    team = Team(tmp_path, AGENTS)
    with running(team):
        elsewhere = tmp_path / "made"
        elsewhere.mkdir()
        for n in range(10_000):
            text = mime(to="queue_monitor", message_id=f"{n}.1.abc@ignite.local", extra="In-Reply-To: <1.1.a@x>\n")
            (elsewhere / f"message_{n:016d}.mime").write_bytes(text)
        began = time.monotonic()
        queue = team.root / "queue" / "queue_monitor"
        for path in elsewhere.iterdir():
            path.rename(queue / path.name)
        good_message_completed(team, patience_s=240)
        good_after_s = time.monotonic() - began
        team.until(lambda: team.status()["totals"]["completed"] > 10_000, patience_s=240)
        took_s = time.monotonic() - began
        team.until(lambda: len(team.facts("message_completed", agent="queue_monitor")) >= 10_000)
        done = [fact["message_id"] for fact in team.facts("message_completed", agent="queue_monitor")]
        assert len(set(done)) == len(done) == 10_000
        assert team.files("queue/queue_monitor") == ["processed"]
        assert team.files("queue/queue_monitor/processed") == []
        assert not team.facts("message_rejected", "message_dead", "message_duplicate")
        print(f"10,000 in {took_s:.1f} s, the other agent was served after {good_after_s:.1f} s")  # shown on failure
        assert good_after_s < took_s


# --- names ------------------------------------------------------------------------------------------------------------
def test_send_to_nobody_exits_67_and_writes_nothing(team: Team) -> None:
    before = sorted(str(path) for path in (team.root / "queue").iterdir())
    done = team.ackd("send", "nobody", "--body", "x")
    assert done.returncode == 67
    assert "nobody" in done.stderr
    assert sorted(str(path) for path in (team.root / "queue").iterdir()) == before


@pytest.mark.parametrize("name", ["dead_letter", "corrupt", "processed", "../etc", ".hidden", "a/b", "x" * 65])
def test_send_to_a_name_no_agent_can_have(team: Team, name: str) -> None:
    before = sorted(str(path) for path in (team.root / "queue").rglob("*"))
    done = team.ackd("send", "--body", "x", "--", name)
    assert done.returncode in {2, 65, 67}
    assert "Traceback" not in done.stderr
    assert sorted(str(path) for path in (team.root / "queue").rglob("*")) == before


@pytest.mark.parametrize("name", ["processed", "dead_letter", "corrupt", "a/b"])
def test_a_config_with_a_reserved_name_does_not_start(tmp_path: Path, name: str) -> None:
    team = Team(tmp_path, f'[agents."{name}"]\n')
    done = team.ackd("run")
    assert done.returncode == 78
    assert name in done.stderr
    assert not (team.root / "queue" / name / "processed").exists()


def test_a_reserved_directory_made_by_hand_is_nobodys_queue(team: Team) -> None:
    made = team.root / "queue" / "processed"
    made.mkdir()
    message = fresh_id()
    (made / "m.mime").write_bytes(mime(message_id=message))
    good_message_completed(team)
    waited_out(team, 0.6)
    assert (made / "m.mime").exists()
    assert "processed" not in json.loads((team.root / "run/status.json").read_text())["agents"]
    assert not team.types_of(message)
    assert [fact for fact in team.facts("stray_file") if fact["file"] == "queue/processed"]
    shutil.rmtree(made)


STRANGE = {
    "newline": b"two\nlines_%d.mime",
    "not utf8": b"caf\xe9_%d.mime",
    "255 bytes": b"%d" + b"n" * 240 + b".mime",
    "escape": b"\x1b[2J_%d.mime",
    "quotes": b"a'\"$(touch hacked)`b`_%d.mime",
    "dash": b"-rf_%d.mime",
}


def drop_raw(team: Team, agent: str, name: bytes, data: bytes) -> bytes:
    queue = os.fsencode(team.root / "queue" / agent)
    made = name % next(_serial)
    made = made[:-5].ljust(250, b"n") + b".mime" if len(made) > 200 else made
    Path(os.fsdecode(queue + b"/.raw")).write_bytes(data)
    Path(os.fsdecode(queue + b"/.raw")).rename(os.fsdecode(queue + b"/" + made))
    return made


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_file_name_is_no_reason(team: Team, name: str) -> None:
    """Completed by exit 0, by receipt and by deletion, buried with its escalation, and requeued."""
    done, dies, kept, deleted = (fresh_id() for _ in range(4))
    drop_raw(team, "worker", STRANGE[name], mime(to="worker", message_id=done))
    drop_raw(team, "failing", STRANGE[name], mime(to="failing", message_id=dies))
    drop_raw(team, "target", STRANGE[name], mime(to="target", message_id=kept))
    last = drop_raw(team, "target", STRANGE[name], mime(to="target", message_id=deleted))
    team.fact("message_completed", message=done)
    team.fact("message_dead", message=dies)
    team.fact("message_told", message=kept)
    team.fact("message_told", message=deleted)
    (team.root / "queue/target/processed" / os.fsdecode(last)).unlink()
    team.fact("message_completed", message=deleted)
    assert team.ackd("done", kept, "--agent", "target").returncode == 0
    team.fact("message_completed", message=kept)
    assert dies in {entry["message_id"] for entry in dead_list(team)}
    assert dies in team.ackd("dead", "list", "--json").stdout
    for command in (("dead", "list"), ("status",), ("inbox", "target"), ("tail", "-n", "20"), ("explain", dies)):
        asked(team, *command)
    requeued = team.ackd("dead", "requeue", dies)
    came_back = "straight back" in requeued.stderr  # its agent fails at once: seen within the second, or not
    assert requeued.returncode == (1 if came_back else 0), requeued.stderr
    team.until(lambda: len(team.facts("message_dead", message=dies)) == 2)
    assert not (team.place / "hacked").exists()
    good_message_completed(team)


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_name_and_no_message(team: Team, name: str) -> None:
    count = len(team.facts("message_rejected"))
    made = drop_raw(team, "target", STRANGE[name], b"no message")
    team.until(lambda: len(team.facts("message_rejected")) > count)
    kept = team.facts("message_rejected")[-1]["kept_as"]
    assert (team.root / "queue" / "corrupt" / kept).exists() or b"\xe9" in made
    listed = team.ackd("dead", "list", "--json")
    assert listed.returncode == 0
    assert any(entry["agent"] == "target" for entry in json.loads(listed.stdout)["dead_letters"])
    good_message_completed(team)


# --- files that move under us -------------------------------------------------------------------------------------------
def test_an_agent_deleting_its_file_while_we_rewrite_it_never_gets_it_back(tmp_path: Path) -> None:
    """Told, it is given its status 50 ms later: deletions are spread over that moment."""
    count = 300
    team = Team(tmp_path, AGENTS)
    with running(team):
        processed = team.root / "queue" / "target" / "processed"
        ids = [fresh_id() for _ in range(count)]
        chance = random.Random(1)
        deleted: dict[str, float] = {}
        due: dict[Path, float] = {}
        waiting = list(enumerate(ids))
        deadline = time.monotonic() + 120
        while len(deleted) < count and time.monotonic() < deadline:
            for number, message in waiting[:10]:
                team.drop("target", mime(to="target", message_id=message), f"m{number}.mime")
            del waiting[:10]
            now = time.monotonic()
            for path in processed.glob("m*.mime"):
                due.setdefault(path, now + chance.uniform(0.03, 0.09))
            for path, at in list(due.items()):
                if at <= now and path.name not in deleted:
                    path.unlink()
                    deleted[path.name] = now
        assert len(deleted) == count
        team.until(lambda: len(team.facts("message_completed", agent="target")) >= count)
        waited_out(team, 1.5)  # the reconciling scan, too, has found nothing
        completed = [fact["message_id"] for fact in team.facts("message_completed", agent="target")]
        assert sorted(completed) == sorted(ids)
        told = [fact["message_id"] for fact in team.facts("message_told", agent="target")]
        assert len(set(told)) == len(told) > count / 2  # some are deleted before the proof of the telling is back
        assert [path.name for path in processed.iterdir()] == []
        good_message_completed(team)


SLOW = """
[agents.slow]
endpoint = "exec"
command = ["sh", "-c", "until test -e go; do sleep 0.02; done; cat >>said"]
"""


def test_a_file_renamed_while_it_waits_is_still_delivered_once(tmp_path: Path) -> None:
    """By hand, or by a writer whose temporary name ends in .mime too."""
    team = Team(tmp_path, AGENTS + SLOW, quick=IMPATIENT)
    with running(team):
        first, second = fresh_id(), fresh_id()
        team.drop("slow", mime(to="slow", message_id=first), "a.mime")
        team.fact("message_told", message=first)
        path = team.drop("slow", mime(to="slow", message_id=second), "tmp-b.mime")
        team.fact("message_queued", message=second)
        path.rename(path.with_name("b.mime"))
        good_message_completed(team)
        waited_out(team, 0.6)
        (tmp_path / "go").touch()
        team.fact("message_completed", message=second)
        assert len(team.facts("message_told", message=second)) == 1
        assert not team.facts("message_duplicate")


def test_a_waiting_file_that_is_overwritten_by_the_next_message_is_not_taken_for_it(tmp_path: Path) -> None:
    """Someone who always writes to the same name: the first is gone by its sender's hand, and the log says so."""
    team = Team(tmp_path, AGENTS + SLOW, quick=IMPATIENT)
    with running(team):
        busy, first, second = fresh_id(), fresh_id(), fresh_id()
        team.drop("slow", mime(to="slow", message_id=busy), "a.mime")
        team.fact("message_told", message=busy)
        team.drop("slow", mime(to="slow", message_id=first), "task.mime")
        team.fact("message_queued", message=first)
        team.drop("slow", mime(to="slow", message_id=second, body="content: second"), "task.mime")
        team.fact("message_queued", message=second)
        team.fact("message_withdrawn", message=first)
        (tmp_path / "go").touch()
        team.fact("message_completed", message=second)
        assert "content: second" in (tmp_path / "said").read_text()
        assert not team.facts("message_told", message=first)


def remove(box: Path) -> None:
    """As ``rm -rf`` does it, in one go: here the daemon remakes a directory so soon that rmtree would find it full."""
    gone = box.parent.parent / "removed"
    box.rename(gone)
    shutil.rmtree(gone)


def test_a_queue_directory_deleted_and_made_again_completes_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        told = team.send("target")
        team.fact("message_told", message=told)
        box = team.root / "queue" / "target"
        remove(box)
        (box / "processed").mkdir(parents=True, exist_ok=True)
        lost = team.fact("spool_lost", agent="target")
        assert any(told in str(fact) for fact in team.facts("message_withdrawn"))
        assert len(lost["files"]) == 1
        assert not team.facts("message_completed", message=told)
        after = team.send("target")
        team.fact("message_told", message=after)
        assert team.facts("escalation", agent="target")[0]["cause"] == "spool_lost"
        good_message_completed(team)


def test_a_queue_directory_deleted_is_made_again(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        told = team.send("target")
        team.fact("message_told", message=told)
        remove(team.root / "queue" / "target")
        team.fact("spool_lost", agent="target")
        team.until((team.root / "queue" / "target" / "processed").is_dir)
        assert not team.facts("message_completed", message=told)
        after = team.send("target")
        team.fact("message_told", message=after)
        good_message_completed(team)


def test_processed_alone_deleted_is_a_loss_too(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        told = team.send("target")
        team.fact("message_told", message=told)
        shutil.rmtree(team.root / "queue" / "target" / "processed")
        team.fact("spool_lost", agent="target")
        team.fact("message_withdrawn", message=told)
        assert not team.facts("message_completed", message=told)
        team.fact("message_told", message=team.send("target"))


def test_a_queue_directory_moved_away_and_back_loses_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS)
    with running(team):
        told = team.send("target")
        team.fact("message_told", message=told)
        box = team.root / "queue" / "target"
        box.rename(tmp_path / "away")
        (tmp_path / "away").rename(box)
        good_message_completed(team)
        waited_out(team, 1.2)
        assert not team.facts("spool_lost", "message_withdrawn")
        assert team.ackd("done", told, "--agent", "target").returncode == 0
        team.fact("message_completed", message=told)
        team.fact("message_told", message=team.send("target"))


def test_a_queue_directory_moved_away_for_long_and_back_is_offered_again(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        told = team.send("target")
        team.fact("message_told", message=told)
        box = team.root / "queue" / "target"
        box.rename(tmp_path / "away")
        team.fact("message_withdrawn", message=told)
        remove(box)
        (tmp_path / "away").rename(box)
        team.until(lambda: len(team.facts("message_told", message=told)) == 2)


def test_git_clean_fdx_under_a_running_daemon(tmp_path: Path) -> None:
    team = Team(tmp_path / "repo", AGENTS, quick=IMPATIENT)
    (team.place / ".gitignore").write_text(".ackd/\n*.out\nout-*\n")
    git(team.place, "init", "-q")
    git(team.place, "add", "ackd.toml", ".gitignore")
    git(team.place, "commit", "-q", "-m", "config")
    with running(team):
        told = team.send("target")
        team.fact("message_told", message=told)
        before = (team.root / "queue").stat()
        with contextlib.suppress(subprocess.CalledProcessError):  # the daemon may be writing while it removes
            git(team.place, "clean", "-fdx", "-e", "daemon.out")
        team.until(lambda: (team.root / "queue").is_dir() and (team.root / "queue").stat() != before)
        lost = team.fact("spool_lost", agent="target")
        assert lost["files"] == [f"queue/target/processed/{Path(file).name}" for file in lost["files"]] != []
        team.fact("message_withdrawn", message=told)
        assert not team.facts("message_completed", message=told)
        after = team.send("worker")
        team.fact("message_completed", message=after)
        team.fact("message_told", message=team.send("target"))
        # It is still the one daemon of this root, and says so.
        team.until(lambda: team.status_pid() == team.pid)
        second = team.ackd("run")
        assert second.returncode == 75
        assert str(team.pid) in second.stderr
        waited_out(team, 0.6)
        good_message_completed(team)
        assert team.stop() == 0
    assert "Traceback" not in team.output()


def test_after_git_clean_a_crash_loses_nothing_more(tmp_path: Path) -> None:
    """The journal, too, is a file again: what an agent deletes while nobody looks is still its completion."""
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        shutil.rmtree(team.root, ignore_errors=True)  # the daemon may be writing meanwhile
        team.fact("spool_lost", agent="target")
        told = team.send("target")
        team.fact("message_told", message=told)
        team.kill()
        for path in (team.root / "queue/target/processed").glob("*.mime"):
            path.unlink()
        team.start()
        assert team.fact("message_completed", message=told)["recovered"]


def git(place: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(["git", *who, *words], cwd=place, check=True, env=clean, capture_output=True)


def test_a_processed_that_is_no_directory_harms_only_its_own_queue(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        for name in ("odd", "linked"):
            (team.root / "queue" / f".{name}").mkdir()
        (team.root / "queue/.odd/processed").write_text("a file")
        (team.root / "queue/.linked/processed").symlink_to(elsewhere)
        for name in ("odd", "linked"):
            (team.root / "queue" / f".{name}").rename(team.root / "queue" / name)
            team.drop(name, mime(to=name), "m.mime")
        good_message_completed(team)
        team.until(lambda: {f["what"] for f in team.facts("io_error")} >= {"queue/odd", "queue/linked"})
        assert list(elsewhere.iterdir()) == []
        assert team.stop() == 0
        team.start()
        good_message_completed(team)
        # Mended, it is served.
        message = fresh_id()
        (team.root / "queue/odd/processed").unlink()
        team.drop("odd", mime(to="odd", message_id=message), "n.mime")
        team.fact("message_told", message=message)


def test_an_agent_that_overwrites_its_file_with_rubbish_harms_only_itself(tmp_path: Path) -> None:
    rubbish = '[agents.vandal]\nendpoint = "exec"\nretry_limit = 0\n'
    rubbish += 'command = ["sh", "-c", "echo rubbish >\\"$ACKD_MESSAGE\\"; exit 1"]\n'
    team = Team(tmp_path, AGENTS + rubbish, quick=IMPATIENT)
    with running(team):
        message = team.send("vandal")
        team.until(lambda: team.facts("message_withdrawn", "message_dead", "message_completed", message=message))
        kept = rejection(team, next(f["file"] for f in team.facts("message_rejected", agent="vandal")))
        assert (team.root / "queue/corrupt" / kept["kept_as"]).read_text() == "rubbish\n"
        good_message_completed(team)


def test_an_inbox_agent_that_overwrites_its_file_can_still_complete_it(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, quick=IMPATIENT)
    with running(team):
        message = team.send("target")
        team.fact("message_told", message=message)
        path = next((team.root / "queue/target/processed").glob("*.mime"))
        path.write_text("rubbish")
        team.ackd("ack", message, "--agent", "target")
        good_message_completed(team)
        path.unlink()
        team.fact("message_completed", message=message)
        good_message_completed(team)


# --- receipts -----------------------------------------------------------------------------------------------------------
def receipt(message: str, agent: str = "target", kind: str = "done") -> bytes:
    return json.dumps(
        {"kind": kind, "message_id": message, "agent": agent, "reason": None, "at": "2026-11-16T00:00:00Z"}
    ).encode()


def symlink_to_a_receipt(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere.json"
    elsewhere.write_bytes(receipt("x"))
    path.symlink_to(elsewhere)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


ODD_RECEIPTS: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"\x00\xff garbage"),
    "a list": lambda path: path.write_text("[]"),
    "a number too long": lambda path: path.write_text('{"kind": ' + "9" * 5000 + "}"),
    "deep": lambda path: path.write_text("[" * 8000),
    "empty": lambda path: path.write_bytes(b""),
    "huge": lambda path: path.write_bytes(b" " * 5_000_000),
    "sparse": sparse,
    "symlink": symlink_to_a_receipt,
    "fifo": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "unknown kind": lambda path: path.write_bytes(receipt("x", kind="destroy")),
    "a path for a name": lambda path: path.write_bytes(receipt("x", agent="../../etc")),
    "file with a path": lambda path: path.write_text('{"kind": "purge", "file": "../../ackd.toml"}'),
}


@pytest.mark.parametrize("what", ODD_RECEIPTS)
def test_a_receipt_that_is_none_is_put_away(team: Team, what: str) -> None:
    path = team.root / "receipts" / f"done_{next(_serial):016d}-abcdef.json"
    ODD_RECEIPTS[what](path)
    put_away(team, f"receipts/{path.name}", "bad_receipt")
    assert not os.path.lexists(path)


@pytest.mark.parametrize(
    "content", [receipt("9.9.nobody@x"), receipt("9.9.x@x", agent="nobody"), receipt("9.9.x@x", kind="requeue")]
)
def test_a_receipt_for_nobody_or_nothing_is_said_and_dropped(team: Team, content: bytes) -> None:
    count = len(team.facts("message_warning"))
    path = team.root / "receipts" / f"done_{next(_serial):016d}-abcdef.json"
    path.write_bytes(content)
    team.until(lambda: not path.exists())
    team.until(lambda: len(team.facts("message_warning")) > count)
    good_message_completed(team)


def test_a_half_written_receipt_is_not_put_away_before_its_writer_closes_it(team: Team) -> None:
    message = fresh_id()
    team.drop("target", mime(to="target", message_id=message), f"r_{next(_serial)}.mime")
    team.fact("message_told", message=message)
    path = team.root / "receipts" / f"done_{next(_serial):016d}-abcdef.json"
    with path.open("wb", buffering=0) as file:
        file.write(receipt(message)[:30])
        waited_out(team)
        assert path.exists()
        file.write(receipt(message)[30:])
    team.fact("message_completed", message=message)
    team.until(lambda: not path.exists())


def test_somebody_elses_word_does_not_complete_a_message(team: Team) -> None:
    message = fresh_id()
    team.drop("target", mime(to="target", message_id=message), f"o_{next(_serial)}.mime")
    team.fact("message_told", message=message)
    path = team.root / "receipts" / f"done_{next(_serial):016d}-abcdef.json"
    path.write_bytes(receipt(message, agent="worker"))
    team.until(lambda: not path.exists())
    good_message_completed(team)
    assert not team.facts("message_completed", message=message)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    assert team.ackd("done", message, "--agent", "target").returncode == 0
    team.fact("message_completed", message=message)


def test_the_daemon_says_nothing_on_stderr_but_facts(team: Team) -> None:
    good_message_completed(team)
    for line in team.output().splitlines():
        assert line.startswith("{"), line
