"""`ackd message …`: build, read, change and check message files, one at a time.

Owns the command line of the seed's message tool (ignite-mime, "CLI Tool"): a script written for it works with only the
command's name replaced, so options take several values (`--to a b`), empty values count as not given, and `parse`
prints "" for an absent header. Refuses to know queues: it goes where it is pointed. Every rewrite is whole or not at
all; what would leave a file worse than it was is refused, and the file untouched.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.adapters import atomic_file
from ackd.core.errors import BadConfig, BadMessage, Problem
from ackd.core.message import KNOWN_TYPES, Rejection
from ackd.dialects import ignite
from ackd.frontends.cli.errors import BAD_DATA, CANNOT_CREATE, NO, NOT_FOUND, Failure
from ackd.frontends.cli.options import place_options, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_BYTES: Final = 1_048_576

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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def message() -> None:
    """Build, parse, change and validate message files."""


class _SeveralValues(click.Command):
    """A command whose repeatable options also take several values after one name, as argparse's ``nargs`` do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, click.Option) and not param.is_flag]
        several = {name for option in options if option.multiple for name in option.opts}
        single = {name for option in options if not option.multiple for name in option.opts}
        return super().parse_args(ctx, _spelled_out(args, several, single))


def _spelled_out(args: Sequence[str], several: set[str], single: set[str]) -> list[str]:
    """``--to a b`` as ``--to a --to b``. ``--extra`` takes K=V only, so that it leaves the arguments after it alone."""
    result: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word in several:
            while rest and not rest[0].startswith("-") and (word != "--extra" or "=" in rest[0]):
                result += [word, rest.pop(0)]
        else:
            result.append(word)
            if word in single and rest:
                result.append(rest.pop(0))
    return result


# --- build ------------------------------------------------------------------------------------------------------------
@message.command(cls=_SeveralValues)
@click.option("--from", "sender", required=True, metavar="AGENT")
@click.option("--to", multiple=True, required=True, metavar="AGENT...", help="One or more, also comma-separated.")
@click.option("--cc", multiple=True, metavar="AGENT...")
@click.option("--type", "kind", required=True, metavar="TYPE")
@click.option("--priority", default="normal", show_default=True, metavar="critical|high|normal|low")
@click.option("--thread-id", metavar="ID")
@click.option("--in-reply-to", metavar="ID")
@click.option("--repo", "repository", metavar="OWNER/NAME")
@click.option("--issue", metavar="N")
@click.option("--status", metavar="STATUS")
@click.option("--body", metavar="YAML")
@click.option("--body-file", metavar="FILE", help="Read the body from a file, or from stdin (-).")
@click.option("-o", "--output", metavar="FILE", help="Write the message here (default: stdout).")
@place_options
def build(
    root: str | None, config: str | None, as_json: bool, sender: str, to: tuple[str, ...], cc: tuple[str, ...],
    kind: str, priority: str, body: str | None, body_file: str | None, output: str | None, **optional: str | None,
) -> None:  # fmt: skip
    """Make a new message. The body is not checked against its type: `validate` does that."""
    wall = time.time()
    message_id = ignite.new_message_id(wall, os.getpid(), os.urandom(16))
    with _named("cannot build the message"):
        data = ignite.build(
            message_id=message_id,
            sender=sender,
            to=_each(to),
            cc=_each(cc),
            date=ignite.rfc2822_date(wall),
            type=_known_type(kind, root, config),
            priority=priority or "normal",
            body=_read_body(body_file) if body_file else body or "",
            extra_types=frozenset({kind}),
            **optional,
        )
        if len(data) > MAX_BYTES:
            raise BadMessage(Rejection.TOO_LARGE.value, f"it would have {len(data)} bytes, more than {MAX_BYTES}")
    _give(data, message_id, output, as_json=as_json)


def _each(values: Sequence[str]) -> list[str]:
    return [name.strip() for value in values for name in value.split(",") if value.strip()]


def _known_type(kind: str, root: str | None, config: str | None) -> str:
    if kind in KNOWN_TYPES or kind in _extra_types(root, config):
        return kind
    import difflib

    near = difflib.get_close_matches(kind, KNOWN_TYPES, n=1)
    hint = f"did you mean {near[0]}?" if near else "extra_types in ackd.toml adds one"
    raise Failure(BAD_DATA, f"unknown type {kind!r}: {hint}")


