"""Answers from the index are those of a full scan, whatever happened to the index or to the logs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import stat
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackd.storage.log_index import LineQuery, LogSearch, building, index_file, pieces
from ackd.storage.session_log import keeping, session_files, stored
from ackd.storage.session_log.stored import packed_path
from tests.storage.log_index.scanning import counts, encoded, scan, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ODD = 'a"b\\ü/\n'
AGENTS = ("worker-1", "worker_1", "leader", ODD)
TYPES = ("message_queued", "message_dead", "agent_state", "task_start")
IDS = ("1763.1.ab12cd@x", "1763.1.ab12ff@x", "1763.2.beef00@x", "short", ODD, "long" * 100 + "a", "long" * 100 + "b")
KEYS = ("message_id", "in_reply_to", "escalation_id", "thread_id", "agent", "from", "to", "a")


def filled(root: Path, count: int = 40, name: str = "session-20261118-100000.ndjson") -> Path:
    lines = [
        encoded(n, TYPES[n % 2], n, message_id=f"1763.{n}.{n:06x}@x", agent=AGENTS[n % 3], number=n)
        for n in range(count)
    ]
    return write(root / "logs" / name, *lines)


def index_of(root: Path) -> Path:
    return root / "state" / index_file.NAME


def search(root: Path) -> LogSearch:
    return LogSearch(root / "logs", root / "state")


def found(root: Path, query: LineQuery, **how: Any) -> list[bytes]:
    return [line.raw for line in search(root).find(query, **how)]


# --- what an index is good for ----------------------------------------------------------------------------------------
@pytest.mark.usefixtures("tiny")
def test_a_search_makes_an_index_that_only_its_owner_can_read(root: Path) -> None:
    filled(root)
    assert len(found(root, LineQuery(agent="leader"))) == 13
    assert stat.S_IMODE(index_of(root).stat().st_mode) == 0o600
    assert [path.name for path in (root / "state").iterdir()] == [index_file.NAME]


def test_a_little_history_is_read_each_time_and_makes_no_index(root: Path) -> None:
    filled(root)
    assert len(found(root, LineQuery(agent="leader"))) == 13
    assert not index_of(root).exists()


@pytest.mark.usefixtures("tiny")
def test_who_has_no_state_directory_makes_none(root: Path) -> None:
    filled(root)
    (root / "state").rmdir()
    assert len(found(root, LineQuery(agent="leader"))) == 13
    assert not (root / "state").exists()


@pytest.mark.usefixtures("tiny")
def test_only_blocks_with_the_key_and_the_end_that_is_not_known_are_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(root, 400)
    search(root).ids("x")
    read: list[int] = []
    pread = os.pread

    def counting(fd: int, size: int, offset: int) -> bytes:
        read.append(size)
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", counting)
    write(session_files(root / "logs")[0], encoded(400, "message_dead", 1, message_id="1763.7.000007@x"))
    assert [line.type for line in search(root).find(LineQuery(about="1763.7.000007@x"))] == ["message_dead"] * 2
    assert sum(read) < 4_000
    assert session_files(root / "logs")[0].stat().st_size > 50_000


@pytest.mark.usefixtures("tiny")
def test_the_newest_lines_come_first_when_they_are_wanted_and_no_more_than_are_wanted(root: Path) -> None:
    filled(root, 30)
    filled(root, 5, "session-20261118-110000.ndjson")
    everything = scan(root / "logs", LineQuery(agent="leader"))
    assert found(root, LineQuery(agent="leader"), newest_first=True) == everything[::-1]
    assert found(root, LineQuery(agent="leader"), newest_first=True, limit=3) == everything[::-1][:3]


@pytest.mark.usefixtures("tiny")
def test_a_search_can_end_before_what_the_index_knows(root: Path) -> None:
    path = filled(root, 30)
    found(root, LineQuery(agent="leader"))
    lines = path.read_bytes().splitlines(keepends=True)
    end = sum(map(len, lines[:20]))
    assert found(root, LineQuery(message="1763"), ends={path: end}) == [line[:-1] for line in lines[:20]]


@pytest.mark.usefixtures("tiny")
def test_counting_begins_where_it_is_told_to_also_within_a_block(root: Path) -> None:
    path = filled(root, 30)
    lines = path.read_bytes().splitlines(keepends=True)
    search(root).ids("x")
    for number in range(31):
        starts = {path: sum(map(len, lines[:number]))}
        expected = {"message_dead": sum(b"message_dead" in line for line in lines[number:])}
        assert search(root).counts(("message_dead",), starts) == expected


@pytest.mark.usefixtures("tiny")
def test_who_waits_for_the_first_index_is_told_how_much_is_left(root: Path) -> None:
    path = filled(root)
    left: list[int] = []
    LogSearch(root / "logs", root / "state", left.append).ids("x")
    assert (left[0], left[-1]) == (path.stat().st_size, 0)
    left.clear()
    LogSearch(root / "logs", root / "state", left.append).ids("x")
    assert left == []


# --- what may happen to it --------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _as_it_is(_index: Path) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _locked(index: Path) -> Iterator[None]:
    fd = os.open(index, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _rubbish(index: Path, at: float = 0.5) -> None:
    with index.open("r+b") as file:
        file.seek(int(index.stat().st_size * at))
        file.write(b"\xa5" * 700)


def _of_version(index: Path, version: int) -> None:
    with contextlib.closing(sqlite3.connect(index)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def _emptied_tables(index: Path) -> None:
    with contextlib.closing(sqlite3.connect(index)) as connection, connection:
        connection.execute("DELETE FROM posting")


def _spoilt_schema(index: Path) -> None:
    """SQLite quotes the name of the table in its complaint, and Python cannot decode it."""
    data = index.read_bytes()
    spoilt = data.replace(b"tablepostingposting", b"table" + b"\xff" * 14).replace(b"CREATE TABLE posting", b"x" * 20)
    assert spoilt != data
    index.write_bytes(spoilt)


def _a_directory(index: Path) -> None:
    index.unlink()
    index.mkdir()


def _a_link(index: Path) -> None:
    index.rename(index.with_name("elsewhere"))
    index.symlink_to("elsewhere")


def _a_pipe(index: Path) -> None:
    index.unlink()
    os.mkfifo(index)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda index: os.truncate(index, 0),
    "cut": lambda index: os.truncate(index, index.stat().st_size // 2),
    "rubbish in the middle": _rubbish,
    "rubbish at the beginning": lambda index: _rubbish(index, 0),
    "another program's": lambda index: index.write_bytes(b"SQLite format 3\0" + b"\0" * 5000),
    "a newer version's": lambda index: _of_version(index, index_file.VERSION + 1),
    "an older version's": lambda index: _of_version(index, 0),
    "its rows deleted": _emptied_tables,
    "no text in its schema": _spoilt_schema,
    "a directory": _a_directory,
    "a link": _a_link,
    "a pipe": _a_pipe,
    "touched": os.utime,
}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_changes_no_answer(root: Path, damage: str) -> None:
    filled(root)
    queries = (LineQuery(agent="leader"), LineQuery(about="1763.3.000003@x"), LineQuery(types=("dead",)))
    for query in queries:
        assert found(root, query) == scan(root / "logs", query)
    DAMAGES[damage](index_of(root))
    for query in queries:
        assert found(root, query) == scan(root / "logs", query)
    assert search(root).counts(TYPES, dict.fromkeys(session_files(root / "logs"), 0)) == counts(root / "logs", TYPES)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "damage", ["deleted", "emptied", "cut", "rubbish in the middle", "an older version's", "touched"]
)
def test_a_damaged_index_is_made_anew_by_the_next_who_reads(root: Path, damage: str) -> None:
    filled(root)
    search(root).ids("x")
    DAMAGES[damage](index_of(root))
    search(root).ids("x")
    with index_file.reading(root / "state") as index:
        assert index is not None
        assert [one.known for one in index.logs().values()] == [session_files(root / "logs")[0].stat().st_size]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("damage", ["a newer version's", "a link", "a directory"])
def test_what_is_not_ours_to_replace_is_left_alone(root: Path, damage: str) -> None:
    filled(root)
    search(root).ids("x")
    DAMAGES[damage](index_of(root))
    before = _as_it_lies(index_of(root))
    search(root).ids("x")
    assert _as_it_lies(index_of(root)) == before


def _as_it_lies(path: Path) -> tuple[int, ...]:
    """Everything about a file that only writing changes: reading changes its time of access."""
    found = path.lstat()
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@pytest.mark.usefixtures("tiny")
def test_an_index_that_somebody_writes_is_not_waited_for(root: Path) -> None:
    path = filled(root)
    search(root).ids("x")
    write(path, *(encoded(n, "message_dead", n, message_id="1.1.new@x") for n in range(100, 120)))
    with _locked(index_of(root)):
        assert len(found(root, LineQuery(about="1.1.new@x"))) == 20
        assert len(found(root, LineQuery(agent="leader"))) == 13


@pytest.mark.usefixtures("tiny")
def test_a_full_disk_is_left_to_the_messages(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(root)
    real = os.statvfs(root)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((*real[:4], 0, *real[5:])))
    assert len(found(root, LineQuery(agent="leader"))) == 13
    with index_file.reading(root / "state") as index:
        assert index is None or index.logs() == {}


@pytest.mark.usefixtures("tiny")
def test_a_reader_that_is_interrupted_leaves_an_index_that_is_believed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(root)
    search(root).ids("x")
    before = index_of(root).read_bytes()
    write(path, *(encoded(n, "message_dead", n, message_id="1.1.new@x") for n in range(100, 120)))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(index_file.IndexFile, "add", interrupted)
        search(root).ids("x")
    with index_file.reading(root / "state") as index:
        assert index is not None
    assert len(index_of(root).read_bytes()) == len(before)
    assert len(found(root, LineQuery(about="1.1.new@x"))) == 20


@pytest.mark.usefixtures("tiny")
def test_a_log_in_place_of_another_one_is_read_anew_even_if_it_ends_as_that_did(root: Path) -> None:
    """As an editor leaves it: another file of the same length, in which only a line in the middle differs."""
    path = filled(root)
    assert found(root, LineQuery(agent="nobody")) == []
    fresh = path.with_name("fresh")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[10] = lines[10].replace(b'"worker_1"', b'"nobody"  ')
    fresh.write_bytes(b"".join(lines))
    assert fresh.stat().st_size == path.stat().st_size
    fresh.replace(path)
    write(path, encoded(40, "message_dead", 1, agent="leader"))
    assert found(root, LineQuery(agent="nobody")) == [lines[10][:-1]] == scan(root / "logs", LineQuery(agent="nobody"))


# --- logs that are compressed -----------------------------------------------------------------------------------------
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("fresh", [True, False])
def test_an_index_goes_on_believing_what_it_knows_of_a_log_that_was_compressed(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, fresh: bool
) -> None:
    path = filled(root, 400)
    if not fresh:  # else its time proves nothing, and the last block is compared
        os.utime(path, (1_700_000_000, 1_700_000_000))
    filled(root, 5, "session-20261118-110000.ndjson")
    query = LineQuery(about="1763.7.000007@x")
    before = found(root, query)
    index = index_of(root).read_bytes()
    monkeypatch.setattr(stored, "PIECE_BYTES", 500)
    assert keeping.compress(path, lambda _took_s: True) is not None
    read: list[int] = []
    unpack = zlib.decompress

    def counting(data: bytes, *how: int) -> bytes:
        read.append(len(unpack(data, *how)))
        return unpack(data, *how)

    monkeypatch.setattr(zlib, "decompress", counting)
    assert found(root, query) == before
    assert len(before) == 1
    assert sum(read) < 3_000
    assert index_of(root).read_bytes() == index
    assert search(root).counts(TYPES, {path: 0}) == {**dict.fromkeys(TYPES, 0), TYPES[0]: 200, TYPES[1]: 200}


@pytest.mark.usefixtures("tiny")
def test_a_log_that_is_compressed_and_removed_while_it_is_searched_gives_a_whole_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any read of any part of a log: it has its other form, or is gone, from there on."""
    monkeypatch.setattr(stored, "PIECE_BYTES", 500)
    for act in (lambda path: keeping.compress(path, lambda _took_s: True), keeping.remove):
        for at in range(12):
            for directory in ("logs", "state"):
                shutil.rmtree(root / directory)
                (root / directory).mkdir()
            paths = [filled(root, 60, f"session-20261118-1{n}0000.ndjson") for n in range(3)]
            query = LineQuery(agent="leader")
            whole, opened = found(root, query), list[Path]()
            of_one = whole[: len(whole) // 3]

            def opening(
                path: Path, opened: list[Path] = opened, at: int = at, act: Any = act, first: Path = paths[0]
            ) -> Any:
                opened.append(path)
                if len(opened) == at:
                    act(first)
                return stored.open_log(path)

            with monkeypatch.context() as patched:
                patched.setattr(pieces, "open_log", opening)
                answer = found(root, query)
            expected = (whole,) if act is not keeping.remove else (whole, of_one * 2)
            assert answer in expected


# --- anything at all, in any order ------------------------------------------------------------------------------------
TEXT = st.sampled_from(IDS)
DATA = st.fixed_dictionaries({}, optional={key: TEXT | st.sampled_from(AGENTS) | st.just(7) for key in KEYS})
LINE = st.tuples(st.sampled_from(TYPES), st.integers(0, 59), DATA)
QUERY = st.builds(
    LineQuery,
    about=st.none() | TEXT,
    message=st.none() | TEXT | st.sampled_from(("1763", "1763.1.ab", "ab12", "beef00", "none", "long")),
    in_reply_to=st.none() | TEXT,
    thread=st.none() | TEXT,
    escalation=st.none() | TEXT,
    agent=st.none() | st.sampled_from(AGENTS),
    alone=st.none() | st.sampled_from(AGENTS),
    types=st.just(()) | st.tuples(st.sampled_from((*TYPES, "message", "dead", "start"))),
) | st.builds(
    LineQuery,
    types=st.just(()) | st.tuples(st.sampled_from((*TYPES, "message", "dead", "start"))),
    agent=st.none() | st.sampled_from(AGENTS),
    since=st.none() | st.integers(0, 59).map(lambda second: 1_794_996_000.0 + second),
    until=st.none() | st.integers(0, 59).map(lambda second: 1_794_996_000.0 + second),
)  # fmt: skip
ONE = st.sampled_from(("about", "message", "in_reply_to", "thread", "escalation", "agent", "alone"))
NARROW = st.builds(lambda key, text: LineQuery(**{key: text}), ONE, TEXT | st.sampled_from(AGENTS))
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(LINE, min_size=1, max_size=12)),
    st.tuples(st.just("half"), st.tuples(LINE, st.floats(0.1, 0.9))),
    st.tuples(st.just("rest"), st.none()),
    st.tuples(st.just("rubbish"), st.binary(max_size=400)),
    st.tuples(st.just("session"), st.lists(LINE, max_size=6)),
    st.tuples(st.just("remove"), st.integers(0, 3)),
    st.tuples(st.just("rotate"), st.integers(0, 3)),
    st.tuples(st.just("cut"), st.tuples(st.integers(0, 3), st.floats(0, 1))),
    st.tuples(st.just("rewrite"), st.tuples(st.integers(0, 3), st.lists(LINE, max_size=12))),
    st.tuples(st.just("replace"), st.tuples(st.integers(0, 3), st.lists(LINE, max_size=12))),
    st.tuples(st.just("compress"), st.integers(0, 4)),
    st.tuples(st.just("compress"), st.integers(0, 4)),
    st.tuples(st.just("put both"), st.integers(0, 4)),
    st.tuples(st.just("reorder"), st.tuples(st.integers(0, 3), st.integers(1, 6))),
    st.tuples(st.just("damage"), st.sampled_from(sorted(DAMAGES))),
    st.tuples(st.just("spoil"), st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=50))),
    st.tuples(st.just("ask"), QUERY | NARROW),
    st.tuples(st.just("ask"), QUERY | NARROW),
    st.tuples(st.just("ask while locked"), QUERY | NARROW),
)


