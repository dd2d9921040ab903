"""The signals that the engine sends along with lines of the log."""

from __future__ import annotations

from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.signals import AgentChanged, MessageEnded, MessageMet, Signal, TaskEnded, unheard
from ackd.core.words import MessageEnd
from tests.core.engine_world import World, make_message


class Listening(World):
    """A world that notes the signals that the engine asks for, in their order."""

    def __init__(self) -> None:
        self.signals: list[Signal] = []
        super().__init__()

    def handle(self, event: ev.Event) -> list[fx.Effect]:
        asked = super().handle(event)
        self.signals += [one.signal for one in asked if isinstance(one, fx.RecordFact) and one.signal is not None]
        return asked


def test_a_message_that_is_met_and_its_end_are_signals() -> None:
    world = Listening()
    world.send(make_message("m1"))
    assert world.signals == [MessageMet("m1", "worker")]
    world.says("done", "m1", "worker")
    assert world.signals[1:] == [MessageEnded("m1", "worker", MessageEnd.COMPLETED)]


def test_the_failure_of_a_task_is_a_signal_after_the_message_has_ended() -> None:
    world = Listening()
    world.send(make_message("m1", type="task_assignment"))
    world.says("refuse", "m1", "worker", "not for me")
    assert world.signals[-2:] == [MessageEnded("m1", "worker", MessageEnd.DEAD), TaskEnded("worker")]


def test_an_agent_that_is_paused_has_changed_and_is_not_down() -> None:
    world = Listening()
    world.handle(ev.AgentPaused("worker"))
    assert world.signals == [AgentChanged("worker", down=False)]


def test_a_signal_that_goes_nowhere_is_no_trouble() -> None:
    unheard(MessageMet("m1", "worker"))
