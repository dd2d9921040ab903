"""The names of the event files that a message on a bus raises.

They are the seed's names, which agents poll for, and one for the message itself. Only types that somebody waits for
raise any: an end, a failure, a released file, a decision. Quick to import. Never fails.
"""

from collections.abc import Mapping
from typing import Final

from ackd.coordination.bus.rules.layout import event_name

#: The words in the names of a message's own event and of the event for a worker that was unblocked. They are no types:
#: an id that looks like a task's must not announce that task.
MESSAGE: Final = "MESSAGE"
UNBLOCKED: Final = "UNBLOCKED"
#: The seed's word in the event of a message without a task.
_ALL: Final = "all"

RAISING: Final = frozenset({"TASK_COMPLETE", "TASK_FAILED", "FILE_UNLOCK", "BOARD_RESOLVE"})


def event_names(type_: str, message_id: str, payload: Mapping[str, object]) -> tuple[str, ...]:
    """The names of the event files; empty for types that nobody waits for."""
    if type_ not in RAISING:
        return ()
    return (*_seeds(type_, payload), *_unblocked(payload), event_name(MESSAGE, message_id))


#: Ends of tasks. Some workers announce them by the event file alone.
ENDS: Final = ("TASK_COMPLETE", "TASK_FAILED")
#: The source of an end that only a file tells of, for a task without a known holder.
NOBODY: Final = "an event file"


def end_name(type_: str, task: str) -> str:
    return event_name(type_, task)


def ends_raised(type_: str, payload: Mapping[str, object]) -> tuple[str, ...]:
    """The event of the task that this line ends, if it ends one."""
    return _seeds(type_, payload) if type_ in ENDS else ()


def is_end(name: str) -> bool:
    """True if the file's name announces the end of a particular task."""
    return name.endswith(".event") and end_of(name)[1] not in ("", _ALL)


def end_of(name: str) -> tuple[str, str]:
    """Return the type and the task that an event's name announces; the task is empty for any other name."""
    for type_ in ENDS:
        if name.startswith(f"{type_}_"):
            return type_, name[len(type_) + 1 :].removesuffix(".event")
    return "", ""


def _seeds(type_: str, payload: Mapping[str, object]) -> tuple[str, ...]:
    if type_ == "BOARD_RESOLVE":
        return (f"{type_}.event", event_name(type_, _ALL))
    if type_ == "FILE_UNLOCK":
        path = payload.get("filepath")
        return (event_name(type_, _ALL), *([event_name(type_, path)] if isinstance(path, str) else []))
    return (event_name(type_, str(payload.get("task_id", _ALL))),)


def _unblocked(payload: Mapping[str, object]) -> tuple[str, ...]:
    named = payload.get("unblocks")
    return tuple(event_name(UNBLOCKED, str(name)) for name in named) if isinstance(named, list | tuple) else ()


def is_passing(name: str) -> bool:
    """True for an event file that matters for a moment only. The seed's events live as long as their track: somebody
    may ask for a task's end days later."""
    return name.startswith((f"{MESSAGE}_", f"{UNBLOCKED}_"))


def wanted_names(pattern: str) -> tuple[str, ...]:
    """All names that a person or agent may mean: with and without ``.event``, and with a path or task as it is written
    on the bus (``FILE_UNLOCK_src/a.py``)."""
    bare = pattern.removesuffix(".event")
    subject = next(
        (bare[len(type_) + 1 :] for type_ in (*RAISING, UNBLOCKED, MESSAGE) if bare.startswith(f"{type_}_")), ""
    )
    if not subject or any(char in subject for char in "*?["):
        return (f"{bare}.event",)
    return (f"{bare}.event", event_name(bare[: -len(subject) - 1], subject))
