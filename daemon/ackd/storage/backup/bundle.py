"""The file of a backup: a tar archive, plain, ``.gz``, ``.bz2`` or ``.xz``, that says of itself what must be in it.

The first member, ``backup.json``, says what is to come: the format, how many files, how many bytes. Then comes the root
below ``root/``, the config as ``ackd.toml``, and last ``manifest.json`` with the size and SHA-256 of every file. A file
that was cut off lacks the last member; one that was changed fits it no more; one that was made to do harm (names that
lead elsewhere, links, devices, more than was announced) is refused at the member, before a byte of that is written.

``pack`` writes under a temporary name, flushes and renames; nothing is replaced. ``verify`` reads all of an archive and
writes nothing. ``lay_out`` verifies again while it writes, in a directory of its own that then gets the name.

Fails with OSError, with ``BadBackup`` for a file that is no whole backup, and with ``NewerState`` for one that a newer
ackd has written.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import lzma
import os
import shutil
import stat
import tarfile
import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from ackd import __version__
from ackd.core.errors import BadBackup, NewerState
from ackd.storage import atomic_file, state_version
from ackd.system.syscalls import rename_noreplace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

FORMAT: Final = 1
HEAD: Final = "backup.json"
MANIFEST: Final = "manifest.json"
CONFIG: Final = "ackd.toml"
ROOT: Final = "root"

_COMPRESSIONS: Final = {".gz": "gz", ".tgz": "gz", ".bz2": "bz2", ".xz": "xz", ".txz": "xz"}
_PIECE_BYTES: Final = 1 << 20
_MAX_HEAD_BYTES: Final = 65_536
_MAX_CONFIG_BYTES: Final = 4 * 1024 * 1024
_MAX_NAME_BYTES: Final = 4_096
#: An entry of the manifest takes at most so much, beside its name.
_ENTRY_BYTES: Final = 256
#: Long names and exact times come as members before the one that they are about.
_MAX_EXTENSION_BYTES: Final = 65_536
_BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, UnicodeError)


class Contents(NamedTuple):
    """A backup, as its first member announces it. ``root``: the one that it was taken of."""

    format: int
    ackd: str
    state_version: int
    taken_at: str
    root: str
    files: int
    bytes: int
    has_config: bool


class Source(NamedTuple):
    """A file or directory to be packed: its path below the root, where it is read, and how much of it at most."""

    path: str
    place: Path
    size: int | None


# --- writing ----------------------------------------------------------------------------------------------------------
def compression_of(file: Path) -> str:
    """Return tarfile's word for the compression that the file's name asks for; nothing for none."""
    return _COMPRESSIONS.get(file.suffix, "")


def pack(
    file: Path, sources: Iterable[Source], *, root: str, taken_at: str, config: bytes | None
) -> tuple[Contents, list[str]]:
    """Write the backup, durably, 0600. FileExistsError if there is something of that name. Also returns the paths of
    files that were gone before they could be read."""
    found, gone = [], list[str]()
    for source in sources:
        try:
            status = source.place.lstat()
        except FileNotFoundError:
            gone.append(source.path)
            continue
        found.append((source, status))
    regular = [status.st_size if source.size is None else min(source.size, status.st_size) for source, status in found
               if _is_file(status)]  # fmt: skip
    contents = Contents(
        FORMAT, __version__, state_version.VERSION, taken_at, root, len(regular), sum(regular), config is not None
    )
    if os.path.lexists(file):
        raise FileExistsError(17, os.strerror(17), str(file))
    temporary = file.parent / atomic_file.own_temporary_name()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as raw:
            mode: Any = f"w|{compression_of(file)}"
            with tarfile.open(fileobj=raw, mode=mode, format=tarfile.PAX_FORMAT) as tar:
                _Packer(tar).pack(contents, found, config, gone)
        atomic_file.flush(temporary)
        rename_noreplace(str(temporary), str(file))
        atomic_file.flush_directory(file.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return contents, gone


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


class _Packer:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._manifest: dict[str, tuple[int, str]] = {}

    def pack(
        self, contents: Contents, found: list[tuple[Source, os.stat_result]], config: bytes | None, gone: list[str]
    ) -> None:
        self._add_bytes(HEAD, json.dumps(contents._asdict()).encode())
        for source, status in found:
            name = f"{ROOT}/{source.path}"
            if not _is_file(status):
                self._add_directory(name, status)
                continue
            try:
                file = source.place.open("rb")
            except FileNotFoundError:  # an old day of the archive was removed meanwhile
                gone.append(source.path)
                continue
            with file:
                self._add_file(name, file, status, source.size)
        if config is not None:
            self._add_bytes(CONFIG, config)
        manifest = {"files": self._manifest, "gone": gone}
        self._add_bytes(MANIFEST, json.dumps(manifest).encode())

    def _add_directory(self, name: str, status: os.stat_result) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.mtime = tarfile.DIRTYPE, status.st_mode & 0o777, int(status.st_mtime)
        self._tar.addfile(info)

    def _add_file(self, name: str, file: IO[bytes], status: os.stat_result, size: int | None) -> None:
        """Add as much as the file had at its moment, however much it has grown since."""
        now = os.fstat(file.fileno())
        info = tarfile.TarInfo(name)
        info.size = min(now.st_size, status.st_size if size is None else size)
        info.mode, info.mtime = now.st_mode & 0o777, now.st_mtime  # with its fraction
        reader = _Hashing(file, info.size)
        self._tar.addfile(info, reader)
        self._manifest[name] = (info.size, reader.hexdigest)

    def _add_bytes(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o600
        self._tar.addfile(info, io.BytesIO(data))


class _Hashing:
    """Reads a file and hashes what was read. A file that was cut short meanwhile is filled with zeros."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        data += bytes(wanted - len(data))
        self._left -= len(data)
        self._hash.update(data)
        return data

    @property
    def hexdigest(self) -> str:
        return self._hash.hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------
