"""`ackd check`: look at everything that matters before the daemon runs, and say how to mend what is wrong.

client/check.py looks. Each finding is ok, warn or fail, in one line. Exit 0 if nothing failed, 78 if the config did,
else 1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import command, for_place
from ackd.cli.errors import BAD_CONFIG, NO, Ended
from ackd.cli.output import echo, print_json
from ackd.client import Client
from ackd.client.surroundings import FAIL, OK, WARN

if TYPE_CHECKING:
    from ackd.client.check import CheckResult

_STYLES: Final = {WARN: "yellow", FAIL: "bold red", OK: "green"}


@command
@for_place
def check(root: str | None, config: str | None, as_json: bool) -> None:
    """Check the config and its surroundings; say what is wrong and how to mend it."""
    found = Client(root, config).check()
    _report(found, as_json=as_json)
    if not found.is_good:
        raise Ended(NO if found.config_is_good else BAD_CONFIG)


def _report(found: CheckResult, *, as_json: bool) -> None:
    from ackd import facts
    from ackd.cli.output import printable, styled
    from ackd.cli.table import columns_of_terminal, folded, is_narrow

    if as_json:
        print_json({"ok": found.is_good, "checks": [finding._asdict() for finding in found.findings]})
        return
    colour = facts.colour_wanted(sys.stdout)
    for finding in found.findings:
        level = styled(f"{finding.level:<4}", _STYLES[finding.level])
        words, mend = printable(f"{finding.subject}: {finding.words}"), printable(f"→ {finding.mend or ''}")
        if is_narrow():
            first, *more = folded(words, columns_of_terminal() - 6, "")
            echo(f"{level}  {first}", colour=colour)
            more += folded(mend, columns_of_terminal() - 6) if finding.mend else []
            for line in more:
                echo(f"      {line}")
            continue
        echo(f"{level}  {words}", colour=colour)
        if finding.mend:
            echo(f"      {mend}")
