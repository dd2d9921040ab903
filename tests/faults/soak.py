"""The soak: many children and panes under one daemon, faults at random all the while, and messages that must not be lost.

``python -m tests.faults.soak --agents 50 --panes 20 --seconds 300 --seed 1`` prints the figures. The daemon is measured
when everyone is up and idle, once before the first fault and once after the last. Seconds are the machine's business;
what is judged is what became of each message, what is left of each process, and what the daemon has grown by.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.acceptance.panes import Panes, fake, panes_in
from tests.acceptance.teams import Team, running
from tests.faults.grip import ends
from tests.faults.soak_faults import Faults
from tests.strays import end_strays, strays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(__file__).with_name("soak_worker.py")
_PROGRAMS = (b"soak_worker.py", b"fake_agent.py")
#: Beyond these the daemon has grown. Descriptors: what happens to be open at a look, tmux calls and files being flushed.
#: Memory: of each message that ended its id is kept for ``dedup_window_s``; the rest is the allocator's.
FD_SLACK = 8
RSS_SLACK_BYTES = 16 * 2**20
RSS_PER_MESSAGE_BYTES = 4 * 2**10

WAITS = """
[liveness]
heartbeat_timeout_s = {quiet}
probe_timeout_s = {quiet}
[watch]
settle_s = 0.2
[daemon]
drain_timeout_s = 2
stop_timeout_s = 2
"""


@dataclass(frozen=True)
class Size:
    agents: int
    panes: int
    seconds: float
    seed: int = 1
    #: Messages in a second, and seconds between faults.
    rate: float = 0.0
    fault_every_s: float = 0.0
    #: What counts as silence.
    quiet_s: float = 5.0

    @property
    def messages_per_s(self) -> float:
        return self.rate or max(1.0, (self.agents + self.panes) / 10)

    @property
    def faults_every_s(self) -> float:
        """Each agent meets one in about a minute."""
        return self.fault_every_s or 60 / (self.agents + self.panes)


@dataclass(frozen=True)
class Weight:
    """Of the daemon."""

    descriptors: int
    rss_bytes: int
    cpu_s: float


@dataclass
class Figures:
    size: Size
    posted: int
    ends: Counter[str]
    waiting: int
    faults: Counter[str]
    facts: Counter[str]
    before: Weight
    after: Weight
    seconds: float
    settled_s: float
    #: Of each that died, how it came to that.
    deaths: list[str]
    #: What must not be; each a sentence.
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        facts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.facts.items()))
        size, before, after = self.size, self.before, self.after
        rss = f"RSS {before.rss_bytes / 2**20:.1f} -> {after.rss_bytes / 2**20:.1f} MiB"
        lines = [
            f"soak: {size.agents} children and {size.panes} panes for {size.seconds:.0f} s, seed {size.seed}",
            f"messages: {self.posted} sent, {dict(self.ends)}, {self.waiting} waiting",
            f"all over {self.settled_s:.0f} s after the last fault",
            f"faults: {sum(self.faults.values())} ({faults})",
            f"log: {facts}",
            f"daemon: descriptors {before.descriptors} -> {after.descriptors}, {rss}",
            f"daemon: {(after.cpu_s - before.cpu_s) / self.seconds:.1%} of a CPU",
        ]
        lines += [f"dead: {story}" for story in self.deaths]
        return "\n".join([*lines, *(f"WRONG: {sentence}" for sentence in self.wrong)])


@dataclass
class Soak:
    size: Size
    team: Team
    panes: Panes
    children: list[str]
    terminals: list[str]
    rng: random.Random
    sent: dict[str, str] = field(default_factory=dict)

    # --- the run
    def run(self) -> Figures:
        self._everyone_works()
        before = self._weight()
        began = time.monotonic()
        faults = self._storm()
        faults.stop()
        stopped = time.monotonic()
        self._all_have_ended(180 + 10 * self.size.quiet_s, heal=True)
        settled_s = time.monotonic() - stopped
        self._everyone_works()
        after, seconds = self._weight(), time.monotonic() - began
        wrong = [*self._lost(), *self._left_over(), *self._grown(before, after)]
        self.team.stop()
        wrong += self._orphans()
        found = Counter(words[-1] for words in ends(self.team).values())
        waiting = len(self.sent) - sum(message_id in ends(self.team) for message_id in self.sent)
        return Figures(
            self.size,
            len(self.sent),
            found,
            waiting,
            faults.done,
            self._facts(),
            before,
            after,
            seconds,
            settled_s,
            list(self._deaths(faults)),
            wrong,
        )

    def _storm(self) -> Faults:
        faults = Faults(self.team, self.panes, self.children, self.terminals, self.rng, self.size.faults_every_s)
        pause_s = 1 / self.size.messages_per_s
        over = time.monotonic() + self.size.seconds
        while time.monotonic() < over:
            self._send(self._someone())
            faults.tick()
            self._still_serves()
            time.sleep(self.rng.uniform(0.5, 1.5) * pause_s)
        return faults

    def _someone(self) -> str:
        """A pane is told by a dozen calls of tmux: it gets less."""
        return self.rng.choice(self.terminals if self.rng.random() < 0.1 and self.terminals else self.children)

    def _send(self, to: str) -> None:
        self.sent[self.team.post(to)] = to

    def _still_serves(self) -> None:
        if self.team.process is not None and self.team.process.poll() is not None:
            raise AssertionError(f"the daemon ended: {self.team.output()[-4000:]}")

    # --- waiting
    def _everyone_works(self) -> None:
        """One message each: whoever ended by itself is at rest until it is told."""
        for name in (*self.children, *self.terminals):
            self._send(name)
        self._all_have_ended(120, heal=True)
        self._everyone_is_up()

    def _everyone_is_up(self) -> None:
        self._until(lambda: not self._missing(), 120, lambda: f"not up: {self._missing()}")

    def _missing(self) -> list[str]:
        living = Counter(self._programs())
        return [name for name in (*self.children, *self.terminals) if living[name] != 1]

    def _programs(self) -> Iterator[str]:
        """The directory's name of each worker and fake that lives: the agent's."""
        for pid in strays(self.team.place):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"python" in words[0] and any(word.endswith(_PROGRAMS) for word in words[1:4]):
                    yield Path(f"/proc/{pid}/cwd").readlink().name

    def _all_have_ended(self, patience_s: float, *, heal: bool = False) -> None:
        """Completed or dead: nothing stays in hand or in line. ``heal``: whoever is down is resumed, as a person does
        who was told."""
        resumed: set[str] = set()

        def over() -> bool:
            if heal:
                self._resume(resumed)
            return set(self.sent) <= set(ends(self.team))

        self._until(over, patience_s, self._waiting)

    def _resume(self, resumed: set[str]) -> None:
        down = {name for name, said in self.team.status()["agents"].items() if said["state"] == "down"} - resumed
        for name in sorted(down):
            resumed.add(name)
            self.team.ackd("agent", "restart", name)

    def _waiting(self) -> str:
        left = Counter(to for message_id, to in self.sent.items() if message_id not in ends(self.team))
        agents = self.team.status()["agents"]
        return "; ".join(f"{count} for {name}: {agents.get(name)}" for name, count in left.items())

    def _until(self, true: Callable[[], bool], patience_s: float, said: Callable[[], str]) -> None:
        give_up_at = time.monotonic() + patience_s
        while not true():
            self._still_serves()
            assert time.monotonic() < give_up_at, f"not within {patience_s:.0f} s: {said()}\n{self.team.story()}"
            time.sleep(0.5)

    # --- what must not be
    def _lost(self) -> Iterator[str]:
        found = ends(self.team)
        archived, dead = self._ids("archive"), self._ids("queue/dead_letter")
        worked = self._worked()
        for message_id, to in self.sent.items():
            words, places = found.get(message_id, ["nothing"]), (message_id in archived, message_id in dead)
            if words not in (["completed"], ["dead"], ["dead", "completed"]):
                yield f"{message_id} for {to} ended as {words}"
            elif places != (words[-1] == "completed", words[-1] == "dead"):
                yield f"{message_id} for {to} is said to be {words[-1]}, and lies in (archive, dead_letter): {places}"
            elif words[-1] == "completed" and message_id not in worked:
                yield f"{message_id} for {to} is said to be completed, and nobody worked on it"

    def _ids(self, folder: str) -> set[str]:
        paths = (self.team.root / folder).rglob("*.mime")
        return {str(self.team.header(path, "Message-ID")).strip("<>") for path in paths}

    def _worked(self) -> set[str]:
        files = [self.panes.home(name) / "worked" for name in self.children]
        by_children = {word for file in files if file.exists() for word in file.read_text().split()}
        return by_children | {
            line["done"] for name in self.terminals for line in self.panes.log(name) if "done" in line
        }

    def _left_over(self) -> Iterator[str]:
        for pid in self._zombies():
            yield f"{pid} is a zombie of the daemon"
        for pid in strays(self.team.place):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0"):
                    yield f"{pid} outlived the worker that started it"

    def _zombies(self) -> list[int]:
        """At two looks: one that is being reaped is none."""
        first = self._dead_children()
        time.sleep(1)
        return sorted(first & self._dead_children())

    def _dead_children(self) -> set[int]:
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
                if state == "Z" and int(parent) == self.team.pid:
                    found.add(int(stat.parent.name))
        return found

    def _orphans(self) -> Iterator[str]:
        """The daemon is gone. Panes outlive it; nothing else does, and nothing at all once their server is gone, too."""
        for name in set(self._programs()) & set(self.children):
            yield f"a worker of {name} outlived the daemon"
        self.panes.run("kill-server", check=False)
        give_up_at = time.monotonic() + 20
        while (left := strays(self.team.place)) and time.monotonic() < give_up_at:
            time.sleep(0.2)
        for pid in left:
            with contextlib.suppress(OSError):
                yield f"{pid} outlived everything: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"

    def _grown(self, before: Weight, after: Weight) -> Iterator[str]:
        if after.descriptors > before.descriptors + FD_SLACK:
            yield f"descriptors grew from {before.descriptors} to {after.descriptors}"
        bound = RSS_SLACK_BYTES + RSS_PER_MESSAGE_BYTES * len(self.sent)
        if after.rss_bytes > before.rss_bytes + bound:
            yield f"RSS grew from {before.rss_bytes} to {after.rss_bytes}, by more than {bound}"

    # --- figures
    def _deaths(self, faults: Faults) -> Iterator[str]:
        """Whether faults met it too often, or it was given up too soon."""
        for dead in (line for line in self.team.lines() if line["type"] == "message_dead"):
            agent, message_id = dead["data"]["agent"], dead["data"]["message_id"]
            tries = [fact["reason"] for fact in self.team.facts("message_retry", message=message_id)]
            met = [
                f"{one.kind} at {one.at}" for one in faults.struck if one.whom == agent and one.at < dead["timestamp"]
            ]
            story = [*tries, dead["data"].get("reason"), f"its last faults: {', '.join(met[-3:])}", dead["timestamp"]]
            yield f"{message_id} for {agent}: {'; '.join(map(str, story))}"

    def _weight(self) -> Weight:
        """The least of a few looks: between them a call of tmux may be under way."""
        looks = []
        for _ in range(5):
            looks.append(sum(1 for _ in Path(f"/proc/{self.team.pid}/fd").iterdir()))
            time.sleep(0.2)
        status = Path(f"/proc/{self.team.pid}/status").read_text()
        rss_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        times = Path(f"/proc/{self.team.pid}/stat").read_text().rpartition(")")[2].split()
        return Weight(min(looks), rss_kib * 1024, (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"))

    def _facts(self) -> Counter[str]:
        kinds = {
            "child_restart",
            "child_ended",
            "nudge",
            "probe",
            "escalation",
            "message_retry",
            "bad_line",
            "late_word",
        }
        kinds |= {"io_error", "pane_gone", "pane_stuck"}
        return Counter(line["type"] for line in self.team.lines() if line["type"] in kinds)


@contextlib.contextmanager
def soak(place: Path, size: Size) -> Iterator[Soak]:
    """Everything is made and started; the daemon and the panes end with the block."""
    children = [f"child{number}" for number in range(size.agents)]
    terminals = [f"pane{number}" for number in range(size.panes)]
    with panes_in(place) as panes:
        tables = [_child(panes, name) for name in children] + [_pane(panes, name) for name in terminals]
        config = f"{panes.config()}\n{''.join(tables)}"
        delivery = f"ack_timeout_s = {size.quiet_s}\nhung_after_s = {2 * size.quiet_s}\nbackoff_base_s = 0.2\nbackoff_cap_s = 2\n"
        team = Team(place, config, delivery=delivery, quick=WAITS.format(quiet=size.quiet_s))
        with running(team):
            yield Soak(size, team, panes, children, terminals, random.Random(size.seed))


def _child(panes: Panes, name: str) -> str:
    command = json.dumps([sys.executable, "-I", "-S", str(PROGRAM)])
    return f'[agents.{name}]\nendpoint = "process"\ncommand = {command}\ncwd = {json.dumps(str(panes.home(name)))}\n'


def _pane(panes: Panes, name: str) -> str:
    start = fake("--work-s", "0.5", "--says-done", "--forgets", "--tick-s", "0.1")
    return (
        f'[agents.{name}]\nendpoint = "tmux"\nprofile = "fake"\nstart = {json.dumps(start)}\n'
        f"cwd = {json.dumps(str(panes.home(name)))}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--panes", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0, help="messages in a second; by default a tenth of the agents")
    parser.add_argument(
        "--fault-every", type=float, default=0, help="seconds; by default each agent meets one a minute"
    )
    parser.add_argument("--quiet", type=float, default=5, help="seconds that count as silence")
    given = parser.parse_args()
    size = Size(given.agents, given.panes, given.seconds, given.seed, given.rate, given.fault_every, given.quiet)
    place = Path(tempfile.mkdtemp(prefix="ackd-soak-"))
    try:
        with soak(place, size) as run:
            figures = run.run()
    except BaseException:
        print(f"seed {size.seed}; what happened lies in {place}", file=sys.stderr)
        raise
    finally:
        end_strays(place)
    print(figures.text())
    if not figures.wrong:
        shutil.rmtree(place, ignore_errors=True)
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
