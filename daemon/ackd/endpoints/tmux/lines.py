"""The lines that ackd types: fixed words, and in them an id, two names, a type and a path that are proven plain.

Message content never reaches a terminal, so nothing else goes in. Plain means: letters, digits and ``._@+-/`` only, of
a sane length. Should an agent end just as it is told, a shell gets the line, and then it is no command that exists:
nothing from the message has a character that means anything to a shell, and in brackets, which some shells run, stand
only types that ackd knows. A value that is not plain is left out, and the agent is sent to ``ackd inbox``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ackd.core.message import KNOWN_TYPES
from ackd.core.message_ids import hash_part
from ackd.core.names import is_agent_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ackd.core.message import Message

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}(?:@[A-Za-z0-9][A-Za-z0-9.-]{0,63})?")
_PATH: Final = re.compile(r"/[A-Za-z0-9._@+/-]{1,200}")
_ANY_PATH: Final = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._@+/-]{0,200}")
#: This many characters of an id's hash are enough to tell one agent's messages apart.
_SHORT_ID: Final = 8
_TYPE: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_STATUS_CHECK: Final = re.compile(
    r"Status check: are you still working on (?:Stage \d{1,2} for )?[A-Za-z0-9._@+-]{1,64}\?"
)


def mail(message: Message, path: Path) -> str:
    """The short line that tells of mail. `ackd read` says what to do next."""
    return f"ackd: mail{_whose(message)}. Run: {_read(message, path)}"


def mail_for_one_who_knows_nothing(agent: str, message: Message, path: Path) -> str:
    """The line after a reset, to an agent that has lost what it knew."""
    cleared = "your context was cleared"
    return f"ackd: {_you(agent)}, {cleared}. Mail{_whose(message)} waits. Run: {_read(message, path)}"


def _whose(message: Message) -> str:
    sender = f" from {message.sender}" if is_agent_name(message.sender) else ""
    return sender + (f" ({message.type})" if message.type in KNOWN_TYPES else "")


def _read(message: Message, path: Path) -> str:
    known = _reference(message, path)
    if known is None:
        return "ackd inbox"
    short = hash_part(message.message_id)
    return f"ackd read {short[:_SHORT_ID] if known == message.message_id and len(short) >= _SHORT_ID else known}"


def waits(message: Message, path: Path) -> str:
    """The long line that tells of mail, for an agent that has no `ackd` but can read a file."""
    return f"ackd: {_what(message)} waits: {_what_to_do(message, path)}"


def waits_for_one_who_knows_nothing(agent: str, message: Message, path: Path) -> str:
    """The line after a reset, to an agent that has lost what it knew."""
    context = "your context was cleared"
    return f"ackd: {_you(agent)}, {context} and {_what(message)} waits: {_what_to_do(message, path)}"


def _you(agent: str) -> str:
    return f"you are agent {agent} of a team" if is_agent_name(agent) else "you are an agent of a team"


def goes_on(agent: str, message: Message, path: Path, checkpoint: Path, *, short: bool = False) -> str:
    """The line to the agent that takes over: what the mail is, and where the one before it stopped."""
    line = (mail_for_one_who_knows_nothing if short else waits_for_one_who_knows_nothing)(agent, message, path)
    return f"{line}. Where it stands is in {checkpoint}" if _PATH.fullmatch(str(checkpoint)) else line


def status_check(text: str, message: Message) -> str:
    """The engine's own words, unless a task id in them is not plain: that comes from a body."""
    if _STATUS_CHECK.fullmatch(text):
        return f"ackd: {text}"
    about = message.message_id if _ID.fullmatch(message.message_id) else "your message"
    return f"ackd: Status check: are you still working on {about}?"


def reminder(message: Message, path: Path) -> str:
    """The line to an agent that is idle with work in hand: what it has not finished, and how that is ended."""
    known = _reference(message, path)
    if known is None:
        return "ackd: a message that you took is not finished: run: ackd inbox and for it: ackd done or defer or refuse"
    return (
        f"ackd: {_what(message)} is not finished: if it is done run: ackd done {known} "
        f"to get it again later: ackd defer {known} if you will not do it: ackd refuse {known}"
    )


def cancelled(message: Message) -> str:
    """The line to an agent whose message was cancelled. It names the message, and nothing that somebody wrote."""
    return f"ackd: {_what(message)} was cancelled: stop working on it. Nothing is to be answered"


def checkpoint(message: Message, path: Path) -> str:
    known = _reference(message, path)
    run = f"ackd checkpoint {known}" if known is not None else "ackd inbox and for what you work on: ackd checkpoint"
    return f"ackd: your context is nearly full: write down where you stand, what is done and what is next: run: {run}"


def _what(message: Message) -> str:
    number = f"message {message.message_id}" if _ID.fullmatch(message.message_id) else "a message"
    sender = f" from {message.sender}" if is_agent_name(message.sender) else ""
    kind = f" of type {message.type}" if _TYPE.fullmatch(message.type) else ""
    return number + sender + kind


def _what_to_do(message: Message, path: Path) -> str:
    known = _reference(message, path)
    if known is None:
        return "run: ackd inbox"
    read = f"read {path}" if _PATH.fullmatch(str(path)) else f"run: ackd read {known}"
    return f"{read} then run: ackd ack {known} and when finished: ackd done {known}"


def _reference(message: Message, path: Path) -> str | None:
    """The name by which the commands know the message: its id, else its file."""
    if _ID.fullmatch(message.message_id):
        return message.message_id
    return str(path) if _PATH.fullmatch(str(path)) else None


# --- stages of a story
def execute_stage(story: str, stage: int, message: Message, path: Path) -> str:
    """The line that gives a stage to its worker. Its end is said by a report, not by ``ackd done``."""
    return f"ackd: Execute {_stage(story, stage)}. Run: {_read(message, path)} and when it is over: ackd stage report"


def check_stage(story: str, stage: int) -> str:
    return f"ackd: Status check: are you still working on {_stage(story, stage)}? Answer with: ackd stage status"


def ack_stage(story: str, stage: int) -> str:
    return f"ackd: ACK {_stage(story, stage)}"


def stage_is_over(story: str, stage: int) -> str:
    return f"ackd: {_stage(story, stage)} is over, you may stop"


def _stage(story: str, stage: int) -> str:
    return f"Stage {stage} for {story}" if _ID.fullmatch(story) else f"Stage {stage} of your story"


# --- tasks that are acknowledged by a file
def task_waits(task_id: str, task_file: Path | None, ack_files: Iterable[Path]) -> str:
    """The line that tells of a task. ``ack_files``: names of the same file; the first that is plain is shown."""
    return f"ackd: {_which(task_id)} waits: {_how(task_file, ack_files)}"


def task_waits_for_one_who_knows_nothing(
    worker: str, task_id: str, task_file: Path | None, ack_files: Iterable[Path]
) -> str:
    who = f"worker {worker}" if _ID.fullmatch(worker) else "a worker"
    which, how = _which(task_id), _how(task_file, ack_files)
    return f"ackd: you are {who} of a team, your context was cleared and {which} waits: {how}"


def _which(task_id: str) -> str:
    return f"task {task_id}" if _ID.fullmatch(task_id) else "a task"


def _how(task_file: Path | None, ack_files: Iterable[Path]) -> str:
    shown = task_file is not None and _PATH.fullmatch(str(task_file))
    read = f"read {task_file}" if shown else "read it where your tasks lie"
    plain = next((str(path) for path in ack_files if _ANY_PATH.fullmatch(str(path))), None)
    return f"{read} then run: touch {plain}" if plain is not None else f"{read} then acknowledge it as you were told"