class Place:
    """A root to which anything may happen; every line has a number of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seq = 0
        self.sessions = 0
        self.rest = b""
        for name in ("logs", "state"):
            (root / name).mkdir()
        self.session([])

    def lines(self, some: list[Any]) -> bytes:
        return b"".join(map(self.line, some))

    def line(self, one: Any) -> bytes:
        type_, at_s, data = one
        self.seq += 1
        return encoded(self.seq, type_, at_s, **data)

    def log(self, number: int) -> Path | None:
        files = session_files(self.root / "logs")
        return files[-1 - number % len(files)] if files else None

    def append(self, some: list[Any]) -> None:
        self.write(self.lines(some))

    def write(self, data: bytes) -> None:
        """Nobody writes under the name of a compressed log (``create``)."""
        if (path := self.log(0)) is not None and path.exists():
            write(path, data)

    def half(self, how: Any) -> None:
        one, part = how
        line = self.line(one)
        self.write(line[: int(len(line) * part)])
        self.rest = line[int(len(line) * part) :]

    def finish(self, _nothing: None) -> None:
        self.write(self.rest)
        self.rest = b""

    def session(self, some: list[Any]) -> None:
        self.sessions += 1
        write(self.root / "logs" / f"session-20261118-{100000 + self.sessions}.ndjson", self.lines(some))

    def remove(self, number: int) -> None:
        if (path := self.log(number)) is not None:
            keeping.remove(path)

    def compress(self, number: int) -> None:
        if (path := self.log(number)) is not None:
            keeping.compress(path, lambda _took_s: True)

    def put_both(self, number: int) -> None:
        """As a crash leaves it: compressed, and the plain file is still there."""
        if (path := self.log(number)) is not None and path.exists():
            aside = path.with_name("aside")
            os.link(path, aside)
            keeping.compress(path, lambda _took_s: True)
            aside.rename(path)

    def rotate(self, number: int) -> None:
        """Under an older name, and under one that is no log's at all."""
        if (path := self.log(number)) is not None:
            self.sessions += 1
            named = f"session-20261117-{100000 + self.sessions}.ndjson" if number % 2 else f"{path.name}.1"
            form = path if path.exists() else packed_path(path)
            form.rename(path.with_name(named + form.suffix.removesuffix(".ndjson")))

    def cut(self, how: tuple[int, float]) -> None:
        number, part = how
        if (path := self.log(number)) is not None:
            form = path if path.exists() else packed_path(path)
            os.truncate(form, int(form.stat().st_size * part))

    def rewrite(self, how: Any) -> None:
        """The same file, with other lines."""
        number, some = how
        if (path := self.log(number)) is not None:
            path.write_bytes(self.lines(some))

    def replace(self, how: Any) -> None:
        """Another file, under the same name."""
        number, some = how
        if (path := self.log(number)) is not None:
            fresh = path.with_name("fresh")
            fresh.write_bytes(self.lines(some))
            fresh.replace(path)

    def reorder(self, how: tuple[int, int]) -> None:
        """Another file with the same lines, of which only the last ones stand where they stood.

        The old one stays elsewhere: its inode's number must not be given to the next file, which would pass for it.
        """
        number, kept = how
        if (path := self.log(number)) is not None and path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            fresh = path.with_name("fresh")
            fresh.write_bytes(b"".join([*lines[:-kept][::-1], *lines[-kept:]]))
            self.sessions += 1
            (self.root / f"old-{self.sessions}").hardlink_to(path)
            fresh.replace(path)

    def damage(self, name: str) -> None:
        path = index_of(self.root)
        if path.is_dir():
            path.rmdir()
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            with contextlib.suppress(sqlite3.DatabaseError):  # it was damaged before
                DAMAGES[name](path)

    def spoil(self, how: tuple[float, bytes]) -> None:
        """Some bytes of the index become others."""
        part, data = how
        path = index_of(self.root)
        if path.is_file() and not path.is_symlink():
            with path.open("r+b") as file:
                file.seek(int(path.stat().st_size * part))
                file.write(data)

    def ask(self, query: LineQuery) -> None:
        logs, whole = self.root / "logs", scan(self.root / "logs", query)
        assert found(self.root, query) == whole
        assert found(self.root, query, newest_first=True) == whole[::-1]
        assert found(self.root, query, newest_first=True, limit=2) == whole[::-1][:2]
        assert search(self.root).counts(TYPES, dict.fromkeys(session_files(logs), 0)) == counts(logs, TYPES)

    def ask_while_locked(self, query: LineQuery) -> None:
        path = index_of(self.root)
        lock = _locked if path.is_file() and not path.is_symlink() else _as_it_is
        with lock(path):
            self.ask(query)

    def take(self, step: str, how: Any) -> None:
        doing: dict[str, Callable[[Any], None]] = {
            "rest": self.finish,
            "rubbish": self.write,
            "ask while locked": self.ask_while_locked,
        }
        doing.get(step, getattr(self, step.replace(" ", "_"), self.ask))(how)


@given(steps=st.lists(STEP, max_size=25), last=st.lists(QUERY | NARROW, min_size=1, max_size=4))
@settings(deadline=None)
def test_answers_are_those_of_a_full_scan_whatever_happens(steps: list[tuple[str, Any]], last: list[LineQuery]) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as directory:
        patched.setattr(building, "WORTH_BYTES", 100)
        patched.setattr(building, "BLOCK_BYTES", 300)
        patched.setattr(index_file, "_PATIENCE_S", 0.0)
        patched.setattr(stored, "PIECE_BYTES", 500)
        place = Place(Path(directory))
        for step, how in steps:
            place.take(step, how)
        for query in last:
            place.ask(query)
        shutil.rmtree(place.root / "state")
        place.ask(last[0])
