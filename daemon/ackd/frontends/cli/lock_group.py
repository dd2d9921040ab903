"""`ackd lock` as click knows it: help, completion, wrong usage. What its commands do: lock.py."""

from __future__ import annotations

import click

from ackd.frontends.cli import lock as described
from ackd.frontends.cli.options import Commands, click_command


@click.group(cls=Commands)
def lock() -> None:
    """Lease files: one writer at a time for each, or several readers, in turn and for a time.

    PATH is relative to the project (where ackd.toml lies), or absolute; the file need not exist. Needs no daemon; one
    that runs wakes who waits, and takes back the leases of who has died.
    """


for command in described.COMMANDS:
    lock.add_command(click_command(command))
