"""`ackd send` and `ackd reply`: queue a message, say so, and with `--wait` say what became of it.

The word is "queued", because nothing more is known. With `--wait` the command ends 0 when every recipient has acked or
completed the message, 1 when one never will, 69 without a daemon, 75 when the time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import AGENT, argument, at_least, command, for_team
from ackd.cli.errors import NO, NO_DAEMON, TRY_AGAIN, Ended, WrongUsage, accepted
from ackd.cli.output import echo, print_json, printable, read_stdin
from ackd.client import BadText, Client
from ackd.client.sending import DEFAULT_WAIT_S, Progress

if TYPE_CHECKING:
    from ackd.client.sending import RecipientState, Sent
    from ackd.config.site import Site

_EXIT_CODES: Final = {"done": 0, "failed": NO, "no daemon": NO_DAEMON, "timeout": TRY_AGAIN}


_TYPE: Final = argument(
    "--type", dest="kind", default="message", metavar="TYPE", help="The message's type.  [default: %(default)s]"
)
_TIMEOUT: Final = argument(
    "--timeout", type=at_least(0), default=DEFAULT_WAIT_S, metavar="S",
    help="Seconds that --wait waits; then exit 75.  [default: %(default)s]",
)  # fmt: skip
_FORCE: Final = argument(
    "--force", action="store_true", help="Send the body, with a warning, even if it does not fit its type."
)
_WAIT: Final = argument(
    "--wait", choices=("acked", "completed"), help="Wait until every recipient has acked or completed it."
)
_FROM: Final = argument(
    "--from", dest="sender", metavar="AGENT", complete="agents",
    help="The sender (default: ACKD_AGENT, this pane's agent, or user).",
)  # fmt: skip
_PRIORITY: Final = argument("--priority", choices=("critical", "high", "normal", "low"), default="normal")
_BODY_FILE: Final = argument("--body-file", metavar="FILE", help="Read the body from a file, or from stdin (-).")
_BODY: Final = argument("--body", metavar="TEXT", help="The body: YAML, or plain text for type message. - reads stdin.")


@command
@argument("to", nargs="+", metavar="TO... [-]", complete="agents")
@_TYPE
@argument(
    "--cc",
    action="append",
    metavar="AGENT",
    complete="agents",
    help="Another recipient, of a copy. May be given again.",
)
@argument("--thread-id", metavar="ID", help="The thread that it belongs to.")
@argument("--in-reply-to", metavar="ID", help="The message that this one answers.")
@argument("--repo", dest="repository", metavar="OWNER/NAME", help="The repository that it is about.")
@argument("--issue", metavar="N", help="The issue that it is about.")
@_TIMEOUT
@_FORCE
@_WAIT
@_FROM
@_PRIORITY
@_BODY_FILE
@_BODY
@for_team
def send(
    site: Site, as_json: bool, to: tuple[str, ...], kind: str, cc: tuple[str, ...], body: str | None,
    body_file: str | None, sender: str | None, wait: str | None, timeout: float, force: bool, priority: str,
    thread_id: str | None, in_reply_to: str | None, repository: str | None, issue: str | None,
) -> None:  # fmt: skip
    """Queue a message for one or more agents. A lone - among them reads the body from stdin."""
    names = tuple(name for name in to if name != "-")
    if not names:
        raise WrongUsage("name at least one recipient")
    if len(names) < len(to):
        if body is not None or body_file is not None:
            raise WrongUsage("- already means stdin: give no --body or --body-file with it")
        body_file = "-"
    sent = Client.at(site).send(
        names, lambda: read_body(site, body, body_file), cc=cc, type=kind, priority=priority, sender=sender,
        thread_id=thread_id, in_reply_to=in_reply_to, repository=repository, issue=issue,
        force=force, wait=wait, timeout_s=timeout, progress=PrintedProgress(as_json=as_json, waits=wait is not None),
    )  # fmt: skip
    report(sent, as_json=as_json)


@command
@argument("message_id", metavar="ID")
@_TYPE
@AGENT
@_TIMEOUT
@_FORCE
@_WAIT
@_FROM
@_PRIORITY
@_BODY_FILE
@_BODY
@for_team
def reply(
    site: Site, as_json: bool, message_id: str, kind: str, body: str | None, body_file: str | None,
    priority: str, sender: str | None, agent: str | None, wait: str | None, timeout: float, force: bool,
) -> None:  # fmt: skip
    """Answer a message: to whoever sent it, in its thread. ID is whole, a unique beginning, its hash, or a path."""
    from ackd.core.names import identity

    if agent and sender and identity(agent) != identity(sender):
        raise WrongUsage("--agent and --from are one thing for a reply: name one agent")
    sent = Client.at(site).reply(
        message_id, lambda: read_body(site, body, body_file), type=kind, priority=priority, agent=agent or sender,
        force=force, wait=wait, timeout_s=timeout, progress=PrintedProgress(as_json=as_json, waits=wait is not None),
    )  # fmt: skip
    report(sent, as_json=as_json)


def read_body(site: Site, body: str | None, body_file: str | None) -> str:
    """The text, from the argument, a file or stdin. Stdin is never read unasked: an agent's may stay open for ever."""
    if body is not None and body_file is not None:
        raise WrongUsage("give --body or --body-file, not both")
    if body == "-":
        body, body_file = None, "-"
    if body is not None:
        return body
    if body_file is None:
        raise WrongUsage("a message needs a body: --body TEXT, --body-file FILE, or - for stdin")
    limit = site.max_message_bytes + 1
    if body_file == "-":
        data = read_stdin(limit)
    else:
        with open(body_file, "rb") as file:  # noqa: PTH123 - pathlib is no faster to read here
            data = file.read(limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if len(data) == limit:  # cut within a character, and too large anyway
            return data.decode(errors="replace")
        raise BadText(f"the body is not UTF-8 (byte {error.start})") from None


# --- printing ---------------------------------------------------------------------------------------------------------
class PrintedProgress(Progress):
    """Prints for people what happens; programs get one JSON document at the end."""

    def __init__(self, *, as_json: bool, waits: bool) -> None:
        self._as_json = as_json
        self._waits = waits

    def warned(self, words: str) -> None:
        echo(f"ackd: {printable(words)}", err=True)

    def queued(self, sent: Sent) -> None:
        if self._as_json:
            return
        with accepted(f"{sent.message_id} is queued"):
            note = "" if sent.daemon_running or self._waits else " (not yet delivered: no daemon is running)"
            echo(f"queued {sent.message_id} for {', '.join(sent.recipients)}{note}")

    def settled(self, sent: Sent, one: RecipientState) -> None:
        if self._as_json:
            return
        from ackd.facts import visible

        why = f" ({visible(one.reason)})" if one.reason and one.state in ("dead", "withdrawn", "rejected") else ""
        with accepted(f"{sent.message_id} is queued"):
            echo(f"{one.state}: {visible(one.agent)}{why}")


def report(sent: Sent, *, as_json: bool) -> None:
    """Print the end of it, and end with the exit code of the wait."""
    waited = sent.waited
    if waited is not None and waited.trouble:
        echo(f"{sent.message_id} is queued; cannot wait: {waited.trouble}", err=True)
    with accepted(f"{sent.message_id} is queued"):
        if as_json:
            print_json(_as_data(sent))
        elif waited is not None and waited.words:
            echo(waited.words, err=True)
    if waited is not None and (exit_code := _EXIT_CODES[waited.outcome]):
        raise Ended(exit_code)


def _as_data(sent: Sent) -> dict[str, object]:
    data: dict[str, object] = {
        "message_id": sent.message_id,
        "files": list(sent.files),
        "daemon_running": sent.daemon_running,
    }
    if sent.waited is None:
        return data
    recipients = {
        name: {
            "state": one.state,
            "receipts": [{"receipt": receipt, "at": at, "proof": proof} for receipt, at, proof in one.receipts],
            **({"reason": one.reason} if one.reason else {}),
        }
        for name, one in sent.waited.recipients.items()
    }
    return {**data, "outcome": sent.waited.outcome, "recipients": recipients}
