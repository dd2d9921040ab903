"""Dead letters and quarantined files as one list, and how each gets out of there.

Owns reading the reasons (headers of a dead letter, the ``.reason`` file beside a quarantined one) and the moves. The
moves are for whoever holds the root. What the reasons say is checked like anything from outside: they name the queue
that a file goes back to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackd.core import message_ids
from ackd.core.errors import BadMessage
from ackd.core.headers import NONE_OF_OURS
from ackd.frontends.cli.errors import BAD_DATA, USAGE, Failure
from ackd.frontends.cli.output import printable

if TYPE_CHECKING:
    from ackd.site import Site

_HEAD_BYTES: Final = 70_000
_REASON_SUFFIX: Final = ".reason"


@dataclass(frozen=True, slots=True)
class Grave:
    """One file and why it lies here. ``agent`` is whose queue it came from; ``original``: its name there."""

    kind: str  # dead | corrupt
    name: str
    path: Path
    reason: str
    message_id: str | None = None
    agent: str | None = None
    sender: str | None = None
    type: str | None = None
    at: str | None = None
    retry_count: int | None = None
    original: str | None = None

    def as_dict(self) -> dict[str, Any]:
        content = asdict(self)
        content["file"] = str(content.pop("path"))
        content["from"] = content.pop("sender")
        return content


def all_graves(site: Site) -> list[Grave]:
    return [_dead(path) for path in dead_files(site)] + [_corrupt(path) for path in quarantined_files(site)]


def dead_files(site: Site) -> list[Path]:
    """Whatever lies in dead_letter/, letters or not: somebody has to look at it."""
    return _entries(site.dead_letter)


def quarantined_files(site: Site) -> list[Path]:
    return [path for path in _entries(site.corrupt) if not path.name.endswith(_REASON_SUFFIX)]


def find(site: Site, wanted: str) -> Grave:
    """By file name or path, by id, by the unique beginning of one, or by its hash. What means several, means none."""
    graves = all_graves(site)
    meant = [grave for grave in graves if _is_named(site, grave, wanted)]
    if not meant:
        ids = [grave.message_id for grave in graves if grave.message_id]
        chosen = message_ids.choose(wanted.removeprefix("<").removesuffix(">"), ids)
        meant = [grave for grave in graves if grave.message_id == chosen]  # it may have died at several recipients
    if len(meant) > 1:
        raise Failure(USAGE, _which(wanted, meant))
    return meant[0]


def _is_named(site: Site, grave: Grave, wanted: str) -> bool:
    """A path is one from here, or as the log has it, below the root. Or below queue/."""
    if "/" not in wanted or not wanted.endswith(f"/{grave.name}"):
        return wanted == grave.name
    here = grave.path.parent.resolve()
    return any(Path(base, wanted).parent.resolve() == here for base in ("", site.root, site.queue))


def _which(wanted: str, graves: list[Grave]) -> str:
    lines = [f"{printable(wanted)} fits {len(graves)}: name the file of the one that you mean"]
    for grave in graves:
        file = f"queue/{grave.path.parent.name}/{grave.name}"
        lines.append(f"  {printable(file)}  {printable(grave.agent or '-')}")
    return "\n".join(lines)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


def _dead(path: Path) -> Grave:
    from ackd.adapters.message_lookup import read_head
    from ackd.dialects import ignite

    head = read_head(path, _HEAD_BYTES)
    if head is None:
        kind = "a directory" if path.is_dir() and not path.is_symlink() else "not a regular file"
        return Grave("dead", path.name, path, f"{kind}, no message: nothing of ackd's")
    try:
        fields = ignite.split_head(head).fields
    except BadMessage as error:
        return Grave("dead", path.name, path, f"unreadable: {error}")
    count = fields.get("x-ignite-retry-count", "")
    return Grave(
        kind="dead",
        name=path.name,
        path=path,
        reason=fields.get("x-ignite-error-reason") or "no reason given",
        message_id=ignite.bare_id(fields.get("message-id", "")) or None,
        agent=fields.get("x-ignite-recipient") or _only(fields.get("to", "")),
        sender=fields.get("from"),
        type=fields.get("x-ignite-type"),
        at=fields.get("x-ignite-error-at"),
        retry_count=int(count) if count.isascii() and count.isdigit() and len(count) <= 6 else None,
        original=path.name,
    )


def _only(to: str) -> str | None:
    """To, if it names one agent: a dead letter of someone else's making may not say for whom this copy was."""
    return to if to and "," not in to else None


def _corrupt(path: Path) -> Grave:
    import json

    from ackd.adapters.message_lookup import read_head

    raw = read_head(path.with_name(path.name + _REASON_SUFFIX), _HEAD_BYTES)
    try:
        said = json.loads(raw or b"null")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return Grave("corrupt", path.name, path, "no reason was kept")
    words = {key: value for key, value in said.items() if isinstance(value, str)}
    reason = ": ".join(words[key] for key in ("code", "detail") if key in words) or "no reason was kept"
    queue, at, original = (words.get(key) for key in ("queue", "at", "name"))
    return Grave("corrupt", path.name, path, reason, agent=queue, at=at, original=original)


# --- the ways out -----------------------------------------------------------------------------------------------------
def home(site: Site, grave: Grave) -> Path:
    """The queue that it goes back to, proven to be an agent's."""
    if not grave.agent:
        raise Failure(BAD_DATA, f"{grave.name} does not say whose it was: move it into a queue by hand")
    return site.box_dir(site.resolve_agent(grave.agent))


def requeue(site: Site, grave: Grave, box: Path) -> dict[str, Any]:
    from ackd.adapters import maildrop

    maildrop.make_box(box, fsync=site.fsync)
    name = _plain(grave.original) or grave.name
    if grave.kind == "corrupt":
        to = maildrop.move(grave.path, box, name, fsync=site.fsync)
        _forget_reason(grave)
    else:
        # The new copy is durable before the old one goes: a crash between leaves both, and the id tells them apart
        # from two messages.
        to = maildrop.drop(box, name, _fresh(site, grave), fsync=site.fsync)
        grave.path.unlink()
    return {"file": grave.name, "message_id": grave.message_id, "result": "requeued", "to": str(to)}


def _fresh(site: Site, grave: Grave) -> bytes:
    from ackd.adapters.message_lookup import read_head
    from ackd.dialects import ignite

    limit = site.max_message_bytes + ignite.MAX_HEADER_BYTES  # it was within the limit before its headers were added
    data = read_head(grave.path, limit + 1)
    if data is None or len(data) > limit:
        raise Failure(BAD_DATA, f"{grave.name}: not a regular file of at most {limit} bytes")
    return ignite.rewrite(data, NONE_OF_OURS)


def purge(grave: Grave) -> dict[str, Any]:
    if stat.S_ISDIR(grave.path.lstat().st_mode):
        shutil.rmtree(grave.path)
    else:
        grave.path.unlink()
    _forget_reason(grave)
    return {"file": grave.name, "message_id": grave.message_id, "result": "purged"}


def _forget_reason(grave: Grave) -> None:
    if grave.kind == "corrupt":
        with contextlib.suppress(FileNotFoundError):
            grave.path.with_name(grave.name + _REASON_SUFFIX).unlink()


def _plain(name: str | None) -> str | None:
    """The name, if a file in a queue may have it. Of surrogates JSON can write more than a file system has."""
    if not name or "/" in name or "\0" in name or name.startswith("."):
        return None
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return None
    return name
