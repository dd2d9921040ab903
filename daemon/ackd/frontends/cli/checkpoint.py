"""`ackd checkpoint`: an agent says where its work stands, so that whoever goes on with it need not begin anew.

Owns reading the text, from the command line, a file or stdin, and that it is a page and not a store. The daemon keeps
it when it reads the receipt; until then that waits, and that is what is said. Of several about one message the last
counts. For an open message only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.words import Folder
from ackd.frontends.cli.errors import BAD_DATA, NO, Failure, WrongUsage, accepted, creating
from ackd.frontends.cli.output import print_json, read_stdin, say
from ackd.frontends.cli.shape import AGENT, Command, Operand, Option
from ackd.frontends.cli.whose import check_reader, holder

if TYPE_CHECKING:
    from ackd.site import Site


def checkpoint(
    site: Site, as_json: bool, words: tuple[str, ...], step: float | None, file: str | None, agent: str | None
) -> None:
    from ackd.adapters import maildrop, root_lock
    from ackd.core.receipt_form import MAX_CHECKPOINT_BYTES, MAX_STEP

    wanted, *texts = words
    number = _whole(step, MAX_STEP)
    text = _text(texts, file, MAX_CHECKPOINT_BYTES)
    name, found = holder(site, wanted, agent)
    if found.folder in (Folder.ARCHIVE, Folder.DEAD):
        state = "completed" if found.folder is Folder.ARCHIVE else "dead"
        raise Failure(NO, f"{found.message_id} is {state} already: there is nothing to go on with")
    check_reader(site)
    with creating(site.receipts):
        path = maildrop.drop_checkpoint(site.receipts, found.message_id, name, text, number, fsync=site.fsync)
    with accepted("checkpoint: 1 written"):
        if as_json:
            print_json({"message_id": found.message_id, "agent": name, "receipt": str(path)})
            return
        waits = "" if root_lock.holder(site.run) is not None else " (waits: no daemon is running)"
        say(f"checkpoint: receipt written for {found.message_id}{waits}")


def _whole(step: float | None, most: int) -> int | None:
    if step is None:
        return None
    if not (0 <= step <= most and step == int(step)):
        raise WrongUsage(f"--step is a whole number of 0 to {most}")
    return int(step)


def _text(texts: list[str], file: str | None, limit_bytes: int) -> str:
    if len(texts) > 1:
        raise WrongUsage("TEXT is one argument: put it in quotes")
    if texts and texts != ["-"] and file is None:
        return _checked(texts[0].encode(errors="surrogateescape"), limit_bytes)
    if texts and file is not None:
        raise WrongUsage("give TEXT or --file, not both")
    if not texts and file is None:
        raise WrongUsage("where does the work stand? Give TEXT, or --file FILE (- reads stdin)")
    if file in (None, "-"):
        return _checked(read_stdin(limit_bytes + 1), limit_bytes)
    with open(str(file), "rb") as source:  # noqa: PTH123 - pathlib is not needed for more
        return _checked(source.read(limit_bytes + 1), limit_bytes)


def _checked(data: bytes, limit_bytes: int) -> str:
    """As the daemon will take it, or why not, in the words of who typed it."""
    if len(data) > limit_bytes:
        raise Failure(BAD_DATA, f"a checkpoint has at most {limit_bytes} bytes: keep the rest in a file, and name it")
    try:
        text = data.decode().replace("\r\n", "\n").strip("\n")
    except UnicodeDecodeError as error:
        raise Failure(BAD_DATA, f"the checkpoint is not UTF-8, at byte {error.start}") from None
    if not text.strip():
        raise Failure(BAD_DATA, "the checkpoint is empty")
    if any(ord(char) < 32 and char not in "\n\t" for char in text):
        raise Failure(BAD_DATA, "the checkpoint holds control characters")
    return text


CHECKPOINT: Final = Command(
    "checkpoint",
    "Say where the work on a message stands: whoever goes on with it is told. An ID is whole, a unique beginning, its "
    "hash, or a path. The last one counts.",
    Operand("words", "ID [TEXT]", several=True),
    (
        Option("--step", "step", least=0, metavar="N", help="How many steps are done."),
        Option("--file", "file", metavar="FILE", help="Read the text from a file, or from stdin (-)."),
        AGENT,
    ),
    checkpoint,
    root_only=True,
)