def _extra_types(root: str | None, config: str | None) -> frozenset[str]:
    """The config's own types. These commands need no site, so none is no error, unless one was asked for."""
    from ackd.site import find_site

    try:
        return frozenset(find_site(root, config).extra_types)
    except BadConfig:
        if root or config:
            raise
        return frozenset()


def _read_body(body_file: str) -> str:
    # A pipe is welcome here (process substitution), unlike where a message file is read.
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if body_file == "-" else open(body_file, "rb") as file:  # noqa: PTH123
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Failure(NOT_FOUND, f"cannot read the body: {body_file}: {error.strerror}") from None
    try:
        return data[:MAX_BYTES].decode() if len(data) <= MAX_BYTES else data.decode(errors="replace")
    except UnicodeDecodeError as error:
        raise Failure(BAD_DATA, f"cannot read the body: {body_file}: byte {error.start} is not UTF-8") from None


def _give(data: bytes, message_id: str, output: str | None, *, as_json: bool) -> None:
    if output in {None, "", "-", "/dev/stdout"}:
        if as_json:
            print_json({"message_id": ignite.bare_id(message_id), "message": data.decode()})
        else:
            click.echo(data, nl=False)
        return
    _write_output(Path(str(output)), data)
    if as_json:
        print_json({"message_id": ignite.bare_id(message_id), "file": output})


def _write_output(path: Path, data: bytes) -> None:
    """As the seed's tool, over whatever file is there (scripts use mktemp), but never over mail in a queue."""
    try:
        info = path.lstat() if os.path.lexists(path) else None
        if info is None:
            atomic_file.write_new(path, data)
        elif info.st_size and stat.S_ISREG(info.st_mode) and _in_a_queue(path):
            raise Failure(CANNOT_CREATE, f"{path}: a message is there already; choose another name")
        else:
            atomic_file.replace(path, data, keep_mtime=False)
    except BadMessage as error:
        raise Failure(CANNOT_CREATE, f"cannot write: {error}") from None
    except OSError as error:
        hint = "; make the directory first" if isinstance(error, FileNotFoundError) else ""
        raise Failure(CANNOT_CREATE, f"cannot write {path}: {error.strerror}{hint}") from None


def _in_a_queue(path: Path) -> bool:
    return "queue" in path.absolute().parts[-4:-1]