@dataclass
class Bundle:
    """A backup that was read to its end and is whole."""

    path: Path
    contents: Contents
    config: bytes | None = None
    #: Files of the archive that were removed as old while the backup was written.
    gone: tuple[str, ...] = ()


def verify(file: Path, room: Callable[[int], None] = lambda _bytes: None) -> Bundle:
    """Read all of a backup and write nothing. ``room`` is called with the bytes that it announces, before they are
    read, and may raise."""
    return _Reader(file, room=room).read()


def lay_out(file: Path, root: Path, finish: Callable[[Path, Contents], None]) -> Bundle:
    """Write a backup's root as ``root``, which does not exist or is empty. ``finish`` is called with the directory when
    all is in it, before it gets its name. On any failure nothing is left."""
    root.parent.mkdir(parents=True, exist_ok=True)
    temporary = root.parent / atomic_file.own_temporary_name()
    temporary.mkdir(mode=0o700)
    try:
        bundle = _Reader(file, into=temporary).read()
        finish(temporary, bundle.contents)
        os.sync()  # one flush of everything: thousands of single ones would take minutes
        temporary.rename(root)  # replaces an empty directory, and nothing else
        atomic_file.flush_directory(root.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return bundle


class _CarefulInfo(tarfile.TarInfo):
    """A member whose extensions cannot fill the memory: tarfile reads those whole."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and self.size > _MAX_EXTENSION_BYTES:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]


@dataclass
class _Reader:
    file: Path
    into: Path | None = None
    room: Callable[[int], None] = lambda _bytes: None
    _found: dict[str, tuple[int, str]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _bytes: int = 0

    def read(self) -> Bundle:
        with self.file.open("rb") as raw:
            try:
                with tarfile.open(fileobj=raw, mode="r|*", tarinfo=_CarefulInfo) as tar:
                    return self._read(tar)
            except _BROKEN as error:
                raise self._bad(f"not a whole tar archive ({error})") from None

    def _read(self, tar: tarfile.TarFile) -> Bundle:
        members = iter(tar)
        contents = self._contents(tar, next(members, None))
        self.room(contents.bytes)
        bundle = Bundle(self.file, contents)
        manifest: dict[str, Any] | None = None
        for member in members:
            self._check_name(member.name)
            if manifest is not None:
                raise self._bad(f"{member.name!r} stands behind the end")
            if member.isdir() and member.name.startswith(f"{ROOT}/"):
                self._make(member)
            elif not member.isreg() or member.issparse():
                raise self._bad(f"{member.name!r} is no plain file: links and devices are never in a backup")
            elif member.name == MANIFEST:
                manifest = self._json(tar, member, (contents.files + 1) * (_MAX_NAME_BYTES + _ENTRY_BYTES))
            elif member.name == CONFIG:
                bundle.config = self._bytes_of(tar, member, _MAX_CONFIG_BYTES)
            elif member.name.startswith(f"{ROOT}/"):
                self._take(tar, member, contents)
            else:
                raise self._bad(f"{member.name!r} is nothing that ackd writes")
        if manifest is None:
            raise self._bad("its end is missing: it was cut off")
        bundle.gone = self._compare(manifest)
        return bundle

    def _contents(self, tar: tarfile.TarFile, member: tarfile.TarInfo | None) -> Contents:
        if member is None or member.name != HEAD or not member.isreg():
            raise self._bad("not a backup of ackd")
        said = self._json(tar, member, _MAX_HEAD_BYTES)
        try:
            format_, state, by = int(said["format"]), int(said["state_version"]), str(said["ackd"])[:64]
        except (KeyError, TypeError, ValueError):
            raise self._bad(f"{HEAD} is not of our form") from None
        if format_ > FORMAT:
            raise NewerState(str(self.file), format_, FORMAT, by)
        if state > state_version.VERSION:
            raise NewerState(str(self.file), state, state_version.VERSION, by)
        try:
            contents = Contents(
                format=format_,
                ackd=by,
                state_version=state,
                taken_at=str(said["taken_at"])[:64],
                root=str(said["root"])[:_MAX_NAME_BYTES],
                files=int(said["files"]),
                bytes=int(said["bytes"]),
                has_config=said["has_config"] is True,
            )
        except (KeyError, TypeError, ValueError):
            raise self._bad(f"{HEAD} is not of our form") from None
        if contents.files < 0 or contents.bytes < 0:
            raise self._bad(f"{HEAD} is not of our form")
        return contents

    def _check_name(self, name: str) -> None:
        """Refuse whatever does not lie where it says it does."""
        parts = name.split("/")
        try:
            length = len(os.fsencode(name))
        except UnicodeEncodeError:
            raise self._bad(f"{name!r} is no name of a file") from None
        if name.startswith("/") or any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise self._bad(f"{name!r} would lead out of the root")
        if length > _MAX_NAME_BYTES:
            raise self._bad(f"{name[:80]!r}… is too long a name")
        if name in self._names:
            raise self._bad(f"{name!r} is in it twice")
        self._names.add(name)

    def _make(self, member: tarfile.TarInfo) -> None:
        if len(self._names) > 4 * (len(self._found) + 1_000_000):
            raise self._bad("it has more directories than any root")
        if self.into is not None:
            path = self.into / member.name.removeprefix(f"{ROOT}/")
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, contents: Contents) -> None:
        self._bytes += member.size
        if len(self._found) >= contents.files or self._bytes > contents.bytes:
            raise self._bad(f"{member.name!r} is more than it announces ({contents.files} files)")
        data, digest = tar.extractfile(member), hashlib.sha256()
        assert data is not None  # a regular member
        with self._target(member) as target:
            while piece := data.read(_PIECE_BYTES):
                digest.update(piece)
                if target is not None:
                    target.write(piece)
        self._found[member.name] = (member.size, digest.hexdigest())

    @contextlib.contextmanager
    def _target(self, member: tarfile.TarInfo) -> Iterator[IO[bytes] | None]:
        if self.into is None:
            yield None
            return
        path = self.into / member.name.removeprefix(f"{ROOT}/")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fchmod(fd, member.mode & 0o700 | 0o600)
            with contextlib.suppress(OverflowError):
                at_ns = int(float(member.mtime) * 1_000_000_000)
                os.utime(fd, ns=(at_ns, at_ns))  # mail is delivered in the order of its age

    def _compare(self, manifest: dict[str, Any]) -> tuple[str, ...]:
        files, gone = manifest.get("files"), manifest.get("gone", [])
        if not isinstance(files, dict) or not isinstance(gone, list):
            raise self._bad(f"{MANIFEST} is not of our form")
        for name in sorted(files.keys() | self._found.keys()):
            if name not in self._found:
                raise self._bad(f"{name!r} is missing")
            if name not in files or list(self._found[name]) != list(files[name] or ()):
                raise self._bad(f"{name!r} is not what was packed: the file has been changed or damaged")
        return tuple(map(str, gone))

    def _json(self, tar: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> dict[str, Any]:
        try:
            found = json.loads(self._bytes_of(tar, member, limit))
        except (ValueError, RecursionError):
            raise self._bad(f"{member.name} is not JSON") from None
        if not isinstance(found, dict):
            raise self._bad(f"{member.name} is not of our form")
        return found

    def _bytes_of(self, tar: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> bytes:
        if member.size > limit:
            raise self._bad(f"{member.name} has {member.size} bytes, more than {limit}")
        data = tar.extractfile(member)
        assert data is not None
        return data.read()

    def _bad(self, why: str) -> BadBackup:
        return BadBackup(str(self.file), why)
