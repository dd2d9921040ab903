"""The commands of `ackd message`.

They have the command line of the seed's message tool (ignite-mime, "CLI Tool"): a script written for it works with only
the command's name replaced. So options take several values (`--to a b`) and may be abbreviated, empty values count as
not given, and `parse` prints "" for an absent header. Queues mean nothing here: a command works on a file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackd.cli.command_line import Group, abbreviates, argument, for_place, takes_dashes
from ackd.cli.errors import NO, Ended, WrongUsage
from ackd.cli.message.files import MAX_BYTES, named, read, read_body, rewrite, utf8, write_output
from ackd.cli.message.judging import faults, known_type, problems
from ackd.cli.output import as_it_is, echo, print_json, say
from ackd.core.errors import BadMessage, Problem
from ackd.core.message import KNOWN_TYPES, Rejection
from ackd.formats import ignite

if TYPE_CHECKING:
    from collections.abc import Sequence

#: parse's own keys for headers; every other X-IGNITE-* header is printed under its own name in snake_case.
_PARSED: Final = {
    "message-id": "message_id",
    "from": "from",
    "to": "to",
    "cc": "cc",
    "date": "date",
    "in-reply-to": "in_reply_to",
    "x-ignite-type": "type",
    "x-ignite-priority": "priority",
    "x-ignite-thread-id": "thread_id",
    "x-ignite-repository": "repository",
    "x-ignite-issue": "issue",
    "x-ignite-status": "status",
    "content-type": "content_type",
}


message = Group("Build, parse, change and validate message files.")


@message.command
@abbreviates
@argument("--from", dest="sender", metavar="AGENT", required=True)
@argument(
    "--to", action="append", metavar="AGENT...", required=True, help="One or more recipients, also comma-separated."
)
@argument("--cc", action="append", metavar="AGENT...")
@argument("--type", dest="kind", metavar="TYPE", required=True)
@argument("--priority", default="normal", metavar="critical|high|normal|low", help="[default: %(default)s]")
@argument("--thread-id", metavar="ID", help="The thread that it belongs to.")
@argument("--in-reply-to", metavar="ID")
@argument("--repo", dest="repository", metavar="OWNER/NAME", help="The repository that it is about.")
@argument("--issue", metavar="N", help="The issue that it is about.")
@argument("--status", metavar="STATUS", help="The value of X-IGNITE-Status.")
@argument("--body", metavar="YAML")
@argument("--body-file", metavar="FILE", help="Read the body from a file, or from stdin (-).")
@argument("-o", "--output", metavar="FILE", help="Write the message here (default: stdout).")
@for_place
def build(
    root: str | None, config: str | None, as_json: bool, sender: str, to: tuple[str, ...], cc: tuple[str, ...],
    kind: str, priority: str, body: str | None, body_file: str | None, output: str | None, **optional: str | None,
) -> None:  # fmt: skip
    """Make a new message. The body is not checked against its type: `validate` does that."""
    if body and body_file:  # as the seed's tool has it; its scripts rely on the file
        echo("ackd: --body-file is taken, and --body is not: give one of them", err=True)
    wall = time.time()
    message_id = ignite.new_message_id(wall, os.getpid(), os.urandom(16))
    with named("cannot build the message"):
        data = ignite.build(
            message_id=message_id,
            sender=sender,
            to=_each(to),
            cc=_each(cc),
            date=ignite.rfc2822_date(wall),
            type=known_type(kind, root, config),
            priority=priority or "normal",
            body=read_body(body_file) if body_file else utf8(os.fsencode(body or "")),
            extra_types=frozenset({kind}),
            **optional,
        )
        if len(data) > MAX_BYTES:
            raise BadMessage(Rejection.TOO_LARGE.value, f"it would have {len(data)} bytes, more than {MAX_BYTES}")
    _give(data, message_id, output, as_json=as_json)


def _each(values: Sequence[str]) -> list[str]:
    return [name.strip() for value in values for name in value.split(",") if value.strip()]


def _give(data: bytes, message_id: str, output: str | None, *, as_json: bool) -> None:
    if output in {None, "", "-", "/dev/stdout"}:
        if as_json:
            print_json({"message_id": ignite.bare_id(message_id), "message": data.decode()})
        else:
            as_it_is(data)
        return
    write_output(Path(str(output)), data)
    if as_json:
        print_json({"message_id": ignite.bare_id(message_id), "file": output})


@message.command
@argument("file")
@for_place
def parse(root: str | None, config: str | None, as_json: bool, file: str) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print headers and body as JSON."""
    with named(file):
        raw = ignite.split(read(file))
        for fault in faults(raw, root, config):
            raise fault
    print_json(parsed(raw), indent=2)


