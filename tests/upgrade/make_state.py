"""Makes a state directory of this ackd with every kind of state in it, for the tests of later ones.

    python -m tests.upgrade.make_state             # writes tests/upgrade/states/VERSION-{stopped,killed}.tar.xz

A real daemon makes it, with the commands that people type, in a directory of a name that says nothing about the machine
(``PLACE``), so that the logs and files in it may be published. One state is that of a daemon that was stopped, the other
of one that was killed with ``kill -9``. Beside the team's files the archive has ``manifest.json``: what must be found in
it, and what must come of it (``Expected``). A tar, because git keeps no empty directories, times and modes.

What still runs at the end is let go on by the file ``go``, which the tests make: each program writes down what it has
completed (``ran``), so that nothing can run twice unseen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import tarfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackd import __version__
from ackd.client import Client
from ackd.storage.log_index import building
from tests.acceptance.teams import QUICK, Team, running
from tests.strays import end_strays

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE: Final = Path("/tmp/ackd-upgrade/team")
STATES: Final = Path(__file__).parent / "states"
LATER: Final = "2099-01-01T00:00:00Z"
ROUTES: Final = ("stopped", "killed")

TOP: Final = 'escalate_to = "leader"\narchive_days = 36500\n'
AGENTS: Final = """
[bus]
tracks = ["conductor/tracks/*"]

[board]
assess_timeout_s = 604800
discuss_timeout_s = 604800
vote_timeout_s = 604800
rounds = 1
directors = { CA = "soundness", CPO = "value", CSO = "security" }
agents = { CA = "architect", CPO = "product", CSO = "security" }

[pipeline]
leave_s = 1
[pipeline.worker]
command = ["./stage.sh"]

[groups]
readers = ["reader", "clerk"]

[pools.hands]
members = ["hand"]

[agents.leader]
[agents.reader]
[agents.clerk]
[agents.hand]
max_in_flight = 1
[agents.architect]
[agents.product]
[agents.security]

[agents.worker]
endpoint = "process"
command = ["python3", "worker.py"]

[agents.runner]
endpoint = "exec"
command = ["./run.sh"]
max_in_flight = 2

[agents.flaky]
endpoint = "exec"
command = ["./flaky.sh"]
backoff_base_s = 20
backoff_cap_s = 20
retry_limit = 10

[agents.refuser]
endpoint = "exec"
command = ["sh", "-c", "echo no thanks; exit 65"]
"""
WORKER: Final = """
import os, time
import ackd.worker.task
from ackd.worker import run
ackd.worker.task.KEEP_EVERY_S = 0.0
def work(task):
    for step in task.steps("abcd"):
        while step == "c" and not os.path.exists("go") and not task._to_stop:
            time.sleep(0.02)
        if step == "c" and not os.path.exists("go"):
            while True:
                time.sleep(0.02)
        with open("ran", "a") as ran:
            ran.write(f"{task.message_id} {step}\\n")
