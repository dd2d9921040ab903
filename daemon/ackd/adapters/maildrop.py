"""Putting a file where the daemon will find it: durable, whole, never over another.

Owns how anyone's message or receipt gets into ``queue/<agent>/`` and ``receipts/``: a dot-name in the same directory,
flushed, renamed without replacing, the directory flushed. Refuses to know what is in a message. Synchronous and quick
to import, because `ackd send` and `ackd ack` pay for every module. Fails with OSError, and then leaves nothing behind;
a receipt that cannot be read is ``BadReceipt``.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import BadName, BadReceipt
from ackd.core.names import agent_name
from ackd.core.words import ReceiptKind
from ackd.syscalls import rename_noreplace

if TYPE_CHECKING:
    from ackd.core.message import Receipt

MAX_RECEIPT_BYTES: Final = 16_384
MAX_REASON_CHARS: Final = 4_096
MAX_CLASHES: Final = 1_000
#: Receipts that an operator may drop in nobody's name.
OPERATOR_KINDS: Final = frozenset({ReceiptKind.REQUEUE, ReceiptKind.PURGE})
_RECEIPT_KEYS: Final = frozenset({"kind", "message_id", "agent", "reason", "at", "file"})


class Staged(NamedTuple):
    """A file that is durable under a name nobody looks at. Publish it, or discard it."""

    directory: Path
    name: str
    hidden: str
    fsync: bool

    def publish(self) -> Path:
        """Make it visible under its name, or the next free one; returns after the directory is flushed."""
        with _opened_directory(self.directory) as dir_fd:
            published = _rename_to_free_name(dir_fd, self.hidden, dir_fd, self.name)
            try:
                _flush(dir_fd, self.fsync)
            except OSError:
                # Not provably there: withdrawn, so that the caller's "failed" is true. If the daemon was faster it has
                # a message whose sender will send again, which is better than one that nobody has.
                with contextlib.suppress(OSError):
                    os.unlink(published, dir_fd=dir_fd)
                raise
        return self.directory / published

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            (self.directory / self.hidden).unlink()


def stage(directory: Path, name: str, data: bytes, *, fsync: bool = True) -> Staged:
    """The bytes, durable in ``directory`` under a dot-name. A missing directory is made; one that is a link refused."""
    if "/" in name or name.startswith("."):
        raise ValueError(f"not a plain file name: {name!r}")
    make_private_directory(directory, fsync=fsync)
    hidden = f".{name[:200]}.{os.getpid()}.{os.urandom(4).hex()}"
    with _opened_directory(directory) as dir_fd:
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
        try:
            try:
                _write_all(fd, data)
                _flush(fd, fsync)
            finally:
                os.close(fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(hidden, dir_fd=dir_fd)
            error.filename = error.filename or str(directory)
            raise
    return Staged(directory, name, hidden, fsync)


def drop(directory: Path, name: str, data: bytes, *, fsync: bool = True) -> Path:
    """The bytes as a new file in ``directory``; on a clash the name gets a number. Returns when it is durable."""
    staged = stage(directory, name, data, fsync=fsync)
    try:
        return staged.publish()
    except OSError:
        staged.discard()
        raise


def drop_all(items: Sequence[tuple[Path, str, bytes]], *, fsync: bool = True) -> list[Path]:
    """Several files, none visible before all are written: a full disk stops them all, not the last three.

    One that cannot be made visible takes those before it back: whoever is told that it failed sends it to all again.
    """
    staged: list[Staged] = []
    published: list[Path] = []
    try:
        for directory, name, data in items:
            staged.append(stage(directory, name, data, fsync=fsync))
        for one in staged:
            published.append(one.publish())  # noqa: PERF401 - one by one: those before a failure must be known
    except OSError:
        for path in published:
            with contextlib.suppress(OSError):  # the daemon was faster
                path.unlink()
        for one in staged:  # a published one has no hidden name any more
            one.discard()
        raise
    return published


def move(path: Path, directory: Path, name: str, *, fsync: bool = True) -> Path:
    """The file as it is, into another directory, under ``name`` or the next free one. For whoever holds the root."""
    with _opened_directory(path.parent) as old_fd, _opened_directory(directory) as new_fd:
        try:
            moved = _rename_to_free_name(old_fd, path.name, new_fd, name)
        except OSError as error:
            if error.errno != errno.EXDEV or not path.is_file() or path.is_symlink():
                raise
            moved = drop(directory, name, path.read_bytes(), fsync=fsync).name  # to another file system
            path.unlink()
        _flush(new_fd, fsync)
        _flush(old_fd, fsync)
    return directory / moved


def make_box(box_dir: Path, *, fsync: bool = True) -> None:
    """``queue/<agent>/`` and its ``processed/``, made private where they are missing."""
    make_private_directory(box_dir, fsync=fsync)
    make_private_directory(box_dir / "processed", fsync=fsync)


def make_private_directory(directory: Path, *, fsync: bool = True) -> None:
    """The directory and its missing parents, 0700, each made durable in its parent."""
    if directory.is_dir():
        return
    make_private_directory(directory.parent, fsync=fsync)
    with contextlib.suppress(FileExistsError):  # someone else made it just now: the next open finds out what it is
        directory.mkdir(mode=0o700)
    with _opened_directory(directory.parent, nofollow=False) as parent_fd:
        _flush(parent_fd, fsync)


def drop_receipt(
    receipts_dir: Path,
    kind: ReceiptKind,
    message_id: str | None,
    agent: str | None,
    reason: str | None = None,
    *,
    file: str | None = None,
    fsync: bool = True,
) -> Path:
    """One receipt, durable. ``file`` stands in for the id of a quarantined file. Refuses what no reader would take."""
    item = _receipt(receipts_dir, kind, message_id, agent, reason, file)
    return drop(*item, fsync=fsync)


def drop_receipts(
    receipts_dir: Path,
    kind: ReceiptKind,
    message_ids: Iterable[str],
    agent: str,
    reason: str | None = None,
    *,
    fsync: bool = True,
) -> dict[str, Path]:
    """One for each message, or, if the disk refuses, none: half a word would have to be taken back."""
    items = {one: _receipt(receipts_dir, kind, one, agent, reason, None) for one in message_ids}
    return dict(zip(items, drop_all(list(items.values()), fsync=fsync), strict=True))


def _receipt(
    receipts_dir: Path,
    kind: ReceiptKind,
    message_id: str | None,
    agent: str | None,
    reason: str | None,
    file: str | None,
) -> tuple[Path, str, bytes]:
    import json  # noqa: PLC0415 - the other writers here do not need it

    now_us = time.time_ns() // 1000
    content = {"kind": kind.value, "message_id": message_id, "agent": agent, "reason": reason, "at": _utc(now_us)}
    if file is not None:
        content["file"] = file
    name = f"{kind.value}_{now_us:016d}-{os.urandom(3).hex()}.json"
    _checked(name, content)
    # ASCII: the name of a quarantined file may be no UTF-8, and comes back from its escapes.
    return receipts_dir, name, json.dumps(content).encode() + b"\n"


def read_receipt(path: Path) -> "Receipt":
    """What a file in ``receipts/`` says. Anyone may have written it: whatever is not a receipt is ``BadReceipt``."""
    import json  # noqa: PLC0415

    name = path.name
    try:
        content = json.loads(_read_regular(path), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise BadReceipt(name, f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadReceipt(name, "not a JSON object")
    if unknown := sorted(content.keys() - _RECEIPT_KEYS):
        raise BadReceipt(name, f"unknown key {unknown[0]!r}")
    from ackd.core.message import Receipt  # noqa: PLC0415 - only the daemon reads them

    kind, message_id, agent, reason, file = _checked(name, content)
    return Receipt(kind, message_id, agent, name, reason, file)


def _checked(name: str, content: Mapping[str, object]) -> tuple[ReceiptKind, str, str | None, str | None, str | None]:
    """Kind, bare id, agent, reason and file, proven to make sense together."""
    kind = _kind(name, content.get("kind"))
    message_id = _text(name, content, "message_id", 998)
    file = _text(name, content, "file", 255)
    agent = _text(name, content, "agent", 64)
    if message_id is None and (file is None or kind not in OPERATOR_KINDS):
        raise BadReceipt(name, "no message_id")
    if file is not None and ("/" in file or "\0" in file or file.startswith(".")):
        raise BadReceipt(name, "file is not a plain file name")
    if agent is None and kind not in OPERATOR_KINDS:
        raise BadReceipt(name, "no agent")
    if agent is not None:
        try:
            agent_name(agent)
        except BadName as error:
            raise BadReceipt(name, str(error)) from None
    bare = message_id.removeprefix("<").removesuffix(">") if message_id is not None else ""
    return kind, bare, agent, _text(name, content, "reason", MAX_REASON_CHARS), file


def _kind(name: str, value: object) -> ReceiptKind:
    try:
        return ReceiptKind(value)
    except ValueError:
        raise BadReceipt(name, f"unknown kind {value!r}") from None


def _text(name: str, content: Mapping[str, object], key: str, limit: int) -> str | None:
    value = content.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > limit:
        raise BadReceipt(name, f"{key} must be a text of 1 to {limit} characters")
    if key == "file":  # bears whatever name it was dropped under
        return value
    # Surrogates and control characters would reach headers and terminals from here.
    if any(0xD800 <= ord(c) <= 0xDFFF or (ord(c) < 32 and (key != "reason" or c not in "\n\t")) for c in value):
        raise BadReceipt(name, f"{key} holds control characters")
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice")
    return content


def _read_regular(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise BadReceipt(path.name, "not a regular file") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadReceipt(path.name, "not a regular file")
        data = os.read(fd, MAX_RECEIPT_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_RECEIPT_BYTES:
        raise BadReceipt(path.name, f"larger than {MAX_RECEIPT_BYTES} bytes")
    return data


# --- the system calls -------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _opened_directory(directory: Path, *, nofollow: bool = True) -> Iterator[int]:
    # By descriptor, so that a directory swapped for a link between two steps cannot lead a write elsewhere.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if nofollow else 0)
    fd = os.open(directory, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _flush(fd: int, fsync: bool) -> None:
    if fsync:
        os.fsync(fd)


def _rename_to_free_name(old_fd: int, old: str, new_fd: int, name: str) -> str:
    stem, dot, extension = name.rpartition(".")
    for clash in range(MAX_CLASHES):
        candidate = name if clash == 0 else f"{stem}-{clash}{dot}{extension}" if dot else f"{name}-{clash}"
        try:
            rename_noreplace(old, candidate, old_fd, new_fd)
        except FileExistsError:
            continue
        return candidate
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def _utc(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{fraction:06d}Z"
