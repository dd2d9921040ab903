"""What must hold after every crash, judged from outside: from the files, the log and what the agents wrote down.

``problems`` lists what does not hold, in words; an empty list is a pass.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from ackd.formats import ignite
from ackd.storage import session_log
from ackd.storage.spool import Spool
from ackd.storage.spool.disk import writer_of
from tests.living import process_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.crash_scripts import Accepted, Key, Stage

ENDS: Final = frozenset({"message_completed", "message_dead", "message_withdrawn", "message_duplicate"})
#: Where the file of a message lies whose last word this is.
_PLACE: Final = {
    "message_completed": "archive",
    "message_dead": "queue/dead_letter",
    "message_duplicate": "archive",
    "message_withdrawn": "archive",  # by its sender's word, if a file of it is kept
}

#: Temporary files of one fixed name: the next write takes it.
_OVERWRITTEN: Final = frozenset(
    {
        ".totals.json.tmp",
        ".escalations.json.tmp",
        ".boxes.json.tmp",
        ".ensemble.json.tmp",
        ".notices.json.tmp",
        ".held.json.tmp",
    }
)


def ends_so_far(stage: Stage) -> dict[Key, Counter[str]]:
    found: dict[Key, Counter[str]] = {}
    for line in stage.lines():
        if line["type"] in ENDS:
            key = stage.key(str(line["data"].get("message_id")), str(line["data"].get("agent")))
            found.setdefault(key, Counter())[line["type"]] += 1
    return found


def settled(stage: Stage) -> bool:
    """Nothing is under way, and every message has come to the ends that were asked of it.

    A run's directory that the disk would not let go of is left to the next start.
    """
    ends = ends_so_far(stage)
    return (
        all(ends.get(key, Counter()) >= accepted.ends for key, accepted in stage.accepted.items())
        and all(name.startswith(".") for name in stage.files("receipts"))  # what a crash cut short is swept in time
        and (stage.disk_refuses or not any(stage.files("state/runs")))
        and not any(_waiting(stage))
        and {kept for kept in stage.files("queue/corrupt") if not kept.endswith(".reason")} >= stage.rejected.keys()
        and len(stage.facts("message_rejected")) >= len(stage.rejected)
        and all(holds() for holds in stage.also_settled)
    )


def _waiting(stage: Stage) -> Iterator[Path]:
    shared = (one for pool, members in stage.pools.items() for one in (pool, *members))
    for box in ("scribe", "worker", "slow", *shared):
        yield from (stage.root / "queue" / box).rglob("*.mime")


def committed(stage: Stage) -> set[tuple[Key, str]]:
    """Messages whose last end is on disk, and the file that says so where that may be a duplicate's: to run one of these
    again is wrong. Told by names, which moves keep."""
    archived = {(path.parent.name, path.name) for path in (stage.root / "archive").glob("*/*/*.mime")}
    buried = set(stage.files("queue/dead_letter"))
    keys = _put_away(stage)
    for key, accepted in stage.accepted.items():
        over = any((agent, accepted.name) in archived for agent in (key[1], *stage.pools.get(key[1], ())))
        if over or (accepted.ends == Counter(["message_dead"]) and accepted.name in buried):
            keys.add((key, ""))
    return keys


def duplicates(stage: Stage) -> set[str]:
    """The files that the log says are a second copy: they are no message's end."""
    return {str(line["data"].get("file")) for line in stage.lines() if line["type"] == "message_duplicate"}


def _put_away(stage: Stage) -> set[tuple[Key, str]]:
    """Messages of gateways: of these only the id is known, and a gateway may have written one twice."""
    if not any(accepted.ours for accepted in stage.accepted.values()):
        return set()
    copies = _all_copies(stage)
    return {
        (key, str(path.relative_to(stage.root)))
        for key, accepted in stage.accepted.items()
        if accepted.ours
        for where, path in copies.get(key, [])
        if where == "archive"
    }


Copies: TypeAlias = "dict[Key, list[tuple[str, Path]]]"


def _all_copies(stage: Stage) -> Copies:
    """Every visible file by the id it bears and whose it is, and in which part of the tree it lies."""
    found: Copies = {}
    # Not below state/: a run's directory may go while it is listed.
    files = (path for part in ("queue", "archive") for path in (stage.root / part).rglob("[!.]*.mime"))
    for path in files:
        part, *rest = path.relative_to(stage.root).parts
        where = part if part == "archive" else f"{part}/{rest[0]}"
        with contextlib.suppress(FileNotFoundError):  # a daemon at work has just moved it
            data = path.read_bytes()
            agent = rest[1] if part == "archive" else rest[0]
            if agent in ("dead_letter", "corrupt"):
                agent = stage.header(path, "X-IGNITE-Recipient") or ""
            found.setdefault(stage.key(_id_of(data), agent), []).append((where, path))
    return found


def _id_of(data: bytes) -> str:
    found = re.search(rb"^Message-ID: <(.*)>$", data, re.MULTILINE)
    return found[1].decode() if found else ""


def missing(stage: Stage) -> list[str]:
    """Accepted messages that are not, whole, where their end puts them: what a power cut must not cause.

    Lines of the log are not asked for: they are not flushed, and may be gone. A file that lies in the archive or in
    dead_letter/ has come to an end that is on disk.
    """
    copies = _all_copies(stage)
    return [
        f"{key}: in {[where for where, _ in copies.get(key, [])]}, not whole in {sorted(_wanted_places(accepted))}"
        for key, accepted in stage.accepted.items()
        if not any(
            where in _wanted_places(accepted) and path.exists() and is_whole(path.read_bytes(), accepted.data)
            for where, path in copies.get(key, [])
        )
    ]


