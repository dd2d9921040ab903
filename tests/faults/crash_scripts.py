"""Short scripted runs that between them meet everything a message can meet, each with the ends it must come to.

A ``Script`` puts files in place before the daemon starts and then acts step by step, each step when its condition
holds. Steps are taken by the test, which does not die: they are done once, whatever happens to the daemon.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from ackd.adapters import maildrop
from ackd.core.message import ReceiptKind
from tests.acceptance.teams import Team, mime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Retries and rescans within tenths of a second; crashes are what the test makes, never poison.
NUMBERS = """
[watch]
settle_s = 0.03
reconcile_interval_s = 0.25

[daemon]
drain_timeout_s = 5
stop_timeout_s = 1

[agents.leader]

[agents.scribe]
endpoint = "handler"

[agents.worker]
endpoint = "exec"
command = ["./work.sh"]

[agents.slow]
endpoint = "exec"
command = ["./slow.sh"]
"""
DELIVERY = "backoff_base_s = 0.01\nbackoff_cap_s = 0.02\nretry_limit = 1\ncrash_limit = 1000\n"

#: What every agent does first: say that it was run, where no fault reaches.
NOTE = 'printf "%s %s\\n" "$ACKD_MESSAGE_ID" "$ACKD_AGENT" >>"$TEAM_PLACE/ledger"'

SCRIBE = """
import os
from pathlib import Path
from ackd.handlers import Context, Mail, Refuse

async def scribe(mail: Mail, ctx: Context) -> None:
    place = Path(os.environ["TEAM_PLACE"])
    with open(place / "ledger", "ab", buffering=0) as ledger:
        ledger.write(f"{mail.message_id} {ctx.agent}\\n".encode())
    if "refuse" in mail.body_text:
        raise Refuse("not mine")
    if "mend me" in mail.body_text and not (place / "mended").exists():
        raise RuntimeError("not mended yet")
"""

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Accepted:
    """A message, its file's name, and what must become of it. ``kept``: whether a file of it is left in the end."""

    name: str
    data: bytes
    ends: Counter[str]
    kept: bool = True


