"""Names of anyone's choosing: nothing made by them lies outside its directory, nothing in them reaches a terminal.

``place`` looks for files beside the root after every run, ``ackd`` for control characters in whatever is shown.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.daemon_targets import serve
from tests.fuzz.families import MESSAGE_ID, NASTY, SEEDS
from tests.fuzz.place import Place, place
from tests.fuzz.terminal import ackd

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES: Final = int(os.environ.get("ACKD_HYPOTHESIS_EXAMPLES", "120")) // 6
ESCAPE: Final = "\x1b]0;owned\x07"
hostile: Final = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

_PIECES: Final = [word for word in NASTY if len(word) < 60] + [
    ESCAPE,
    "\n",
    "queued 1.2.3 for worker",
    "worker",
    ".mime",
]
#: Short enough to be a file's or an agent's, and of the characters that make either dangerous.
names: Final = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=3).map("".join)
#: What a shell can hand over: no NUL, and surrogates only for bytes that are no UTF-8.
arguments: Final = names.map(lambda text: os.fsdecode(_as_bytes(text).replace(b"\0", b"")))
file_names: Final = arguments.map(lambda text: text.replace("/", "|")).filter(lambda text: text not in ("", ".", ".."))


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def put(directory: Path, name: str, data: bytes) -> Path | None:
    """None where the file system refuses the name, or it is taken."""
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError), (directory / name).open("xb") as file:
        file.write(data)
        return directory / name
    return None


def boxes(at: Place) -> set[str]:
    return {path.name for path in (at.root / "queue").iterdir()}


@hostile
@given(arguments, arguments)
def test_whoever_a_message_is_for_or_from_it_lies_in_a_queue_of_that_agent_or_nowhere(to: str, sender: str) -> None:
    with place() as at:
        ackd("send", "--body", "x", "--from", "user", "--", to)
        ackd("send", "worker", "--body", "x", f"--from={sender}")
        ackd("send", "worker", "--body", "x", f"--cc={to}", f"--thread-id={sender}", f"--issue={to}")
        ackd("send", "worker", f"--type={to}", f"--body={sender}")
        ackd("inbox", "worker")
        ackd("inbox", "--", to)
        assert boxes(at) <= {"leader", "worker", "user", "system", "queue_monitor"}


@hostile
@given(arguments)
def test_whatever_is_typed_for_an_id_or_a_file_is_answered_in_words(word: str) -> None:
    with place() as at:
        at.put("queue/worker/input.mime", SEEDS["message"][0])
        at.put("queue/dead_letter/input.mime", SEEDS["message"][0])
        for command in (
            ("read",), ("explain",), ("ack", "--agent", "worker"), ("reply", "--body", "x"), ("dead", "show"), ("lint",),
            ("dead", "requeue"), ("dead", "purge", "--yes"), ("message", "parse"), ("message", "validate"),
            ("message", "extract-body"), ("message", "schema"), ("tail", "--message"), ("tail", "--since"), ("send",),
        ):  # fmt: skip
            ackd(*command, *(["--"] if command[0] != "tail" else []), word)
        ackd("message", "update-header", "--", "input.mime", word, word)
        ackd("refuse", "input", "--agent", "worker", f"--reason={word}")
        ackd(word)


@hostile
@given(file_names)
def test_a_file_of_any_name_is_listed_shown_and_moved_within_the_root(name: str) -> None:
    message = SEEDS["message"][0]
    with place() as at:
        mail = put(at.root / "queue" / "worker", name, message)
        put(at.root / "queue" / "worker" / "processed", name, message)
        put(at.root / "archive" / "20261116" / "worker", name, message)
        grave = put(at.root / "queue" / "dead_letter", name, message)
        put(at.root / "queue" / "corrupt", name, b"what?")
        put(at.root / "receipts", name, b"{}")
        put(at.root / "logs", name, b"{}\n")
        put(at.root / "queue", name, b"stray")
        for command in (
            ("inbox", "worker", "--all"),
            ("inbox", "worker", "--all", "--json"),
            ("dead", "list"),
            ("status",),
            ("check",),
        ):
            ackd(*command)
        for file in (mail, grave):
            if file is not None:
                for words in (
                    ("read",),
                    ("explain",),
                    ("message", "validate"),
                    ("lint",),
                    ("dead", "show"),
                    ("message", "parse"),
                ):
                    ackd(*words, "--", str(file))
        ackd("dead", "requeue", "--all")
        ackd("dead", "purge", "--all", "--yes")


@hostile
@given(names, names)
def test_headers_of_any_content_are_shown_harmlessly_and_lead_nowhere(first: str, second: str) -> None:
    head, _, body = SEEDS["message"][0].partition(b"\n\n")
    for header in ("Message-ID", "From", "To", "X-IGNITE-Recipient", "X-IGNITE-Error-Reason", "In-Reply-To"):
        lines = [line for line in head.split(b"\n") if not line.startswith(header.encode() + b":")]
        data = (
            b"\n".join([*lines, header.encode() + b": " + _as_bytes(first)])
            + b"\n\nsummary: "
            + _as_bytes(second)
            + body
        )
        with place() as at:
            file = at.put("queue/worker/input.mime", data)
            at.put("queue/dead_letter/input.mime", data)
            for words in (
                ("inbox", "worker"),
                ("dead", "list"),
                ("dead", "show", "input.mime"),
                ("dead", "requeue", "--all"),
            ):
                ackd(*words)
            for command in (("read",), ("explain",), ("done", "--agent", "worker"), ("reply", "--body", "x")):
                ackd(*command, str(file))
            assert boxes(at) <= {"leader", "worker", "user", "system", "queue_monitor", "dead_letter", "corrupt"}


@settings(hostile, max_examples=max(1, EXAMPLES // 4))
@given(file_names, names)
def test_a_daemon_meets_files_and_boxes_of_any_name_and_stays_within_its_root(name: str, box: str) -> None:
    message = SEEDS["message"][0].replace(MESSAGE_ID.encode(), b"1.2.3@x")
    with place() as at:
        for directory in (
            "queue/worker",
            "queue/worker/processed",
            "queue/dead_letter",
            "queue/corrupt",
            "receipts",
            "queue",
            "logs",
        ):
            put(at.root / directory, name, message)
        with contextlib.suppress(OSError, ValueError):
            (at.root / "queue" / box.replace("/", "|")).mkdir()
            put(at.root / "queue" / box.replace("/", "|"), "x.mime", message)
        serve(at)
        serve(at)
        ackd("tail", "-n", "1000")
        ackd("tail", "--json", "-n", "1000")
        ackd("dead", "list")
        ackd("status")
