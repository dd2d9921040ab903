"""The facts about the daemon itself: its sessions, its watching, the machine under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core.fact import BLUE, DIM, GREEN, RED, YELLOW, fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.core.fact import Shown


def _session_start(of: Shown) -> str:
    recovered = of.counts("recovered")
    return (
        f"ackd {of['version']} started, pid {of['pid']}, on {of['root']}"
        + (f"; found again: {recovered}" if recovered else "")
        + of("restored", "; {}: every agent is paused until `ackd agent resume`")
    )


@fact("daemon", "■", BLUE, _session_start)
def session_start(
    *, version: str, pid: int, root: str, config_hash: str, recovered: Mapping[str, int], restored: str | None = None
) -> None:
    """A daemon has started and recovered what lay there; ``recovered`` counts it. ``restored``: it is the first one
    since the root was restored from a backup, which is named; it pauses every agent."""


def _session_stopping(of: Shown) -> str:
    parts = []
    if agents := of.data.get("agents"):
        what = "their messages" if isinstance(agents, list) and len(agents) > 1 else "its message"
        parts.append(f"{of['agents']} may finish {what}, for at most {of.time('seconds', '{}') or '?'}")
    if asked := of.data.get("asked"):
        verb = "are" if isinstance(asked, list) and len(asked) > 1 else "is"
        parts.append(f"{of['asked']} {verb} asked for a checkpoint")
    if of.data.get("left"):
        parts.append(f"commands of {of['left']} run on, and the next daemon takes them up")
    return f"stopping: {'; '.join(parts)}; Ctrl-C again stops at once"


@fact("daemon", "■", BLUE, _session_stopping)
def session_stopping(
    *, agents: list[str], seconds: float, asked: list[str] | None = None, left: list[str] | None = None
) -> None:
    """A daemon was told to end, and lets ``agents`` finish what they have in hand, for ``seconds`` at most; ``asked``:
    those of them that were asked for a checkpoint. ``left``: agents whose commands run on, because another daemon
    follows at once. A second signal ends it at once. Without anything in hand there is no such line."""


def _session_end(of: Shown) -> str:
    totals = of.counts("totals")
    return f"ended: {of['reason']}" + (f"; {totals}" if totals else "")


@fact("daemon", "■", BLUE, _session_end)
def session_end(*, reason: str, totals: Mapping[str, int]) -> None:
    """A daemon has ended by itself or by a signal; ``totals`` counts its session."""


@fact("daemon", "!", YELLOW, lambda of: f"{of['signal']} means nothing to ackd, which goes on")
def signal_ignored(*, signal: str) -> None:
    """A signal came that would end a program by default and means nothing to the daemon."""


@fact(
    "daemon",
    "!",
    YELLOW,
    lambda of: f"ackd did not run for {of['seconds']} s and more: receipts and files are read first",
)
def overslept(*, seconds: float) -> None:
    """The machine slept, or the daemon was stopped, so long that deadlines wait for what was said meanwhile."""


@fact("archive", "-", DIM, lambda of: f"older than archive_days, removed: {of['days']}")
def archive_swept(*, days: list[str]) -> None:
    """Days of the archive that are older than archive_days were removed."""


def _snapshot(of: Shown) -> str:
    if "error" in of.data:
        return f"no snapshot for a backup: {of['error']}"
    return f"snapshot of {of['files']} files for a backup: nothing was moved for {of['seconds']} s"


@fact("snapshot", "=", BLUE, _snapshot)
def snapshot_taken(*, receipt: str, files: int, seconds: float, error: str | None = None) -> None:
    """Everything below the root got a second name for a backup, while nothing was moved for ``seconds``. With
    ``error`` it did not."""


# --- the config -------------------------------------------------------------------------------------------------------
def _config_reloaded(of: Shown) -> str:
    parts = (
        of("added", "added {}"),
        of("changed", "changed {}"),
        of("removed", "removed {}"),
        of("settings", "set {}"),
        of("waiting", "once they have finished: {}"),
        of("not_live", "not before the next start: {}"),
    )
    said = "; ".join(part for part in parts if part) or "nothing is different"
    mail = of.counts("mail")
    return f"ackd.toml is read again ({of['by']}): {said}" + (
        f"; mail of who was removed stays: {mail}" if mail else ""
    )


@fact("config", "■", BLUE, _config_reloaded)
def config_reloaded(
    *,
    by: str,
    config_hash: str,
    added: list[str] | None = None,
    changed: list[str] | None = None,
    removed: list[str] | None = None,
    settings: list[str] | None = None,
    waiting: list[str] | None = None,
    not_live: list[str] | None = None,
    mail: Mapping[str, int] | None = None,
    receipt: str | None = None,
) -> None:
    """The config was read again and is in force. ``added``, ``changed`` and ``removed`` are agents, groups and pools;
    ``settings`` keys of the team; ``waiting``: agents whose new endpoint waits until the old one has finished;
    ``not_live``: keys that keep their old value until the next start; ``mail``: the open messages of who was removed,
    which stay in its queue as an inbox's. ``receipt``: the request that it answers."""


