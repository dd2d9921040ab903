"""What `explain`, `status` and `tail` read, counted in bytes: as much of a long history as of a short one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.bench import history

if TYPE_CHECKING:
    from pathlib import Path

FEW: Final = 2_000
MANY: Final = 20_000
#: How much more of a history that is ten times as long. Beside the lines of the message, SQLite reads a level more of a
#: tree, and the end of the newest log is longer here or shorter there.
GROWTH: Final = 1.5
#: Blocks around the message, at most these bytes of the newest log, and the pages of the index that lead there.
MOST_BYTES: Final = 2_500_000
#: Opened by the command, not by the interpreter: below the team's root.
READS: Final = re.compile(r"(?:read|pread64)\(\d+<([^>]*/\.ackd/[^>]*)>.*= (\d+)$", re.MULTILINE)
LISTINGS: Final = re.compile(r"getdents64\(\d+<([^>]*/\.ackd/[^>]*)>.*= (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, list[str]]]:
    """Two teams with histories of different lengths, each with its index."""
    made = {}
    for count in (FEW, MANY):
        place = tmp_path_factory.mktemp(f"team-{count}")
        (place / "ackd.toml").write_text("".join(f"[agents.{name}]\n" for name in history.AGENTS))
        made[count] = (place, history.write(place / ".ackd", count, archived=count // 10))
        ackd(place, "explain", made[count][1][0])
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("explain", "ID"),
        ("tail", "--message", "ID"),
        ("tail", "--agent", history.AGENTS[3]),
        ("tail", "--since", "1m", "--agent", history.AGENTS[3]),
        ("tail", "--type", "dead"),
        ("status",),
        ("inbox", "--agent", history.AGENTS[3]),
    ],
)
def test_as_much_is_read_of_a_long_history_as_of_a_short_one(
    teams: dict[int, tuple[Path, list[str]]], tmp_path: Path, words: tuple[str, ...]
) -> None:
    read = {}
    for count, (place, ids) in teams.items():
        about = [ids[len(ids) * 19 // 20] if word == "ID" else word for word in words]
        read[count] = bytes_read(place, tmp_path / f"{count}", about)
    assert read[MANY] <= GROWTH * read[FEW], read
    assert read[MANY] <= MOST_BYTES, read
    assert (teams[MANY][0] / ".ackd" / "logs").exists()
    assert sum(log.stat().st_size for log in (teams[MANY][0] / ".ackd" / "logs").iterdir()) > 10 * MOST_BYTES


def ackd(place: Path, *words: str) -> None:
    command = [sys.executable, "-m", "ackd", *words]
    subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)


def bytes_read(place: Path, report: Path, words: list[str]) -> int:
    """Bytes that the command has read below the team's root, files and directories."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    calls = ["strace", "-f", "-y", "-e", "trace=read,pread64,getdents64", "-o", str(report)]
    ran = subprocess.run(
        [*calls, sys.executable, "-m", "ackd", *words], cwd=place, capture_output=True, text=True, check=False
    )
    if "ptrace" in ran.stderr:
        pytest.skip(f"strace may not look at processes here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    said = report.read_text()
    found = [*READS.findall(said), *LISTINGS.findall(said)]
    assert found, "nothing below the root was read: strace writes lines of another form"
    return sum(int(size) for _, size in found)
