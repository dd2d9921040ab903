"""Every command that takes a file, or reads one that lies in its way."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Final

from ackd import plain_toml
from ackd.adapters import root_lock
from ackd.frontends.cli.waiting import Waiter
from ackd.site import find_site
from tests.fuzz.families import MESSAGE_ID
from tests.fuzz.place import place, serving
from tests.fuzz.terminal import ackd, quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.families import Family

_LOG: Final = "logs/session-20261116-010203.ndjson"


def message_file(data: bytes) -> None:
    """`ackd message` and `lint` on a file that someone made."""
    with place() as at:
        file = at.home / "input.mime"
        for words in (
            ("lint",), ("message", "parse"), ("message", "validate"), ("message", "validate", "--json"),
            ("message", "extract-body"), ("message", "extract-body", "--json"),
        ):  # fmt: skip
            file.write_bytes(data)
            ackd(*words, "input.mime")
            assert file.read_bytes() == data
        for words in (("update-status", "done"), ("update-header", "X-New", "é"), ("remove-header", "Cc")):
            file.write_bytes(data)
            if ackd("message", words[0], "input.mime", *words[1:]).code:
                assert file.read_bytes() == data


def report(data: bytes) -> None:
    with place() as at:
        (at.home / "input.txt").write_bytes(data)
        by_name = ackd("lint", "--report", "input.txt")
        assert ackd("lint", "--report", "-", stdin=data).code == by_name.code
        ackd("lint", "--json", "input.txt")


def sent_body(data: bytes) -> None:
    """What is sent is either refused or lies in the queue, readable."""
    with place() as at:
        (at.home / "input.yaml").write_bytes(data)
        for kind in ("message", "task_list", "task_completed", "progress_update", "code_review"):
            by_file = ackd("send", "worker", "--type", kind, "--body-file", "input.yaml")
            by_stdin = ackd("send", "worker", "-", "--type", kind, stdin=data)
            assert by_file.code == by_stdin.code
        for file in sorted((at.root / "queue" / "worker").glob("*.mime")):
            assert ackd("message", "validate", str(file)).code == 0
        ackd("message", "build", "--from=a", "--to=b", "--type=message", "--body-file=input.yaml", "-o", "input.mime")


def queued(data: bytes) -> None:
    """Commands that look at mail, in each place where mail lies."""
    with place() as at:
        for path in ("queue/worker/input.mime", "queue/leader/processed/input.mime", "archive/20261116/worker/x.mime"):
            file = str(at.put(path, data))
            for words in (("read",), ("read", "--json"), ("explain",), ("explain", "--json")):
                ackd(*words, file)
            ackd("read", file, "--agent", "worker")
            ackd("done", file, "--agent", "worker")
            ackd("refuse", file, "--agent", "leader", "--reason", "no")
            ackd("reply", file, "--body", "yes")
        ackd("inbox", "worker", "--all")
        ackd("inbox", "leader", "--json")
        ackd("status")


def dead_letter(data: bytes) -> None:
    """A dead letter is listed, shown, and put back or left where it is."""
    with place() as at:
        file = at.put("queue/dead_letter/input.mime", data)
        ackd("dead", "list")
        ackd("dead", "list", "--json")
        ackd("dead", "show", file.name)
        ackd("dead", "show", file.name, "--json")
        ackd("explain", str(file))
        back = ackd("dead", "requeue", file.name)
        assert file.exists() == (back.code != 0)
        ackd("inbox", "worker")


def reason(data: bytes) -> None:
    """The reason beside a quarantined file says where it goes back to: an agent's queue, and nowhere else."""
    with place() as at:
        file = at.put("queue/corrupt/input.mime", b"hello")
        at.put("queue/corrupt/input.mime.reason", data)
        ackd("dead", "list")
        ackd("dead", "show", file.name)
        ackd("dead", "list", "--json")
        back = ackd("dead", "requeue", file.name)
        assert file.exists() == (back.code != 0)


def log(data: bytes) -> None:
    """Readers of the session log, whose lines anyone may have written."""
    with place() as at:
        at.put(_LOG, data)
        for words in (
            ("tail",), ("tail", "--json"), ("tail", "--since", "1d"), ("tail", "--agent", "worker", "--type", "dead"),
            ("tail", "--message", MESSAGE_ID), ("explain", MESSAGE_ID), ("explain", MESSAGE_ID, "--json"), ("status",),
        ):  # fmt: skip
            ackd(*words)


def waited_for(data: bytes) -> None:
    """`send --wait` follows the same lines."""
    with place() as at, serving(at):
        for until in ("acked", "completed"):
            (at.root / _LOG).unlink(missing_ok=True)
            waiter = Waiter(find_site(), until, grace_s=0)
            file = at.put(_LOG, data)
            with quiet() as ended:
                waiter.wait(MESSAGE_ID, ("worker", "leader"), (str(file),), 0, as_json=until == "acked")
            assert ended.code in (0, 1, 69, 75)


def status_page(data: bytes) -> None:
    with place() as at, serving(at):
        at.put("run/status.json", data)
        ackd("status")
        ackd("status", "--json")


def totals(data: bytes) -> None:
    with place() as at:
        at.put("state/totals.json", data)
        at.put(_LOG, b"")
        ackd("status")
        ackd("status", "--json")


def lock(data: bytes) -> None:
    with place() as at, serving(at):
        (at.root / "run" / root_lock.LOCK_NAME).write_bytes(data)
        ackd("status")
        ackd("check")


def config(data: bytes) -> None:
    """Every command reads ackd.toml, `check` all of it. None is run: a config may name any program."""
    _means_the_same_to_both_readers(data)
    with place(data) as at:
        (at.home / "input.mime").write_bytes(b"X-IGNITE-Type: nobody_knows_it\n\n")
        for words in (("check",), ("check", "--json"), ("status",), ("message", "validate", "input.mime")):
            ackd(*words)
        ackd("status", "--root", ".ackd")


def _means_the_same_to_both_readers(data: bytes) -> None:
    text = data.decode(errors="replace")
    plain = plain_toml.read(text)
    if plain is not None:
        assert plain == tomllib.loads(text)


DOORS: Final[tuple[tuple[str, Family, Callable[[bytes], None]], ...]] = (
    ("message_file", "message", message_file),
    ("report", "text", report),
    ("sent_body", "yaml", sent_body),
    ("queued", "message", queued),
    ("dead_letter", "message", dead_letter),
    ("reason", "reason", reason),
    ("log", "log", log),
    ("waited_for", "log", waited_for),
    ("status_page", "status", status_page),
    ("totals", "totals", totals),
    ("lock", "lock", lock),
    ("config", "toml", config),
)
