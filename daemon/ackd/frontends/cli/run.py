"""``ackd run``: the daemon in the foreground.

On a terminal one line per fact, coloured; elsewhere one JSON object per fact, so that a service manager's journal can
be searched. ``--quiet`` leaves out the ordinary life of messages: the session log has it anyway.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from ackd.core.errors import AckdError, OurFault
from ackd.core.message import USER
from ackd.frontends.cli.errors import Failure, creating
from ackd.frontends.cli.options import site_options

if TYPE_CHECKING:
    from ackd.ports import View
    from ackd.site import Site

#: The ordinary course of a message: every one is in the session log.
ROUTINE: Final = frozenset(
    "message_queued message_claimed message_told message_seen message_acked message_completed worker_assign "
    "worker_release task_start task_complete review_start review_result child_started child_ended progress "
    "lease_granted lease_renewed lease_released".split()
)


@click.command(short_help="Run the daemon in the foreground.")
@click.option("--quiet", "-q", is_flag=True, help="Leave out the ordinary life of messages.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "lines", "json"]),
    default="auto",
    help="lines for people, json for programs (default: by whether stdout is a terminal).",
)
@site_options
def run(site: Site, *, quiet: bool, form: str, as_json: bool) -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C.

    The first signal lets running deliveries finish (drain_timeout_s); a second one leaves at once, and what still runs
    is taken up again by the next start.
    """
    import anyio

    from ackd.config import load_site
    from ackd.frontends.terminal_view import StructuredView, TerminalView
    from ackd.runtime.daemon import Daemon

    config = load_site(site)
    for_people = form == "lines" or (form == "auto" and sys.stdout.isatty() and not as_json)
    view = TerminalView(sys.stdout, (*site.agents, USER)) if for_people else StructuredView(sys.stdout)
    daemon = Daemon(config, site, _Quietly(view) if quiet else view)
    try:
        with creating(site.root):
            anyio.run(daemon.serve)
    except Exception as error:
        _leave_a_trace(error)
        raise


def _leave_a_trace(error: Exception) -> None:
    """A bug in a daemon is read about in a journal, later: where it happened must be there."""
    if isinstance(error, OSError | Failure) or (isinstance(error, AckdError) and not isinstance(error, OurFault)):
        return
    import traceback

    traceback.print_exception(error)


class _Quietly:
    """A view without the routine."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.flush = view.flush

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        if type_ not in ROUTINE:
            self._view.show(type_, data, at)
