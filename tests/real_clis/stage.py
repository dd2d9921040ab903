"""A team with one agent, a real program in a pane that somebody opened, and the real daemon."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ackd.endpoints.tmux.screen import Reading, load_profile, read
from tests.acceptance.teams import Team, running
from tests.queue_mail import queue_mail
from tests.real_clis.model import Answer, Asked, Brain, Model, obedient
from tests.real_clis.programs import Pane, Program, terminal
from tests.strays import UNTIL_GO, end_strays
from tests.waiting import crowd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A bound for what hangs: three times as long as ``hasty`` lets the longest thing take that any test waits for.
PATIENCE_S: Final = 180.0
#: On a machine that has much else to do, a program takes its time to draw what it was told.
DELIVERY: Final = "ack_timeout_s = 30\n"


def hasty() -> str:
    """For what is about silence: short enough for a test, and long enough for a program to say a word in it."""
    longer = crowd()
    return f"ack_timeout_s = {6 * longer:.1f}\nhung_after_s = {4 * longer:.1f}\n"


@dataclass
class Stage:
    """``gates``: what the model was told to wait for, opened at the test's end."""

    program: Program
    team: Team
    model: Model
    pane: Pane
    gates: list[threading.Event] = field(default_factory=list)
    _asked: int = 0
    _lines: int = 0

    @property
    def name(self) -> str:
        return self.program.name

    # --- between tests
    def begin(self) -> None:
        self.model.brain = obedient
        self.until_at_rest()
        self._asked, self._lines = len(self.model.asked), len(self.team.lines())

    def end(self) -> None:
        """What the test left behind is over: a turn under way, a question, words, mail."""
        for gate in self.gates:
            gate.set()
        self.gates.clear()
        self.model.brain = lambda _: Answer("All done.")
        for message_id in self.in_hand():
            self.team.ackd("done", message_id, "--agent", "worker")
        self.team.until(lambda: not self.in_hand(), PATIENCE_S)

    def in_hand(self) -> list[str]:
        """Ids of the worker's mail that is not over."""
        ends = {"message_completed", "message_dead", "message_withdrawn"}
        lines = self.team.lines()
        mine = [
            line["data"] for line in lines if line["data"].get("agent") == "worker" and "message_id" in line["data"]
        ]
        over = {line["data"].get("message_id") for line in lines if line["type"] in ends}
        return list(dict.fromkeys(data["message_id"] for data in mine if data["message_id"] not in over))

    # --- the pane
    def reading(self) -> Reading:
        command = "node" if self.program.release.by_node else self.name
        return read(self.pane.screen(), load_profile(self.name), 0.0, command)

    def until_idle(self) -> None:
        self.team.until(lambda: self.reading().is_idle, PATIENCE_S)

    def until_at_rest(self) -> None:
        """Idle, and not only between two steps of a turn, where codex looks so for a moment."""
        self.until_idle()
        self.pane.settled(quiet_s=0.5)
        self.until_idle()

    def person_says(self, text: str) -> None:
        """Typed and submitted at a person's pace: Enter that comes with the text is part of it."""
        self.pane.type(text)
        self.until(lambda: self.reading().typed == text)
        self.pane.settled(quiet_s=0.6)
        self.pane.press("Enter")

    # --- what happened since the test began
    def facts(self, *types: str, **fields: Any) -> list[dict[str, Any]]:
        since = self.team.lines()[self._lines :]
        found = [line["data"] for line in since if line["type"] in types]
        return [data for data in found if all(data.get(name) == value for name, value in fields.items())]

    def fact(self, *types: str, **fields: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.until(lambda: self.facts(*types, **fields))
        return found[0]

    def until(self, holds: Any) -> Any:
        try:
            return self.team.until(holds, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\nand it shows:\n{self.pane.screen()}\nasked: {self.lines()}") from None

    def asked(self) -> list[Asked]:
        return self.model.asked[self._asked :]

    def lines(self) -> list[str]:
        """What was typed and submitted since the test began: a turn each."""
        return [" ".join(asked.said.split()) for asked in self.asked() if not asked.results]

    def turns(self, count: int = 1, about: str = "") -> list[str]:
        """The lines with those words, once there are so many and the last turn is over: a program draws that it is busy
        before it asks its model."""
        self.until(lambda: sum(about in line for line in self.lines()) >= count)
        self.until_at_rest()
        return [line for line in self.lines() if about in line]

    def worker(self) -> dict[str, Any]:
        found: dict[str, Any] = self.team.status()["agents"]["worker"]
        return found

    def escalations(self) -> list[dict[str, Any]]:
        return self.facts("escalation", agent="worker")

    def mail_of(self, escalation: dict[str, Any]) -> str:
        """What the boss is told by it."""
        escalation_id = escalation["escalation_id"]

        def found() -> str | None:
            texts = queue_mail(self.team.root, "boss").values()
            return next(
                (text for text in texts if f"Message-ID: {escalation_id}" in text or f"<{escalation_id}>" in text), None
            )

        text: str = self.until(found)
        return text

    # --- the model
    def thinks(self, brain: Brain) -> None:
        self.model.brain = brain

    def holds(self) -> threading.Event:
        """The model says nothing until this is set: the program is busy."""
        gate = threading.Event()
        self.gates.append(gate)
        self.model.brain = lambda _: Answer("All done.", gate=gate)
        return gate


def table(name: str, pane: Pane, more: str = "") -> str:
    """By the pane's id: Claude Code titles its pane itself."""
    found = f'[agents.worker]\nendpoint = "tmux"\nprofile = "{name}"\npane = "{pane.pane_id}"\n'
    helper = '[agents.helper]\nendpoint = "exec"\ncommand = ["./helper.sh"]\n'
    return f'{found}{more}[agents.boss]\nendpoint = "inbox"\n{helper}'


@contextlib.contextmanager
def staged(
    name: str,
    place: Path,
    *,
    delivery: str = DELIVERY,
    more: str = "",
    size: tuple[int, int] = (120, 40),
    asks: str = "",
    settings: dict[str, Any] | None = None,
) -> Iterator[Stage]:
    with Model() as model:
        program = Program(name, place, model, asks=frozenset(filter(None, [asks])), settings=settings or {})
        program.prepare()
        team = Team(place, delivery=delivery, top='escalate_to = "boss"\n')
        with terminal(team.environment) as opened:
            tmux = f"[tmux]\nsocket = {json.dumps(str(opened.socket))}\n"
            pane = opened.open(program.command(), program.work, width=size[0], height=size[1])
            Team(place, tmux + table(name, pane, more), delivery=delivery, top='escalate_to = "boss"\n')
            team.script("helper.sh", f"{UNTIL_GO}\nexec ackd reply $ACKD_MESSAGE_ID --body done")
            pane.until(r"\S")
            try:
                with running(team):
                    yield Stage(program, team, model, pane)
            finally:
                pane.close()
                end_strays(place)
