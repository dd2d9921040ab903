from __future__ import annotations

from dataclasses import replace

from ackd.coordination.ensemble.rules import plain_words
from ackd.core import effects as fx
from ackd.core import events as ev
from ackd.core.escalations import (
    MOST_ABOUT,
    Escalations,
    OpenEscalation,
    Over,
    dead_notice,
    death_id,
    derived_id,
    escalation,
    stamp,
)
from ackd.core.message import MONITOR, USER, Folder, Place, Priority
from ackd.core.state import Delivery
from tests.core.engine_world import PROCESS, START_WALL, TEAM, WATCHED_PANE, World, make_message


def dying(message_id: str = "1700000000.7.abc@ignite.local", arrived_at: float = 5.0) -> Delivery:
    return Delivery(
        1, make_message(message_id), Place("worker", Folder.PROCESSED, "x.mime"), "worker", "worker", arrived_at
    )


# --- ids --------------------------------------------------------------------------------------------------------------
def test_an_id_derives_from_its_cause_and_nothing_else() -> None:
    assert derived_id("escalation", "m", "worker", 5) == derived_id("escalation", "m", "worker", 5)
    assert derived_id("escalation", "m", "worker", 5) != derived_id("dead_letter", "m", "worker", 5)
    assert derived_id("escalation", "m", "worker", 5) != derived_id("escalation", "m", "other", 5)


def test_an_id_has_the_seeds_form_whatever_the_cause_holds() -> None:
    hostile = derived_id("escalation", "\udc80²³.x\n", "worker")
    assert hostile.startswith("0.0.")
    assert hostile.isascii()
    assert derived_id("escalation", "1700000000.7.abc@ignite.local").startswith("1700000000.0.")


def test_a_second_death_after_a_requeue_has_another_id_and_one_after_a_crash_the_same() -> None:
    assert death_id(dying(arrived_at=5)) == death_id(dying(arrived_at=5))
    assert death_id(dying(arrived_at=5)) != death_id(dying(arrived_at=6))


def test_two_messages_of_one_id_that_came_in_one_moment_have_a_notice_each() -> None:
    world = World()
    for digest in ("one", "other"):
        message = replace(make_message("m1", "runner"), digest=digest)
        world.handle(world.arrival(world.drop(message)))
    for _ in range(2):
        world.handle(ev.ReceiptCame(world.receipt("refuse", "m1", "runner")))
        world.settle()
    told = [one.draft.message_id for one in (*world.mail("dead_letter"), *world.mail("escalation"))]
    assert len(set(told)) == 2


def test_times_are_utc() -> None:
    assert stamp(0) == "1970-01-01T00:00:00Z"


# --- the open ones ----------------------------------------------------------------------------------------------------
def test_later_cases_are_counted_into_the_open_one() -> None:
    escalations = Escalations()
    assert escalations.counted("worker", "dead") is None
    escalations.open(OpenEscalation("e1", "worker", "dead", "leader", 0))
    again = escalations.counted("worker", "dead")
    assert again is not None
    assert (again.escalation_id, again.counted) == ("e1", 2)
    assert escalations.counted("worker", "silent") is None


def test_a_closed_one_makes_room_for_the_next() -> None:
    escalations = Escalations()
    escalations.open(OpenEscalation("e1", "worker", "dead", "leader", 0))
    assert escalations.close("unknown") is None
    closed = escalations.close("e1")
    assert closed is not None
    assert escalations.all() == []


# --- the words --------------------------------------------------------------------------------------------------------
def test_one_that_is_about_more_than_it_remembers_waits_for_an_answer() -> None:
    escalations = Escalations()
    about = [f"m{number}" for number in range(MOST_ABOUT)]
    escalations.open(OpenEscalation("e", "worker", "dead", "leader", 0.0, counted=MOST_ABOUT + 1, about=list(about)))
    assert [escalations.settled("worker", one, Over.LETTER) for one in about] == [[]] * MOST_ABOUT
    assert escalations.close("e") is not None


