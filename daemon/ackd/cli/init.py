"""`ackd init`: a small ackd.toml and the directories, private, and nothing outside of them.

Nothing is overwritten: a file that is there is kept, and listed as kept. The root gets a .gitignore of its own that
hides all of it, so that nobody commits the team's mail; the project's own .gitignore is not touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ackd.cli.command_line import command, for_place
from ackd.cli.errors import creating
from ackd.cli.output import echo, print_json, say
from ackd.config.site import CONFIG_NAME, Site, read_site

_TEMPLATE: Final = """\
# ackd: where the team's files are, and who is in it.
# `ackd config reference` prints every key with its default and its meaning, `ackd example list` names whole teams to
# start from, and `ackd check` looks this file over.

root = {root}                 # relative to this file
escalate_to = "user"           # who is told when something is dead or down

# One table for each agent. For example a command that is run once for each message, with the message on its stdin:
#
# [agents.worker]
# endpoint = "exec"
# command = ["./worker.sh"]
#
# One that is kept alive and speaks JSON lines (a worker in 15 lines of Python: `from ackd.worker import run`):
#
# [agents.builder]
# endpoint = "process"
# command = ["python3", "worker.py"]
#
# An interactive agent in a pane of tmux that is there already; with start = "claude" ackd opens one:
#
# [agents.coder]
# endpoint = "tmux"
# pane = "team:0.0"
# profile = "claude"             # or codex, gemini, opencode, shell, or one of your own
#
# And one that reads its mail itself, with `ackd inbox leader`, `ackd read` and `ackd done`:
#
# [agents.leader]
# endpoint = "inbox"
"""


@dataclass(slots=True)
class Laid:
    """The files that init created and kept, for both kinds of output."""

    created: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


@command
@for_place
def init(root: str | None, config: str | None, as_json: bool) -> None:
    """Write a small ackd.toml here and make the directories (.ackd/ beside it, or --root DIR)."""
    path = Path(config if config is not None else CONFIG_NAME).absolute()
    laid = Laid()
    with creating():
        _lay_config(path, root, laid)
        site = read_site(path, root=Path(root).absolute() if root is not None else None)
        _lay_directories(site, laid)
    if as_json:
        print_json({"config": str(path), "root": str(site.root), "created": laid.created, "kept": laid.kept})
    else:
        _print(laid)


def _lay_config(path: Path, root: str | None, laid: Laid) -> None:
    import json

    where = os.path.relpath(root, path.parent) if root is not None else ".ackd"
    if root is not None and where.startswith(".."):
        where = str(Path(root).absolute())
    content = _TEMPLATE.format(root=json.dumps(where))  # a JSON string is a TOML string
    try:
        with open(path, "x", encoding="utf-8") as file:  # noqa: PTH123 - "x" is the point
            file.write(content)
    except FileExistsError:
        laid.kept.append(str(path))
    else:
        laid.created.append(str(path))


def _lay_directories(site: Site, laid: Laid) -> None:
    from ackd.storage import maildrop

    own = [site.receipts, site.archive, site.logs, site.state, site.run, site.dead_letter, site.corrupt]
    boxes = [site.box_dir(name) for name in ("user", *site.agents)]
    (laid.kept if site.root.is_dir() else laid.created).append(str(site.root))
    for directory in own:
        maildrop.make_private_directory(directory, fsync=site.fsync)
    for box in boxes:
        maildrop.make_box(box, fsync=site.fsync)
    ignore = site.root / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
        ignore.chmod(0o600)


def _print(laid: Laid) -> None:
    for path in laid.created:
        say(f"made {path}")
    for path in laid.kept:
        say(f"kept {path}: it was there already")
    echo(
        "\nNext: name your agents in ackd.toml, then\n"
        "  ackd check                                  is all well?\n"
        "  ackd run                                    deliver\n"
        '  ackd send user --body "hello"               queue a first message\n'
        "  ackd inbox user                             and see it"
    )
