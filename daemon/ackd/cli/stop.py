"""`ackd stop`: end the daemon of this root, however it was started, and wait for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.cli.command_line import argument, at_least, command, for_root
from ackd.cli.output import echo, print_json, printable, say
from ackd.cli.waiting import waiting
from ackd.client import Client

if TYPE_CHECKING:
    from ackd.client.stopping import Draining, Stopped
    from ackd.config.site import Site


@command
@argument(
    "--timeout",
    type=at_least(0),
    default=120.0,
    metavar="S",
    help="Wait at most so many seconds for its end.  [default: 120]",
)
@argument("--now", action="store_true", help="End it at once. What runs is taken up again by the next start.")
@for_root
def stop(site: Site, as_json: bool, timeout: float, now: bool) -> None:
    """Stop the daemon, and wait until it has ended.

    It lets running deliveries finish (drain_timeout_s), and it is said whose. Nothing is lost by it: what waits is
    delivered by the next start. A daemon that systemd keeps is stopped, too, and not started again before the next
    boot, login or `ackd service restart`.

    Exit codes: 0 it has ended, 1 it is not yours to stop, or runs in a container, 69 no daemon is running, 75 it is
    still stopping.
    """

    def heard(draining: Draining) -> None:
        if not as_json:
            whom = printable(", ".join(draining.agents))
            echo(f"stopping: {whom} may finish, for at most {draining.seconds:g} s (`ackd stop --now` does not wait)")

    with waiting(f"for the daemon to end, {timeout:g} s at most", stays="interrupted: the daemon goes on stopping"):
        stopped = Client.at(site).stop_daemon(timeout_s=timeout, at_once=now, heard=heard)
    if as_json:
        print_json(stopped._asdict())
        return
    say(f"stopped: the daemon of {site.root} (pid {stopped.pid}) has ended after {stopped.seconds:.1f} s")
    if stopped.unit is not None:
        say(_about_unit(stopped))


def _about_unit(stopped: Stopped) -> str:
    mode = " --user" if stopped.is_users else ""
    return (
        f"it was {stopped.unit}, which counts this as a clean stop: "
        f"`systemctl{mode} start {stopped.unit}` starts it again"
    )
