"""What completes a message: which are notices, and which rule comes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.core.completion import completes_on, is_notice
from ackd.core.message import MONITOR
from ackd.core.policy import AgentPolicy, CompletesOn
from tests.core.driving import letter

PANE = AgentPolicy(rungs=3, notices_complete_on=CompletesOn.SEEN)
TASKS = ("task_assignment", "task_completed", "message", "user_goal", "escalation")


@pytest.mark.parametrize("type_", TASKS)
def test_what_an_agent_writes_is_no_notice_unless_its_type_only_informs(type_: str) -> None:
    assert not is_notice(letter("m", type=type_))
    assert is_notice(replace(letter("m", type=type_), automatic=True))
    assert is_notice(letter("m", type="progress_update"))
    assert is_notice(letter("m", type="notification"))


@pytest.mark.parametrize("type_", ["escalation", "dead_letter", "message"])
def test_mail_of_the_monitor_is_a_notice(type_: str) -> None:
    assert is_notice(letter("m", sender=MONITOR, type=type_))


@pytest.mark.parametrize("type_", ["board_request", "status_check", "shutdown_request"])
def test_what_the_monitor_asks_for_is_no_notice(type_: str) -> None:
    assert not is_notice(letter("m", sender=MONITOR, type=type_))


def test_a_rule_for_the_type_comes_before_notices_and_those_before_the_rest() -> None:
    notice, task = letter("m", type="progress_update"), letter("m", type="task_completed")
    assert completes_on(notice, AgentPolicy()) is CompletesOn.DONE
    assert completes_on(notice, PANE) is CompletesOn.SEEN
    assert completes_on(task, PANE) is CompletesOn.DONE
    by_type = (("progress_update", CompletesOn.DONE), ("task_completed", CompletesOn.SEEN))
    own = replace(PANE, completes_on_type=by_type)
    assert completes_on(notice, own) is CompletesOn.DONE
    assert completes_on(task, own) is CompletesOn.SEEN
    assert completes_on(task, replace(PANE, completes_on=CompletesOn.SEEN)) is CompletesOn.SEEN
