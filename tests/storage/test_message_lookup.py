"""Finding messages by id: whole, by its beginning, or by path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ackd.core.errors import AmbiguousMessage, UnknownMessage
from ackd.core.message import Folder
from ackd.storage.message_lookup import find, in_folders, read_head
from tests.nobody import nobodys_directory

if TYPE_CHECKING:
    from pathlib import Path


def put(root: Path, where: str, message_id: str, extra: str = "") -> Path:
    path = root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"MIME-Version: 1.0\nMessage-ID: <{message_id}>\n{extra}From: user\n\nMessage-ID: <in.the.body>\n")
    return path


def test_every_recipients_copy_is_found(tmp_path: Path) -> None:
    paths = [put(tmp_path, f"queue/{box}/x.mime", "1.2.a@x") for box in ("a", "b")]
    found = find(tmp_path, "1.2.a@x")
    assert [one.path for one in found] == paths
    assert [one.box for one in found] == ["a", "b"]
    assert find(tmp_path, "<1.2.a@x>", agent="b")[0].path == paths[1]


def test_agents_are_found_in_either_spelling(tmp_path: Path) -> None:
    put(tmp_path, "queue/ignitian-1/processed/x.mime", "1@x")
    (one,) = find(tmp_path, "1@x", agent="ignitian_1")
    assert (one.box, one.folder) == ("ignitian-1", Folder.PROCESSED)


def test_a_beginning_must_be_unique_unless_it_is_whole_up_to_the_at(tmp_path: Path) -> None:
    for message_id in ("1.2.ab@x", "1.2.abc@x", "1.3.d@x"):
        put(tmp_path, f"queue/a/{message_id}.mime", message_id)
    assert find(tmp_path, "1.3")[0].message_id == "1.3.d@x"
    assert find(tmp_path, "1.2.ab")[0].message_id == "1.2.ab@x"
    with pytest.raises(AmbiguousMessage) as caught:
        find(tmp_path, "1.2")
    assert caught.value.candidates == ("1.2.ab@x", "1.2.abc@x")


def test_what_is_on_its_way_beats_what_is_over(tmp_path: Path) -> None:
    put(tmp_path, "archive/20261115/a/x.mime", "1.2.old@x")
    put(tmp_path, "queue/a/x.mime", "1.2.new@x")
    assert find(tmp_path, "1.2")[0].message_id == "1.2.new@x"
    assert find(tmp_path, "1.2.old")[0].folder is Folder.ARCHIVE


def test_a_dead_letter_is_its_recipients(tmp_path: Path) -> None:
    put(tmp_path, "queue/dead_letter/x.mime", "1@x", "X-IGNITE-Recipient: worker_1\n")
    assert find(tmp_path, "1@x", agent="worker-1")[0].folder is Folder.DEAD
    with pytest.raises(UnknownMessage):
        find(tmp_path, "1@x", agent="leader")


def test_a_dead_letter_without_its_header_is_the_one_agents_that_to_names(tmp_path: Path) -> None:
    put(tmp_path, "queue/dead_letter/x.mime", "1@x", "To: worker_1\n")
    put(tmp_path, "queue/dead_letter/y.mime", "2@x", "To: leader, worker_1\n")
    assert [find(tmp_path, one)[0].box for one in ("1@x", "2@x")] == ["worker_1", ""]


def test_a_path_means_the_message_in_it(tmp_path: Path) -> None:
    path = put(tmp_path, "queue/a/x.mime", "1@x")
    put(tmp_path, "queue/b/x.mime", "1@x")
    assert len(find(tmp_path, str(path))) == 2


def test_ids_with_slashes_are_ids(tmp_path: Path) -> None:
    put(tmp_path, "queue/a/x.mime", "owner/repo/issues/1@github.com")
    assert find(tmp_path, "owner/repo/issues/1")[0].box == "a"


@pytest.mark.parametrize("wanted", ["", "2", "in.the.body", "1@x.mime", "/etc/passwd"])
def test_what_is_not_there(tmp_path: Path, wanted: str) -> None:
    put(tmp_path, "queue/a/x.mime", "1@x")
    with pytest.raises(UnknownMessage):
        find(tmp_path, wanted)


def test_an_empty_root_has_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownMessage):
        find(tmp_path / "absent", "1")


def test_links_fifos_directories_and_half_written_files_are_passed_over(tmp_path: Path) -> None:
    real = put(tmp_path, "queue/a/x.mime", "1@x")
    (real.parent / "link.mime").symlink_to(real)
    os.mkfifo(real.parent / "fifo.mime")
    (real.parent / "directory.mime").mkdir()
    put(tmp_path, "queue/a/.hidden", "1@y")
    (real.parent / "empty.mime").touch()
    assert [one.path for one in in_folders(tmp_path, (Folder.QUEUE,), None)] == [real]
    assert read_head(real.parent / "link.mime") is None


def test_a_directory_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "queue").write_text("not a directory")
    with pytest.raises(OSError, match="Not a directory"):
        find(tmp_path, "1@x")


def test_one_file_that_we_may_not_read_hides_no_other() -> None:
    with nobodys_directory() as root:
        put(root, "queue/a/closed.mime", "1@x").chmod(0)
        path = put(root, "queue/a/open.mime", "2@x")
        assert [one.path for one in find(root, "2@x")] == [path]
        (root / "queue/a").chmod(0o400)
        with pytest.raises(PermissionError):
            find(root, "2@x")
        (root / "queue/a").chmod(0o700)


def test_only_the_first_block_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, "queue/a/x.mime", "1@x")
    with path.open("r+b") as file:
        file.truncate(2 * 1024**3)
    assert len(read_head(path) or b"") == 4096
    assert find(tmp_path, "1@x")[0].path == path


def test_the_hash_of_an_id_means_it_where_nothing_begins_so(tmp_path: Path) -> None:
    path = put(tmp_path, "queue/a/x.mime", "17.29247.7c1f00d00001@x")
    put(tmp_path, "queue/a/y.mime", "17.29247.7c1fbeef0002@x")
    assert [one.path for one in find(tmp_path, "7c1f00d0")] == [path]
    with pytest.raises(AmbiguousMessage):
        find(tmp_path, "7c1f")
