"""Short scripted runs that between them meet everything a message can meet, each with the ends it must come to.

A ``Script`` puts files in place before the daemon starts and then acts step by step, each step when its condition
holds. Steps are taken by the test, which does not die: they are done once, whatever happens to the daemon.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ackd.coordination.bus.rules.layout import event_name
from ackd.coordination.ensemble import wire as ensemble
from ackd.coordination.ensemble.drafts import FileVersion, digest_of
from ackd.coordination.leases.rules.words import Ask, Change
from ackd.core.message import ReceiptKind
from ackd.formats import utc_times, yaml_body
from ackd.leases import Leases
from ackd.storage import maildrop, session_log
from ackd.storage.session_log import keeping
from tests.acceptance.teams import Team, mime
from tests.faults import crash_board, crash_checks
from tests.faults.mounts import mounted, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

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

[groups]
crew = ["scribe", "worker"]

[board]
directors = { CA = "technical", CPO = "product", CSO = "security" }
agents = { CA = "leader", CPO = "scribe", CSO = "worker" }
rounds = 1
discuss_timeout_s = 0.3
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

HAND = """
import os, time
import ackd.worker.task
from ackd.worker import run
ackd.worker.task.KEEP_EVERY_S = 0.0
place = os.environ["TEAM_PLACE"]
def note(name, text):
    with open(os.path.join(place, name), "ab", buffering=0) as file:
        file.write(text.encode() + b"\\n")
def work(task):
    note("ledger", f"{task.message_id} {os.environ['ACKD_AGENT']}")
    for step in task.steps("abcd"):
        if step == "c":
            note("in-c", "")
            while not task._to_stop and not os.path.exists(os.path.join(place, "go")):
                time.sleep(0.005)
        note("steps", step)
