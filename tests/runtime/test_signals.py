"""Signals: which subscribers are called, and in which order."""

from __future__ import annotations

from ackd.core.signals import MessageEnded, MessageMet, Signal
from ackd.core.words import MessageEnd
from ackd.runtime.signals import Signals


def test_a_signal_is_heard_at_once_by_all_who_subscribed_to_its_type_in_their_order() -> None:
    signals, heard = Signals(), list[tuple[str, Signal]]()
    signals.subscribe(MessageMet, lambda met: heard.append(("first", met)))
    signals.subscribe(MessageMet, lambda met: heard.append(("second", met)))
    signals.subscribe(MessageEnded, lambda ended: heard.append(("third", ended)))
    met, ended = MessageMet("m@x", "worker"), MessageEnded("m@x", "worker", MessageEnd.DEAD)
    signals.emit(met)
    signals.emit(ended)
    assert heard == [("first", met), ("second", met), ("third", ended)]


def test_a_signal_that_nobody_subscribed_to_is_no_trouble() -> None:
    Signals().emit(MessageMet("m@x", "worker"))
