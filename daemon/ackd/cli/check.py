"""`ackd check`: look at everything that matters before the daemon runs, and say how to mend what is wrong.

client/check.py looks. Each finding is ok, warn or fail, in one line. Exit 0 if nothing failed, 78 if the config did,
else 1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import Command, argument, command, for_place
from ackd.cli.errors import BAD_CONFIG, NO, Ended, WrongUsage
from ackd.cli.output import echo, print_json
from ackd.client import Client
from ackd.client.findings import FAIL, OK, WARN

if TYPE_CHECKING:
    from ackd.client.check import CheckResult, Repaired

_STYLES: Final = {WARN: "yellow", FAIL: "bold red", OK: "green"}


@command
@argument("--fix", action="store_true", help="First put in order what is safe, and say each thing.")
@argument("--dry-run", action="store_true", help="With --fix: only say what would be put in order.")
@for_place
def check(root: str | None, config: str | None, as_json: bool, fix: bool, dry_run: bool) -> None:
    """Check the config and its surroundings; say what is wrong and how to mend it.

    `--fix` makes directories that are missing, closes to others what is ours, and removes what killed programs left
    under temporary names. It never touches a message. `ackd doctor` is the same command.
    """
    if dry_run and not fix:
        raise WrongUsage("--dry-run says what --fix would do: give both")
    client = Client(root, config)
    fixed = client.repair(dry_run=dry_run) if fix else None
    if not as_json:
        _say_fixed(fixed, dry_run=dry_run)
    found = client.check()
    _report(found, fixed, as_json=as_json)
    if not found.is_good:
        raise Ended(NO if found.config_is_good else BAD_CONFIG)


doctor: Final = Command(check.run, "doctor")


def _say_fixed(fixed: list[Repaired] | None, *, dry_run: bool) -> None:
    from ackd.cli.table import say_folded

    for one in fixed or ():
        if one.error is not None:
            say_folded(f"not done: {one.by_hand}: {one.error}", "red")
        else:
            say_folded(f"would do: {one.by_hand}" if dry_run else f"fixed: {one.words}")
    if fixed is not None and not fixed:
        say_folded("nothing to fix")
    if fixed is not None:
        echo("")


def _report(found: CheckResult, fixed: list[Repaired] | None, *, as_json: bool) -> None:
    from ackd import facts
    from ackd.cli.output import printable, styled
    from ackd.cli.table import columns_of_terminal, folded, is_narrow

    if as_json:
        said: dict[str, object] = {"ok": found.is_good, "checks": [finding._asdict() for finding in found.findings]}
        print_json(said if fixed is None else {**said, "fixed": [one._asdict() for one in fixed]})
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
