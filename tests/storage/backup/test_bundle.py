"""The file of a backup: whole or refused, and refused by name when it was made to do harm."""

from __future__ import annotations

import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.errors import BadBackup, NewerState
from ackd.storage import atomic_file
from ackd.storage.backup import bundle
from ackd.storage.backup.bundle import Source

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-11-19T22:00:00Z"
MAIL = b"Message-ID: <1@x>\n\nhello\n"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def sources(root: Path) -> list[Source]:
    found = [(str(path.relative_to(root)), path) for path in sorted(root.rglob("*"))]
    return [Source(name, path, None) for name, path in found]


def root_in(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    box = root / "queue/ann/processed"
    box.mkdir(parents=True)
    (root / "queue/ann/a.mime").write_bytes(MAIL)
    (box / os.fsdecode(b"b\xff.mime")).write_bytes(b"")  # no UTF-8: a name as any sender may make it
    os.utime(root / "queue/ann/a.mime", ns=(1_700_000_000_123_456_000, 1_700_000_000_123_456_000))
    return root


def packed(tmp_path: Path, name: str = "b.tar.gz", **more: Any) -> Path:
    root = root_in(tmp_path)
    bundle.pack(tmp_path / name, sources(root), root=str(root), taken_at=AT, config=b"[agents.ann]\n", **more)
    return tmp_path / name


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tgz", "b.tar.bz2", "b.tar.xz"])
def test_what_was_packed_is_laid_out_again_to_the_byte_and_the_time(tmp_path: Path, name: str) -> None:
    file = packed(tmp_path, name)
    assert file.stat().st_mode & 0o777 == 0o600
    found = bundle.verify(file)
    assert (found.contents.files, found.contents.bytes, found.config) == (2, len(MAIL), b"[agents.ann]\n")
    bundle.lay_out(file, tmp_path / "new/copy", lambda _directory, _contents: None)
    mail = tmp_path / "new/copy/queue/ann/a.mime"
    assert mail.read_bytes() == MAIL
    assert abs(mail.stat().st_mtime_ns - 1_700_000_000_123_456_000) < 1_000
    assert (tmp_path / "new/copy/queue/ann/processed" / os.fsdecode(b"b\xff.mime")).exists()
    assert names_in(tmp_path / "new") == ["copy"]


def test_a_file_that_has_grown_since_its_moment_is_packed_as_it_was(tmp_path: Path) -> None:
    root = root_in(tmp_path)
    log = root / "log"
    log.write_bytes(b"one\ntwo\n")
    found = [Source(one.path, one.place, 4 if one.path == "log" else None) for one in sources(root)]
    bundle.pack(tmp_path / "b.tar", found, root=str(root), taken_at=AT, config=None)
    bundle.lay_out(tmp_path / "b.tar", tmp_path / "copy", lambda _directory, _contents: None)
    assert (tmp_path / "copy/log").read_bytes() == b"one\n"


def test_a_file_that_is_gone_is_named_and_the_rest_is_there(tmp_path: Path) -> None:
    root = root_in(tmp_path)
    found = [*sources(root), Source("archive/20260101/ann/old.mime", root / "old.mime", None)]
    _, gone = bundle.pack(tmp_path / "b.tar", found, root=str(root), taken_at=AT, config=None)
    assert gone == ["archive/20260101/ann/old.mime"]
    assert bundle.verify(tmp_path / "b.tar").gone == ("archive/20260101/ann/old.mime",)


def test_nothing_is_replaced_and_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = packed(tmp_path)
    with pytest.raises(FileExistsError):
        bundle.pack(file, sources(tmp_path / "root"), root="x", taken_at=AT, config=None)

    def full(_path: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_file, "flush", full)
    with pytest.raises(OSError, match="No space"):
        bundle.pack(tmp_path / "c.tar", sources(tmp_path / "root"), root="x", taken_at=AT, config=None)
    assert names_in(tmp_path) == ["b.tar.gz", "root"]


# --- damaged ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tar.xz"])
def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    file = packed(tmp_path, name)
    whole = file.read_bytes()
    end = len(whole.rstrip(b"\0")) if name == "b.tar" else len(whole) - 200  # behind the end there is only padding
    for size in sorted({0, 1, 100, *range(0, end, max(1, end // 40))}):
        file.write_bytes(whole[:size])
        with pytest.raises(BadBackup):
            bundle.verify(file)


def test_a_changed_byte_of_content_is_found_and_nothing_is_written(tmp_path: Path) -> None:
    file = packed(tmp_path, "b.tar")
    file.write_bytes(file.read_bytes().replace(b"hello", b"hullo", 1))
    with pytest.raises(BadBackup, match=r"'root/queue/ann/a.mime' is not what was packed"):
        bundle.verify(file)
    with pytest.raises(BadBackup):
        bundle.lay_out(file, tmp_path / "copy", lambda _directory, _contents: None)
    assert names_in(tmp_path) == ["b.tar", "root"]


@pytest.mark.parametrize("key", ["format", "state_version"])
def test_a_backup_of_a_newer_ackd_is_refused_by_name(tmp_path: Path, key: str) -> None:
    made(tmp_path / "b.tar", head={key: 99, "ackd": "9.1"})
    with pytest.raises(NewerState, match=r"9\.1"):
        bundle.verify(tmp_path / "b.tar")


# --- hostile ------------------------------------------------------------------------------------------------------------
def member(name: str, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def made(file: Path, *members: tuple[tarfile.TarInfo, bytes], head: dict[str, Any] | None = None) -> None:
    """A file as somebody might make it who knows our form."""
    said = {"format": 1, "ackd": "1", "state_version": 1, "taken_at": AT, "root": "/r", "files": 3, "bytes": 1_000}
    said |= {"has_config": False, **(head or {})}
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in (member("backup.json", json.dumps(said).encode()), *members):
            tar.addfile(info, io.BytesIO(data))


HOSTILE = {
    "absolute": (member("/etc/passwd", b"x"), "'/etc/passwd' would lead out"),
    "up": (member("root/../../x", b"x"), "'root/../../x' would lead out"),
    "up at the end": (member("root/..", type=tarfile.DIRTYPE), "'root/..' would lead out"),
    "dot": (member("root/./x", b"x"), "would lead out"),
    "symbolic link": (member("root/x", type=tarfile.SYMTYPE, linkname="/etc"), "'root/x' is no plain file"),
    "hard link": (member("root/x", type=tarfile.LNKTYPE, linkname="root/y"), "'root/x' is no plain file"),
    "device": (member("root/x", type=tarfile.BLKTYPE, devmajor=8), "'root/x' is no plain file"),
    "FIFO": (member("root/x", type=tarfile.FIFOTYPE), "'root/x' is no plain file"),
    "too large": (member("root/x", b"x" * 1_001), "'root/x' is more than it announces"),
    "elsewhere": (member("x", b"x"), "'x' is nothing that ackd writes"),
    "long": (member(f"root/{'x' * 5_000}", b"x"), "too long a name"),
    "a huge header": (member(f"root/{'x' * 100_000}", b"x"), "a header of"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_was_made_to_do_harm_is_refused_by_name_and_writes_nothing(tmp_path: Path, what: str) -> None:
    bad, words = HOSTILE[what]
    made(tmp_path / "b.tar", bad)
    for read in (bundle.verify, lambda file: bundle.lay_out(file, tmp_path / "copy", lambda _path, _contents: None)):
        with pytest.raises(BadBackup) as caught:
            read(tmp_path / "b.tar")
        assert words in str(caught.value)
    assert names_in(tmp_path) == ["b.tar"]


def test_one_name_twice_and_more_files_than_announced_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "b.tar", member("root/x", b"1"), member("root/x", b"2"))
    with pytest.raises(BadBackup, match="'root/x' is in it twice"):
        bundle.verify(tmp_path / "b.tar")
    made(tmp_path / "b.tar", *(member(f"root/{number}") for number in range(4)))
    with pytest.raises(BadBackup, match="'root/3' is more than it announces"):
        bundle.verify(tmp_path / "b.tar")


def test_a_file_that_is_in_no_manifest_and_one_that_is_missing_are_refused(tmp_path: Path) -> None:
    empty = json.dumps({"files": {}}).encode()
    made(tmp_path / "b.tar", member("root/x", b"1"), member("manifest.json", empty))
    with pytest.raises(BadBackup, match="'root/x' is not what was packed"):
        bundle.verify(tmp_path / "b.tar")
    more = json.dumps({"files": {"root/y": [1, "ab"]}}).encode()
    made(tmp_path / "b.tar", member("manifest.json", more))
    with pytest.raises(BadBackup, match="'root/y' is missing"):
        bundle.verify(tmp_path / "b.tar")


def test_room_is_asked_for_before_anything_is_read(tmp_path: Path) -> None:
    made(tmp_path / "b.tar", head={"bytes": 10**15})

    def room(needed: int) -> None:
        raise MemoryError(needed)

    with pytest.raises(MemoryError, match=str(10**15)):
        bundle.verify(tmp_path / "b.tar", room)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b\x08\0", b"\xfd7zXZ\0\0", os.urandom(4_096)])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.tar").write_bytes(content)
    with pytest.raises(BadBackup):
        bundle.verify(tmp_path / "b.tar")
