"""Notices: which are sent, which are held back, and that none goes unsaid."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.ensemble.rules import plain_words
from ackd.core.events import TroubleSeen
from ackd.core.message import MONITOR
from ackd.core.notices import AN_HOUR, HOUR_S, Notices, NoticeVerdict, notice_id, summary
from tests.core.engine_world import World, make_message

HOUR = 500_000


def trouble(number: int, to: str | None = "leader", kind: str = "stray", agent: str | None = "worker") -> TroubleSeen:
    return TroubleSeen(kind, f"queue/worker/{number}.eml", f"{number} lies there", "Rename it", agent=agent, to=to)


def told(world: World, to: str | None = None) -> list[str]:
    return [str(one.draft.body.get("about", one.draft.body["cause"])) for one in world.mail("notification", to)]


def test_a_cause_is_told_once_an_hour_and_again_in_the_next() -> None:
    world = World()
    world.tell(trouble(1), trouble(1), trouble(1))
    assert len(world.mail("notification", "leader")) == 1
    world.wait(HOUR_S)
    world.tell(trouble(1))
    first, second = world.mail("notification", "leader")
    assert first.draft.message_id != second.draft.message_id
    assert first.draft.sender == MONITOR


def test_twenty_an_hour_and_the_rest_in_one_summary_at_its_end() -> None:
    world = World()
    world.tell(*(trouble(n) for n in range(AN_HOUR + 37)))
    assert len(world.mail("notification", "leader")) == AN_HOUR
    world.wait(HOUR_S)
    *_, last = world.mail("notification", "leader")
    assert len(world.mail("notification", "leader")) == AN_HOUR + 1
    assert last.draft.body["held_back"] == {"stray": 37}
    assert "37 of 57" in str(last.draft.body["summary"])
    assert len(world.facts("notice")) == AN_HOUR + 37 + 1, "each of them is a line"
    world.wait(3 * HOUR_S)
    assert len(world.mail("notification", "leader")) == AN_HOUR + 1, "the summary is one"


def test_one_recipients_flood_takes_nothing_from_another() -> None:
    world = World()
    world.tell(*(trouble(n) for n in range(AN_HOUR * 3)), trouble(1, to="user"))
    assert told(world, "user") == ["queue/worker/1.eml"]


def test_who_is_nobody_here_or_lives_in_the_daemon_is_not_told_but_escalate_to_is() -> None:
    world = World()
    world.tell(trouble(1, to="stranger"), trouble(2, to=None), trouble(3, to=MONITOR))
    assert len(told(world, "leader")) == 3


def test_nobody_is_asked_to_hear_of_itself() -> None:
    world = World()
    world.tell(trouble(1, to=None, agent="leader"))
    assert told(world, "user") == ["queue/worker/1.eml"]


def test_after_a_restart_the_counts_go_on_and_what_may_be_unwritten_is_the_same_message() -> None:
    world = World()
    world.tell(*(trouble(n) for n in range(AN_HOUR + 5)))
    kept = world.engine.state.notices.all()
    before = {one.draft.message_id for one in world.mail("notification", "leader")}
    world.restart()
    world.engine.state.notices.restore(kept)
    world.sent.clear()
    world.tell(*(trouble(n) for n in range(AN_HOUR + 5)), trouble(99))
    assert {one.draft.message_id for one in world.mail("notification", "leader")} == before
    world.wait(HOUR_S)
    assert world.mail("notification", "leader")[-1].draft.body["held_back"] == {"stray": 6}


def test_a_summary_that_fell_due_while_nobody_ran_is_given_at_the_next_start() -> None:
    world = World()
    world.tell(*(trouble(n) for n in range(AN_HOUR + 5)))
    kept = world.engine.state.notices.all()
    world.restart(away_s=5 * HOUR_S)
    world.engine.state.notices.restore(kept)
    world.sent.clear()
    world.send(make_message("x@ignite.local"))  # anything that ends recovery
    world.wait(1)
    (last,) = world.mail("notification", "leader")
    assert last.draft.body["held_back"] == {"stray": 5}


def test_a_summary_that_was_given_is_forgotten_an_hour_later_and_no_start_gives_it_again() -> None:
    world = World()
    world.tell(*(trouble(n) for n in range(AN_HOUR + 5)))
    world.wait(HOUR_S)
    assert [one.summed for one in world.engine.state.notices.all()] == [True], "it may not be on disk yet"
    changes = world.engine.state.notices.changes
    world.wait(HOUR_S)
    assert world.engine.state.notices.all() == []
    assert world.engine.state.notices.changes > changes, "state/ forgets it as well"
    world.tell(*(trouble(n) for n in range(AN_HOUR + 3)))
    world.wait(HOUR_S)
    assert world.mail("notification", "leader")[-1].draft.body["held_back"] == {"stray": 3}


def test_a_name_that_is_not_utf8_is_told_all_the_same() -> None:
    world = World()
    world.tell(TroubleSeen("stray", "queue/worker/\udcff.eml", "\udcff lies there", "Rename it", to="leader"))
    (about,) = told(world, "leader")
    assert about.encode()


def test_the_summary_is_in_plain_words() -> None:
    notices = Notices(limit=1)
    for number in range(3):
        notices.weigh("leader", "stray", str(number), HOUR)
    (hour,) = notices.over(HOUR + 1)
    body = summary(hour, "leader").body
    assert not plain_words.vague_words(f"{body['summary']} {body['action']}")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 9), st.integers(0, 3))))
def test_whatever_comes_nobody_gets_more_than_its_share_and_nothing_is_unsaid(
    asked: list[tuple[str, str, int, int]],
) -> None:
    """Each cause within its hour is sent once or counted once; never more than the limit; the summaries say the
    rest."""
    notices, limit = Notices(limit=4), 4
    verdicts: Counter[tuple[str, int, NoticeVerdict]] = Counter()
    causes: dict[tuple[str, int], set[tuple[str, int]]] = {}
    summed: Counter[tuple[str, int]] = Counter()
    for to, kind, number, step in sorted(asked, key=lambda one: one[3]):
        hour = HOUR + step
        for one in notices.over(hour):
            summed[one.to, one.hour] += one.held_back
        verdict = notices.weigh(to, kind, str(number), hour)
        fresh = (kind, number) not in causes.setdefault((to, hour), set())
        assert fresh == (verdict is not NoticeVerdict.KNOWN)
        causes[to, hour].add((kind, number))
        verdicts[to, hour, verdict] += 1
    for one in notices.over(HOUR + 9):
        summed[one.to, one.hour] += one.held_back
    for (to, hour), known in causes.items():
        told_of, held = verdicts[to, hour, NoticeVerdict.TELL], verdicts[to, hour, NoticeVerdict.HELD]
        assert told_of == min(limit, len(known))
        assert held == len(known) - told_of == summed[to, hour]
    assert not notices.owes
    assert len({(one.to, one.hour) for one in notices.all()}) == len(notices.all())


@given(st.text(), st.text(), st.integers(0, 10**6))
def test_an_id_is_a_matter_of_recipient_cause_and_hour_alone(kind: str, subject: str, hour: int) -> None:
    ident = notice_id("leader", kind, subject, hour)
    assert ident == notice_id("leader", kind, subject, hour)
    assert ident != notice_id("user", kind, subject, hour)
    assert ident != notice_id("leader", kind, subject, hour + 1)
