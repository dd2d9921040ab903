"""A file system in memory: names, nodes, and what of them a power cut leaves.

Owns what matters of a journaled file system. A rename is atomic. Changes of names become durable in the order in which
they were made, at the latest when a directory is flushed or ``SETTLED_S`` later; content, when its file is flushed or
as much later. A power cut undoes the newest changes of names and tears content that was not flushed. Refuses to know
processes and descriptors (kernel.py). There are no links of either kind but those that renames go through.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from tests.simulation.timeline import Timeline

#: The kernel writes back by itself what is older.
SETTLED_S: Final = 30.0

Notice: TypeAlias = "Callable[[str, str, bool], None]"


class Node:
    __slots__ = (
        "born_ns", "changed_at", "ctime_ns", "data", "durable", "entries", "ino", "is_dir", "links", "locked_by", "mode",
        "mtime_ns", "writers",
    )  # fmt: skip

    def __init__(self, ino: int, mode: int, now_ns: int) -> None:
        self.ino = ino
        self.mode = mode
        self.is_dir = stat.S_ISDIR(mode)
        self.entries: dict[str, Node] = {}
        self.data = bytearray()
        self.durable = 0  # bytes that a power cut leaves
        self.changed_at = 0.0
        self.mtime_ns = self.ctime_ns = self.born_ns = now_ns
        self.links = 1
        self.writers = 0
        self.locked_by: object | None = None


class MemoryDisk:
    """Paths are absolute strings without ``.`` and ``..``. ``notice``: told of each name that came or went."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._last_ino = 1
        self.root = Node(1, stat.S_IFDIR | 0o755, 0)
        self.listeners: list[Notice] = []
        self._undo: list[tuple[float, Callable[[], None]]] = []
        #: Found once; forgotten whenever a directory comes, goes or moves.
        self._directories: dict[str, Node] = {}

    # --- looking ----------------------------------------------------------------------------------------------------
    def look(self, path: str) -> Node:
        directory, name = self.parent(path)
        if not name:
            return directory
        try:
            return directory.entries[name]
        except KeyError:
            raise error(errno.ENOENT, path) from None

    def parent(self, path: str) -> tuple[Node, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        node = self._directories.get(above)
        if node is None:
            node = self._directories[above] = self._directory(above)
        return node, name

    def _directory(self, path: str) -> Node:
        node = self.root
        for name in path.split("/"):
            if name:
                try:
                    node = node.entries[name]
                except KeyError:
                    raise error(errno.ENOENT, path) from None
                if not node.is_dir:
                    raise error(errno.ENOTDIR, path)
        return node

    def walk(self, path: str) -> Iterator[tuple[str, Node]]:
        """Every file below, with its path."""
        try:
            top = self.look(path)
        except FileNotFoundError:
            return
        for name, node in list(top.entries.items()):
            if node.is_dir:
                yield from self.walk(f"{path}/{name}")
            else:
                yield f"{path}/{name}", node

    # --- changing names ---------------------------------------------------------------------------------------------
    def create(self, path: str, mode: int) -> Node:
        parent, name = self.parent(path)
        if name in parent.entries:
            raise error(errno.EEXIST, path)
        if not parent.links:
            raise error(errno.ENOENT, path)
        self._last_ino += 1
        node = Node(self._last_ino, mode, self._now_ns())
        node.changed_at = self._timeline.mono
        parent.entries[name] = node

        def back() -> None:
            parent.entries.pop(name, None)

        self._can_undo(back)
        if node.is_dir:
            self._tell("came", path, is_dir=True)
        return node

    def unlink(self, path: str) -> None:
        parent, name = self.parent(path)
        node = self.look(path)
        if node.is_dir:
            raise error(errno.EISDIR, path)
        self._take(parent, name, node)
        self._tell("went", path, is_dir=False)

    def rmdir(self, path: str) -> None:
        parent, name = self.parent(path)
        node = self.look(path)
        if not node.is_dir:
            raise error(errno.ENOTDIR, path)
        if node.entries:
            raise error(errno.ENOTEMPTY, path)
        self._take(parent, name, node)
        self._tell("went", path, is_dir=True)

    def rename(self, source: str, target: str, *, replace: bool) -> None:
        old_parent, old = self.parent(source)
        node = self.look(source)
        new_parent, new = self.parent(target)
        there = new_parent.entries.get(new)
        if there is not None and not replace:
            raise error(errno.EEXIST, target)
        del old_parent.entries[old]
        new_parent.entries[new] = node
        if there is not None:
            there.links = 0
        node.ctime_ns = self._now_ns()

        def back() -> None:
            old_parent.entries[old] = node
            if there is not None:
                new_parent.entries[new] = there
                there.links = 1
            else:
                new_parent.entries.pop(new, None)

        self._can_undo(back)
        self._tell("went", source, is_dir=node.is_dir)
        self._tell("came", target, is_dir=node.is_dir)

    def exchange(self, one: str, other: str) -> None:
        (a_parent, a), (b_parent, b) = self.parent(one), self.parent(other)
        first, second = self.look(one), self.look(other)

        def swap(left: Node, right: Node) -> None:
            a_parent.entries[a], b_parent.entries[b] = left, right

        swap(second, first)
        self._can_undo(lambda: swap(first, second))
        self._tell("came", one, is_dir=False)
        self._tell("came", other, is_dir=False)

    # --- content ----------------------------------------------------------------------------------------------------
    def write(self, node: Node, at: int, data: bytes) -> None:
        node.data[at : at + len(data)] = data
        self.touch(node)

    def truncate(self, node: Node, size: int) -> None:
        del node.data[size:]
        node.durable = min(node.durable, size)
        self.touch(node)

    def touch(self, node: Node) -> None:
        node.mtime_ns = node.ctime_ns = self._now_ns()
        node.changed_at = self._timeline.mono

    def flush(self, node: Node) -> None:
        if node.is_dir:
            self._undo.clear()
        else:
            node.durable = len(node.data)

    def closed(self, path: str) -> None:
        """A writer has closed the file."""
        self._tell("came", path, is_dir=False)

    # --- the end of the world ---------------------------------------------------------------------------------------
    def power_cut(self, rng: random.Random) -> int:
        """Returns how many changes of names were undone."""
        settled = self._timeline.mono - SETTLED_S
        fresh = [undo for at, undo in self._undo if at > settled]
        lost = rng.randint(0, len(fresh))
        for undo in reversed(fresh[len(fresh) - lost :]):
            undo()
        self._undo.clear()
        self._directories.clear()
        for _, node in self.walk(""):
            if node.durable < len(node.data) and node.changed_at > settled:
                del node.data[rng.choice((node.durable, rng.randint(node.durable, len(node.data)), len(node.data))) :]
            node.durable = len(node.data)
        return lost

    # --- the steps --------------------------------------------------------------------------------------------------
    def _take(self, parent: Node, name: str, node: Node) -> None:
        del parent.entries[name]
        node.links = 0

        def back() -> None:
            parent.entries[name] = node
            node.links = 1

        self._can_undo(back)

    def _can_undo(self, undo: Callable[[], None]) -> None:
        if len(self._undo) >= 4096:
            settled = self._timeline.mono - SETTLED_S
            self._undo = [(at, one) for at, one in self._undo if at > settled]
        self._undo.append((self._timeline.mono, undo))

    def _tell(self, what: str, path: str, *, is_dir: bool) -> None:
        if is_dir:
            self._directories.clear()
        for listener in self.listeners:
            listener(what, path, is_dir)

    def _now_ns(self) -> int:
        return int(self._timeline.wall * 1_000_000) * 1_000


def error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