run(work, heartbeat_s=0.2)
"""

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Accepted:
    """A message, its file's name, and what must become of it. ``kept``: whether a file of it is left in the end.
    ``ours``: a gateway wrote it, under a name that only the daemon knows; a crash may make it write the same again, which
    is put away as a duplicate."""

    name: str
    data: bytes
    ends: Counter[str]
    kept: bool = True
    ours: bool = False


class Stage(Team):
    """A team's directory, what was put into it, and what its agents did."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, top='escalate_to = "leader"', delivery=DELIVERY, quick=NUMBERS)
        self.accepted: dict[Key, Accepted] = {}
        #: Dead messages, each of which must have told the leader and its sender once.
        self.graves: list[str] = []
        self.senders: dict[str, str] = {}
        self.rejected: dict[str, bytes] = {}
        #: A write that was cut short leaves a fragment, which readers skip. Without one there is none.
        self.torn_lines_allowed = False
        self.disk_refuses = self.disk_refused = False
        #: A step of the script has asked a daemon to stop.
        self.is_stopped = False
        #: What a script waits for besides, and what it looks at in the end: it yields what does not hold, in words.
        self.also_settled: list[Callable[[], bool]] = []
        #: What else must hold in the end, in words for what does not.
        self.checks: list[Callable[[], Iterator[str]]] = []
        #: Members of pools, by pool: whoever completes a pool's message, it was for the pool.
        self.pools: dict[str, tuple[str, ...]] = {}
        #: What a script mounts, until the case is judged.
        self.mounts = contextlib.ExitStack()
        self._numbers = itertools.count(1)
        self.script("work.sh", f'{NOTE}\nif grep -q fail "$ACKD_BODY"; then exit 1; fi')
        self.script("slow.sh", f'{NOTE}\nfor _ in $(seq 3000); do [ -e "$TEAM_PLACE/go" ] && exit 0; sleep 0.01; done')

    def give(self, to: str, body: str, *ends: str, kept: bool = True, given_up: bool = False, **words: str) -> str:
        """Rename a message in. It is accepted from here on. ``given_up``: it was cancelled, or has expired, and of its
        death only its sender is told. ``words`` as for ``mime``."""
        number = next(self._numbers)
        message_id = f"1770263544.{number}.abcdef@ignite.local"
        data = mime(
            to=words.pop("header_to", to), message_id=message_id, body=f'content: "{body} {"x" * 200}"\n', **words
        )
        name = f"message_{1770263544000000 + number:016}.mime"
        self.put(to, data, name)
        self.accepted[message_id, to] = Accepted(name, data, Counter(ends), kept)
        self.senders[message_id] = words.get("sender", "user")
        if given_up:
            self.checks += [
                lambda: crash_checks.has_mail(self, "user", "dead_letter", message_id),
                lambda: crash_checks.has_mail(self, "leader", "escalation", message_id, wanted=False),
            ]
        elif "message_dead" in ends:
            self.graves.append(message_id)
        return message_id

    def write(self, file: str, to: str, keys: dict[str, object], version: int = 1) -> str:
        """A task or report of an Ensemble team, in place as its agents write it. The message that it is to become is
        accepted from here on."""
        path, text = self.place / "queue" / file, yaml_body.dump(keys)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        sheet = FileVersion(file, path.name, f"queue/{file}", version, digest_of(text.encode()), text.encode())
        body = yaml_body.dump(ensemble.body(sheet.content(), sheet.shown, version))
        data = f"Message-ID: <{sheet.message_id}>\n\n{body}".encode()
        self.accepted[sheet.message_id, to] = Accepted("", data, Counter(["message_completed"]), ours=True)
        return sheet.message_id

    def noted(self, file: str, message_id: str) -> bool:
        """Whether the gateway will know this version of a file after a crash: what is written from now on is another."""
        with contextlib.suppress(FileNotFoundError):
            known = json.loads((self.root / "state/gateways/ensemble.json").read_text())["files"].get(file)
            return known is not None and message_id == FileVersion(file, "", "", known[0], known[1], None).message_id
        return False

    def put(self, to: str, data: bytes, name: str) -> Path:
        for directory in (self.root, self.root / "queue", self.root / "queue" / to):
            directory.mkdir(mode=0o700, exist_ok=True)
        return self.drop(to, data, name)

    def receipt(self, kind: ReceiptKind, message_id: str, agent: str) -> None:
        maildrop.drop_receipt(self.root / "receipts", kind, message_id, agent, fsync=False)

    def cancel(self, message_id: str, agent: str) -> None:
        maildrop.drop_cancellations(self.root / "receipts", [(message_id, agent)], "user", "enough", fsync=False)

    def said(self, message_id: str, *types: str) -> bool:
        return bool(self.facts(*types, message=message_id))

    def key(self, message_id: str, agent: str) -> Key:
        """The message, by whom it was sent to, given who has it."""
        pools = (pool for pool, members in self.pools.items() if agent in members)
        return next(((message_id, pool) for pool in pools if (message_id, pool) in self.accepted), (message_id, agent))

    def make_pool(self, name: str, *members: str, retry_limit: int = 1) -> None:
        """Commands that share a queue. Before the daemon starts."""
        self.pools[name] = members
        fail = (
            'grep -q "fail once" "$ACKD_BODY" && [ ! -e "$TEAM_PLACE/failed" ] && touch "$TEAM_PLACE/failed" && exit 1'
        )
        self.script("squad.sh", f'{NOTE}\n{fail}\ngrep -q "fail always" "$ACKD_BODY" && exit 1\nexit 0')
        tables = [
            f'[agents.{one}]\nendpoint = "exec"\ncommand = ["./squad.sh"]\nmax_in_flight = 1\nretry_limit = {retry_limit}\n'
            for one in members
        ]
        with (self.place / "ackd.toml").open("a") as config:
            config.write("\n" + "\n".join([*tables, f"[pools.{name}]\nmembers = {json.dumps(members)}\n"]))

    def make_worker(self, name: str) -> None:
        """A process that is kept alive and stands in its third step until ``go`` is there, or it is asked to stop.
        Before the daemon starts."""
        (self.place / "hand.py").write_text(HAND)
        command = json.dumps([sys.executable, "hand.py"])
        with (self.place / "ackd.toml").open("a") as config:
            config.write(f'\n[agents.{name}]\nendpoint = "process"\ncommand = {command}\n')

    def ask_to_stop(self) -> None:
        """Ask the daemon to stop. One that has died of its fault just now is started again all the same."""
        self.is_stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.facts("session_start")[-1]["pid"], signal.SIGTERM)

    def ledger(self) -> Counter[Key]:
        try:
            lines = (self.place / "ledger").read_text().splitlines()
        except FileNotFoundError:
            return Counter()
        return Counter(self.key(*line.split()[:2]) for line in lines)


