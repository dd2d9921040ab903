"""Several processes read, build and extend one index at once, while the log grows: each answer is that of a full scan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackd.storage.log_index import LineQuery, LogSearch, building, index_file
from tests.storage.log_index.scanning import encoded, scan, write

if TYPE_CHECKING:
    import pytest

READERS: Final = 4
ROUNDS: Final = 12
LINES: Final = 600
#: Asks for what was there when it began to ask: lines that come meanwhile may or may not be in the answer.
READER: Final = """
import sys
from pathlib import Path
from ackd.storage.log_index import LineQuery, LogSearch, building
from tests.storage.log_index.scanning import scan
building.WORTH_BYTES, building.BLOCK_BYTES = 100, 300
root = Path(sys.argv[1])
print("ready", flush=True)
for round in range(int(sys.argv[2])):
    query = LineQuery(agent="leader") if round % 2 else LineQuery(about=f"1763.{round}.00aa@x")
    before = scan(root / "logs", query)
    found = [line.raw for line in LogSearch(root / "logs", root / "state").find(query)]
    after = scan(root / "logs", query)
    assert found[: len(before)] == before and found == after[: len(found)], (len(before), len(found), len(after))
"""


def test_readers_do_not_get_in_each_others_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "WORTH_BYTES", 100)
    path = root / "logs" / "session-20261118-100000.ndjson"
    write(path, *(line(number) for number in range(100)))
    command = [sys.executable, "-c", READER, str(root), str(ROUNDS)]
    top = Path(__file__).parents[3]
    readers = [
        subprocess.Popen(command, cwd=top, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(READERS)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"ready\n"
    for number in range(100, LINES, 5):
        write(path, *(line(number + more) for more in range(5)))
    ends = [reader.communicate()[1].decode() for reader in readers]
    assert ends == [""] * READERS
    query = LineQuery(agent="leader")
    assert [one.raw for one in LogSearch(root / "logs", root / "state").find(query)] == scan(root / "logs", query)
    with index_file.reading(root / "state") as index:
        assert index is not None


def line(number: int) -> bytes:
    return encoded(
        number, "message_queued", number, message_id=f"1763.{number}.00aa@x", agent=f"leader{'x' * (number % 2)}"
    )