@fact(
    "config",
    "▲",
    RED,
    lambda of: f"ackd.toml was not read again ({of['by']}), and nothing has changed: {of['problems']}",
    loud=True,
)
def config_refused(*, by: str, problems: list[str], receipt: str | None = None) -> None:
    """A reload was refused, for these reasons; the daemon goes on with the config that it has."""


# --- watching ---------------------------------------------------------------------------------------------------------
@fact("watch", "!", YELLOW, lambda _: "the kernel dropped notifications: everything is scanned again", loud=True)
def watch_overflow() -> None:
    """The kernel's queue of notifications overflowed."""


@fact("watch", "!", YELLOW, lambda of: f"{of('mode') or 'polling'} from now on: {of['reason']}", loud=True)
def watch_degraded(*, reason: str, mode: str | None = None, what: str | None = None) -> None:
    """inotify cannot be used, so directories are polled. ``what``: only those of the gateways."""


@fact("watch", "·", DIM, lambda of: f"{of('mode') or 'inotify'} again")
def watch_restored(*, mode: str | None = None, what: str | None = None) -> None:
    """inotify can be used again."""


# --- the machine ------------------------------------------------------------------------------------------------------
@fact("disk", "▲", RED, lambda of: f"{of['what']}: {of['error']}{of('advice', ' → {}')}", loud=True)
def io_error(
    *,
    what: str,
    error: str,
    agent: str | None = None,
    pool: str | None = None,
    advice: str | None = None,
    message_id: str | None = None,
    track: str | None = None,
    offset: int | None = None,
    bus_type: str | None = None,
) -> None:
    """The machine refused something that the daemon tried; ``what`` was tried, ``advice`` says what a person can do."""


@fact(
    "disk",
    "✓",
    GREEN,
    lambda of: f"over{of.time('seconds', ' after {}')}: {of['error']}{of('times', ', met {} times')}",
)
def io_recovered(*, error: str, seconds: float, times: int) -> None:
    """A fault of the machine is over."""


def _room_low(of: Shown) -> str:
    return (
        f"{_amount(of, 'free')} free on {of['where']}, less than {_amount(of, 'least')}: no message is taken up until "
        "there is room again; what is in hand goes on"
    )


def _amount(of: Shown, key: str) -> str:
    number = of.data.get(key)
    if of.data.get("what") == "inodes" or not isinstance(number, int):
        return f"{of[key]} inodes"
    return f"{number / 1_000_000:.1f} MB"


@fact("disk", "▲", RED, _room_low, loud=True)
def room_low(*, where: str, what: str, free: int, least: int) -> None:
    """There is less free space (``what`` is ``space``, in bytes) or fewer free inodes (``inodes``) than are kept for
    what is in hand: messages wait in their queues."""


@fact("disk", "✓", GREEN, lambda of: f"room again{of.time('seconds', ' after {}')}: messages are taken up")
def room_back(*, seconds: float) -> None:
    """There is room again, and what has waited for it is taken up."""


@fact(
    "notify", "▲", RED, lambda of: f"on_escalation could not be run: {of['error']}{of('command', ' ({})')}", loud=True
)
def notify_failed(*, message_id: str, command: list[str], error: str) -> None:
    """The command on_escalation could not be run, or failed."""


@fact("log", "▲", RED, lambda of: f"{of['lost']} lines could not be written to this log and are lost", loud=True)
def log_gap(*, lost: int) -> None:
    """Lines could not be written to the log; this one says how many are missing here."""


@fact("log", "·", DIM, lambda of: f"goes on from {of['before']}")
def log_continued(*, before: str, needed_from: str | None = None) -> None:
    """The session goes on in this file, because the one ``before`` was full; always a file's first line. Messages that
    were open then have their lines of this session in ``needed_from`` and the files after it. Without it the session
    had not yet found all messages that lay there at its start."""


@fact("log", "-", DIM, lambda of: f"{of['file']} compressed: {of['bytes']} bytes in {of['stored_bytes']}")
def log_compressed(*, file: str, bytes: int, stored_bytes: int) -> None:  # noqa: A002 - the field's name
    """A finished log was compressed; it is read as before."""


@fact("log", "-", DIM, lambda of: f"older than log_keep_days, removed: {of['files']}")
def logs_swept(*, files: list[str]) -> None:
    """Logs that are older than log_keep_days, and name no message that is open or a dead letter, were removed."""