Step: TypeAlias = "tuple[Callable[[], bool], Callable[[], object]]"


@dataclass(frozen=True)
class Script:
    """``marks``: of pytest, for what it needs."""

    name: str
    steps: Callable[[Stage], Iterator[Step]] = field(repr=False)
    marks: tuple[pytest.MarkDecorator, ...] = ()


SCRIPTS: dict[str, Script] = {}


def script(
    steps: Callable[[Stage], Iterator[Step]], marks: tuple[pytest.MarkDecorator, ...] = ()
) -> Callable[[Stage], Iterator[Step]]:
    """What a step generator does before its first yield, it does before the daemon starts."""
    SCRIPTS[steps.__name__] = Script(steps.__name__, steps, marks)
    return steps


script_of_mounts = partial(script, marks=(needs_root,))


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
def a_dead_letter_is_completed_after_all(stage: Stage) -> Iterator[Step]:
    dead = stage.give("scribe", "refuse", "message_dead", "message_completed")
    yield lambda: stage.said(dead, "message_dead"), lambda: stage.receipt(ReceiptKind.DONE, dead, "scribe")


@script
def the_parts_of_a_task_end_and_its_holder_is_told_once(stage: Stage) -> Iterator[Step]:
    """One part is completed by a handler, one by a command, one is refused. The holder of the task is told of all three
    together, in one notice, however often the daemon dies over them."""
    goal = stage.give("leader", "share this out", "message_completed")
    extra = f"X-ACKD-Part-Of: <{goal}>\nX-ACKD-Notify-When-Done: yes\n"
    parts = [
        stage.give("scribe", "one part", "message_completed", sender="leader", extra=extra),
        stage.give("worker", "one more", "message_completed", sender="leader", extra=extra),
        stage.give("scribe", "refuse this one", "message_dead", sender="leader", extra=extra),
    ]

    def notices() -> list[str]:
        """What the leader was told: a notice that was written once more is archived, and told to nobody."""
        found: list[str] = []
        for path in (stage.root / "queue/leader").rglob("*.mime"):
            with contextlib.suppress(FileNotFoundError):
                found.append(path.read_text())
        return [text for text in found if "cause: parts_ended" in text]

    def told_once() -> Iterator[str]:
        told = notices()
        if len(told) != 1:
            yield f"the leader was told {len(told)} times that the parts have ended"
        for text in told:
            yield from (f"the notice does not tell of {part}" for part in parts if part not in text)
        ids = {fact["notice_id"] for fact in stage.facts("parts_ended")}
        if len(ids) > 1:
            yield f"notices of several sets of parts: {sorted(ids)}"

    stage.also_settled.append(lambda: bool(notices()))
    stage.checks.append(told_once)
    yield lambda: bool(notices()), lambda: stage.receipt(ReceiptKind.DONE, goal, "leader")


@script
def a_pool_completes_three(stage: Stage) -> Iterator[Step]:
    stage.make_pool("squad", "first", "second")
    for number in range(2):
        stage.give("squad", f"number {number}", "message_completed")
    yield _started(stage), lambda: stage.give("squad", "the last", "message_completed")


@script
def what_one_of_a_pool_fails_goes_back_and_another_completes_it(stage: Stage) -> Iterator[Step]:
    stage.make_pool("squad", "first", "second", retry_limit=2)  # one more: a refusing disk may fail a start
    stage.give("squad", "fail once", "message_completed")
    yield from ()


@script
def what_a_whole_pool_fails_is_dead_and_is_dug_up(stage: Stage) -> Iterator[Step]:
    stage.make_pool("squad", "first", "second")
    dead = stage.give("squad", "fail always", "message_dead", "message_completed")

    def requeue() -> None:
        stage.script("squad.sh", NOTE)
        stage.receipt(ReceiptKind.REQUEUE, dead, "squad")

    yield lambda: stage.said(dead, "message_dead"), requeue


