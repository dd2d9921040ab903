"""Every command that takes a file, or reads one that lies in its way."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Final

from ackd.cli import send as send_command
from ackd.client.sending import Sent
from ackd.client.waiting import LogWaiter
from ackd.config import plain_toml
from ackd.config.site import find_site
from ackd.coordination.board.rules.follow_ups import Address, follow_ups
from ackd.coordination.board.track_board import TrackBoard
from ackd.coordination.bus.commands.tracks import choose_track
from ackd.formats import ignite, yaml_body
from ackd.storage import maildrop, root_lock
from tests.fuzz.families import MESSAGE_ID
from tests.fuzz.place import CONFIG, place, serving
from tests.fuzz.terminal import ackd, quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.families import Family
    from tests.fuzz.place import Place
    from tests.fuzz.terminal import Shown

_BOARD: Final = f"""{CONFIG}
[board]
directors = {{ CA = "technical", CPO = "product" }}
agents = {{ CA = "worker", CPO = "worker" }}
rounds = 1
""".encode()
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


def reply_body(data: bytes) -> None:
    with place() as at:
        (at.home / "input.yaml").write_bytes(data)
        asked = _asked(at)
        for kind in ("message", "task_completed", "code_review"):
            by_file = ackd("reply", asked, "--type", kind, "--body-file", "input.yaml")
            assert ackd("reply", asked, "--type", kind, "--body-file", "-", stdin=data).code == by_file.code
        for file in sorted((at.root / "queue" / "leader").glob("*.mime")):
            assert ackd("message", "validate", str(file)).code == 0


def checkpoint_file(data: bytes) -> None:
    """What is taken is a receipt that the daemon takes, too."""
    with place() as at:
        (at.home / "input.txt").write_bytes(data)
        asked = _asked(at)
        by_file = ackd("checkpoint", asked, "--file", "input.txt", "--agent", "worker", "--step", "2")
        assert ackd("checkpoint", asked, "-", "--agent", "worker", stdin=data).code == by_file.code
        receipts = [maildrop.read_receipt(file) for file in sorted((at.root / "receipts").glob("*.json"))]
        assert len(receipts) == (0 if by_file.code else 2)
        assert len({receipt.text for receipt in receipts}) <= 1


def _asked(at: Place) -> str:
    """The file of a message that leader sent to worker."""
    assert ackd("send", "worker", "--from", "leader", "--body", "what of it?").code == 0
    (file,) = (at.root / "queue" / "worker").glob("*.mime")
    return str(file)


# --- the board --------------------------------------------------------------------------------------------------------
def board_context(data: bytes) -> None:
    """`board open --context`: what was taken is shown, as JSON that any reader takes, and can be sent to a director."""
    with place(_BOARD) as at:
        (at.home / "input.json").write_bytes(data)
        if _open("--proposal", "Launch", "--context", "input.json").code == 0:
            _look_at_the_meeting()


def board_proposal(data: bytes) -> None:
    """To the end of the meeting: the resolution quotes the proposal."""
    with place(_BOARD) as at:
        (at.home / "input.txt").write_bytes(data)
        by_file = _open("--proposal", "@input.txt")
        assert _open("--proposal", "@-", stdin=data).code == by_file.code
        if by_file.code == 0:
            _look_at_the_meeting()
            assert ackd("board", "assess", "--director", "CA", "--verdict", "REJECT").code == 0
            assert ackd("board", "resolve").code == 0
            assert ackd("board", "show").code == 0


def board_message(data: bytes) -> None:
    with place(_BOARD) as at:
        (at.home / "input.txt").write_bytes(data)
        _open("--proposal", "Launch", "--checkpoint", "PRE_LAUNCH")
        for director in ("CA", "CPO"):
            assert ackd("board", "assess", "--director", director, "--verdict", "CONCERNS").code == 0
        words = ("board", "discuss", "--type", "QUESTION", "--changes-my-verdict", "--director")
        by_file = ackd(*words, "CA", "--message", "@input.txt")
        _look_at_the_meeting()
        by_stdin = ackd(*words, "CPO", "--message", "@-", stdin=data)
        assert by_stdin.code == by_file.code, (by_file, by_stdin)
        _look_at_the_meeting()
        assert ackd("board", "resolve").code in (0, 1)


def _open(*words: str, stdin: bytes = b"") -> Shown:
    return ackd("board", "open", "--checkpoint", "QUICK_REVIEW", *words, stdin=stdin)


def _look_at_the_meeting() -> None:
    for words in (("show",), ("show", "--for", "CA"), ("list",)):
        shown = ackd("board", *words)
        assert shown.code == 0, shown
        json.loads(ackd("board", *words, "--json").out, parse_constant=_no_json)
    track_board = TrackBoard(choose_track(find_site(), None, make=False), durable=False)
    for follow_up in follow_ups(
        track_board.find(None), Address(track_board.track.name, track_board.track.bus, "leader")
    ):
        if follow_up.mail is not None:
            sent = ignite.encode_draft(follow_up.mail, 1.7e9)
            ignite.decode(sent, "worker")
            yaml_body.load(ignite.split(sent).body.decode())


def _no_json(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


# --- what lies in the way ---------------------------------------------------------------------------------------------
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
            waiter = LogWaiter(find_site(), until, grace_s=0)
            file = at.put(_LOG, data)
            as_json = until == "acked"
            sent = Sent(MESSAGE_ID, ("worker", "leader"), (str(file),), daemon_running=True)
            with quiet() as ended:
                waited = waiter.wait(sent, 0, send_command.PrintedProgress(as_json=as_json, wait=until, timeout_s=0))
                send_command.report(sent._replace(waited=waited), as_json=as_json)
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
    ("reply_body", "yaml", reply_body),
    ("checkpoint_file", "text", checkpoint_file),
    ("board_context", "context", board_context),
    ("board_proposal", "text", board_proposal),
    ("board_message", "text", board_message),
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
