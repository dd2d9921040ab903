"""A command that prints without end, on a disk that would be full of it in no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.acceptance.teams import Team, running
from tests.faults.mounts import mounted, needs_root

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = """
[agents.flood]
endpoint = "exec"
command = ["./flood"]

[agents.other]
endpoint = "exec"
command = ["true"]
"""
#: A megabyte at a time, and counted: the disk has room for 100.
FLOOD = """
printed=0
while [ ! -e go ]; do
    head -c 1000000 /dev/zero | tr '\\0' a || exit 1
    printed=$((printed + 1)); echo "$printed" >printed
    sleep 0.01
done
echo the reason
exit 3
"""


@needs_root
def test_a_command_that_floods_its_output_goes_on_and_fills_no_disk(tmp_path: Path) -> None:
    team = Team(tmp_path, AGENTS, delivery="retry_limit = 0")
    team.script("flood", FLOOD)

    def printed() -> int:
        path = tmp_path / "printed"
        return int(path.read_text() or 0) if path.exists() else 0

    with mounted(team.root, "100m"), running(team):
        message = team.send("flood")
        team.until(lambda: printed() > 250, patience_s=60)
        other = team.send("other")
        team.fact("message_completed", message=other)
        (tmp_path / "go").touch()
        ended = team.fact("child_ended", message=message)
        assert ended["exit"] == 3
        assert ended["output_cut_bytes"] > 100_000_000
        assert len(team.facts("output_cut", message=message)) == 1
        assert team.fact("message_dead", message=message)["reason"].endswith("the reason")
        assert not team.facts("io_error")