@script
def a_group_is_written_to(stage: Stage) -> Iterator[Step]:
    """A file in the group's own queue, and one in another's that names the group: every member has it once."""

    def give(to: str, of: str) -> str:
        message_id = stage.give(to, "for all", "message_completed", header_to=of)
        for member in {"scribe", "worker"} - {to}:
            copy = f"Message-ID: <{message_id}>\n\n{stage.accepted[message_id, to].data.partition(bytes(2 * [10]))[2].decode()}"
            stage.accepted[message_id, member] = Accepted("", copy.encode(), Counter(["message_completed"]), ours=True)
        return message_id

    give("crew", "crew")
    yield _started(stage), lambda: give("slow", "slow, crew")
    yield lambda: True, (stage.place / "go").touch


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
def one_is_cancelled_at_work_and_another_in_line(stage: Stage) -> Iterator[Step]:
    """The cancellations wait until the daemon has met both: the later message is claimed as soon as the first is over."""
    running = stage.give("slow", "runs", "message_dead", given_up=True)
    waiting: list[str] = []
    wait = lambda: waiting.append(stage.give("slow", "waits", "message_withdrawn"))  # noqa: E731

    def cancel() -> None:
        stage.cancel(waiting[0], "slow")
        stage.cancel(running, "slow")

    yield lambda: stage.said(running, "child_started"), wait
    yield lambda: stage.said(waiting[0], "message_queued"), cancel
    give = lambda: waiting.append(stage.give("worker", "after it", "message_completed"))  # noqa: E731
    yield lambda: stage.said(running, "message_dead"), give


def _in_s(seconds: float) -> str:
    return utc_times.write(time.time() + seconds)


@script
def one_expires_in_line_and_another_misses_its_deadline(stage: Stage) -> Iterator[Step]:
    late = stage.give("slow", "is late", "message_completed", extra=f"X-ACKD-Deadline: {_in_s(0.6)}\n")
    stage.checks.append(lambda: crash_checks.has_mail(stage, "leader", "escalation", late))
    waiting: list[str] = []

    def give() -> None:
        extra = f"X-ACKD-Expires: {_in_s(0.4)}\n"
        waiting.append(stage.give("slow", "waits", "message_dead", given_up=True, extra=extra))

    def both() -> bool:
        return stage.said(late, "deadline_passed") and stage.said(waiting[0], "message_dead")

    yield lambda: stage.said(late, "child_started"), give
    yield both, (stage.place / "go").touch


@script_of_mounts
def what_leaves_a_mount_is_copied(stage: Stage) -> Iterator[Step]:
    """Claimed, buried, dug up, archived, quarantined: each of these moves leads from one mount to another."""
    for directory in ("queue/scribe", "queue/scribe/processed"):
        stage.mounts.enter_context(mounted(stage.root / directory, "1m"))
    yield from a_dead_letter_is_dug_up(stage)
    yield from what_cannot_be_read(stage)


@script_of_mounts
def what_ends_unread_leaves_a_mount(stage: Stage) -> Iterator[Step]:
    """Completed, buried, put away as a duplicate: from the queue itself."""
    for directory in ("queue/slow", "queue/scribe"):
        stage.mounts.enter_context(mounted(stage.root / directory, "1m"))
    yield from the_same_message_comes_twice(stage)
    yield from receipts_for_what_waits_in_line(stage)


@script_of_mounts
def what_is_over_goes_to_a_mount(stage: Stage) -> Iterator[Step]:
    """Completed, and completed after all: out of processed/ and out of dead_letter/."""
    stage.mounts.enter_context(mounted(stage.root / "archive", "1m"))
    stage.give("scribe", "fine", "message_completed")
    yield from a_dead_letter_is_completed_after_all(stage)


@script
def an_inbox_is_read_and_answered(stage: Stage) -> Iterator[Step]:
    mail = stage.give("leader", "read me", "message_completed")
    yield lambda: stage.said(mail, "message_told"), lambda: stage.receipt(ReceiptKind.SEEN, mail, "leader")
    yield lambda: stage.said(mail, "message_seen"), lambda: stage.receipt(ReceiptKind.ACK, mail, "leader")
    yield lambda: stage.said(mail, "message_acked"), lambda: stage.receipt(ReceiptKind.DONE, mail, "leader")


