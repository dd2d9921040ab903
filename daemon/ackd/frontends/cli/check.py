"""`ackd check`: is all well here, and if not, how is it mended?

Owns the list of things worth looking at before the daemon runs, each answered ok, warn or fail in one line. Changes
nothing but for one hidden file that proves the root writable and is gone at once. Exit 0 if nothing failed, 78 if the
config did, else 1. The surroundings (kernel, file systems, disk) are in surroundings.py.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ackd.core.errors import BadConfig
from ackd.frontends.cli.errors import BAD_CONFIG, NO
from ackd.frontends.cli.options import place_options
from ackd.frontends.cli.output import print_json
from ackd.frontends.cli.surroundings import FAIL, OK, WARN, Finding, surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ackd.config import Agent, Config
    from ackd.site import Site

#: Handlers that live in ackd itself.
BUILT_IN_HANDLERS: Final = frozenset({"system", "queue_monitor"})


@click.command()
@place_options
def check(root: str | None, config: str | None, as_json: bool) -> None:
    """Look at the config and its surroundings; say what is wrong and how to mend it."""
    from ackd.config import load_site
    from ackd.site import find_site

    try:
        site = find_site(root, config)
        loaded = load_site(site)
        loaded.require_built()
    except BadConfig as error:
        _report([Finding(FAIL, "config", f"{error.path}: {problem}") for problem in error.problems], as_json=as_json)
        raise click.exceptions.Exit(BAD_CONFIG) from None
    findings = list(_findings(site, loaded))
    _report(findings, as_json=as_json)
    if any(finding.level == FAIL for finding in findings):
        raise click.exceptions.Exit(NO)


def _report(findings: list[Finding], *, as_json: bool) -> None:
    from ackd.frontends import facts
    from ackd.frontends.cli.output import printable

    if as_json:
        ok = all(finding.level != FAIL for finding in findings)
        print_json({"ok": ok, "checks": [finding._asdict() for finding in findings]})
        return
    colour = facts.colour_wanted(sys.stdout)
    for finding in findings:
        style: dict[str, Any] = {WARN: {"fg": "yellow"}, FAIL: {"fg": "red", "bold": True}, OK: {"fg": "green"}}
        level = click.style(f"{finding.level:<4}", **style[finding.level])
        click.echo(f"{level}  {printable(f'{finding.subject}: {finding.words}')}", color=colour)
        if finding.mend:
            click.echo(f"      → {printable(finding.mend)}")


def _findings(site: Site, config: Config) -> Iterator[Finding]:
    where = str(site.config_path) if site.config_path else "none: a bare root, every default"
    agents = "agent" if len(config.agents) == 1 else "agents"
    yield Finding(OK, "config", f"{where}, {len(config.agents)} {agents}, escalations go to {config.escalate_to}")
    for name, agent in config.agents.items():
        yield from _agent(config, name, agent)
    if config.on_escalation:
        yield from _program("on_escalation", config.on_escalation[0], config.base_dir, os.environ.get("PATH"), WARN)
    yield from surroundings(site, config)


def _agent(config: Config, name: str, agent: Agent) -> Iterator[Finding]:
    from ackd.config import EndpointKind

    subject = f"agent {name}"
    if agent.endpoint is EndpointKind.EXEC:
        cwd = config.base_dir / agent.cwd
        if not os.path.isdir(cwd):  # noqa: PTH112 - Path.is_dir raises where nobody may look
            yield Finding(FAIL, subject, f"cwd {cwd} is not a directory", "make it, or correct cwd")
            return
        path = agent.env.get("PATH", os.environ.get("PATH"))
        yield from _program(subject, agent.command[0], cwd, path, FAIL)
    elif agent.endpoint is EndpointKind.HANDLER:
        yield _handler(subject, agent.handler or name)
    else:
        yield Finding(OK, subject, "reads its mail itself")


def _program(subject: str, program: str, cwd: Path, search_path: str | None, level: str) -> Iterator[Finding]:
    """A name with a slash is meant from the directory it runs in, as the kernel will take it; others from PATH."""
    found = shutil.which(str(cwd / program)) if "/" in program else shutil.which(program, path=search_path)
    if found is not None:
        yield Finding(OK, subject, f"runs {found}")
    elif "/" in program and (cwd / program).is_file():
        yield Finding(level, subject, f"{cwd / program} is not executable", f"chmod +x {cwd / program}")
    else:
        place = f"{cwd / program} is not there" if "/" in program else f"{program} is not in PATH"
        yield Finding(level, subject, place, "correct command, or install the program")


def _handler(subject: str, name: str) -> Finding:
    from importlib.metadata import entry_points

    if name in BUILT_IN_HANDLERS or entry_points(group="ackd.handlers", name=name):
        return Finding(OK, subject, f"handler {name}")
    mend = "install the package that has it, or correct handler"
    return Finding(FAIL, subject, f"no entry point {name!r} in group ackd.handlers", mend)
