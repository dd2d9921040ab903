"""`ackd check`: look at everything that matters before the daemon runs, and say how to mend what is wrong.

Each finding is ok, warn or fail, in one line. Nothing is changed but for one hidden file that proves the root writable
and is removed at once. Exit 0 if nothing failed, 78 if the config did, else 1. Findings about agents are in
agent_findings.py, those about the surroundings (kernel, file systems, disk) in surroundings.py.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from ackd.cli import agent_findings
from ackd.cli.command_line import command, for_place
from ackd.cli.errors import BAD_CONFIG, NO, Ended
from ackd.cli.output import echo, print_json
from ackd.cli.surroundings import FAIL, OK, WARN, Finding, surroundings
from ackd.core.errors import BadConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config.model import Config
    from ackd.config.site import Site

_STYLES: Final = {WARN: "yellow", FAIL: "bold red", OK: "green"}


@command
@for_place
def check(root: str | None, config: str | None, as_json: bool) -> None:
    """Check the config and its surroundings; say what is wrong and how to mend it."""
    from ackd.config.model import load_site
    from ackd.config.site import find_site

    try:
        site = find_site(root, config)
        loaded = load_site(site)
    except BadConfig as error:
        _report([Finding(FAIL, "config", f"{error.path}: {problem}") for problem in error.problems], as_json=as_json)
        raise Ended(BAD_CONFIG) from None
    findings = list(_findings(site, loaded))
    _report(findings, as_json=as_json)
    if any(finding.level == FAIL for finding in findings):
        raise Ended(NO)


def _report(findings: list[Finding], *, as_json: bool) -> None:
    from ackd import facts
    from ackd.cli.output import printable, styled

    if as_json:
        ok = all(finding.level != FAIL for finding in findings)
        print_json({"ok": ok, "checks": [finding._asdict() for finding in findings]})
        return
    colour = facts.colour_wanted(sys.stdout)
    for finding in findings:
        level = styled(f"{finding.level:<4}", _STYLES[finding.level])
        echo(f"{level}  {printable(f'{finding.subject}: {finding.words}')}", colour=colour)
        if finding.mend:
            echo(f"      → {printable(finding.mend)}")


def _findings(site: Site, config: Config) -> Iterator[Finding]:
    where = str(site.config_path) if site.config_path else "none: a bare root, every default"
    agents = "agent" if len(config.agents) == 1 else "agents"
    yield Finding(OK, "config", f"{where}, {len(config.agents)} {agents}, escalations go to {config.escalate_to}")
    yield from agent_findings.findings(config)
    if config.on_escalation:
        path = os.environ.get("PATH")
        yield agent_findings.program("on_escalation", config.on_escalation[0], config.base_dir, path, WARN)
    yield from surroundings(site, config)