def parsed(raw: ignite.RawMessage) -> dict[str, Any]:
    """The JSON of `parse`: the seed's keys, then every other X-IGNITE header."""
    result: dict[str, Any] = {key: raw.fields.get(header, "") for header, key in _PARSED.items()}
    for key in ("to", "cc"):
        result[key] = [name for name in ignite.names(result[key]) if name]
    result["body"] = raw.body.decode()
    for header, value in raw.fields.items():
        if header.startswith("x-ignite-") and header not in _PARSED:
            result.setdefault(header.removeprefix("x-ignite-").replace("-", "_"), value)
    return result


@message.command
@argument("file")
@for_place
def extract_body(root: str | None, config: str | None, as_json: bool, file: str) -> None:  # noqa: ARG001
    """Print the body alone."""
    with named(file):
        body = ignite.split(read(file)).body
    if as_json:
        print_json({"body": body.decode()})
    else:
        as_it_is(body)


@message.command
@abbreviates
@argument("file")
@argument("status")
@argument("--processed-at", metavar="TIME", help="Also set X-IGNITE-Processed-At, e.g. to $(date -Iseconds).")
@argument("--extra", action="append", metavar="HEADER=VALUE...", help="Also set these headers.")
@for_place
def update_status(
    root: str | None, config: str | None, as_json: bool, file: str, status: str, processed_at: str | None,
    extra: tuple[str, ...],
) -> None:  # fmt: skip
    """Set X-IGNITE-Status."""
    changes: list[tuple[str, str | None]] = [(ignite.STATUS, status)]
    if processed_at:
        changes.append((ignite.PROCESSED_AT, processed_at))
    for pair in extra:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WrongUsage(f"--extra wants HEADER=VALUE, not {pair!r}")
        changes.append((name, value))
    _change(file, changes, root, config, as_json=as_json)


@message.command
@takes_dashes
@argument("file")
@argument("header")
@argument("value")
@for_place
def update_header(root: str | None, config: str | None, as_json: bool, file: str, header: str, value: str) -> None:
    """Set a header, where it stands or after the last one."""
    _change(file, [(header, value)], root, config, as_json=as_json)


@message.command
@argument("file")
@argument("header")
@for_place
def remove_header(root: str | None, config: str | None, as_json: bool, file: str, header: str) -> None:
    """Remove a header; one that is not there is no error."""
    _change(file, [(header, None)], root, config, as_json=as_json)


def _change(
    file: str, changes: Sequence[tuple[str, str | None]], root: str | None, config: str | None, *, as_json: bool
) -> None:
    changed = rewrite(file, changes, root, config)
    if as_json:
        print_json({"file": file, "changed": changed, "headers": dict(changes)})


@message.command
@argument("file")
@for_place
def validate(root: str | None, config: str | None, as_json: bool, file: str) -> None:
    """Say what is wrong with a message, each problem with its line. Exit 1 if anything is."""
    found = _problems(file, root, config)
    if as_json:
        listed = [{"line": one.line, "where": one.where, "what": one.what} for one in found]
        print_json({"file": file, "valid": not found, "problems": listed})
    else:
        for problem in found:
            say(f"{file}: {problem}")
        if not found:
            say(f"{file}: valid")
    if found:
        raise Ended(NO)


def _problems(file: str, root: str | None, config: str | None) -> list[Problem]:
    try:
        raw = ignite.split(read(file))
    except BadMessage as error:
        return [Problem("", error.detail.removeprefix(f"{file} "), error.line)]  # the file is named where it is printed
    return problems(raw, root, config)


@message.command
@argument("kind", metavar="TYPE")
@for_place
def schema(root: str | None, config: str | None, as_json: bool, kind: str) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print the JSON Schema of a type's body."""
    from ackd.formats import bodies

    known_type(kind, root, config)
    described = bodies.schema(kind) if kind in KNOWN_TYPES else {**bodies.schema("message"), "title": kind}
    print_json(described, indent=2)