class Stage(Team):
    """A team's directory, what was put into it, and what its agents did."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, top='escalate_to = "leader"', delivery=DELIVERY, quick=NUMBERS)
        self.accepted: dict[Key, Accepted] = {}
        #: Dead messages, each of which must have told the leader and its sender once.
        self.graves: list[str] = []
        self.rejected: dict[str, bytes] = {}
        #: A write that was cut short leaves a fragment, which readers skip. Without one there is none.
        self.torn_lines_allowed = False
        self.disk_refuses = self.disk_refused = False
        self._numbers = itertools.count(1)
        self.script("work.sh", f'{NOTE}\nif grep -q fail "$ACKD_BODY"; then exit 1; fi')
        self.script("slow.sh", f'{NOTE}\nfor _ in $(seq 3000); do [ -e "$TEAM_PLACE/go" ] && exit 0; sleep 0.01; done')

    def give(self, to: str, body: str, *ends: str, kept: bool = True) -> str:
        """Rename a message in. It is accepted from here on."""
        number = next(self._numbers)
        message_id = f"1770263544.{number}.abcdef@ignite.local"
        data = mime(to=to, message_id=message_id, body=f'content: "{body} {"x" * 200}"\n')
        name = f"message_{1770263544000000 + number:016}.mime"
        self.put(to, data, name)
        self.accepted[message_id, to] = Accepted(name, data, Counter(ends), kept)
        if "message_dead" in ends:
            self.graves.append(message_id)
        return message_id

    def put(self, to: str, data: bytes, name: str) -> Path:
        for directory in (self.root, self.root / "queue", self.root / "queue" / to):
            directory.mkdir(mode=0o700, exist_ok=True)
        return self.drop(to, data, name)

    def receipt(self, kind: ReceiptKind, message_id: str, agent: str) -> None:
        maildrop.drop_receipt(self.root / "receipts", kind, message_id, agent, fsync=False)

    def said(self, message_id: str, *types: str) -> bool:
        return bool(self.facts(*types, message=message_id))

    def status_of(self, box: str, message_id: str) -> str | None:
        for path in (self.root / "queue" / box / "processed").glob("*.mime"):
            if message_id in path.read_text():
                return self.header(path, "X-IGNITE-Status")
        return None

    def ledger(self) -> Counter[Key]:
        try:
            lines = (self.place / "ledger").read_text().splitlines()
        except FileNotFoundError:
            return Counter()
        return Counter((line.split()[0], line.split()[1]) for line in lines)


Step: TypeAlias = "tuple[Callable[[], bool], Callable[[], object]]"


@dataclass(frozen=True)
class Script:
    name: str
    steps: Callable[[Stage], Iterator[Step]] = field(repr=False)


SCRIPTS: dict[str, Script] = {}


def script(steps: Callable[[Stage], Iterator[Step]]) -> Callable[[Stage], Iterator[Step]]:
    """What a step generator does before its first yield, it does before the daemon starts."""
    SCRIPTS[steps.__name__] = Script(steps.__name__, steps)
    return steps


def _started(stage: Stage) -> Callable[[], bool]:
    return lambda: bool(stage.facts("session_start"))


@script
def a_handler_completes_two(stage: Stage) -> Iterator[Step]:
    stage.give("scribe", "first", "message_completed")
    yield _started(stage), lambda: stage.give("scribe", "second", "message_completed")


@script
def a_command_completes(stage: Stage) -> Iterator[Step]:
    stage.give("worker", "fine", "message_completed")
    yield from ()


@script
def a_command_fails_until_it_is_dead(stage: Stage) -> Iterator[Step]:
    stage.give("worker", "fail", "message_dead")
    yield from ()


@script
def a_handler_refuses(stage: Stage) -> Iterator[Step]:
    stage.give("scribe", "refuse", "message_dead")
    yield from ()


@script
def a_dead_letter_is_dug_up(stage: Stage) -> Iterator[Step]:
    dead = stage.give("scribe", "mend me", "message_dead", "message_completed")

    def requeue() -> None:
        (stage.place / "mended").touch()
        stage.receipt(ReceiptKind.REQUEUE, dead, "scribe")

    yield lambda: stage.said(dead, "message_dead"), requeue


@script
def what_cannot_be_read(stage: Stage) -> Iterator[Step]:
    bad = b"To: scribe\n\nno message\n"
    stage.put("scribe", bad, "message_0000000000000001.mime")
    stage.rejected["message_0000000000000001.mime"] = bad
    good = stage.give("scribe", "after it", "message_completed")
    noise = b"{not a receipt"

    def drop_noise() -> None:
        temp = stage.root / "receipts" / ".noise.1.0000abcd"
        temp.write_bytes(noise)
        temp.rename(stage.root / "receipts" / "ack_noise.json")
        stage.rejected["ack_noise.json"] = noise

    yield lambda: stage.said(good, "message_completed"), drop_noise


@script
def the_same_message_comes_twice(stage: Stage) -> Iterator[Step]:
    once = stage.give("scribe", "once", "message_completed")
    first = stage.accepted[once, "scribe"]

    def again() -> None:
        stage.accepted[once, "scribe"] = replace(first, ends=Counter(["message_completed", "message_duplicate"]))
        stage.put("scribe", first.data, "message_1770263544999999.mime")

    yield lambda: stage.said(once, "message_completed"), again


@script
def one_is_withdrawn_while_another_runs(stage: Stage) -> Iterator[Step]:
    running = stage.give("slow", "runs", "message_completed")
    waiting: list[str] = []
    wait = lambda: waiting.append(stage.give("slow", "waits", "message_withdrawn", kept=False))  # noqa: E731

    def delete() -> None:
        (stage.root / "queue/slow" / stage.accepted[waiting[0], "slow"].name).unlink()

    yield lambda: stage.said(running, "child_started"), wait
    yield lambda: stage.said(waiting[0], "message_queued"), delete
    yield lambda: stage.said(waiting[0], "message_withdrawn"), (stage.place / "go").touch


@script
def receipts_for_what_waits_in_line(stage: Stage) -> Iterator[Step]:
    running = stage.give("slow", "runs", "message_completed")
    waiting: list[str] = []

    def give_and_answer() -> None:
        waiting.append(stage.give("slow", "done unread", "message_completed"))
        waiting.append(stage.give("slow", "refused unread", "message_dead"))
        for kind, message_id in zip((ReceiptKind.DONE, ReceiptKind.REFUSE), waiting, strict=True):
            stage.receipt(kind, message_id, "slow")

    def both_ended() -> bool:
        return stage.said(waiting[0], "message_completed") and stage.said(waiting[1], "message_dead")

    yield lambda: stage.said(running, "child_started"), give_and_answer
    yield both_ended, (stage.place / "go").touch


@script
def an_inbox_is_read_and_answered(stage: Stage) -> Iterator[Step]:
    mail = stage.give("leader", "read me", "message_completed")
    yield lambda: stage.said(mail, "message_told"), lambda: stage.receipt(ReceiptKind.SEEN, mail, "leader")
    yield lambda: stage.said(mail, "message_seen"), lambda: stage.receipt(ReceiptKind.ACK, mail, "leader")
    # The header is the commit: of a daemon that died right after it there may be no line.
    acked = lambda: stage.said(mail, "message_acked") or stage.status_of("leader", mail) == "acked"  # noqa: E731
    yield acked, lambda: stage.receipt(ReceiptKind.DONE, mail, "leader")


@script
def an_inbox_file_is_deleted(stage: Stage) -> Iterator[Step]:
    mail = stage.give("leader", "delete me", "message_completed", kept=False)

    def delete() -> None:
        (file,) = [path for path in (stage.root / "queue/leader/processed").glob("*.mime") if mail in path.read_text()]
        file.unlink()

    yield lambda: stage.said(mail, "message_told"), delete
