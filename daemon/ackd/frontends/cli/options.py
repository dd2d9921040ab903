"""The options that every command has: which site, and for whom the output is.

``site_options`` adds ``--root``, ``--config`` and ``--json``; the command receives ``site: Site`` and
``as_json: bool``. Errors that the command raises by name become exit codes here (errors.py), so that a command does not
know whether it was started by `ackd` or by a test.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ackd.frontends.cli.errors import reported

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_root = click.option(
    "--root", metavar="DIR", help="The team's directory (default: of ackd.toml, or .ackd/ or .ignite/ here or above)."
)
_config = click.option("--config", metavar="FILE", help="The config file (default: ackd.toml here or above).")


def json_option(command: _Command) -> _Command:
    """``--json``, as ``as_json: bool``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def read_stdin(limit_bytes: int) -> bytes:
    """At most so much of stdin. Python has None for one that was closed when it started."""
    if sys.stdin is None:
        raise click.UsageError("stdin is closed: nothing can be read from it")
    return sys.stdin.buffer.read(limit_bytes)


def print_json(value: object) -> None:
    """One JSON document on stdout, Unicode as it is; a file name that is not, escaped, so that it can be read back."""
    import json

    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, default=str)
    click.echo(text)


def site_options(command: Callable[..., Any]) -> Callable[..., None]:
    """``--root``, ``--config`` and ``--json``; the command takes ``site`` and ``as_json``."""

    @functools.wraps(command)
    def run(*args: Any, root: str | None, config: str | None, **kwargs: Any) -> None:
        with reported():
            from ackd.site import find_site

            command(*args, site=find_site(root, config), **kwargs)

    return _root(_config(json_option(run)))


def place_options(command: Callable[..., Any]) -> Callable[..., None]:
    """The same options for commands that must not need a site yet (`init`, `check`): ``root`` and ``config``, raw."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with reported():
            command(*args, **kwargs)

    return _root(_config(json_option(run)))