run(work, heartbeat_s=0.5)
"""
RUN: Final = """
if grep -q long "$ACKD_BODY"; then until [ -e go ] || [ -e ended ]; do sleep 0.05; done; fi
echo "$ACKD_MESSAGE_ID run" >>ran
"""
FLAKY: Final = '[ -e go ] || exit 1; echo "$ACKD_MESSAGE_ID run" >>ran'
STAGE: Final = """
echo "$ACKD_STORY stage-$ACKD_STAGE" >>begun
case $ACKD_STAGE in
0) text="Stage 0 COMPLETE for $ACKD_STORY. 3 tasks created. Plan score: 4/4." ;;
1) text="Stage 1 COMPLETE for $ACKD_STORY. Verdict: GO. Readiness: 8." ;;
2) text="Stage 2 COMPLETE for $ACKD_STORY. All tasks Done. Story set to To Review." ;;
3) text="Stage 3 COMPLETE for $ACKD_STORY. Verdict: PASS. Quality Score: 91/100." ;;
esac
if [ "$ACKD_STAGE" = 1 ]; then until [ -e go ]; do sleep 0.05; done; fi
echo "$ACKD_STORY stage-$ACKD_STAGE" >>ran
echo "$text"
"""
DELIVERY: Final = "remind_after_s = 2678400\nbackoff_base_s = 0.05\n"


@dataclass
class Expected:
    """What later versions must find. ``messages``: by name, its id, its one recipient, the state that it has
    (``explain``), and the one that it comes to when ``go`` is there. ``done``: lines of ``ran`` that stand there already
    and must never come again."""

    version: str
    route: str
    messages: dict[str, dict[str, str]] = field(default_factory=dict)
    paused: list[str] = field(default_factory=list)
    leases: dict[str, str] = field(default_factory=dict)
    waiting_for_leases: dict[str, str] = field(default_factory=dict)
    bus_lines: int = 0
    meeting: str = ""
    story: str = ""
    thread: list[str] = field(default_factory=list)
    corrupt: str = ""
    completed: int = 0
    done: list[str] = field(default_factory=list)


class Maker:
    def __init__(self, place: Path, route: str) -> None:
        self.expected = Expected(__version__, route)
        self.team = Team(place, AGENTS, top=TOP, delivery=DELIVERY, quick=QUICK)
        self.team.script("run.sh", RUN)
        self.team.script("flaky.sh", FLAKY)
        self.team.script("stage.sh", STAGE)
        (place / "worker.py").write_text(WORKER)
        (place / "conductor/tracks/api").mkdir(parents=True)
        self.said(self.team.ackd("bus", "init", "conductor/tracks/api"))

    def said(self, done: Any) -> str:
        assert done.returncode == 0, (done.args, done.stderr)
        text = done.stdout
        assert isinstance(text, str)
        return text

    def ackd(self, *words: str) -> str:
        return self.said(self.team.ackd(*words))

    def note(self, name: str, message_id: str, agent: str, state: str, ends: str = "") -> str:
        self.expected.messages[name] = {"id": message_id, "agent": agent, "state": state, "ends": ends or state}
        return message_id

    def send(self, name: str, agent: str, state: str, *words: str, ends: str = "", to: str = "") -> str:
        return self.note(name, self.team.send(to or agent, *words), agent, state, ends)

    # --- each kind of state -------------------------------------------------------------------------------------------
    def make(self) -> None:
        self.inboxes()
        self.commands()
        self.dead_and_corrupt()
        self.by_hand()
        self.pools()
        self.bus_and_leases()
        self.board()
        self.story()
        self.at_work()

    def inboxes(self) -> None:
        team = self.team
        self.send("delivered in an inbox", "reader", "delivered")
        read = self.send("acked", "reader", "acked", "--deadline", LATER)
        done = self.send("completed in an inbox", "reader", "completed")
        for message_id in (read, done):
            team.fact("message_told", message=message_id)
        self.ackd("ack", read, "--agent", "reader")
        self.ackd("done", done, "--agent", "reader")
        team.fact("message_acked", message=read)
        team.fact("message_completed", message=done)
        part = self.send("part of another", "clerk", "delivered", "--from", "reader", "--part-of", read)
        reply = json.loads(self.ackd("reply", part, "--agent", "clerk", "--body", "half of it", "--json"))["message_id"]
        self.note("an answer", reply, "reader", "delivered")
        self.expected.messages["part of another"]["state"] = "acked"  # a reply is an ack
        self.expected.messages["part of another"]["ends"] = "acked"
        team.fact("message_acked", message=part)
        team.fact("message_told", message=reply)
        self.expected.thread = [read, part, reply]
        cancelled = self.send("cancelled", "reader", "cancelled")
        team.fact("message_told", message=cancelled)
        self.ackd("cancel", cancelled, "--agent", "user")
        team.until(
            lambda: "message_dead" in team.types_of(cancelled) or "message_cancelled" in team.types_of(cancelled)
        )

    def commands(self) -> None:
        for number in range(3):
            done = self.send(f"completed by a command, {number}", "runner", "completed")
            self.team.fact("message_completed", message=done)
        retrying = self.send("retrying", "flaky", "retrying", ends="completed")
        self.team.fact("message_retry", message=retrying)

    def dead_and_corrupt(self) -> None:
        dead = self.send("dead", "refuser", "dead")
        self.team.fact("message_dead", message=dead)
        self.team.drop("runner", b"no message at all\n", "letter.mime")
        self.team.fact("message_rejected")
        self.expected.corrupt = "letter.mime"

    def by_hand(self) -> None:
        self.ackd("agent", "pause", "clerk")
        self.expected.paused = ["clerk"]
        waits = self.send("queued for a paused agent", "clerk", "queued", ends="delivered")
        self.team.fact("message_queued", message=waits)
        later = self.send(
            "queued, critical, expires",
            "clerk",
            "queued",
            "--priority",
            "critical",
            "--expires",
            LATER,
            ends="delivered",
        )
        self.team.fact("message_queued", message=later)

    def pools(self) -> None:
        held = self.send("held by a member of a pool", "hand", "delivered", to="hands")
        self.team.fact("message_told", message=held)
        waits = self.send("waits in a pool", "hands", "queued")
        self.team.fact("message_queued", message=waits)

    def bus_and_leases(self) -> None:
        for number in range(3):
            self.ackd("bus", "post", "PROGRESS", "--source", "w1", "--task", f"1.{number}", "progress_pct=50")
            self.expected.bus_lines += 1
        self.team.until(lambda: len(self.team.facts("bus_message")) >= self.expected.bus_lines)
        self.ackd("lock", "acquire", "src/a.py", "--agent", "reader", "--ttl", "24h")
        self.expected.leases = {"src/a.py": "reader"}
        later = self.team.ackd("lock", "acquire", "src/a.py", "--agent", "leader", "--later", "--ttl", "24h")
        assert later.returncode == 75, later.stderr
        self.expected.waiting_for_leases = {"src/a.py": "leader"}
        self.team.fact("lease_granted", agent="reader")

    def board(self) -> None:
        opened = json.loads(
            self.ackd(
                "board", "open", "--proposal", "Ship it", "--checkpoint", "PRE_LAUNCH", "--track", "api", "--json"
            )
        )
        self.expected.meeting = opened["session_id"]
        self.team.until(lambda: len(self.team.facts("message_told", agent="architect")) == 1)
        self.ackd("board", "assess", "--director", "CA", "--verdict", "APPROVE", "--score", "8", "--track", "api")

    def story(self) -> None:
        self.ackd("story", "start", "PROJ-1")
        self.expected.story = "PROJ-1"
        begun = self.team.place / "begun"
        self.team.until(lambda: begun.exists() and "stage-1" in begun.read_text())

    def at_work(self) -> None:
        task = self.send("in the middle of its steps", "worker", "", ends="completed")
        run = self.send("a command that ran when the daemon ended", "runner", "", "--body", "long", ends="completed")
        self.team.fact("message_told", message=run)
        self.team.until(lambda: self.steps(task) == ["a", "b"] and self.kept_step() == 2)

    def steps(self, message_id: str) -> list[str]:
        return [line.split()[1] for line in self.ran() if line.startswith(message_id)]

    def ran(self) -> list[str]:
        path = self.team.place / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def kept_step(self) -> int:
        for path in (self.team.root / "state/checkpoints").glob("[!.]*.json"):
            found = json.loads(path.read_text())
            return int(found.get("current_step", found.get("checkpoint", {}).get("current_step", 0)))
        return 0

    # --- the end ------------------------------------------------------------------------------------------------------
    def end(self) -> None:
        """End the daemon. The run of the killed one comes to its end while no daemon is there; that of the other is
        ended by it."""
        team = self.team
        if self.expected.route == "stopped":
            assert team.stop() == 0
        else:
            team.kill()
            before = len(self.ran())
            (team.place / "ended").touch()
            while len(self.ran()) == before:
                pass
            (team.place / "ended").unlink()
        self.expected.done = self.ran()
        self.expected.completed = len(team.facts("message_completed"))
        with indexed():
            client = Client(root=team.root)
            for name, said in self.expected.messages.items():
                found = client.explain(said["id"]).state
                if said["state"] not in ("", found):
                    raise SystemExit(f"{name} is {found}, not {said['state']}: nothing was written; try again")
                said["state"] = found
        (team.place / "daemon.out").unlink()


@contextlib.contextmanager
def indexed() -> Iterator[None]:
    """Have even short logs indexed, which otherwise happens from half a megabyte on."""
    before, building.WORTH_BYTES = building.WORTH_BYTES, 0  # type: ignore[misc]
    try:
        yield
    finally:
        building.WORTH_BYTES = before  # type: ignore[misc]


def make(route: str, target: Path) -> Expected:
    shutil.rmtree(PLACE.parent, ignore_errors=True)
    try:
        maker = Maker(PLACE, route)
        with running(maker.team):
            maker.make()
            maker.end()
        end_strays(PLACE)
        target.parent.mkdir(exist_ok=True)
        (PLACE / "manifest.json").write_text(json.dumps(asdict(maker.expected), indent=1) + "\n")
        with tarfile.open(target, "w:xz") as tar:
            tar.add(PLACE, "team", filter=_nobodys)
        return maker.expected
    finally:
        end_strays(PLACE)
        shutil.rmtree(PLACE.parent, ignore_errors=True)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out who owned it, and what is no part of the state: sockets and pipes."""
    if not (member.isfile() or member.isdir()) or member.name.endswith(".pyc") or "__pycache__" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade.make_state", description=__doc__)
    parser.add_argument(
        "--to", type=Path, default=STATES, help="the directory for the archives (default: tests/upgrade/states)"
    )
    given = parser.parse_args()
    for route in ROUTES:
        target = given.to / f"{__version__}-{route}.tar.xz"
        expected = make(route, target)
        print(f"{target}: {target.stat().st_size} bytes, {len(expected.messages)} messages")


if __name__ == "__main__":
    main()
