"""``ackd run``: the daemon in the foreground.

On a terminal one line per fact, coloured; under systemd one entry of the journal per fact, with priority and fields;
elsewhere one JSON object per fact. ``--quiet`` leaves out the ordinary life of messages: the session log has it anyway.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ackd.cli.command_line import argument, command, for_team
from ackd.cli.errors import Failure, creating
from ackd.core.errors import AckdError, OurFault
from ackd.core.message import USER

if TYPE_CHECKING:
    from ackd.config.site import Site
    from ackd.core.ports import View


@command
@argument("--quiet", "-q", action="store_true", help="Leave out the routine lines of each delivery.")
@argument(
    "--format",
    dest="form",
    choices=["auto", "lines", "json"],
    default="auto",
    help="Print lines for people or JSON for programs (auto: lines on a terminal, fields in systemd's journal).",
)
@for_team
def run(site: Site, *, quiet: bool, form: str, as_json: bool) -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C.

    The first signal lets running deliveries finish (drain_timeout_s); a second one leaves at once, and what still runs
    is taken up again by the next start.
    """
    import gc

    gc.disable()  # what is imported stays: looking it through again and again takes a sixth of a start; see Daemon

    import anyio

    from ackd.cli.journal_view import JournalView, leads_to_journal, priority
    from ackd.cli.terminal_view import StructuredView, TerminalView
    from ackd.config.model import load_site
    from ackd.runtime.daemon import Daemon

    config = load_site(site)
    for_people = form == "lines" or (form == "auto" and sys.stdout.isatty() and not as_json)
    view: View = TerminalView(sys.stdout, (*site.agents, USER)) if for_people else StructuredView(sys.stdout)
    if form == "auto" and not as_json and leads_to_journal(sys.stdout):
        view = JournalView(StructuredView(sys.stdout, lambda type_: f"<{priority(type_)}>"))
    if quiet:
        view = _Quietly(view)
    if not sys.stdout.isatty() and sys.stderr.isatty():
        view = _WithTerminal(view, TerminalView(sys.stderr))
    daemon = Daemon(config, site, view)
    try:
        with creating(site.root):
            anyio.run(daemon.serve)
    except Exception as error:
        _leave_a_trace(error)
        raise


def _leave_a_trace(error: Exception) -> None:
    """Print the traceback of a bug: it is read in a journal, later, and must say where it happened."""
    if isinstance(error, OSError | Failure) or (isinstance(error, AckdError) and not isinstance(error, OurFault)):
        return
    import traceback

    traceback.print_exception(error)


class _Quietly:
    """A view without the ordinary life of messages, which is in the session log."""

    def __init__(self, view: View) -> None:
        from ackd.facts.table import FACTS

        self._routine = frozenset(type_ for type_, row in FACTS.items() if row.routine)
        self._view = view
        self.flush = view.flush

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        if type_ not in self._routine:
            self._view.show(type_, data, at)


class _WithTerminal:
    """A view that goes elsewhere (a file, a pipe), while the person who stops the daemon sits at a terminal and is told
    there what it waits for."""

    def __init__(self, view: View, terminal: View) -> None:
        self._view = view
        self._terminal = terminal

    def show(self, type_: str, data: dict[str, object], at: float) -> None:
        from ackd.core.daemon_facts import session_stopping

        self._view.show(type_, data, at)
        if type_ == session_stopping.type:
            self._terminal.show(type_, data, at)

    def flush(self) -> None:
        self._view.flush()
        self._terminal.flush()
