"""The text of a unit for one workspace and this installation, made from the unit that comes with ackd.

Everything that the shipped unit says and explains stays, except what this installation knows better: the directory, the
absolute path of this ackd, where the agents' programs are, and, of a system unit, the account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The shipped units that those of a user and of the system are made from.
USER_UNIT: Final = "ackd@.service"
SYSTEM_UNIT: Final = "ackd-system.service"


class Account(NamedTuple):
    """The user that a system unit runs as."""

    user: str
    group: str
    home: str


class UnitWords(NamedTuple):
    """``command``: the program with its options. ``path``: the directories of the agents' programs."""

    name: str
    workspace: str
    command: Sequence[str]
    path: str
    account: Account | None = None
    #: Directories outside of the workspace that ackd itself writes to.
    writes: Sequence[str] = ()


def text(shipped: str, words: UnitWords) -> str:
    """Return the unit. Paths with control characters must have been refused."""
    instead = {
        "Description": [f"ackd: messages between the coding agents of {_plain(words.workspace)}"],
        "WorkingDirectory": [_plain(words.workspace)],
        "ExecStart": [" ".join([_quoted(words.command[0]), *map(_argument, words.command[1:])])],
        "Environment": [_quoted(f"PATH={words.path}")],
    }
    if words.account is not None:
        writes = dict.fromkeys([words.workspace, words.account.home, *words.writes])
        instead |= {"User": [_plain(words.account.user)], "Group": [_plain(words.account.group)]}
        instead |= {"StateDirectory": [], "StateDirectoryMode": []}
        instead |= {"ReadWritePaths": ["/tmp /var/tmp", *(_quoted(f"-{path}") for path in writes)]}  # noqa: S108
    lines = [*_head(words), *_after_head(shipped)]
    made: list[str] = []
    for line in lines:
        key = line.partition("=")[0]
        if key not in instead:
            made.append(line)
            continue
        made += [f"{key}={value}" for value in instead.pop(key)]
        if key == "ExecStart":
            made += ["# Where ackd and the programs of its agents are.", f"Environment={instead.pop('Environment')[0]}"]
    return "\n".join(made) + "\n"


def _head(words: UnitWords) -> list[str]:
    edit = "systemctl edit" if words.account is not None else "systemctl --user edit"
    return [
        f"# ackd for {words.workspace}. `ackd service install` has written this file, and writes it again;",
        f"# what you add with `{edit} {words.name}` stays.",
    ]


def _after_head(shipped: str) -> list[str]:
    """The lines from the first section on: what stands above is about installing by hand."""
    lines = shipped.splitlines()
    return lines[lines.index("[Unit]") :]


def _plain(value: str) -> str:
    """A value that takes the whole line: only specifiers would be changed in it."""
    return value.replace("%", "%%")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _argument(word: str) -> str:
    """A word of a command line after the program, in which ``$`` stands for a variable."""
    return _quoted(word.replace("$", "$$"))
