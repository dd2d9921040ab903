"""Put a file where the daemon will find it: durable, whole, never over another.

Every message and receipt gets into ``queue/<agent>/`` and ``receipts/`` in the same way: a dot-name in the same
directory, flushed, renamed without replacing, the directory flushed. A file belongs to its writer, whoever owns the
directory: its owner is never changed. The content of a message is not looked at. Synchronous and quick to import,
because `ackd send` and `ackd ack` pay for every module. Fails with OSError, and then leaves nothing behind; a receipt
that cannot be read is ``BadReceipt``.
"""

# Annotations are evaluated here: a NamedTuple compiles those that are not, which costs every command some 3 ms.
# Paths are mostly text: making a Path, or adding to one, costs as much as a system call.
import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ackd.core.errors import BadReceipt
from ackd.core.words import Folder, ReceiptKind
from ackd.storage.atomic_file import write_all
from ackd.system.syscalls import identity_in, rename_noreplace

if TYPE_CHECKING:
    from ackd.core.message import Receipt, WhichFile

MAX_RECEIPT_BYTES: Final = 16_384
#: The limit of checkpoint receipts, which are known by their file name: the text takes up to 64 KiB, and three times as
#: much escaped in JSON.
MAX_CHECKPOINT_RECEIPT_BYTES: Final = 3 * 65_536 + MAX_RECEIPT_BYTES
_CHECKPOINT_NAME: Final = f"{ReceiptKind.CHECKPOINT.value}_"
MAX_CLASHES: Final = 1_000
#: Another sender holds the lock while it flushes a file. One that is stopped meanwhile must not stop the others: after
#: this they go on without it, and the daemon still recognises a second copy.
LOCK_WAIT_S: Final = 10.0
_LOCK_POLL_S: Final = 0.02


class Staged(NamedTuple):
    """A file that is durable under a name nobody looks at. Publish it, or discard it."""

    directory: str | Path
    name: str
    hidden: str
    fsync: bool

    def publish(self) -> str:
        """Make it visible under its name, or the next free one, flush the directory, and return the path."""
        with _opened_directory(self.directory) as dir_fd:
            return f"{self.directory}/{_show(dir_fd, self.hidden, self.name, self.fsync)}"

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(f"{self.directory}/{self.hidden}")  # noqa: PTH108


def stage(directory: str | Path, name: str, data: bytes, *, fsync: bool = True) -> Staged:
    """Write the bytes durably into ``directory`` under a dot-name. A missing directory is made; one that is a link is
    refused."""
    with _opened_or_made(directory, fsync) as dir_fd:
        return Staged(directory, name, _hide(dir_fd, directory, name, data, fsync), fsync)


def drop(directory: str | Path, name: str, data: bytes, *, fsync: bool = True) -> Path:
    """Put the bytes into ``directory`` as a new file; if the name is taken it gets a number. Durable when this
    returns."""
    return Path(_drop(directory, name, data, fsync))


def _drop(directory: str | Path, name: str, data: bytes, fsync: bool) -> str:
    with _opened_or_made(directory, fsync) as dir_fd:
        hidden = _hide(dir_fd, directory, name, data, fsync)
        try:
            return f"{directory}/{_show(dir_fd, hidden, name, fsync)}"
        except OSError:
            _remove(dir_fd, hidden)
            raise


def drop_all(items: Sequence[tuple[str | Path, str, bytes]], *, fsync: bool = True) -> list[str]:
    """Put several files and return their paths. None is visible before all are written, so that a full disk stops all
    of them and not just the last ones.

    If one cannot be made visible, those before it are taken back: a sender who is told that it failed sends it to all
    again.
    """
    if len(items) == 1:
        return [_drop(*items[0], fsync)]
    staged: list[Staged] = []
    published: list[str] = []
    try:
        for directory, name, data in items:
            staged.append(stage(directory, name, data, fsync=fsync))
        for one in staged:
            published.append(one.publish())  # noqa: PERF401 - one by one: those before a failure must be known
    except OSError:
        for path in published:
            with contextlib.suppress(OSError):  # the daemon has taken it already
                os.unlink(path)  # noqa: PTH108
        for one in staged:  # a published one has no hidden name any more
            one.discard()
        raise
    return published


def make_box(box_dir: str | Path, *, fsync: bool = True) -> None:
    """Make ``queue/<agent>/`` and its ``processed/``, private, where they are missing."""
    if not os.path.isdir(f"{box_dir}/processed"):  # noqa: PTH112 - mostly it is there, and a Path costs more than the look
        make_private_directory(Path(box_dir), fsync=fsync)
        make_private_directory(Path(box_dir, "processed"), fsync=fsync)


