"""`ackd worker schema`: the worker protocol's JSON Schemas, for workers in any language."""

from __future__ import annotations

from ackd.cli.command_line import Group, argument, for_place
from ackd.cli.errors import NOT_FOUND, Failure
from ackd.cli.output import print_json
from ackd.endpoints.process.wire.models import KINDS
from ackd.endpoints.process.wire.models import schema as schema_of

worker = Group("""Print the schemas of the worker protocol: JSON lines between ackd and a child that it keeps alive.""")


@worker.command
@argument("kind", metavar="TYPE", complete="ackd.endpoints.process.wire.models:KINDS")
@for_place
def schema(root: str | None, config: str | None, as_json: bool, kind: str) -> None:  # noqa: ARG001 - it is JSON anyway
    """Print the JSON Schema of one type of line: assign, status_check, heartbeat, progress, complete, failed, …"""
    if kind not in KINDS:
        known = f"there are {', '.join(KINDS)}"
        raise Failure(NOT_FOUND, f"no type {kind!r} in the worker protocol; {known}", known)
    print_json(schema_of(kind), indent=2)
