from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.coordination.ensemble.rules import plain_words
from ackd.core.signals import MessageEnded
from ackd.core.words import MessageEnd
from tests.coordination.ensemble.ensemble_team import TEAM, EnsembleTeam

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def team(tmp_path: Path) -> EnsembleTeam:
    return EnsembleTeam(tmp_path)


async def settled(team: EnsembleTeam) -> float | None:
    """Look twice: after the second look no file counts as being written any more."""
    await team.look()
    return await team.look()


async def test_without_a_report_for_three_minutes_the_reports_are_polled_and_that_is_said_once(
    team: EnsembleTeam,
) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    next_look_s = await settled(team)
    assert next_look_s is not None
    assert 170 < next_look_s <= 180
    team.clock.advance(next_look_s + 0.01)
    next_look_s = await team.gateway.look(frozenset())
    assert next_look_s is not None
    assert 29 < next_look_s <= 30
    (line,) = team.said("report_overdue")
    assert (line["task_id"], line["agent"], line["poll_s"]) == ("T-1", "worker-1", 30)
    assert team.gateway.page()["polling"] is True
    team.later(team.put("reports/T-1-completed.yaml"))  # without a hint from inotify
    for _ in range(2):
        team.clock.advance(31)
        next_look_s = await team.gateway.look(frozenset())
    assert team.mail[-1].body["ensemble"]["file"] == "queue/reports/T-1-completed.yaml"  # type: ignore[index]
    assert team.gateway.page()["polling"] is False
    assert len(team.said("report_overdue")) == 1


async def test_thirty_minutes_without_a_summary_are_one_escalation(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    team.put("tasks/worker-2-T-2.yaml")
    await team.look()
    team.later(team.put("reports/T-1-completed.yaml"))
    await team.look()
    team.clock.advance(1801)
    await team.look()
    team.start()
    await team.look()
    (told,) = [draft for draft in team.mail if draft.type == "escalation"]
    assert (told.recipient, told.sender, told.body["cause"]) == ("leader", "queue_monitor", "no_summary")
    assert "1 of 2 tasks are reported (50%)" in str(told.body["summary"])
    assert plain_words.vague_words(str(told.body["summary"])) == []
    assert plain_words.missing_facts(str(told.body["summary"]), set(TEAM)) == []
    assert len(team.said("escalation")) == 1


async def test_a_summary_ends_the_wait_and_the_next_task_begins_another(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    await team.look()
    team.later(team.put("reports/completion-summary.yaml"))
    await team.look()
    assert team.summary()[-1] == ("dispatch", "conductor", "task_completed")
    team.clock.advance(3600)
    await team.look()
    assert not [draft for draft in team.mail if draft.type == "escalation"]
    team.put("tasks/worker-2-T-2.yaml")
    await team.look()
    team.clock.advance(1801)
    await team.look()
    assert len([draft for draft in team.mail if draft.type == "escalation"]) == 1


async def test_a_summary_from_before_ends_no_wait(team: EnsembleTeam) -> None:
    team.put("reports/completion-summary.yaml")
    team.later(team.put("tasks/worker-1-T-1.yaml"))
    await team.look()
    assert "waits_for_summary_since" in team.gateway.page()


async def test_the_clocks_run_on_over_a_restart_by_the_wall_and_while_we_live_by_what_cannot_jump(
    team: EnsembleTeam,
) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    await settled(team)
    team.clock.wall_s += 86_400  # the wall clock is set a day ahead
    await team.look()
    assert team.said("report_overdue") == []
    team.clock.wall_s -= 86_400
    team.clock.advance(100)
    team.start()
    await team.look()
    next_look_s = await team.look()
    assert next_look_s is not None
    assert 60 < next_look_s < 80
    team.clock.wall_s -= 86_400  # set back: a wait that began in the future began now
    team.start()
    await team.look()
    assert team.said("report_overdue") == []


async def test_a_task_that_was_given_up_is_waited_for_no_more(team: EnsembleTeam) -> None:
    team.put("tasks/worker-1-T-1.yaml")
    await team.look()
    team.gateway.heard(MessageEnded(team.mail[0].message_id, "worker-1", MessageEnd.DEAD))
    team.clock.advance(200)
    await team.look()
    assert team.said("report_overdue") == []


async def test_an_end_that_is_heard_of_before_the_mail_is_back_counts(team: EnsembleTeam) -> None:
    sent = team._mail

    async def quick(draft: object) -> None:
        await sent(draft)  # type: ignore[arg-type]
        team.gateway.heard(MessageEnded(team.mail[-1].message_id, "worker-1", MessageEnd.DEAD))

    team._mail = quick  # type: ignore[method-assign]
    team.start()
    team.put("tasks/worker-1-T-1.yaml")
    await team.look()
    assert team.gateway.page()["tasks_without_report"] == []
