from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ackd.core import plain_words
from tests.runtime.gateways.ensemble.house import TEAM, House

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def settled(house: House) -> float | None:
    """A look after which nothing is being written any more."""
    await house.look()
    return await house.look()


async def test_without_a_report_for_three_minutes_the_reports_are_polled_and_that_is_said_once(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    wish = await settled(house)
    assert wish is not None
    assert 170 < wish <= 180
    house.clock.advance(wish + 0.01)
    wish = await house.gateway.look(frozenset())
    assert wish is not None
    assert 29 < wish <= 30
    (line,) = house.said("report_overdue")
    assert (line["task_id"], line["agent"], line["poll_s"]) == ("T-1", "worker-1", 30)
    assert house.gateway.page()["polling"] is True
    house.later(house.put("reports/T-1-completed.yaml"))  # and nothing hints at it
    for _ in range(2):
        house.clock.advance(31)
        wish = await house.gateway.look(frozenset())
    assert house.mail[-1].body["ensemble"]["file"] == "queue/reports/T-1-completed.yaml"  # type: ignore[index]
    assert house.gateway.page()["polling"] is False
    assert len(house.said("report_overdue")) == 1


async def test_thirty_minutes_without_a_summary_are_one_escalation(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    house.put("tasks/worker-2-T-2.yaml")
    await house.look()
    house.later(house.put("reports/T-1-completed.yaml"))
    await house.look()
    house.clock.advance(1801)
    await house.look()
    house.start()
    await house.look()
    (told,) = [draft for draft in house.mail if draft.type == "escalation"]
    assert (told.recipient, told.sender, told.body["cause"]) == ("leader", "queue_monitor", "no_summary")
    assert "1 of 2 tasks are reported (50%)" in str(told.body["summary"])
    assert plain_words.vague_words(str(told.body["summary"])) == []
    assert plain_words.missing_facts(str(told.body["summary"]), set(TEAM)) == []
    assert len(house.said("escalation")) == 1


async def test_a_summary_ends_the_wait_and_the_next_task_begins_another(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    await house.look()
    house.later(house.put("reports/completion-summary.yaml"))
    await house.look()
    assert house.summary()[-1] == ("dispatch", "conductor", "task_completed")
    house.clock.advance(3600)
    await house.look()
    assert not [draft for draft in house.mail if draft.type == "escalation"]
    house.put("tasks/worker-2-T-2.yaml")
    await house.look()
    house.clock.advance(1801)
    await house.look()
    assert len([draft for draft in house.mail if draft.type == "escalation"]) == 1


async def test_a_summary_from_before_ends_no_wait(house: House) -> None:
    house.put("reports/completion-summary.yaml")
    house.later(house.put("tasks/worker-1-T-1.yaml"))
    await house.look()
    assert "waits_for_summary_since" in house.gateway.page()


async def test_the_clocks_run_on_over_a_restart_by_the_wall_and_while_we_live_by_what_cannot_jump(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    await settled(house)
    house.clock.wall_s += 86_400  # the wall clock is set a day ahead
    await house.look()
    assert house.said("report_overdue") == []
    house.clock.wall_s -= 86_400
    house.clock.advance(100)
    house.start()
    await house.look()
    wish = await house.look()
    assert wish is not None
    assert 60 < wish < 80
    house.clock.wall_s -= 86_400  # set back: what began tomorrow began now
    house.start()
    await house.look()
    assert house.said("report_overdue") == []


async def test_a_task_that_was_given_up_is_waited_for_no_more(house: House) -> None:
    house.put("tasks/worker-1-T-1.yaml")
    await house.look()
    house.gateway.heard("message_dead", {"message_id": house.mail[0].message_id})
    house.clock.advance(200)
    await house.look()
    assert house.said("report_overdue") == []


async def test_an_end_that_is_heard_of_before_the_mail_is_back_counts(house: House) -> None:
    sent = house._mail

    async def quick(draft: object) -> None:
        await sent(draft)  # type: ignore[arg-type]
        house.gateway.heard("message_dead", {"message_id": house.mail[-1].message_id})

    house._mail = quick  # type: ignore[method-assign]
    house.start()
    house.put("tasks/worker-1-T-1.yaml")
    await house.look()
    assert house.gateway.page()["tasks_without_report"] == []
