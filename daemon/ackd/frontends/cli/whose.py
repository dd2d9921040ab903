"""Whose command this is: one rule for every command that speaks as an agent.

``--agent``, else ACKD_AGENT, else the pane it is typed in (``said``); for a word about one message (ack, done, refuse,
defer, checkpoint, reply) last of all the message's one recipient (``holder``), because a sandbox may hide both the
environment and tmux. Whoever is named and does not hold the message is refused, with who does.

A pane that the daemon found, instead of opening it, has no ACKD_AGENT, but it carries the daemon's mark, which names
the team and the agent. tmux is asked only inside of tmux, and whatever it cannot tell is nobody. Fails with
``WrongUsage`` (nobody can tell), ``Failure`` (somebody else's mail), ``UnknownAgent``, ``UnknownMessage``.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from ackd.frontends.cli.errors import CANNOT_CREATE, NO, Failure, WrongUsage

if TYPE_CHECKING:
    from ackd.adapters.message_lookup import Found
    from ackd.site import Site

#: As adapters.tmux has it, whose import costs more than the question.
MARK: Final = "@ackd_agent"
_PATIENCE_S: Final = 2.0


#: What a command says that cannot go on without a name.
NOBODY: Final = "whose mail? Say --agent NAME, or set ACKD_AGENT"


def said(site: Site, given: str | None) -> str | None:
    """The agent that the command line, the environment or the pane names, by its one spelling; None if nothing does."""
    name = given or agent_here(site)
    return site.resolve_agent(name) if name else None


def holder(site: Site, wanted: str, given: str | None) -> tuple[str, Found]:
    """Who speaks about the message that ``wanted`` means, and that agent's file of it."""
    from ackd.adapters import message_lookup
    from ackd.core.errors import UnknownMessage

    name = said(site, given)
    if name is None:
        one = _only(wanted, message_lookup.find(site.root, wanted))
        return site.resolve_agent(one.box), one
    try:
        return name, message_lookup.own(site.root, wanted, name)
    except UnknownMessage:
        others = message_lookup.find(site.root, wanted)
    has = f"{_and(_boxes(others))} {'has' if len(_boxes(others)) == 1 else 'have'} it"
    raise Failure(NO, f"{others[0].message_id} is not {name}'s mail: {has}{_by_what(given)}")


def _only(wanted: str, found: list[Found]) -> Found:
    """The one recipient's file. Of a message that went to several nobody is the only one, though others are through
    with it: a word said twice would be taken for the other's."""
    if "/" in wanted:
        for one in found:
            with contextlib.suppress(OSError):  # ids may hold slashes, too
                if os.path.samefile(wanted, one.path):  # noqa: PTH121 - the very file says whose it is
                    return one
    named = _boxes(found) if len(found) > 1 else _addressed(found[0])
    if len(named) > 1:
        raise WrongUsage(f"{found[0].message_id} went to {_and(named)}: {NOBODY}")
    if not found[0].box:
        raise WrongUsage(NOBODY)
    return found[0]


def _addressed(one: Found) -> list[str]:
    """Whom its headers name, if they name several; else who has it, whatever they say."""
    from ackd.adapters.message_lookup import read_head
    from ackd.core.names import identity
    from ackd.dialects import ignite

    fields = [value for field, value in ignite.headers(read_head(one.path) or b"") if field.lower() in ("to", "cc")]
    names = (name.strip() for value in fields for name in value.split(","))
    named = {identity(name): name for name in names if name}
    return list(named.values()) if len(named) > 1 else [one.box]


def _boxes(found: list[Found]) -> list[str]:
    return list(dict.fromkeys(one.box or "nobody" for one in found))


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _by_what(given: str | None) -> str:
    if given:
        return ""
    where = "ACKD_AGENT" if os.environ.get("ACKD_AGENT") else "the mark of this pane"
    return f" ({where} says who speaks here; --agent NAME says otherwise)"


def check_reader(site: Site) -> None:
    """Root's files are root's: a daemon of another user could not read them, so what looked accepted never arrived.

    That user is the one who made the lock of the root's daemon, else who owns the root.
    """
    if os.geteuid() != 0:
        return
    owner = 0
    for path in (f"{site.root}/run/ackd.lock", site.root):
        with contextlib.suppress(OSError):
            owner = os.lstat(path).st_uid
            break
    if owner:
        words = f"{site.root} is the team of uid {owner}, whose daemon cannot read what root writes"
        raise Failure(CANNOT_CREATE, f"{words}: run it as that user (sudo -u '#{owner}' ackd ...)")


def agent_here(site: Site) -> str | None:
    return os.environ.get("ACKD_AGENT") or _of_this_pane(site)


def _of_this_pane(site: Site) -> str | None:
    socket, pane = os.environ.get("TMUX", "").partition(",")[0], os.environ.get("TMUX_PANE", "")
    if not socket or not pane.startswith("%"):
        return None
    team, _, agent = _asked(socket, pane).rpartition(":")
    return agent if agent and team == str(site.root.absolute()) else None


def _asked(socket: str, pane: str) -> str:
    import subprocess

    command = ["tmux", "-S", socket, "display-message", "-p", "-t", pane, f"#{{{MARK}}}"]
    try:
        said = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.decode(errors="replace").strip()