# --- the verdict --------------------------------------------------------------------------------------------------------
def problems(stage: Stage) -> list[str]:
    """Of a team whose daemon has come to rest and was stopped."""
    ends, copies = ends_so_far(stage), _all_copies(stage)
    return [
        *(
            line
            for key, accepted in stage.accepted.items()
            for line in _of_message(key, accepted, ends.get(key, Counter()), copies.get(key, []))
        ),
        *_of_rejects(stage),
        *(line for dead in stage.graves for line in _of_grave(stage, dead)),
        *_of_log(stage),
        *_of_leftovers(stage),
        *_of_output(stage),
        *(line for check in stage.checks for line in check()),
    ]


def _of_message(key: Key, accepted: Accepted, said: Counter[str], copies: list[tuple[str, Path]]) -> Iterator[str]:
    again = said["message_duplicate"] if accepted.ours else 0
    if said != accepted.ends + Counter({"message_duplicate": again}):
        yield f"{key}: the log says {dict(said)}, not {dict(accepted.ends)}"
    places = Counter(where for where, _ in copies)
    wanted = _wanted_places(accepted) + Counter({"archive": again})
    if places != wanted:
        yield f"{key}: files in {dict(places)}, not {dict(wanted)}"
    for _, path in copies:
        if not is_whole(path.read_bytes(), accepted.data):
            yield f"{key}: {path.name} is torn: {path.read_bytes()!r}"


def _wanted_places(accepted: Accepted) -> Counter[str]:
    if not accepted.kept:
        return Counter()
    if "message_completed" in accepted.ends:  # whatever it was before
        return Counter({"archive": accepted.ends["message_completed"] + accepted.ends["message_duplicate"]})
    return Counter(_PLACE[end] for end in accepted.ends)


def is_whole(now: bytes, given: bytes) -> bool:
    head, _, body = given.partition(b"\n\n")
    head_now, _, body_now = now.partition(b"\n\n")
    return body == body_now and set(head.splitlines()) <= set(head_now.splitlines())


def _of_rejects(stage: Stage) -> Iterator[str]:
    said = Counter(str(fact.get("kept_as")) for fact in stage.facts("message_rejected"))
    wanted = Counter(dict.fromkeys(stage.rejected, 1))
    if said != wanted:
        yield f"the log tells of quarantined {dict(said)}, not of {dict(wanted)}"
    for name, data in stage.rejected.items():
        path = stage.root / "queue/corrupt" / name
        if not path.exists() or path.read_bytes() != data:
            yield f"{name} is not in quarantine byte for byte"
        if not path.with_name(f"{name}.reason").exists():
            yield f"{name} is in quarantine without a reason"


def _of_grave(stage: Stage, dead: str) -> Iterator[str]:
    """The leader has one escalation about it, and its sender one notice. To whoever sent it, the escalation is both. While
    a disk that refused something has the leader parked, a person gets it."""
    told = {fact["to"] for fact in stage.facts("escalation", message=dead)}
    was_parked = any(fact["state"] == "parked" for fact in stage.facts("agent_state", agent="leader"))
    reader = "user" if told == {"user"} and stage.disk_refused and was_parked else "leader"
    yield from has_mail(stage, reader, "escalation", dead)
    sender = stage.senders.get(dead, "user")
    yield from has_mail(stage, sender, "dead_letter", dead, wanted=sender != reader)


def has_mail(stage: Stage, box: str, kind: str, about: str, *, wanted: bool = True) -> Iterator[str]:
    """One message about it lies there, or none."""
    ids = Counter(
        ignite.bare_id(dict(ignite.headers(path.read_bytes()))["Message-ID"])
        for path in (stage.root / "queue" / box).rglob(f"{kind}_*.mime")
        if about in path.read_text()
    )
    if list(ids.values()) != [1] * wanted:
        yield f"{about}: {box} has {kind} messages {dict(ids)}, not {'one' if wanted else 'none'}"


def _of_log(stage: Stage) -> Iterator[str]:
    """Readers see whole lines only, numbered without a gap within a session."""
    last: dict[str, int] = {}
    for line in session_log.iter_logs(stage.root / "logs"):
        before = last.get(line.session_id, 0)
        if line.seq != before + 1:
            yield f"session {line.session_id}: line {line.seq} follows {before}"
        last[line.session_id] = line.seq
    for path in session_log.session_files(stage.root / "logs"):
        reader = session_log.read_lines(path)
        for _ in reader:
            pass
        if reader.skipped and not stage.torn_lines_allowed:
            yield f"{path.name}: {reader.skipped} torn lines in the middle"


def _of_leftovers(stage: Stage) -> Iterator[str]:
    """What a crash left behind is what the sweep takes away, or the next start does where the disk refused even that."""
    spool = Spool(stage.root, max_message_bytes=1 << 20, durable=False)
    spool.sweep_temps(0, time.time() + 60)
    for part in ("queue", "receipts", "state", "archive"):
        for path in (stage.root / part).rglob(".*"):
            next_start_removes = stage.disk_refused and path.name.startswith(".journal.ndjson.")
            overwritten = path.name in _OVERWRITTEN or path.match("gateways/.*.json.tmp")
            if not next_start_removes and not overwritten and not _has_a_writer(path):
                yield f"left behind: {path.relative_to(stage.root)}"
    for name in stage.files("state/runs"):
        yield f"left behind: the run {name}"


def _has_a_writer(path: Path) -> bool:
    """By its number, which another process may have by now: thousands come and go while a test runs."""
    writer = writer_of(path.name)
    return writer is not None and process_state(writer) is not None


def _of_output(stage: Stage) -> Iterator[str]:
    if "Traceback" in stage.output():
        yield f"a traceback: {stage.output()[-3000:]}"