@script
def what_only_informs_is_read(stage: Stage) -> Iterator[Step]:
    """Seen is enough: the receipt that says so is all there is of it until the file is in the archive."""
    config = stage.place / "ackd.toml"
    config.write_text(config.read_text() + '[agents.reader]\ncompletes_on = "seen"\n')
    mail = stage.give("reader", "read me", "message_completed")
    yield lambda: stage.said(mail, "message_told"), lambda: stage.receipt(ReceiptKind.SEEN, mail, "reader")


@script
def an_inbox_file_is_deleted(stage: Stage) -> Iterator[Step]:
    mail = stage.give("leader", "delete me", "message_completed", kept=False)

    def delete() -> None:
        (file,) = [path for path in (stage.root / "queue/leader/processed").glob("*.mime") if mail in path.read_text()]
        file.unlink()

    yield lambda: stage.said(mail, "message_told"), delete


@script
def an_agent_is_paused_and_resumed(stage: Stage) -> Iterator[Step]:
    def ask(kind: ReceiptKind) -> None:
        maildrop.drop_requests(stage.root / "receipts", kind, ["worker"], "user", fsync=False)

    waiting: list[str] = []
    give = lambda: waiting.append(stage.give("worker", "waits", "message_completed"))  # noqa: E731

    def resume() -> None:
        """Whatever happened to the daemon meanwhile: nothing was run while it was paused."""
        assert stage.ledger() == Counter()
        ask(ReceiptKind.RESUME)

    def paused() -> bool:
        """Not when the file is there: it is flushed first, and mail that comes meanwhile is told."""
        return any(fact["state"] == "paused" for fact in stage.facts("agent_state"))

    yield _started(stage), lambda: ask(ReceiptKind.PAUSE)
    yield paused, give
    yield lambda: stage.said(waiting[0], "message_queued"), resume


@script
def a_worker_hands_over_at_a_stop_and_the_next_daemon_goes_on(stage: Stage) -> Iterator[Step]:
    stage.make_worker("hand")
    task = stage.give("hand", "steps", "message_completed")
    starts: list[int] = []

    def stop() -> None:
        starts.append(len(stage.facts("session_start")))
        stage.ask_to_stop()

    def uncounted() -> Iterator[str]:
        if any(fact["counted"] for fact in stage.facts("message_retry", message=task)):
            yield "an attempt was counted for our stop"
        done = (stage.place / "steps").read_text().split()
        if done[-1:] != ["d"] or set(done) != {*"abcd"}:
            yield f"these steps were done: {done}"

    stage.checks.append(uncounted)
    yield (stage.place / "in-c").exists, stop
    yield lambda: len(stage.facts("session_start")) > starts[0], (stage.place / "go").touch


@script
def an_agent_says_where_it_stands(stage: Stage) -> Iterator[Step]:
    mail = stage.give("leader", "a long one", "message_completed")
    checkpoints = stage.root / "state/checkpoints"

    def kept() -> bool:
        """Whole, whenever one looks."""
        return any(json.loads(path.read_bytes())["checkpoint"]["text"] for path in checkpoints.glob("*.json"))

    say = lambda: maildrop.drop_checkpoint(stage.root / "receipts", mail, "leader", "half way", fsync=False)  # noqa: E731
    yield lambda: stage.said(mail, "message_told"), say
    yield kept, lambda: stage.receipt(ReceiptKind.DONE, mail, "leader")


@script
def a_board_meets_and_one_edits_its_files(stage: Stage) -> Iterator[Step]:
    """Every phase, one of them ended by its time; two answer with ackd, one by hand."""
    meeting = crash_board.Meeting(stage)
    meeting.open()
    yield _started(stage), lambda: meeting.assess("CA")
    yield lambda: meeting.heard("assess") == {"CA"}, lambda: meeting.assess_by_hand("CPO")
    yield lambda: meeting.heard("assess") == {"CA", "CPO"}, lambda: meeting.assess("CSO")
    yield lambda: meeting.phase() == "VOTING", lambda: meeting.vote("CA")  # nobody has spoken: time was up
    yield lambda: meeting.heard("vote") == {"CA"}, lambda: meeting.vote_by_hand("CPO")
    yield lambda: meeting.heard("vote") == {"CA", "CPO"}, lambda: meeting.vote("CSO")


