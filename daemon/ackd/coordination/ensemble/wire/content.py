"""The content of an Ensemble team's task or report, and the body of the message that it becomes.

Defines the keys that name the worker, the task, the priority and the status. Whatever the bytes are, they become a
body: a file that is no YAML travels as text, with a note, because a report that nobody can parse is still a report.
Nothing fails: ``load`` may, with ``BadBody``, which becomes the note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from ackd.core.errors import BadBody
from ackd.core.values import value
from ackd.core.words import Priority

#: The hardened reader of YAML, which the caller passes in.
Load: TypeAlias = Callable[[str], object]

_MOST_ID_CHARS: Final = 200
_TASK_KEYS: Final = ("task_id", "id", "task")
_WORKER_KEYS: Final = ("worker", "worker_id", "agent", "reported_by", "reporter", "reviewer", "author", "from")
_ASSIGNED_KEYS: Final = ("worker", "worker_id", "assigned_to", "assignee", "agent", "to")
_VERDICT_KEYS: Final = ("overall_status", "status", "result", "verdict", "decision")
_NOT_OVER: Final = frozenset("in_progress started running working pending waiting blocked queued assigned".split())
_AS_TEXT: Final = "the text is as it was written"
#: The key under which a message says which file it was.
WHERE: Final = "ensemble"


@value
class Content:
    """``whole``: the parsed file, or its text; then ``note`` says why it was not parsed."""

    whole: object
    note: str = ""

    @property
    def keys(self) -> Mapping[str, object]:
        return self.whole if isinstance(self.whole, dict) and not self.note else {}


def understood(data: bytes, load: Load) -> Content:
    if not data.strip():
        return Content(data.decode("utf-8", "replace"), "the file is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return Content(data.decode("utf-8", "replace"), f"not UTF-8 at byte {error.start}: {_AS_TEXT}")
    try:
        return Content(load(text))
    except BadBody as bad:
        return Content(text, f"{bad}: {_AS_TEXT}")


def task_ids(content: Content) -> Iterator[str]:
    for key in _TASK_KEYS:
        name = _plain(content.keys.get(key))
        if name:
            yield name


def reporters(content: Content) -> Iterator[str]:
    """Names under which the writer may be known; a worker's number is ``worker-N``."""
    yield from _people(content, _WORKER_KEYS)


def assignees(content: Content) -> Iterator[str]:
    yield from _people(content, _ASSIGNED_KEYS)


def is_under_way(content: Content) -> bool:
    """True if the file itself says that the task goes on."""
    status = content.keys.get("status")
    return isinstance(status, str) and status.strip().lower().replace("-", "_").replace(" ", "_") in _NOT_OVER


def priority(content: Content) -> Priority:
    said = content.keys.get("priority")
    words = {one.value: one for one in Priority}
    return words.get(said.strip().lower(), Priority.NORMAL) if isinstance(said, str) else Priority.NORMAL


def verdict(content: Content) -> str | None:
    """The result of a review, from whichever key has one."""
    said = (content.keys.get(key) for key in _VERDICT_KEYS)
    return next((_plain(one) for one in said if _plain(one)), None)


def body(
    content: Content, file: str, version: int, *, vague: tuple[str, ...] = (), **more: object
) -> dict[str, object]:
    """Return the message's body: the file's own keys at the top, as the team's other tools write them, and those of
    ``more`` that the file lacks. ``vague``: the vague words in it, for its reader."""
    where: dict[str, object] = {"file": file, "version": version}
    if content.note:
        where["note"] = content.note
    if vague:
        where["vague"] = list(vague)
    keys = content.keys
    own: dict[str, object] = dict(keys) if keys and WHERE not in keys else {"content": content.whole}
    added = {key: one for key, one in more.items() if one is not None and own.get(key) in (None, "")}
    return {**own, **added, WHERE: where}


def _people(content: Content, keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        said = content.keys.get(key)
        if isinstance(said, int) and not isinstance(said, bool):
            yield f"worker-{said}"
        elif isinstance(said, str):
            yield said.strip()
            if said.strip().isdecimal():
                yield f"worker-{said.strip()}"


def _plain(said: object) -> str:
    """A word or a number, of a sane length."""
    if isinstance(said, bool) or not isinstance(said, str | int):
        return ""
    text = str(said).strip()
    return text if len(text) <= _MOST_ID_CHARS and text.isprintable() else ""
