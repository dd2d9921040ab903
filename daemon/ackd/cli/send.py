"""`ackd send` and `ackd reply`: queue a message, say so, and with `--wait` say what became of it.

The word is "queued", because nothing more is known. With `--wait` the command ends 0 when every recipient has come as
far with the message as was asked (told, seen, acked, completed), 1 when one never will, 69 without a daemon, 75 when
the time is over. Ctrl-C (130) ends the wait alone: the message stays queued, and that is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from ackd.cli.command_line import AGENT, argument, at_least, command, for_team
from ackd.cli.errors import INTERRUPTED, NO, NO_DAEMON, TRY_AGAIN, Ended, Failure, WrongUsage, accepted
from ackd.cli.output import echo_folded, print_json, printable, read_stdin
from ackd.client import BadText, Client
from ackd.client.sending import DEFAULT_WAIT_S, WAIT_STAGES, Progress

if TYPE_CHECKING:
    from ackd.cli.waiting import Notice
    from ackd.client.sending import RecipientState, Sent
    from ackd.config.site import Site

_EXIT_CODES: Final = {"done": 0, "failed": NO, "no daemon": NO_DAEMON, "timeout": TRY_AGAIN}


_TYPE: Final = argument(
    "--type", dest="kind", default="message", metavar="TYPE", help="The message's type.  [default: %(default)s]"
)
_TIMEOUT: Final = argument(
    "--timeout", type=at_least(0), default=DEFAULT_WAIT_S, metavar="S",
    help="Seconds that --wait and --wait-all wait; then exit 75.  [default: %(default)s]",
)  # fmt: skip
_WAIT_ALL: Final = argument(
    "--wait-all", action="store_true", help="Wait until it and all parts that come of it have ended."
)
_FORCE: Final = argument(
    "--force", action="store_true", help="Send the body, with a warning, even if it does not fit its type."
)
_WAIT: Final = argument(
    "--wait", choices=WAIT_STAGES, help="Wait until every recipient was told of it, or has seen, acked or completed it."
)
_FROM: Final = argument(
    "--from", dest="sender", metavar="AGENT", complete="agents",
    help="The sender (default: ACKD_AGENT, this pane's agent, or user).",
)  # fmt: skip
_PRIORITY: Final = argument("--priority", choices=("critical", "high", "normal", "low"), default="normal")
_BODY_FILE: Final = argument("--body-file", metavar="FILE", help="Read the body from a file, or from stdin (-).")
_BODY: Final = argument("--body", metavar="TEXT", help="The body: YAML, or plain text for type message. - reads stdin.")


@command
@argument("to", nargs="*", metavar="TO... [-]", complete="addresses")
@argument(
    "--to",
    dest="also_to",
    action="append",
    metavar="AGENT",
    complete="addresses",
    help="A recipient, like TO; also comma-separated. May be given again.",
)
@_TYPE
@argument(
    "--cc",
    action="append",
    metavar="AGENT",
    complete="addresses",
    help="Another recipient, of a copy. May be given again.",
)
@argument("--thread-id", metavar="ID", help="The thread that it belongs to.")
@argument("--in-reply-to", metavar="ID", help="The message that this one answers.")
@argument(
    "--part-of", metavar="ID",
    help="The message that the sender has and sends this one for; none: no message. A command that ackd started for a "
    "message need not say so.",
)  # fmt: skip
@argument(
    "--notify-when-done", action="store_true", default=None,
    help="Tell the sender once when all parts of that message have ended.",
)  # fmt: skip
@argument(
    "--no-notify-when-done", dest="notify_when_done", action="store_false", default=None,
    help="Do not tell it, whatever ackd.toml says.",
)  # fmt: skip
@argument("--repo", dest="repository", metavar="OWNER/NAME", help="The repository that it is about.")
@argument("--issue", metavar="N", help="The issue that it is about.")
@argument("--expires", metavar="TIME", help="Do not deliver it after 90s, 20m, 2h or 1d, or after a time (RFC 3339).")
@argument(
    "--deadline",
    metavar="TIME",
    help="When it should be completed: its agent is reminded before, then someone is told.",
)
@argument(
    "--needs", action="append", metavar="LABEL", complete="labels",
    help="For a pool: only a member that has this label may do it. Also comma-separated; may be given again.",
)  # fmt: skip
@argument(
    "--prefer", dest="prefers", action="append", metavar="LABEL", complete="labels",
    help="For a pool: rather a member that has this label.",
)  # fmt: skip
@argument(
    "--once",
    metavar="KEY",
    help="Send it only once: again with this key and the same content within a day is the same message.",
)
@_TIMEOUT
@_FORCE
@_WAIT
@_WAIT_ALL
@_FROM
@_PRIORITY
@_BODY_FILE
@_BODY
@for_team
def send(
    site: Site, as_json: bool, to: tuple[str, ...], kind: str, cc: tuple[str, ...], body: str | None,
    body_file: str | None, sender: str | None, wait: str | None, timeout: float, force: bool, priority: str,
    thread_id: str | None, in_reply_to: str | None, repository: str | None, issue: str | None,
    also_to: tuple[str, ...], wait_all: bool, part_of: str | None, notify_when_done: bool | None,
    expires: str | None, deadline: str | None, once: str | None, needs: tuple[str, ...], prefers: tuple[str, ...],
) -> None:  # fmt: skip
    """Queue a message for one or more agents, groups (every member gets it) or pools (one member does it). A lone -
    among them reads the body from stdin."""
    names = (*(name for name in to if name != "-"), *_each(also_to))
    if not names:
        raise WrongUsage("name at least one recipient")
    if "-" in to:
        if body is not None or body_file is not None:
            raise WrongUsage("- already means stdin: give no --body or --body-file with it")
        body_file = "-"
    if wait_all and wait is not None:
        raise WrongUsage("--wait-all waits until all is over: give no --wait with it")
    wait = "all" if wait_all else wait
    with PrintedProgress(as_json=as_json, wait=wait, timeout_s=timeout) as progress:
        sent = Client.at(site).send(
            names, lambda: read_body(site, body, body_file), cc=cc, type=kind, priority=priority, sender=sender,
            thread_id=thread_id, in_reply_to=in_reply_to, repository=repository, issue=issue,
            part_of=part_of, notify_when_done=notify_when_done, expires=expires, deadline=deadline, once=once,
            needs=needs, prefers=prefers, force=force, wait=wait, timeout_s=timeout, progress=progress,
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
    with PrintedProgress(as_json=as_json, wait=wait, timeout_s=timeout) as progress:
        sent = Client.at(site).reply(
            message_id, lambda: read_body(site, body, body_file), type=kind, priority=priority, agent=agent or sender,
            force=force, wait=wait, timeout_s=timeout, progress=progress,
        )  # fmt: skip
    report(sent, as_json=as_json)


def _each(values: tuple[str, ...]) -> list[str]:
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


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
    """Prints for people what happens; programs get one JSON document at the end. Surrounds the sending, so that Ctrl-C
    during a wait does not leave open what became of the message."""

    def __init__(self, *, as_json: bool, wait: str | None, timeout_s: float) -> None:
        self._as_json = as_json
        self._wait = wait
        self._timeout_s = timeout_s
        self._sent: Sent | None = None
        self._notice: Notice | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._notice is not None:
            self._notice.end()
        if kind is KeyboardInterrupt and self._sent is not None:
            self._end_waiting(self._sent)

    def warned(self, words: str) -> None:
        echo_folded(f"ackd: {printable(words)}", err=True)

    def queued(self, sent: Sent) -> None:
        self._sent = sent
        if not self._as_json:
            with accepted(f"{sent.message_id} is queued"):
                waits = self._wait is not None
                note = "" if sent.daemon_running or waits else " (not yet delivered: no daemon is running)"
                if sent.config_differs:
                    from ackd.config.file_mark import DIFFERS

                    echo_folded(f"ackd: ackd.toml differs from what the daemon runs with: {DIFFERS}", err=True)
                new = [name for name in sent.recipients if name not in sent.repeated]
                if new:
                    echo_folded(f"queued {sent.message_id} for {', '.join(new)}{note}")
                for group, members in sent.groups.items():
                    without = f"; not {sent.sender}, who sends it" if group in sent.without_sender else ""
                    echo_folded(f"group {group}: {', '.join(members)}{without}")
                if sent.repeated:
                    echo_folded(
                        f"sent before: {sent.message_id} for {', '.join(sent.repeated)}; nothing was sent again"
                    )
        if self._wait is not None:
            from ackd.cli.waiting import Notice

            who = ", ".join(sent.recipients)
            until = f"{who} {WAIT_STAGES[self._wait]}" if self._wait in WAIT_STAGES else "all of it has ended"
            self._notice = Notice(f"until {until}, {self._timeout_s:g} s at most")
            self._notice.begin()

    def settled(self, sent: Sent, one: RecipientState) -> None:
        if self._as_json:
            return
        from ackd.facts import visible

        why = f" ({visible(one.reason)})" if one.reason and one.state in ("dead", "withdrawn", "rejected") else ""
        with accepted(f"{sent.message_id} is queued"):
            # Told and seen are one state of a message, but not to somebody who waited for one of them.
            how_far = one.receipts[-1][0] if one.state == "delivered" and one.receipts else one.state
            by = f" ({visible(one.holder)})" if one.holder else ""
            echo_folded(f"{how_far}: {visible(one.agent)}{by}{why}")

    def hindered(self, words: str) -> None:
        if not self._as_json:
            echo_folded(f"ackd: {printable(words)}", err=True)

    def _end_waiting(self, sent: Sent) -> None:
        short = sent.message_id.partition("@")[0]
        failure = Failure(
            INTERRUPTED, f"interrupted: {sent.message_id} stays queued", f"`ackd explain {short}` says how far it is"
        )
        if self._as_json:
            raise failure.with_results(**_as_data(sent))
        echo_folded(f"ackd: {printable(failure.message)}; {printable(failure.hint)}", err=True)
        raise Ended(INTERRUPTED)


def report(sent: Sent, *, as_json: bool) -> None:
    """Print the end of it, and end with the exit code of the wait."""
    waited = sent.waited
    if waited is not None and waited.trouble:
        echo_folded(f"{sent.message_id} is queued; cannot wait: {waited.trouble}", err=True)
    with accepted(f"{sent.message_id} is queued"):
        if as_json:
            print_json(_as_data(sent))
        elif waited is not None and waited.words:
            echo_folded(waited.words, err=True)
    if waited is not None and (exit_code := _EXIT_CODES[waited.outcome]):
        raise Ended(exit_code)


def _as_data(sent: Sent) -> dict[str, object]:
    data: dict[str, object] = {
        "message_id": sent.message_id,
        "files": list(sent.files),
        "daemon_running": sent.daemon_running,
    }
    if sent.config_differs:
        data["config_differs"] = True
    if sent.repeated:
        data["repeated"] = list(sent.repeated)
    if sent.groups:
        data["groups"] = {name: list(members) for name, members in sent.groups.items()}
        data["without_sender"] = list(sent.without_sender)
    if sent.waited is None:
        return data
    recipients = {
        name: {
            "state": one.state,
            "receipts": [{"receipt": receipt, "at": at, "proof": proof} for receipt, at, proof in one.receipts],
            **({"reason": one.reason} if one.reason else {}),
            **({"holder": one.holder} if one.holder else {}),
        }
        for name, one in sent.waited.recipients.items()
    }
    return {**data, "outcome": sent.waited.outcome, "recipients": recipients}