ENSEMBLE = """
[ensemble]
dispatch = "scribe"
conductor = "scribe"
workers = { lead = "leader" }
"""


@script
def an_ensemble_team_gives_out_acks_and_reports(stage: Stage) -> Iterator[Step]:
    """A task whose worker is a command; one whose worker acknowledges by a file and is through by its report; a report
    that is written over; a summary; and an ACK of yesterday."""
    config = stage.place / "ackd.toml"
    config.write_text(config.read_text() + ENSEMBLE)
    mail: dict[str, str] = {}

    def write(file: str, to: str, version: int = 1, **keys: object) -> None:
        mail[file] = stage.write(file, to, keys, version)

    def said(file: str, *types: str) -> Callable[[], bool]:
        return lambda: stage.said(mail[file], *types) and stage.noted(file, mail[file])

    def ack() -> None:
        (stage.place / "queue/ack/T-2.ack").touch()

    def acked() -> bool:
        task = mail["tasks/lead-T-2.yaml"]
        return stage.said(task, "message_acked")

    write("tasks/worker-T-1.yaml", "worker", task_id="T-1", title="a page")
    (stage.place / "queue/ack").mkdir()
    (stage.place / "queue/ack/T-2.ack").touch()
    os.utime(stage.place / "queue/ack/T-2.ack", (1, 1))
    give = lambda: write("tasks/lead-T-2.yaml", "leader", task_id="T-2", title="another")  # noqa: E731
    yield said("tasks/worker-T-1.yaml", "message_completed"), give
    first: dict[str, Any] = {"task_id": "T-1", "status": "success"}
    yield said("tasks/lead-T-2.yaml", "message_told"), lambda: write("reports/T-1-completed.yaml", "scribe", **first)
    yield said("reports/T-1-completed.yaml", "message_completed"), ack
    again = lambda: write("reports/T-1-completed.yaml", "scribe", 2, **first, once="more")  # noqa: E731
    yield acked, again
    yield (
        said("reports/T-1-completed.yaml", "message_completed"),
        lambda: write("reports/T-2.yaml", "scribe", task_id="T-2"),
    )
    end = lambda: write("reports/completion-summary.yaml", "scribe", status="success")  # noqa: E731
    yield said("tasks/lead-T-2.yaml", "message_completed"), end


PATH = "src/a.py"


@script
def a_lease_is_over_and_goes_to_who_waits(stage: Stage) -> Iterator[Step]:
    """w1's time ends, the leader is given it in its absence and told, and a hand takes it from there for w2."""
    bus = stage.root / "bus"
    bus.mkdir(parents=True, mode=0o700)
    doors = Leases(bus, stage.place)
    first = doors.acquire(PATH, "w1")
    doors.ask(PATH, Ask("leader", until=time.time() + 600))
    over = {PATH: (first._replace(expires_at=time.time() + 0.1),)}
    doors.files.change(lambda table, _now, _dead: Change(table._replace(held=over), ()))

    def mails() -> list[Path]:
        found = []
        for path in (stage.root / "queue/leader").rglob("[!.]*.mime"):
            with contextlib.suppress(FileNotFoundError):  # it is being claimed
                found += [path] if PATH in path.read_text() else []
        return found

    def entry() -> dict[str, object]:
        """Whole, whenever one looks, but while the hand writes."""
        found: dict[str, object] = json.loads((bus / "locks.json").read_bytes() or b"{}").get(PATH, {})
        return found

    def edit() -> None:
        """As the seed does it: in place, without a lock."""
        (bus / "locks.json").write_text(json.dumps({PATH: {"worker_id": "w2"}}))

    def checks() -> Iterator[str]:
        lines = [json.loads(line) for line in (bus / "queue.jsonl").read_text().splitlines() if line.endswith("}}")]
        let_go = {line["source"] for line in lines if line["type"] == "FILE_UNLOCK"}
        # Not the leader: by then w2 holds the file. Nor w1 after a crash between the change and its lines, for the leader
        # has it then. Nobody may be told that a file is free while another holds it.
        if not let_go <= {"w1"}:
            yield f"the bus was told that {sorted(let_go)} let go"
        if len(mails()) != 1:
            yield f"the leader has {len(mails())} messages about its lease"
        if not (bus / "events" / event_name("FILE_LOCK", PATH)).exists():
            yield "no event of the lease that was waited for"
        if entry()["worker_id"] != "w2":
            yield f"{entry()} holds"
        # A disk that does not let go of leases.json leaves the leader in line, until the next look: the hand is quicker.
        if doors.look().waiting and not stage.disk_refused:
            yield f"{doors.look().waiting} wait"

    def told() -> bool:
        return bool(
            mails() and stage.facts("lease_expired", agent="w1") and stage.facts("lease_granted", agent="leader")
        )

    stage.checks.append(checks)
    yield lambda: entry().get("worker_id") == "leader" and told(), edit
    yield lambda: "token" in entry() and bool(stage.facts("lease_granted", agent="w2")), lambda: None
    yield lambda: bool(stage.facts("lease_broken", "lease_released", agent="leader")), lambda: None


