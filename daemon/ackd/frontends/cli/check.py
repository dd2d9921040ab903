"""`ackd check`: is all well here, and if not, how is it mended?

Owns the list of things worth looking at before the daemon runs, each answered ok, warn or fail in one line. Changes
nothing but for one hidden file that proves the root writable and is gone at once. Exit 0 if nothing failed, 78 if the
config did, else 1. The agents are in agent_findings.py, the surroundings (kernel, file
systems, disk) in surroundings.py.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ackd.core.errors import BadConfig
from ackd.frontends.cli import agent_findings
from ackd.frontends.cli.errors import BAD_CONFIG, NO
from ackd.frontends.cli.options import place_options
from ackd.frontends.cli.output import print_json
from ackd.frontends.cli.surroundings import FAIL, OK, WARN, Finding, surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config import Config
    from ackd.site import Site


@click.command()
@place_options
def check(root: str | None, config: str | None, as_json: bool) -> None:
    """Look at the config and its surroundings; say what is wrong and how to mend it."""
    from ackd.config import load_site
    from ackd.site import find_site

    try:
        site = find_site(root, config)
        loaded = load_site(site)
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
    yield from agent_findings.findings(config)
    if config.on_escalation:
        path = os.environ.get("PATH")
        yield agent_findings.program("on_escalation", config.on_escalation[0], config.base_dir, path, WARN)
    yield from surroundings(site, config)