@contextlib.contextmanager
def locked(boxes: Sequence[str]) -> Iterator[None]:
    """Hold a lock on these queue directories, which exist, against other senders that do the same. Where a lock cannot
    be had, go on without it."""
    with contextlib.ExitStack() as held:
        deadline = time.monotonic() + LOCK_WAIT_S
        for box in sorted(boxes):  # in one order, so that two senders do not wait for each other
            fd = os.open(box, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, fd)
            _lock(fd, deadline)
        yield


def _lock(fd: int, deadline: float) -> None:
    from ackd.storage import file_lock  # noqa: PLC0415 - the other writers here do not need it

    with contextlib.suppress(OSError):  # a file system without locks
        while not file_lock.take(fd) and time.monotonic() < deadline:
            time.sleep(_LOCK_POLL_S)


def make_private_directory(directory: Path, *, fsync: bool = True) -> None:
    """Make the directory and its missing parents, 0700, each made durable in its parent."""
    if directory.is_dir():
        return
    make_private_directory(directory.parent, fsync=fsync)
    with _opened_directory(directory.parent, nofollow=False) as parent_fd:
        with contextlib.suppress(FileExistsError):  # somebody else has just made it; opening it finds out what it is
            directory.mkdir(mode=0o700)
        _flush(parent_fd, fsync)


def drop_receipt(
    receipts_dir: Path,
    kind: ReceiptKind,
    message_id: str | None,
    agent: str | None,
    reason: str | None = None,
    *,
    file: str | None = None,
    folder: Folder | None = None,
    fsync: bool = True,
) -> Path:
    """Put one receipt, durable. ``file`` stands in for the id of a quarantined file; ``folder``: the one it lies in. A
    receipt that no reader would accept is refused."""
    more = {} if file is None else {"file": file}
    if folder is not None:
        more["folder"] = folder.value
    return drop(*_receipt(receipts_dir, kind, message_id, agent, reason, **more), fsync=fsync)


def drop_checkpoint(
    receipts_dir: Path, message_id: str, agent: str, text: str, step: int | None = None, *, fsync: bool = True
) -> Path:
    """Put a checkpoint of the agent's work on the message, durable."""
    more: dict[str, object] = {"text": text} if step is None else {"text": text, "step": step}
    return drop(*_receipt(receipts_dir, ReceiptKind.CHECKPOINT, message_id, agent, None, **more), fsync=fsync)


def drop_requests(
    receipts_dir: Path, kind: ReceiptKind, agents: Iterable[str], by: str, *, fsync: bool = True
) -> dict[str, Path]:
    """Put one request for each agent, or, if the disk refuses, none."""
    items = {agent: _receipt(receipts_dir, kind, None, agent, None, by=by) for agent in agents}
    return dict(zip(items, map(Path, drop_all(list(items.values()), fsync=fsync)), strict=True))


def drop_reload(receipts_dir: Path, by: str, *, fsync: bool = True) -> Path:
    """Put a request to read the config again."""
    return drop(*_receipt(receipts_dir, ReceiptKind.RELOAD, None, None, None, by=by), fsync=fsync)


def drop_cancellations(
    receipts_dir: Path,
    recipients: Sequence[tuple[str, str]],
    by: str,
    reason: str | None = None,
    of: str | None = None,
    *,
    fsync: bool = True,
) -> list[Path]:
    """Put one cancellation for each pair of a message's id and the agent it went to; or, if the disk refuses, none.
    ``of``: the message from which the others came."""
    items = []
    for message_id, agent in recipients:
        more = {} if of is None or of == message_id else {"of": of}
        items.append(_receipt(receipts_dir, ReceiptKind.CANCEL, message_id, agent, reason, by=by, **more))
    return [Path(path) for path in drop_all(items, fsync=fsync)] if items else []


def drop_receipts(
    receipts_dir: Path,
    kind: ReceiptKind,
    agents: Mapping[str, str],
    reason: str | None = None,
    *,
    fsync: bool = True,
) -> dict[str, Path]:
    """Put one receipt for each message, in the name of its agent; or, if the disk refuses, none, because half of them
    would have to be taken back."""
    items = {one: _receipt(receipts_dir, kind, one, agent, reason) for one, agent in agents.items()}
    return dict(zip(items, map(Path, drop_all(list(items.values()), fsync=fsync)), strict=True))


