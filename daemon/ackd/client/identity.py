"""Which agent speaks: one rule for every call that is made in an agent's name.

The caller's word counts first, then ACKD_AGENT, then the pane the program runs in (``named_agent``). For a statement
about one message (ack, done, refuse, defer, checkpoint, reply) the message's only recipient counts last (``holder``),
because a sandbox may hide both the environment and tmux. An agent that is named and does not hold the message is
refused, with the names of those who do. What lies in the queue of a pool nobody holds yet (``NobodyHas``).

A pane that the daemon found, instead of opening it, has no ACKD_AGENT, but it carries the daemon's mark, which names
the team and the agent. tmux is asked only inside of tmux; a question it does not answer names nobody. Fails with
``NoSpeaker``, ``NotHolder``, ``UnknownAgent`` and ``UnknownMessage``.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from ackd.client.errors import NobodyHas, NoSpeaker, NotHolder
from ackd.core.errors import UnknownAgent
from ackd.core.names import USER, agent_name

if TYPE_CHECKING:
    from ackd.config.site import Site
    from ackd.storage.message_lookup import FoundMessage

#: The pane option of endpoints.tmux.client, whose import costs more than the question.
MARK: Final = "@ackd_agent"
_TMUX_TIMEOUT_S: Final = 2.0


def named_agent(site: Site, given: str | None) -> str | None:
    """The agent that the caller, the environment or the pane names, by its one spelling; None if nothing does."""
    name = given or agent_here(site)
    return site.resolve_agent(name) if name else None


def person_or_agent(site: Site) -> str:
    """The agent that the environment or the pane names; else it is a person who types."""
    return agent_here(site) or USER


def sending_as(site: Site, given: str | None) -> str:
    """The name in which a message is sent or cancelled. A sender need not be an agent of this team, but if it is, its
    one spelling is used."""
    name = given or person_or_agent(site)
    try:
        return site.resolve_agent(name)
    except UnknownAgent:
        return agent_name(name, site.reserved)


def holder(site: Site, wanted: str, given: str | None, *, or_former: bool = False) -> tuple[str, FoundMessage]:
    """The agent that speaks about the message that ``wanted`` means, and that agent's file of it. ``or_former``: a
    member of a pool that had the message may speak, too, wherever it lies now."""
    from ackd.core.errors import UnknownMessage
    from ackd.storage import message_lookup

    name = named_agent(site, given)
    if name is None:
        one = _only(wanted, message_lookup.find(site.root, wanted))
        _must_be_held(site, [one])
        return site.resolve_agent(one.box), one
    try:
        return name, message_lookup.own(site.root, wanted, name)
    except UnknownMessage:
        others = message_lookup.find(site.root, wanted)
    if or_former and (had := next((one for one in others if _was_with(one, name)), None)) is not None:
        return name, had
    _must_be_held(site, others)
    raise NotHolder(others[0].message_id, name, _boxes(others), "" if given else _source())


def _was_with(one: FoundMessage, agent: str) -> bool:
    """Say whether the agent had the message before, by its header: gave it back, or had it when it died."""
    from ackd.core.names import identity
    from ackd.core.words import HAD_BY
    from ackd.formats import ignite
    from ackd.storage.message_lookup import read_head

    fields = {name.lower(): value for name, value in ignite.headers(read_head(one.path) or b"")}
    return identity(agent) in {identity(name.strip()) for name in fields.get(HAD_BY.lower(), "").split(",")}


def _must_be_held(site: Site, found: list[FoundMessage]) -> None:
    """Raise NobodyHas for a message that lies in the queue of a pool: no member has it, whoever speaks."""
    from ackd.core.words import Folder

    if len(found) == 1 and found[0].folder is Folder.QUEUE and (pool := site.pool_called(found[0].box)) is not None:
        raise NobodyHas(found[0].message_id, pool)


def agent_here(site: Site) -> str | None:
    """The agent that the environment or the pane names, in whatever spelling."""
    return os.environ.get("ACKD_AGENT") or _agent_of_this_pane(site)


def _only(wanted: str, found: list[FoundMessage]) -> FoundMessage:
    """The only recipient's file. A message that went to several has no only recipient, even when the others have
    completed it: a statement made twice would be taken for the other's."""
    if "/" in wanted:
        for one in found:
            with contextlib.suppress(OSError):  # ids may hold slashes, too
                if os.path.samefile(wanted, one.path):  # noqa: PTH121 - the very file says whose it is
                    return one
    named = _boxes(found) if len(found) > 1 else _addressed(found[0])
    if len(named) > 1:
        raise NoSpeaker(found[0].message_id, named)
    if not found[0].box:
        raise NoSpeaker
    return found[0]


def _addressed(one: FoundMessage) -> tuple[str, ...]:
    """The recipients that its headers name, if they name several; else the agent that has it, whatever they say."""
    from ackd.core.names import identity
    from ackd.formats import ignite
    from ackd.storage.message_lookup import read_head

    fields = [value for field, value in ignite.headers(read_head(one.path) or b"") if field.lower() in ("to", "cc")]
    names = (name.strip() for value in fields for name in value.split(","))
    named = {identity(name): name for name in names if name}
    return tuple(named.values()) if len(named) > 1 else (one.box,)


def _boxes(found: list[FoundMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.box or "nobody" for one in found))


def _source() -> str:
    return "ACKD_AGENT" if os.environ.get("ACKD_AGENT") else "the mark of this pane"


def _agent_of_this_pane(site: Site) -> str | None:
    socket, pane = os.environ.get("TMUX", "").partition(",")[0], os.environ.get("TMUX_PANE", "")
    if not socket or not pane.startswith("%"):
        return None
    team, _, agent = _mark_of(socket, pane).rpartition(":")
    return agent if agent and team == str(site.root.absolute()) else None


def _mark_of(socket: str, pane: str) -> str:
    import subprocess

    command = ["tmux", "-S", socket, "display-message", "-p", "-t", pane, f"#{{{MARK}}}"]
    try:
        said = subprocess.run(command, capture_output=True, timeout=_TMUX_TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.decode(errors="replace").strip()
