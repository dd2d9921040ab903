"""Senders that keep a team busy with `ackd send`, and write down what was accepted.

Accepted means: the command exited 0. What a killed or refused command has queued all the same is served too, and found
afterwards by its id.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.faults.crash_scripts import Accepted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.crash_processes import Zygote
    from tests.faults.crash_scripts import Stage

#: To whom, what is said, and how that must end. A handler mostly, for it is quick.
_KINDS = (
    ("scribe", "fine", "message_completed", 7),
    ("worker", "fine", "message_completed", 2),
    ("worker", "fail", "message_dead", 1),
)
_SEND_S = 60.0


@dataclass
class Load:
    """``accepted_at`` is asked after every accepted send: what it answers is kept with the message. ``limit``: how many
    may be accepted by now. Senders wait for it: else the slower the test is, the more it has to look through."""

    zygote: Zygote
    stage: Stage
    rng: random.Random
    kill_share: float = 0.0
    broken: str | None = None
    accepted_at: Callable[[], int] = lambda: 0
    limit: float = math.inf
    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _trouble: list[BaseException] = field(default_factory=list)

    def start(self, senders: int) -> None:
        for number in range(senders):
            rng = random.Random(self.rng.random())
            thread = threading.Thread(target=self._send_on, args=(rng,), name=f"sender {number}")
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_SEND_S)
        if self._trouble:
            raise self._trouble[0]

    def _send_on(self, rng: random.Random) -> None:
        try:
            while not self._stop.is_set():
                if len(self.stage.accepted) < self.limit:
                    self._send(rng)
                else:
                    self._stop.wait(0.002)
        except BaseException as error:  # noqa: BLE001 - told by stop(), in the test's own thread
            self._trouble.append(error)

    def _send(self, rng: random.Random) -> None:
        number = next(self._numbers)
        to, words, end, _ = rng.choices(_KINDS, [kind[3] for kind in _KINDS])[0]
        body = f'content: "{words} {number} {"y" * rng.randint(0, 9000)}"\n'
        out = f"send-{number}.out"
        child = self.zygote.run(
            *("send", to, "--json", "--body", body), place=self.stage.place, broken=self.broken, out=out, err="send.err"
        )
        if rng.random() < self.kill_share:
            child.ended(rng.uniform(0, 0.03))
            child.kill()
        assert child.ended(_SEND_S), "ackd send hangs"
        if child.code == 0:
            mark = self.accepted_at()
            self._note(to, end, body, self.stage.place / out, mark)
        else:
            self.refused.append(f"{child.code}")
        (self.stage.place / out).unlink(missing_ok=True)  # killed before it had one

    def _note(self, to: str, end: str, body: str, out: Path, mark: int) -> None:
        said = json.loads(out.read_text())
        (file,) = said["files"]
        key = (said["message_id"], to)
        head = f"Message-ID: <{said['message_id']}>\nTo: {to}"
        self.marks[key] = mark
        self.stage.accepted[key] = Accepted(file.rpartition("/")[2], f"{head}\n\n{body}".encode(), Counter([end]))
