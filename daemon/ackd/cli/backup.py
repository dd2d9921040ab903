"""`ackd backup` and `ackd restore`: a root in one file, taken while its daemon runs, and brought back elsewhere.

client/backup.py does it. Exit 65 for a file that is no whole backup, 73 where something is in the way, 75 if the daemon
does not answer, 78 for a backup of a newer ackd.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackd.cli.command_line import argument, at_least, command, for_place, for_root
from ackd.cli.errors import WrongUsage
from ackd.cli.output import print_json, say

if TYPE_CHECKING:
    from ackd.config.site import Site
    from ackd.storage.backup.bundle import Contents


@command
@argument("file", metavar="FILE", complete="files", help="The file to write: .tar, .tar.gz, .tar.bz2 or .tar.xz.")
@argument(
    "--timeout",
    type=at_least(0),
    default=60.0,
    metavar="S",
    help="Wait at most so many seconds for a running daemon.  [default: %(default)s]",
)
@for_root
def backup(site: Site, as_json: bool, file: str, timeout: float) -> None:
    """Write a consistent copy of the team's root into one file, while the daemon runs or without one.

    Every message that was accepted before is in it, and none that was completed before is offered again by whoever
    restores it. Messages are not moved while they get a second name each, which takes milliseconds; the rest is done
    beside the daemon. `ackd restore` brings it back.
    """
    from ackd.client import backup as backups

    done = backups.backup(site, Path(file), timeout_s=timeout)
    if as_json:
        print_json({"file": done.file, "size_bytes": done.size_bytes, "gone": done.gone, **_data(done.contents)})
        return
    say(f"{done.file}: {_words(done.contents)}; {done.size_bytes} bytes")
    if done.gone:
        say(f"{len(done.gone)} old files of the archive were removed meanwhile, and are not in it")
    if not done.contents.has_config:
        say("the root has no ackd.toml, so there is none in it")


@command
@argument("file", metavar="FILE", complete="files", help="The backup.")
@argument("--config-to", metavar="FILE", help="Also write the backup's ackd.toml, as this new file.")
@argument("--dry-run", action="store_true", help="Verify the backup and say what is in it; write nothing.")
@for_place
def restore(
    as_json: bool, file: str, root: str | None, config: str | None, config_to: str | None, dry_run: bool
) -> None:
    """Bring a backup back as a new root, with every agent paused.

    `--root DIR` says where: a directory that is not there yet, or is empty.

    All of the file is verified before anything is written. The root that it was taken of may still be served, so
    nothing is delivered until `ackd agent resume` says so, agent by agent.
    """
    from ackd.client import backup as backups

    if config is not None:
        raise WrongUsage("no config is read: --config-to FILE says where the backup's own is written")
    if dry_run:
        contents = backups.verify(Path(file))
        if as_json:
            print_json({"ok": True, **_data(contents)})
        else:
            say(f"{file}: whole, {_words(contents)}")
        return
    if root is None:
        raise WrongUsage("Missing option '--root DIR': where to restore it.")
    done = backups.restore(Path(file), Path(root), config_to=Path(config_to) if config_to is not None else None)
    if as_json:
        said = {"root": done.root, "unfinished_runs": done.runs, "config": done.config, "paused": "all"}
        print_json({**said, "restored_from": _data(done.contents)})
        return
    say(f"{done.root}: {_words(done.contents)}")
    if done.runs:
        say(f"{done.runs} commands or workers were at work: their messages are offered again")
    if done.config is not None:
        say(f"{done.config}: the config of the backup")
        if done.config_root != done.root:
            say(f'  it names the root {done.config_root}: set root = "{done.root}" before you use it')
    say("every agent is paused, because the original may still run: `ackd agent resume AGENT...` lets them go on")


def _words(contents: Contents) -> str:
    return f"{contents.files} files of {contents.root}, taken {contents.taken_at}"


def _data(contents: Contents) -> dict[str, object]:
    said = contents._asdict()
    return {"files": said["files"], "bytes": said["bytes"], "root": said["root"], "taken_at": said["taken_at"],
            "ackd": said["ackd"], "has_config": said["has_config"]}  # fmt: skip
