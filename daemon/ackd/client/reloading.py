"""Have the running daemon read its config again, and say whether the file is what it runs with.

The request is a receipt; the answer is a line of the session log (``config_reloaded``, ``config_refused``). Whether the
file has changed since is told by the mark that the daemon leaves in ``run/config`` (``config/file_mark.py``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackd.config.site import Site

TIMEOUT_S = 30.0
_POLL_S = 0.03


class Reloaded(NamedTuple):
    """The daemon's answer. ``settings``: keys of the team that are different; ``waiting``: agents whose new endpoint
    waits until the old one has finished; ``not_live``: keys that keep their old value until the next start; ``mail``:
    how many open messages of each agent that was removed stay in its queue."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    not_live: tuple[str, ...] = ()
    mail: Mapping[str, int] = {}


def reload(site: Site, *, timeout_s: float = TIMEOUT_S, wait: bool = True) -> Reloaded | None:
    """Ask the daemon to read its config again. Returns None if it has not answered in time, or is not waited for.

    Fails with ``NoDaemon``, ``CannotWrite``, and with ``BadConfig`` if the daemon refuses the file: then nothing has
    changed.
    """
    from ackd.client.agents import asker
    from ackd.client.errors import NoDaemon
    from ackd.client.writing import check_reader, creating
    from ackd.storage import maildrop, root_lock, session_log

    if root_lock.holder(site.run) is None:
        raise NoDaemon("no daemon is running, and the next one reads the file by itself: `ackd run` starts it")
    check_reader(site)
    follower = session_log.Follower(site.logs)
    with creating(site.receipts):
        receipt = maildrop.drop_reload(site.receipts, asker(), fsync=site.fsync).name
    deadline = time.monotonic() + (timeout_s if wait else 0.0)
    while time.monotonic() < deadline:
        for line in follower.poll():
            if line.data.get("receipt") == receipt and (answer := _answer(site, line.type, line.data)) is not None:
                return answer
        time.sleep(_POLL_S)
    return None


def _answer(site: Site, type_: str, data: Mapping[str, Any]) -> Reloaded | None:
    from ackd.core.daemon_facts import config_refused, config_reloaded
    from ackd.core.errors import BadConfig, Problem

    if type_ == config_refused.type:
        problems = tuple(Problem("", str(one)) for one in data.get("problems", ()))
        raise BadConfig(str(site.config_path or site.root), problems)
    if type_ != config_reloaded.type:
        return None
    lists = {key: tuple(map(str, data.get(key, ()))) for key in Reloaded._fields if key != "mail"}
    return Reloaded(**lists, mail=dict(data.get("mail", {})))


def has_drifted(site: Site) -> bool:
    """Say whether the config has changed since the running daemon read it. Never fails; without a daemon, False."""
    from ackd.config.file_mark import differs
    from ackd.storage import root_lock

    return differs(site.run, site.config_path) and root_lock.holder(site.run) is not None
