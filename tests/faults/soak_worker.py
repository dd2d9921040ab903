"""A worker for the soak: it does a little work well, unless it finds a word in the file ``fault`` of its directory.

Run as a program, in a directory of its own, without site packages: fifty of them start and die all the time. What it
completes is written down in ``worked`` first.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

FLOOD_LINES = 2000
#: Whatever goes wrong with the test: none of these stays for ever.
FOR_EVER_S = 900


def say(kind: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def fault() -> str:
    """Each is met once."""
    with contextlib.suppress(OSError):
        word = Path("fault").read_text()
        Path("fault").unlink()
        return word
    return ""


def suffer(word: str, task_id: str) -> None:
    if word != "silence":
        say("heartbeat", payload={"task_id": task_id})
    if word in {"hang", "silence"}:
        time.sleep(FOR_EVER_S)
    elif word == "crash":
        os._exit(3)
    elif word == "orphan":
        subprocess.Popen(["sleep", str(FOR_EVER_S)], start_new_session=True, stdin=subprocess.DEVNULL)
        os._exit(4)
    elif word == "flood":
        for number in range(FLOOD_LINES):
            print("la", number)
            print("la" * 40, number, file=sys.stderr)


def work(assign: dict[str, object]) -> None:
    task_id, payload = str(assign["task_id"]), assign["payload"]
    assert isinstance(payload, dict)
    suffer(fault(), task_id)
    time.sleep(0.05)
    with Path("worked").open("a") as file:
        file.write(f"{payload['message_id']}\n")
    say("complete", task_id=task_id, verification_passed=True)


def main() -> None:
    say("heartbeat")
    while line := sys.stdin.readline():
        message = json.loads(line)
        if message["type"] == "assign":
            work(message)
        elif message["type"] == "status_check":
            say("heartbeat")
        elif message["type"] == "shutdown":
            return


if __name__ == "__main__":
    main()
