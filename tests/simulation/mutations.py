"""Daemons that break a promise on purpose: the simulation must find each of them, or it proves nothing.

Each mutation is a patch of one seam of the runtime, for as long as a run lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import anyio

from ackd.core import effects as fx
from ackd.core.events import Moved
from ackd.core.message import Folder, Place
from ackd.core.parts_told import Families
from ackd.core.timeouts import timer_due
from ackd.core.timers import TimerKind
from ackd.runtime.receipts.receipts import Receipts
from ackd.runtime.runner.runner import EffectRunner
from ackd.runtime.upkeep import Upkeep
from ackd.storage.group_flush import GroupFlusher
from ackd.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ackd.core.effects import Effect
    from ackd.core.state import EngineState
    from tests.simulation.simulation import Simulation


@contextlib.contextmanager
def deaf(run: Simulation) -> Iterator[None]:
    """Loses hints, and never looks for itself."""
    run.swarm.hint_lost = 0.02

    async def never(_upkeep: Upkeep) -> None:
        await anyio.sleep_forever()

    with mock.patch.object(Upkeep, "reconcile", never):
        yield


@contextlib.contextmanager
def boastful(run: Simulation) -> Iterator[None]:
    """Writes that a message is completed, and moves it after that."""
    run.swarm.crash_at_effect = 0.02
    archive = EffectRunner._archive

    def say_first(runner: EffectRunner, effect: fx.ArchiveMessage) -> None:
        moved = Place(effect.place.box, Folder.ARCHIVE, f"19700101/{effect.place.name}")
        services = runner.services
        services.post(Moved(effect.key, moved))

        def move() -> None:
            runner.services = replace(services, post=lambda _event: None)
            archive(runner, effect)
            runner.services = services

        asyncio.get_running_loop().call_later(0.01, move)

    with mock.patch.object(EffectRunner, "_archive", say_first):
        yield


@contextlib.contextmanager
def careless(run: Simulation) -> Iterator[None]:
    """Believes that what it has rewritten is durable, without a flush."""
    run.swarm.crash_at_effect = 0.01
    run.swarm.power_cut = float(run.site.fsync)

    async def no_flush(_flusher: GroupFlusher, _paths: object) -> None:
        return None

    with (
        mock.patch.object(GroupFlusher, "flush", no_flush),
        mock.patch.object(GroupFlusher, "flush_later", lambda *_: None),
    ):
        yield


@contextlib.contextmanager
def patient(run: Simulation) -> Iterator[None]:
    """Does not notice silence: the timer of an unanswered message is ignored."""
    run.swarm.odd_agents = 1.0
    with _without_timer(TimerKind.ACK):
        yield


@contextlib.contextmanager
def trusting(run: Simulation) -> Iterator[None]:
    """Does not notice that what was taken is never done: that timer is ignored."""
    run.swarm.odd_agents = 1.0
    with _without_timer(TimerKind.TASK):
        yield


@contextlib.contextmanager
def content(run: Simulation) -> Iterator[None]:
    """Looks at agents that are idle with work in hand, and leaves it at that."""
    run.swarm.odd_agents = 1.0
    with mock.patch("ackd.core.screen_rules._take_step", lambda *_: None):
        yield


@contextlib.contextmanager
def unread(run: Simulation) -> Iterator[None]:
    """Holds a notice that was seen until somebody says that it is done, which nobody does."""
    run.swarm.odd_agents = 1.0
    with mock.patch("ackd.core.transitions.is_enough", lambda *_: False):
        yield


@contextlib.contextmanager
def _without_timer(ignored: TimerKind) -> Iterator[None]:
    def due(state: EngineState, kind: TimerKind, owner: int | str) -> None:
        if kind is not ignored:
            timer_due(state, kind, owner)

    with mock.patch("ackd.core.timeouts.timer_due", due):
        yield


@contextlib.contextmanager
def forgetful(run: Simulation) -> Iterator[None]:
    """Claims without a word to the journal."""
    run.swarm.crash_at_call, run.swarm.power_cut = 0.01, 0.0  # after a cut much is excused
    run.swarm.odd_agents = 1.0
    with mock.patch.object(EffectRunner, "take_in", lambda *_, **__: None):
        yield


@contextlib.contextmanager
def hoarding(_run: Simulation) -> Iterator[None]:
    """Keeps in memory what is over."""
    forget = EffectRunner._forget

    def keep(runner: EffectRunner, effect: fx.ForgetMessage) -> None:
        known = runner._in_journal.get(effect.key)
        forget(runner, effect)
        if known is not None:
            runner._in_journal[effect.key] = known

    with mock.patch.object(EffectRunner, "_forget", keep):
        yield


@contextlib.contextmanager
def silent(run: Simulation) -> Iterator[None]:
    """Buries without telling anyone."""
    run.swarm.odd_agents = 1.0
    do = EffectRunner._do

    def tell_nobody(runner: EffectRunner, effect: Effect) -> Any:
        return None if isinstance(effect, fx.SendMessage) and effect.draft.type == "dead_letter" else do(runner, effect)

    with mock.patch.object(EffectRunner, "_do", tell_nobody):
        yield


@contextlib.contextmanager
def oblivious(run: Simulation) -> Iterator[None]:
    """Forgets, when it crashes, which parts of a message have ended."""
    run.ledger.shares = True
    run.swarm.crash_at_effect = 0.01
    with mock.patch.object(Journal, "note", lambda *_: None), mock.patch.object(Families, "restore", lambda *_: None):
        yield


@contextlib.contextmanager
def miserly(_run: Simulation) -> Iterator[None]:
    """Forgets that a member of a pool has room again."""
    with mock.patch("ackd.core.pool_offers.note_member", lambda *_: None):
        yield


@contextlib.contextmanager
def lavish(run: Simulation) -> Iterator[None]:
    """Gives a message back to its pool, and leaves it with its holder, too."""
    run.swarm.odd_agents = 1.0
    give_back = EffectRunner._return

    def leave_a_copy(runner: EffectRunner, effect: fx.ReturnMessage) -> Any:
        path = runner.spool.path(effect.place)
        data = path.read_bytes()
        slow = give_back(runner, effect)
        path.with_name(f"{effect.message.type}_9{effect.place.name[-20:]}").write_bytes(data)
        return slow

    with mock.patch.object(EffectRunner, "_return", leave_a_copy):
        yield


@contextlib.contextmanager
def timeless(run: Simulation) -> Iterator[None]:
    """Does not notice that a message has expired."""
    run.swarm.timed_letters, run.swarm.away = 1.0, 1.0
    with _without_timer(TimerKind.EXPIRES), mock.patch("ackd.core.deadlines.is_expired", lambda *_: False):
        yield


@contextlib.contextmanager
def obstinate(run: Simulation) -> Iterator[None]:
    """Hears a cancellation, and goes on."""
    run.swarm.cancels_an_hour = 30.0
    with mock.patch(
        "ackd.core.receipts._cancel",
        lambda state, delivery, receipt: state.emit(fx.DropReceipt.of(delivery.agent, receipt.receipt_file)),
    ):
        yield


@contextlib.contextmanager
def restless(run: Simulation) -> Iterator[None]:
    """Looks again at once for what has not come yet."""
    run.swarm.hint_lost = run.swarm.early_words = 0.5
    with (
        mock.patch.object(Receipts, "settle_s", 0.0),
        mock.patch("ackd.runtime.receipts.receipts.LIST_AGAIN_S", 0.0),
    ):
        yield


def mended(mutation: Callable[[Simulation], Any]) -> Callable[[Simulation], Any]:
    """Leaves of a mutation only the trouble that it draws around the daemon."""

    @contextlib.contextmanager
    def trouble_only(run: Simulation) -> Iterator[None]:
        with mutation(run):
            pass
        yield

    return trouble_only


ALL: Final[dict[str, Callable[[Simulation], Any]]] = {
    one.__name__: one
    for one in (
        deaf,
        boastful,
        careless,
        patient,
        trusting,
        content,
        unread,
        forgetful,
        hoarding,
        silent,
        oblivious,
        miserly,
        lavish,
        timeless,
        obstinate,
        restless,
    )
}
#: A seed that finds it within a second of CPU time, and the hours of trouble that it takes. Where the daemon or the
#: simulation has changed since, one of the seeds after that does.
FOUND_BY: Final[dict[str, tuple[int, float]]] = {
    "boastful": (8, 1.0),
    "careless": (1, 1.0),
    "content": (8, 2.0),
    "deaf": (11, 2.0),
    "forgetful": (11, 2.0),
    "hoarding": (1, 1.0),
    "lavish": (7, 1.0),
    "miserly": (7, 1.0),
    "obstinate": (1, 1.0),
    "oblivious": (4, 1.0),
    "patient": (8, 2.0),
    "restless": (2, 0.5),
    "silent": (11, 1.0),
    "timeless": (1, 1.0),
    "trusting": (8, 1.0),
    "unread": (1, 1.0),
}
