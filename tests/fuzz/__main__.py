"""``make fuzz``: every target under atheris, one process each, for FUZZ_SECONDS.

Coverage guides it; what it learns is kept in .fuzz/ and taken up again the next time. Prints for each target how long it
ran, how often, and how far coverage grew. What fails is kept as a file, and the exit code is 1.

    python -m tests.fuzz              all targets
    python -m tests.fuzz yaml log     these
    FUZZ_SECONDS=600 make fuzz        longer
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import Final, NamedTuple

from tests.fuzz.families import NASTY, SEEDS
from tests.fuzz.findings import CORPUS, SCRATCH

_SECONDS: Final = int(os.environ.get("FUZZ_SECONDS", "10"))
#: libFuzzer's own limits, for what ours cannot end: code that waits, or a leak over many runs.
_LIMITS: Final = ("-timeout=30", "-rss_limit_mb=2048", "-max_len=65536", "-close_fd_mask=0", "-print_final_stats=1")
_STEP: Final = re.compile(r"^#(\d+)\t(\w+)\s+cov: (\d+) ft: (\d+)", re.MULTILINE)


class Row(NamedTuple):
    target: str
    seconds: float
    runs: int
    first_coverage: int
    last_coverage: int
    failed: bool


def main(names: list[str]) -> int:
    from tests.fuzz.targets import TARGETS

    if unknown := [name for name in names if name not in TARGETS]:
        print(f"no target {', '.join(unknown)}. There are: {' '.join(TARGETS)}", file=sys.stderr)
        return 2
    rows = [_fuzz(name, TARGETS[name].family) for name in names or TARGETS]
    print("\n| target | seconds | runs | coverage | |\n|---|---|---|---|---|")
    for row in rows:
        grown = f"{row.first_coverage} → {row.last_coverage}"
        print(f"| {row.target} | {row.seconds:.0f} | {row.runs} | {grown} | {'FAILED' if row.failed else ''} |")
    return int(any(row.failed for row in rows))


def _fuzz(name: str, family: str) -> Row:
    learnt, found, words = SCRATCH / "learnt" / name, SCRATCH / "found" / name, SCRATCH / "words.dict"
    for directory in (learnt, found):
        directory.mkdir(parents=True, exist_ok=True)
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in NASTY if len(word) < 64), encoding="ascii")
    for number, seed in enumerate(SEEDS[family]):  # type: ignore[index]
        (learnt / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={_SECONDS}", f"-dict={words}", f"-artifact_prefix={found}/", *_LIMITS]
    named = [str(CORPUS / name)] if (CORPUS / name).is_dir() else []
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.one_target", name, *options, str(learnt), *named],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace", check=False,
    )  # fmt: skip
    steps = _STEP.findall(done.stderr)
    if done.returncode:
        print(f"--- {name} ---\n{done.stderr[-4000:]}")
    first, last = (int(steps[0][2]), int(steps[-1][2])) if steps else (0, 0)
    row = Row(name, time.monotonic() - began, int(steps[-1][0]) if steps else 0, first, last, done.returncode != 0)
    print(f"{name}: {row.runs} runs, coverage {first} → {last}{', FAILED' if row.failed else ''}", flush=True)
    return row


def _quoted(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
