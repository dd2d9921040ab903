"""Ways to break a daemon on purpose, so that the checks can be seen to fail.

Applied in a freshly forked child by name. Each takes one of the rules away that the promises rest on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackd.coordination.ensemble.directory import FoundFile
    from ackd.coordination.ensemble.drafts import FileVersion


def apply(name: str | None) -> None:
    if name is not None:
        _BREAKAGES[name]()


def _replace(owner: object, **by: object) -> None:
    for name, replacement in by.items():
        setattr(owner, name, replacement)


def _move_by_copying_after_unlinking() -> None:
    """The claim and the archive take the old name away before the new one is there."""
    import os
    from pathlib import Path

    from ackd.storage.spool import disk

    def move(source: str, target: str) -> None:
        data = Path(source).read_bytes()
        os.unlink(source)  # noqa: PTH108 - as the rest of the spool does
        Path(target).write_bytes(data)

    _replace(disk, rename_noreplace=move)


def _forget_what_was_in_hand() -> None:
    """Neither the journal nor the log before is asked: what ended as we died leaves no line."""
    from ackd.runtime.recovery.missing import MissingMessages
    from ackd.storage.journal import Journal

    _replace(Journal, take_in=lambda *_: None, let_go=lambda *_: None)
    _replace(MissingMessages, leave_open=lambda *_: None, _end_untold=lambda *_: None)


def _archive_by_copying() -> None:
    """What is archived stays in processed/, too, until a moment later."""
    import os
    from pathlib import Path

    from ackd.storage.spool import disk
    from ackd.system.syscalls import rename_noreplace

    def move(source: str, target: str) -> None:
        if "/archive/" not in target:
            rename_noreplace(source, target)
            return
        Path(target).write_bytes(Path(source).read_bytes())
        os.unlink(source)  # noqa: PTH108

    _replace(disk, rename_noreplace=move)


def _write_messages_in_place() -> None:
    """`ackd send` writes under the final name."""
    from pathlib import Path

    from ackd.storage import maildrop

    def write(_dir_fd: int, directory: str | Path, name: str, data: bytes, _fsync: bool) -> str:
        with Path(directory, name).open("wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            file.write(data[len(data) // 2 :])
        return name

    _replace(maildrop, _hide=write, _show=lambda _dir_fd, _hidden, name, _fsync: name)


def _flush_nothing() -> None:
    import os

    _replace(os, fsync=lambda _: None)


def _note_before_mailing() -> None:
    """The Ensemble gateway writes down that a task was given out before it is."""
    from ackd.coordination.ensemble.gateway import EnsembleGateway
    from ackd.coordination.ensemble.saved_state import KnownFile

    mail = EnsembleGateway._give_out

    async def note_and_mail(gateway: EnsembleGateway, sheet: FileVersion, found: FoundFile) -> None:
        gateway._saved.note(sheet.key, KnownFile(sheet.version, sheet.digest, found.mark))
        await gateway._saved.save(gateway._services.clock.now())
        await mail(gateway, sheet, found)

    _replace(EnsembleGateway, _give_out=note_and_mail)


_BREAKAGES: dict[str, Callable[[], None]] = {
    "unlink first": _move_by_copying_after_unlinking,
    "archive by copy": _archive_by_copying,
    "no journal and no memory": _forget_what_was_in_hand,
    "written in place": _write_messages_in_place,
    "no flush": _flush_nothing,
    "noted before mailed": _note_before_mailing,
}
