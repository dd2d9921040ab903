"""What agents do once they were told: answer, late, twice or never; refuse, defer, delete the file, speak too early.

They are the world's: they live on while the daemon is dead, and speak through ackd's own maildrop. What each does with
a message is drawn when it hears of it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core.events import EndpointAway, NotTold
from ackd.core.idleness import Doing
from ackd.core.message import ReceiptKind
from ackd.handlers import Defer, Refuse
from ackd.storage import maildrop

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from ackd.config.site import Site
    from ackd.core.message import Message, Place
    from ackd.handlers import Context, Mail
    from tests.simulation.endpoints import Process
    from tests.simulation.faults import Swarm
    from tests.simulation.kernel import Kernel
    from tests.simulation.people import Ledger
    from tests.simulation.timeline import Timeline

K = ReceiptKind
#: What an agent may do that is not simply the work. Each is as likely as any other.
ODD: Final = ("late", "twice", "never", "refuse", "defer", "seen", "delete", "acks", "report", "unknown", "muddle")
#: Exit codes of commands that do not simply succeed: deferred, refused, failed, killed without a word.
ODD_ENDS: Final = (75, 65, 1, None)
NEVER_S: Final = 90_000.0


class Agents:
    def __init__(
        self, rng: random.Random, swarm: Swarm, timeline: Timeline, kernel: Kernel, site: Site, ledger: Ledger
    ) -> None:
        self.timeline = timeline
        self.processes: dict[str, Process] = {}
        self._rng, self._swarm, self._kernel, self._site, self._ledger = rng, swarm, kernel, site, ledger
        self._away: dict[str, bool] = {}
        self._hangs: dict[str, bool] = {}
        self._doing: dict[str, Doing] = {}

    @contextlib.contextmanager
    def as_world(self) -> Iterator[None]:
        before, self._kernel.daemon_acts = self._kernel.daemon_acts, False
        try:
            yield
        finally:
            self._kernel.daemon_acts = before

    # --- being told -------------------------------------------------------------------------------------------------
    def reach_s(self) -> float:
        return self._rng.choice((0.001, 0.05, 0.5, self._rng.expovariate(1 / 5)))

    def wakes(self, name: str) -> bool:
        return not self._away.get(name, False) and self._rng.random() < 0.5

    def stirs(self, name: str) -> bool:
        """A sign of life that can be read from outside: of most, most of the time; a hanging one has hours without."""
        if self._rng.random() < 0.01:
            self._hangs[name] = self._rng.random() < self._swarm.odd_agents
        idle = self._doing.get(name) is Doing.IDLE  # then hardly anything moves
        if self._away.get(name, False) or self._hangs.get(name, False):
            return False
        return self._rng.random() < (0.05 * self._swarm.odd_agents if idle else 0.7)

    def doing(self, name: str) -> Doing:
        """What its screen shows. In a fair world whoever is looked at has nothing better to do than its mail."""
        if self._hangs.get(name, False):
            self._doing[name] = Doing.BUSY
        elif self._rng.random() < 0.1 or name not in self._doing or not self._swarm.odd_agents:
            odd = self._rng.random() < self._swarm.odd_agents
            self._doing[name] = self._rng.choice((Doing.IDLE, Doing.BUSY, Doing.UNCLEAR)) if odd else Doing.IDLE
        return self._doing[name]

    def trouble_asking(self, name: str, key: int) -> NotTold | None:
        if self._rng.random() < 0.5:
            self._hangs[name] = False  # the question brings it round
        return NotTold(key, "nobody is there") if self._away.get(name) else None

    def trouble(self, name: str, key: int) -> NotTold | EndpointAway | None:
        if self._rng.random() < 0.2:
            self._away[name] = self._rng.random() < self._swarm.away
        if self._away.get(name) and self._swarm.away:
            return EndpointAway(key, "nobody is there")
        if self._rng.random() < self._swarm.not_told:
            return NotTold(key, "Enter was swallowed")
        return None

    def hear(self, name: str, message: Message, place: Place) -> None:
        """An agent in a terminal, or one who looks into its inbox: what it does will be seen."""
        mood = self._rng.choice(ODD) if self._rng.random() < self._swarm.odd_agents else "work"
        getattr(self, f"_{mood}")(name, message.message_id, place, self._rng.expovariate(1 / 40))

    def _work(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        if self._rng.random() < 0.7:
            self._say_later(soon_s, K.ACK, message_id, name)
        self._say_later(soon_s + self._rng.expovariate(1 / 300), K.DONE, message_id, name)

    def _late(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        wait_s = self._rng.expovariate(1 / 900)
        self._say_later(wait_s, K.ACK, message_id, name)
        self._say_later(wait_s + self._rng.expovariate(1 / 3600), K.DONE, message_id, name)

    def _twice(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        for _ in range(2):
            self._say_later(soon_s * self._rng.random(), K.ACK, message_id, name)
            self._say_later(soon_s + self._rng.expovariate(1 / 10), K.DONE, message_id, name)

    def _never(self, *_: object) -> None:
        """Not a word."""

    def _refuse(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        self._say_later(soon_s, K.REFUSE, message_id, name)

    def _defer(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        self._say_later(soon_s, K.DEFER, message_id, name)

    def _seen(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        self._say_later(soon_s, K.SEEN, message_id, name)

    def _acks(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        self._say_later(soon_s, K.ACK, message_id, name)

    def _delete(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        path = f"{self._site.root}/{place}"
        self.timeline.after(soon_s, lambda: self._ledger.delete(path, "its agent"))

    def _report(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        self.timeline.after(soon_s, lambda: self._ledger.reply(name, message_id))

    def _unknown(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        self._say_later(soon_s, K.DONE, f"1.2.{self._rng.randrange(1000)}@ignite.local", name)
        self._work(name, message_id, place, soon_s)

    def _muddle(self, name: str, message_id: str, place: Place, soon_s: float) -> None:
        for _ in range(3):
            kind = self._rng.choice((K.SEEN, K.ACK, K.DONE, K.DEFER, K.REFUSE))
            self._say_later(soon_s * 3 * self._rng.random(), kind, message_id, name)

    def speak_early(self, name: str, message_id: str) -> None:
        """About a message it has only found in its queue."""
        if self._rng.random() < self._swarm.early_words:
            kind = self._rng.choice((K.ACK, K.DONE, K.REFUSE, K.DEFER, K.SEEN))
            self._say_later(self._rng.expovariate(1 / 2), kind, message_id, name)

    def _say_later(self, delay_s: float, kind: ReceiptKind, message_id: str, name: str) -> None:
        self.timeline.after(delay_s, lambda: self.say(kind, message_id, name))

    def say(self, kind: ReceiptKind, message_id: str, name: str) -> None:
        self._ledger.spoke(kind, message_id, name)
        maildrop.drop_receipt(self._site.receipts, kind, message_id, name, "as drawn", fsync=self._site.fsync)

    # --- inboxes ----------------------------------------------------------------------------------------------------
    def look_into_inbox(self, name: str) -> None:
        for entry in self._ledger.listing(f"{self._site.queue}/{name}/processed"):
            if (found := self._ledger.read(entry)) is not None and self._rng.random() < 0.6:
                self.hear(name, *found)

    # --- commands ---------------------------------------------------------------------------------------------------
    def work(self, name: str, message: Message, process: Process) -> None:
        odd = self._rng.random() < self._swarm.odd_agents
        runs_s = self._rng.choice((self._rng.expovariate(1 / 20), self._rng.expovariate(1 / 300)))
        if odd and self._rng.random() < 0.2:
            return  # hangs, until it is ended
        code = self._rng.choice(ODD_ENDS) if odd else 0
        if odd and self._rng.random() < 0.3:
            kind = self._rng.choice((K.ACK, K.DONE, K.DEFER, K.REFUSE))
            self._say_later(runs_s * self._rng.random(), kind, message.message_id, name)
        self.timeline.after(runs_s, lambda: process.exit(code))

    def lose_power(self) -> None:
        for process in self.processes.values():
            process.ended = None
            process.exit(None)
        self.processes.clear()

    # --- handlers ---------------------------------------------------------------------------------------------------
    def handler(self, name: str) -> Callable[..., object]:
        async def handle(mail: Mail, ctx: Context) -> None:
            odd = self._rng.random() < self._swarm.odd_agents
            await anyio.sleep(self._rng.expovariate(1 / 600) if odd else self._rng.choice((0, 0.01, 2)))
            if odd:
                await self._be_odd(mail, ctx)

        return handle

    async def _be_odd(self, mail: Mail, ctx: Context) -> None:
        match self._rng.choice(("refuse", "defer", "fail", "send", "speak")):
            case "refuse":
                raise Refuse("as drawn")
            case "defer":
                raise Defer("as drawn")
            case "fail":
                raise RuntimeError("as drawn")
            case "speak":
                with self.as_world():
                    self.say(self._rng.choice((K.ACK, K.DONE, K.DEFER)), mail.message_id, ctx.agent)
            case _:
                await ctx.send("clerk", "message", {"content": f"about {mail.message_id}"})