# --- parse, extract-body ----------------------------------------------------------------------------------------------
@message.command()
@click.argument("file")
@place_options
def parse(root: str | None, config: str | None, as_json: bool, file: str) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print headers and body as JSON."""
    with _named(file):
        raw = ignite.split(_read(file))
        for fault in _faults(raw, root, config):
            raise fault
    import json

    click.echo(json.dumps(parsed(raw), ensure_ascii=False, indent=2))


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


@message.command("extract-body")
@click.argument("file")
@place_options
def extract_body(root: str | None, config: str | None, as_json: bool, file: str) -> None:  # noqa: ARG001
    """Print the body alone."""
    with _named(file):
        body = ignite.split(_read(file)).body
    if as_json:
        print_json({"body": body.decode()})
    else:
        click.echo(body, nl=False)


# --- changing ---------------------------------------------------------------------------------------------------------
@message.command("update-status", cls=_SeveralValues)
@click.argument("file")
@click.argument("status")
@click.option("--processed-at", metavar="TIME", help="Also set X-IGNITE-Processed-At, e.g. to $(date -Iseconds).")
@click.option("--extra", multiple=True, metavar="HEADER=VALUE...", help="Also set these headers.")
@place_options
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
            raise click.UsageError(f"--extra wants HEADER=VALUE, not {pair!r}")
        changes.append((name, value))
    _rewrite(file, changes, root, config, as_json=as_json)


@message.command("update-header", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("header")
@click.argument("value")
@place_options
def update_header(root: str | None, config: str | None, as_json: bool, file: str, header: str, value: str) -> None:
    """Set a header, where it stands or after the last one."""
    _rewrite(file, [(header, value)], root, config, as_json=as_json)


@message.command("remove-header")
@click.argument("file")
@click.argument("header")
@place_options
def remove_header(root: str | None, config: str | None, as_json: bool, file: str, header: str) -> None:
    """Remove a header; one that is not there is no error."""
    _rewrite(file, [(header, None)], root, config, as_json=as_json)


def _rewrite(
    file: str, changes: Sequence[tuple[str, str | None]], root: str | None, config: str | None, *, as_json: bool
) -> None:
    with _named(file):
        old = _read(file)
        new = ignite.rewrite(old, changes)
        _refuse_new_faults(old, new, root, config)
    if new != old:
        try:
            atomic_file.replace(file, new)
        except FileNotFoundError:
            raise Failure(NOT_FOUND, f"{file}: was deleted meanwhile, and stays so") from None
        except OSError as error:
            raise Failure(CANNOT_CREATE, f"cannot write {file}: {error.strerror}") from None
    if as_json:
        print_json({"file": file, "changed": new != old, "headers": dict(changes)})


def _refuse_new_faults(old: bytes, new: bytes, root: str | None, config: str | None) -> None:
    """A broken file may be mended step by step, but not be broken further."""
    before = {fault.detail for fault in ignite.faults(ignite.split(old))}
    for fault in _faults(ignite.split(new), root, config):
        if fault.detail not in before:
            raise fault


# --- checking ---------------------------------------------------------------------------------------------------------
@message.command()
@click.argument("file")
@place_options
def validate(root: str | None, config: str | None, as_json: bool, file: str) -> None:
    """Say what is wrong with a message, each problem with its line. Exit 1 if anything is."""
    problems = _problems(file, root, config)
    if as_json:
        listed = [{"line": one.line, "where": one.where, "what": one.what} for one in problems]
        print_json({"file": file, "valid": not problems, "problems": listed})
    else:
        for problem in problems:
            click.echo(f"{file}: {problem}")
        if not problems:
            click.echo(f"{file}: valid")
    if problems:
        raise click.exceptions.Exit(NO)


def _problems(file: str, root: str | None, config: str | None) -> list[Problem]:
    try:
        raw = ignite.split(_read(file))
    except BadMessage as error:
        return [Problem("", error.detail, error.line)]
    found = [Problem("header", fault.detail, fault.line) for fault in _faults(raw, root, config)]
    found += _date_problems(raw)
    from ackd.dialects import bodies

    return found + bodies.check(raw.fields.get("x-ignite-type", ""), raw.body.decode(), raw.body_line)


def _date_problems(raw: ignite.RawMessage) -> list[Problem]:
    """Delivery does not read Date, so only this command minds."""
    from email.utils import parsedate_to_datetime

    date = raw.fields.get("date")
    if not date:
        return []
    try:
        parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        line = list(raw.fields).index("date") + 1
        return [Problem("header", f"Date is no RFC 2822 date: {date[:60]!r}", line)]
    return []


@message.command()
@click.argument("kind", metavar="TYPE")
@place_options
def schema(root: str | None, config: str | None, as_json: bool, kind: str) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print the JSON Schema of a type's body."""
    from ackd.dialects import bodies

    _known_type(kind, root, config)
    described = bodies.schema(kind) if kind in KNOWN_TYPES else {**bodies.schema("message"), "title": kind}
    import json

    click.echo(json.dumps(described, ensure_ascii=False, indent=2))


# --- shared -----------------------------------------------------------------------------------------------------------
def _faults(raw: ignite.RawMessage, root: str | None, config: str | None) -> Iterator[BadMessage]:
    """As ``ignite.faults``; the config is read only for a message whose type we do not know."""
    known = raw.fields.get("x-ignite-type") in KNOWN_TYPES
    return ignite.faults(raw, frozenset() if known else _extra_types(root, config))


def _read(file: str) -> bytes:
    try:
        return atomic_file.read_regular(file, MAX_BYTES)
    except FileNotFoundError:
        raise Failure(NOT_FOUND, f"{file}: no such file") from None
    except OSError as error:
        raise Failure(NOT_FOUND, f"{file}: cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """A message's fault, with the file it is in."""
    try:
        yield
    except BadMessage as error:
        text = str(error)
        raise Failure(BAD_DATA, text if text.startswith(what) else f"{what}: {text}") from None