def test_an_escalation_tells_the_story_of_the_attempts() -> None:
    delivery = dying()
    delivery.remember(START_WALL, "attempt 1: exit status 1")
    draft = escalation("e1", "leader", "worker", "dead", "summary", "action", delivery, START_WALL)
    assert (draft.sender, draft.type, draft.priority) == (MONITOR, "escalation", Priority.CRITICAL)
    assert draft.body["what_happened"] == [{"at": stamp(START_WALL), "what": "attempt 1: exit status 1"}]


def test_the_notice_goes_to_the_sender_as_a_reply_and_says_how_to_requeue() -> None:
    notice = dead_notice(dying(), "leader", "exit status 1", START_WALL)
    assert (notice.recipient, notice.in_reply_to) == ("leader", dying().message.message_id)
    assert notice.body["how_to_requeue"] == f"ackd dead requeue {dying().message.message_id}"


def every_escalation() -> list[fx.SendMessage]:
    """Return one escalation of each cause."""
    world = World()
    world.send(make_message("silent", "worker"))
    world.wait(300)
    world.tell(ev.AgentResumed("worker"))
    world.send(make_message("late", "worker"))
    world.says("ack", "late")
    world.wait(2000)
    world.says("refuse", "late", reason="not mine")
    world.on_tell["runner"] = lambda order: [ev.EndpointAway(order.key, "no such program")]
    world.send(make_message("absent", "runner"))
    world.on_tell["runner"] = lambda order: [ev.NotTold(order.key, "could not start")]
    world.wait(2000)
    for number in range(101):
        to, sender = ("user", "leader") if number % 2 else ("leader", "user")
        world.send(make_message(f"b{number}", to, sender=sender, in_reply_to=f"b{number - 1}"))
    gone = world.send(make_message("gone", "leader"))
    world.tell(ev.SpoolLost("leader", (gone,)))
    world.send(make_message("busy", "worker"))
    for _ in range(40):
        world.tell(ev.SignOfLife("worker", "the pane changed"))
        world.wait(30)
    return world.mail("escalation")


def every_escalation_about_a_life(waiting: int) -> list[fx.SendMessage]:
    world = World({**TEAM, "worker": (PROCESS, "process"), "coder": (WATCHED_PANE, "tmux")})
    for number in range(waiting):
        world.send(make_message(f"w{number}", "worker"))
        world.send(make_message(f"c{number}", "coder"))
    if waiting:
        world.tell(ev.WorkBlocked(world.delivery("w0").key, "waits for the schema", None, 1))
    world.tell(ev.AgentStuck("coder", "a permission prompt waits for a person: rm?", None))
    world.tell(ev.AgentDied("worker", "exit 1"), ev.AgentDied("coder", "its pane was closed"))
    return world.mail("escalation")


def test_every_escalation_passes_our_own_ban_on_vague_words() -> None:
    """Each names who, how many and where; a share only where it says something, so never one of everything."""
    sent = [*every_escalation(), *every_escalation_about_a_life(0), *every_escalation_about_a_life(2)]
    causes = {str(one.draft.body["cause"]).partition(":")[0] for one in sent}
    told = {"silent", "overdue", "refused", "away", "dead", "loop_held", "spool_lost"}
    assert causes == told | {"died", "stuck", "blocked"}
    for one in sent:
        summary = str(one.draft.body["summary"])
        assert plain_words.vague_words(summary) == [], summary
        assert not {*plain_words.missing_facts(summary, {*TEAM, "coder"})} - {plain_words.WHAT_SHARE}, summary
        assert "100%" not in summary


def test_an_escalation_to_a_person_also_rings() -> None:
    world = World()
    world.send(make_message("m1", "leader", sender="worker"))
    world.says("refuse", "m1", "leader")
    (sent,) = world.mail("escalation")
    assert (sent.draft.recipient, sent.notify) == (USER, True)