@script
def the_log_goes_on_in_other_files_which_are_compressed(stage: Stage) -> Iterator[Step]:
    """Every kilobyte, and at once. What the checks read then is compressed, but for the last file."""
    config = stage.place / "ackd.toml"
    config.write_text("log_rotate_mb = 0.001\nlog_compress_hours = 0\n" + config.read_text())
    logs = stage.root / "logs"

    def all_compressed() -> bool:
        finished = session_log.session_files(logs)[:-1]
        return not any(path.exists() and keeping.is_daemons(path) for path in finished) or stage.disk_refused

    stage.also_settled.append(all_compressed)
    stage.give("scribe", "first", "message_completed")
    yield _started(stage), lambda: stage.give("scribe", "second", "message_completed")
    yield lambda: len(stage.facts("message_completed")) > 1, lambda: stage.give("worker", "third", "message_completed")


BUS_LINES = 5


@script
def lines_are_appended_to_a_bus(stage: Stage) -> Iterator[Step]:
    """Before it starts, while it runs, half a line at a time: each is acted on, and the mail about each is one."""
    bus = stage.root / "bus"
    (bus / "events").mkdir(mode=0o700, parents=True)
    queue = bus / "queue.jsonl"

    def line(number: int) -> bytes:
        payload = {"task_id": f"t{number}", "unblocks": [f"t{number + 1}"]}
        return json.dumps({"type": "TASK_COMPLETE", "source": "stranger", "payload": payload}).encode() + b"\n"

    def add(data: bytes) -> None:
        with queue.open("ab", buffering=0) as file:
            file.write(data)

    def acted_on(number: int) -> bool:
        said = {str(fact.get("task_id")) for fact in stage.facts("bus_message")}
        event = (bus / f"events/TASK_COMPLETE_t{number}.event").exists()
        return event and f"t{number}" in said and f"t{number}" in _told(stage)

    add(line(0) + b"noise\n" + line(1) + line(2)[:20])
    yield lambda: acted_on(1), lambda: add(line(2)[20:] + line(3))
    yield lambda: acted_on(3), lambda: add(line(4))
    yield lambda: acted_on(4), lambda: _judge_bus(stage)


def _told(stage: Stage) -> Counter[str]:
    """Which tasks the leader has mail about, by the ids that the mails bear: of one id there may be two files for a
    moment, until the second is recognised."""
    ids: dict[str, set[str]] = {}
    for path in (stage.root / "queue/leader").rglob("message_*.mime"):
        with contextlib.suppress(FileNotFoundError):  # a daemon at work has just moved it
            text, bears = path.read_text(), str(stage.header(path, "Message-ID"))
            for number in range(BUS_LINES):
                if f"task t{number} is complete" in text:
                    ids.setdefault(f"t{number}", set()).add(bears)
    return Counter({task: len(found) for task, found in ids.items()})


def _judge_bus(stage: Stage) -> None:
    told = _told(stage)
    assert told == Counter(f"t{number}" for number in range(BUS_LINES)), f"mail about {told}"
    events = {path.name for path in (stage.root / "bus/events").iterdir()}
    assert events >= {f"TASK_COMPLETE_t{number}.event" for number in range(BUS_LINES)}, f"events {events}"
    read = Counter(str(fact.get("task_id")) for fact in stage.facts("bus_message") if not fact.get("recovered"))
    assert all(times == 1 for times in read.values()), f"acted on as if for the first time: {read}"
