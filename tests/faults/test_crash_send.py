"""`ackd send` killed or refused at every change it makes: the message is there whole, or it is not there."""

from __future__ import annotations

import errno
import json
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.crash_cases import Case, in_memory, notes
from tests.faults.crash_checks import is_whole
from tests.faults.crash_processes import Fault
from tests.faults.crash_scripts import Accepted, Script, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.crash_processes import Zygote
    from tests.faults.crash_scripts import Step

BODY = f'content: "{"z" * 20_000}"\n'
FAULTS = [
    pytest.param("kill before", 0, id="killed before"),
    pytest.param("kill after", 0, id="killed after"),
    pytest.param("fail", errno.EIO, id="EIO"),
    pytest.param("fail", errno.ENOSPC, id="ENOSPC"),
    pytest.param("short", errno.ENOSPC, id="short write"),
]
RECIPIENTS = [pytest.param(("scribe",), id="one"), pytest.param(("scribe", "worker"), id="two")]


def send(zygote: Zygote, stage: Stage, to: tuple[str, ...], fault: Fault, broken: str | None = None) -> int:
    command = ("send", *to, "--json", "--body", BODY)
    child = zygote.run(*command, place=stage.place, fault=fault, broken=broken, out="send.out", err="send.err")
    assert child.ended(20)
    assert child.code is not None
    return child.code


def calls_of_send(zygote: Zygote, to: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        stage = Stage(Path(place))
        assert send(zygote, stage, to, Fault("record")) == 0
        return len(notes(stage))


def visible(stage: Stage) -> dict[str, bytes]:
    found = (stage.root / "queue").glob("*/[!.]*.mime")
    return {path.parent.name: path.read_bytes() for path in found}


def problems_of(zygote: Zygote, to: tuple[str, ...], fault: Fault, broken: str | None = None) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="ackd-crash-", dir=in_memory()) as place:
        stage = Stage(Path(place))
        code = send(zygote, stage, to, fault, broken)
        there = visible(stage)
        found = [*_of_exit(stage, to, fault, code, there), *_of_files(there)]
        if not found:
            found = _served(zygote, stage, there)
        return [f"{fault}, {notes(stage)}, exit {code}: {problem}" for problem in found]


def _of_exit(stage: Stage, to: tuple[str, ...], fault: Fault, code: int, there: dict[str, bytes]) -> Iterator[str]:
    """0: everyone has it. 73: nobody has, and it was said why, as JSON. Killed: some may."""
    out, err = (stage.place / "send.out").read_text(), (stage.place / "send.err").read_text()
    if code == 0 and (there.keys() != set(to) or not json.loads(out)["files"]):
        yield f"accepted, but in the queues of {sorted(there)} only"
    if code > 0:
        error = json.loads(out)["error"]
        if code != 73 or error["code"] != 73 or there or not error["message"].startswith("cannot write ") or err:
            yield f"refused, but in the queues of {sorted(there)}; said {out!r} and {err!r}"
    if code < 0 and not fault.action.startswith("kill"):
        yield "died"


def _of_files(there: dict[str, bytes]) -> Iterator[str]:
    for box, data in there.items():
        if not data.endswith(f"\n\n{BODY}".encode()) or not data.startswith(b"MIME-Version: 1.0\n"):
            yield f"half a message in {box}: {len(data)} bytes"


def _served(zygote: Zygote, stage: Stage, there: dict[str, bytes]) -> list[str]:
    """A daemon takes what is there for what it is, sees nothing else, and what is left behind can be swept."""
    for box, data in there.items():
        (path,) = (stage.root / "queue" / box).glob("[!.]*.mime")
        message_id = next(line for line in data.decode().splitlines() if line.startswith("Message-ID"))[13:-1]
        stage.accepted[message_id, box] = Accepted(path.name, data, Counter(["message_completed"]))
        assert is_whole(data, data)
    return Case(zygote, Script("what was sent", _nothing_more), stage).run().problems


def _nothing_more(stage: Stage) -> Iterator[Step]:
    yield lambda: bool(stage.facts("session_start")), lambda: None


@pytest.mark.parametrize("to", RECIPIENTS)
@pytest.mark.parametrize(("action", "code"), FAULTS)
def test_a_message_is_sent_whole_or_not_at_all(zygote: Zygote, action: str, code: int, to: tuple[str, ...]) -> None:
    faults = [Fault(action, n, code) for n in range(1, calls_of_send(zygote, to) + 1)]
    assert len(faults) > 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda fault: problems_of(zygote, to, fault), faults))
    assert not any(found), "\n".join(line for problems in found for line in problems)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_sent_once_is_sent_again_after_a_kill_and_is_one_message(zygote: Zygote, when: str) -> None:
    to = ("scribe", "worker")
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        stage = Stage(Path(place))
        assert send(zygote, stage, (*to, "--once", "key"), Fault("record")) == 0
        calls = len(notes(stage))
    assert calls > 8
    with ThreadPoolExecutor(4) as pool:
        faults = [Fault(f"kill {when}", n) for n in range(1, calls + 1)]
        found = list(pool.map(lambda fault: _sent_twice(zygote, to, fault), faults))
    assert not any(found), "\n".join(line for problems in found for line in problems)


def _sent_twice(zygote: Zygote, to: tuple[str, ...], fault: Fault) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="ackd-crash-", dir=in_memory()) as place:
        stage = Stage(Path(place))
        send(zygote, stage, (*to, "--once", "key"), fault)
        child = zygote.run(
            "send", *to, "--once", "key", "--json", "--body", BODY,
            place=stage.place, out="again.out", err="again.err",
        )  # fmt: skip
        assert child.ended(20)
        files = Counter(path.parent.name for path in (stage.root / "queue").glob("*/[!.]*.mime"))
        problems = [] if files == Counter(to) else [f"{fault}: files in {dict(files)}"]
        if child.code != 0:
            problems.append(f"{fault}: sent again, exit {child.code}: {(stage.place / 'again.err').read_text()}")
        return problems or [f"{fault}: {line}" for line in _served(zygote, stage, visible(stage))]