def _receipt(
    receipts_dir: Path,
    kind: ReceiptKind,
    message_id: str | None,
    agent: str | None,
    reason: str | None,
    **more: object,
) -> tuple[str | Path, str, bytes]:
    import json  # noqa: PLC0415 - the other writers here do not need it

    from ackd.core import receipt_form  # noqa: PLC0415

    now_us = time.time_ns() // 1000
    said = {"kind": kind.value, "message_id": message_id, "agent": agent, "reason": reason, "at": _utc(now_us)}
    content = {**said, **more}
    name = f"{kind.value}_{now_us:016d}-{os.urandom(3).hex()}.json"
    receipt_form.checked(name, content)
    # ASCII, because the name of a quarantined file may not be UTF-8; escapes preserve it.
    return receipts_dir, name, json.dumps(content).encode() + b"\n"


def read_receipt(path: Path) -> "Receipt":
    """Read a file in ``receipts/``. Anyone may have written it: a file that is not a receipt is ``BadReceipt``."""
    import json  # noqa: PLC0415

    from ackd.core import receipt_form  # noqa: PLC0415
    from ackd.core.message import Receipt  # noqa: PLC0415 - only the daemon reads them

    name, (data, which) = path.name, _read_regular(path)
    try:
        content = json.loads(data, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise BadReceipt(name, f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadReceipt(name, "not a JSON object")
    said = receipt_form.checked(name, content)
    return Receipt(
        kind=said.kind,
        message_id=said.message_id,
        agent=said.agent,
        name=name,
        reason=said.reason,
        file=said.file,
        text=said.text,
        step=said.step,
        by=said.by,
        folder=said.folder,
        of=said.of,
        which=which,
    )


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice")
    return content


def _read_regular(path: Path) -> "tuple[bytes, WhichFile]":
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise BadReceipt(path.name, "not a regular file") from None
        if error.errno == errno.EACCES and (owner := _owner(path)) is not None:
            raise BadReceipt(path.name, f"ackd (user {os.geteuid()}) may not read it: it is user {owner}'s") from None
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise BadReceipt(path.name, "not a regular file")
        limit = MAX_CHECKPOINT_RECEIPT_BYTES if path.name.startswith(_CHECKPOINT_NAME) else MAX_RECEIPT_BYTES
        data = os.read(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise BadReceipt(path.name, f"larger than {limit} bytes")
    return data, (*identity_in(status), hash(data))


def _owner(path: Path) -> int | None:
    """Return the file's owner; None if the directory is closed to us, and so is every file in it."""
    try:
        return path.lstat().st_uid
    except OSError:
        return None


# --- the system calls -------------------------------------------------------------------------------------------------
class _opened_directory:  # noqa: N801 - used as a function; a generator for it costs more than the two system calls
    """Opens a directory by descriptor, so that one swapped for a link between two steps cannot lead a write
    elsewhere."""

    __slots__ = ("_fd",)

    def __init__(self, directory: str | Path, *, nofollow: bool = True) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if nofollow else 0)
        self._fd = os.open(directory, flags)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _opened_or_made(directory: str | Path, fsync: bool) -> _opened_directory:
    try:
        return _opened_directory(directory)
    except FileNotFoundError:
        make_private_directory(Path(directory), fsync=fsync)
        return _opened_directory(directory)


def _hide(dir_fd: int, directory: str | Path, name: str, data: bytes, fsync: bool) -> str:
    """Write the bytes durably into the open directory under a dot-name, and return that name."""
    if "/" in name or name.startswith("."):
        raise ValueError(f"not a plain file name: {name!r}")
    hidden = f".{name[:200]}.{os.getpid()}.{os.urandom(4).hex()}"
    fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    try:
        try:
            write_all(fd, data)
            _flush(fd, fsync)
        finally:
            os.close(fd)
    except OSError as error:
        _remove(dir_fd, hidden)
        error.filename = error.filename or str(directory)
        raise
    return hidden


def _show(dir_fd: int, hidden: str, name: str, fsync: bool) -> str:
    """Make a hidden file visible under its name, or the next free one, and return that once the directory is
    flushed."""
    shown = _rename_to_free_name(dir_fd, hidden, dir_fd, name)
    try:
        _flush(dir_fd, fsync)
    except OSError:
        # The file may not be durable, so it is withdrawn, and "failed" is true. If the daemon has taken it already, the
        # sender sends the message twice, which is better than a message that is lost.
        _remove(dir_fd, shown)
        raise
    return shown


def _remove(dir_fd: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=dir_fd)


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
