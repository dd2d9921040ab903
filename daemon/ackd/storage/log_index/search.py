"""Answer queries about the session logs: from the index where it knows a log, from the log itself elsewhere.

The answers are those of reading every line of every log, always; only how long they take differs (README.md). Fails
with OSError if a log cannot be read, and never because of the index.
"""

from __future__ import annotations

import contextlib
import re
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ackd.storage.log_index import building, index_file, pieces
from ackd.storage.log_index.query import LineQuery, key_of_type, message_of
from ackd.storage.session_log.files import session_files
from ackd.storage.session_log.lines import parse_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from ackd.storage.log_index.index_file import Block, IndexFile, KnownLog
    from ackd.storage.session_log.lines import Line

_Answer = TypeVar("_Answer")


class _Changed(Exception):  # noqa: N818 - it names a condition, and never leaves this module
    """A log is not what the index says it is."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class LogSearch:
    """The session logs of one team, with the index that lies in its ``state/``; without that, they are read whole.

    ``building`` is called with the number of bytes that are left to read for the index, whenever some were read.
    """

    def __init__(
        self, logs_dir: Path, state_dir: Path | None = None, building: Callable[[int], None] | None = None
    ) -> None:
        self.logs_dir = logs_dir
        self._state_dir = state_dir
        self._building = building

    def find(
        self,
        query: LineQuery,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        ends: Mapping[Path, int] | None = None,
    ) -> list[Line]:
        """Return the lines that the query takes, in the order in which they stand in the logs, or the other way round.

        ``ends``: look at these logs only, and only up to these offsets, each behind a line.
        """

        def answer(view: _View) -> list[Line]:
            return list(islice(view.lines(query, newest_first=newest_first), limit))

        if query == LineQuery():  # any line will do: no index helps
            return answer(_View(session_files(self.logs_dir) if ends is None else list(ends), ends or {}))
        return self._answered(answer, ends)

    def ids(self, wanted: str) -> set[str]:
        """Return the messages that the logs know by this id, this beginning of an id, or this hash."""

        def answer(view: _View) -> set[str]:
            return {message_of(line) for line in view.lines(LineQuery(message=wanted))}

        return self._answered(answer)

    def counts(self, types: Collection[str], starts: Mapping[Path, int]) -> dict[str, int]:
        """Count the lines of each of these types in these logs, each from an offset on.

        What the index has counted is not read again, so a log is believed here to be as it was if its end is.
        """

        def answer(view: _View) -> dict[str, int]:
            return view.counts(types, starts)

        return self._answered(answer)

    def _answered(self, answer: Callable[[_View], _Answer], ends: Mapping[Path, int] | None = None) -> _Answer:
        """Ask until nothing that was read contradicts the index: each time with one part less of it."""
        files = session_files(self.logs_dir) if ends is None else list(ends)
        if self._state_dir is None:
            return answer(_View(files, ends or {}))
        distrusted: set[str] = set()
        anew = False
        while True:
            try:
                with self._view(self._state_dir, files, ends or {}, distrusted, anew=anew) as view:
                    found = answer(view)
                    if view.index is None or view.index.is_sealed():
                        return found
                    raise index_file.BadIndex
            except _Changed as changed:
                distrusted.add(changed.name)
            except index_file.BadIndex:
                if anew:
                    return answer(_View(files, ends or {}))
                anew = True

    @contextlib.contextmanager
    def _view(
        self,
        state_dir: Path,
        files: Sequence[Path],
        ends: Mapping[Path, int],
        distrusted: Collection[str],
        *,
        anew: bool,
    ) -> Iterator[_View]:
        """Open the index, after it was brought up to date if that is worth it."""
        if sum(now.size for path in files if (now := pieces.state(path)) is not None) <= building.WORTH_BYTES:
            yield _View(files, ends)
            return
        with index_file.reading(state_dir) as index:
            found = building.standing(index, files, distrusted)
            if found.unread_bytes <= building.WORTH_BYTES and not anew:
                yield _View(files, ends, index, found.known)
                return
        building.bring_up_to_date(
            state_dir, session_files(self.logs_dir), distrusted=distrusted, anew=anew, building=self._building
        )
        with index_file.reading(state_dir) as index:
            yield _View(files, ends, index, building.standing(index, files, distrusted).known)


class _View:
    """The logs at one moment, and what the index knows of them. Raises ``_Changed`` if a log contradicts it."""

    def __init__(
        self,
        files: Sequence[Path],
        ends: Mapping[Path, int],
        index: IndexFile | None = None,
        known: Mapping[str, KnownLog] | None = None,
    ) -> None:
        self.index = index
        self._files = files
        self._ends = ends
        self._known = known or {}

    def lines(self, query: LineQuery, *, newest_first: bool = False) -> Iterator[Line]:
        hint = query.hint()
        blocks = self._blocks(query)
        for path in reversed(self._files) if newest_first else self._files:
            known = self._known.get(path.name)
            for chunk in self._chunks(
                path, known, blocks.get(known.id, []) if known else [], newest_first=newest_first
            ):
                raws = pieces.lines_in(chunk, hint)
                for raw in reversed([*raws]) if newest_first else raws:
                    if (line := parse_line(raw)) is not None and query.takes(line):
                        yield line

    def _blocks(self, query: LineQuery) -> dict[int, list[Block]]:
        if self.index is None or not self._known:
            return {}
        return self.index.blocks([*query.lookups()], query.since, query.until)

    def _chunks(
        self, path: Path, known: KnownLog | None, blocks: Sequence[Block], *, newest_first: bool
    ) -> Iterator[bytes]:
        """Yield the blocks of a log, and what lies behind all that is known of it."""
        end = self._end(path)
        unread_from = known.known if known is not None else 0
        if newest_first:
            yield from pieces.chunks_backwards(path, unread_from, end)
        for block in reversed(blocks) if newest_first else blocks:
            if block.start < end:
                yield _intact(path, block)[: end - block.start]
        if not newest_first:
            yield from pieces.chunks(path, unread_from, end)

    def _end(self, path: Path) -> int:
        if path in self._ends:
            return self._ends[path]
        now = pieces.state(path)
        return now.size if now is not None else 0

    def counts(self, types: Collection[str], starts: Mapping[Path, int]) -> dict[str, int]:
        found = dict.fromkeys(types, 0)
        hint = re.compile(b"|".join([*(re.escape(one.encode()) for one in types), rb"\\"]))
        for path, begin in starts.items():
            for chunk in self._uncounted(path, begin, found):
                for raw in pieces.lines_in(chunk, hint):
                    if (line := parse_line(raw)) is not None and line.type in found:
                        found[line.type] += 1
        return found

    def _uncounted(self, path: Path, begin: int, found: dict[str, int]) -> Iterator[bytes]:
        """Add what the index has counted of a log from an offset on, and yield what it has not."""
        known = self._known.get(path.name)
        if self.index is not None and known is not None and begin < known.known:
            for type_ in found:
                found[type_] += self.index.counts(key_of_type(type_), known.id, begin)
            if (block := self.index.block_at(known.id, begin)) is not None:
                yield _intact(path, block)[begin - block.start :]
            begin = known.known
        yield from pieces.chunks(path, begin, self._end(path))


def _intact(path: Path, block: Block) -> bytes:
    data = pieces.read(path, block.start, block.end)
    if not building.is_intact(data, block):
        raise _Changed(path.name)
    return data
