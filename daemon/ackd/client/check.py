"""Look at everything that matters before a daemon runs: the config, its agents, and the root and its machine.

Nothing is changed but for one hidden file that proves the root writable and is removed at once, and by ``repair``.
Findings about agents come from agent_findings.py, those about the root from surroundings.py, those about the machine
from machine.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ackd.client import agent_findings
from ackd.client.findings import FAIL, OK, WARN, Finding
from ackd.client.surroundings import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ackd.config.model import Config
    from ackd.config.site import Site
    from ackd.core.errors import BadConfig


class Repaired(NamedTuple):
    """A thing that was put in order, or would be: ``words`` say what is done, ``error`` why it was refused."""

    words: str
    path: str
    by_hand: str
    error: str | None


class CheckResult(NamedTuple):
    """Findings, in the order in which they are worth reading. ``config_is_good``: false if the config, or the team
    itself, could not be read, so that nothing else was looked at."""

    findings: tuple[Finding, ...]
    config_is_good: bool = True

    @property
    def is_good(self) -> bool:
        """Tell whether nothing failed. There may be warnings."""
        return all(finding.level != FAIL for finding in self.findings)


def check(site: Site) -> CheckResult:
    """Look at a team. Fails with ``BadConfig``, which ``refused`` turns into findings."""
    from ackd.config.model import load_site

    return CheckResult(tuple(_findings(site, load_site(site))))


def repair(site: Site, *, dry_run: bool = False) -> list[Repaired]:
    """Put in order what needs nobody's judgement: directories that are missing, files of ours that are open to others,
    what killed programs left. Never a message. With ``dry_run`` only say what would be done.

    Fails with ``CannotWrite`` for root in another user's team: what root makes there the team's daemon cannot use.
    """
    from ackd.client.writing import check_reader
    from ackd.storage import repairs

    check_reader(site)
    done = []
    for one in repairs.find(site.root):
        error = None
        if not dry_run:
            try:
                one.carry_out()
            except FileNotFoundError:
                continue  # gone by itself
            except OSError as refusal:
                error = refusal.strerror or str(refusal)
        done.append(Repaired(one.words, str(one.path), one.by_hand, error))
    return done


def refused(error: BadConfig) -> CheckResult:
    """Return the findings about a config that cannot be read: one for each of its problems."""
    problems = (Finding(FAIL, "config", f"{error.path}: {problem}") for problem in error.problems)
    return CheckResult(tuple(problems), config_is_good=False)


def _findings(site: Site, config: Config) -> Iterator[Finding]:
    where = str(site.config_path) if site.config_path else "none: a bare root, every default"
    agents = "agent" if len(config.agents) == 1 else "agents"
    yield Finding(OK, "config", f"{where}, {len(config.agents)} {agents}, escalations go to {config.escalate_to}")
    yield from _about_groups(config)
    yield from agent_findings.findings(config)
    if config.on_escalation:
        path = os.environ.get("PATH")
        yield agent_findings.program("on_escalation", config.on_escalation[0], config.base_dir, path, WARN)
    yield from surroundings(site, config)


def _about_groups(config: Config) -> Iterator[Finding]:
    for name in config.groups:
        yield Finding(OK, f"group {name}", f"of {', '.join(config.group_members(name))}")
    for name in config.pools:
        if members := config.pool_members(name):
            yield Finding(OK, f"pool {name}", f"served by {', '.join(members)}")
        else:
            said = "nobody serves it: mail to it waits, and is told of"
            yield Finding(WARN, f"pool {name}", said, "give it members, or a template and a size")
    for name in config.unused_templates:
        mend = f'make a pool of it ([pools.NAME] template = "{name}"), or take it away'
        yield Finding(WARN, f"template {name}", "no pool is made of it", mend)
