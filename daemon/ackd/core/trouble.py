"""Telling somebody of trouble that is no escalation.

``tell`` is the one call for all of core; what lies outside posts ``TroubleSeen``. Owns who hears of it; how often is
``notices``'. Never about mail of our own: whoever calls it looks at that, since only they know what it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.core import calling, notices
from ackd.core.effects import SendMessage
from ackd.core.notices import Verdict

if TYPE_CHECKING:
    from ackd.core.desk import Desk


def tell(
    desk: Desk,
    kind: str,
    subject: str,
    text: str,
    cure: str,
    *,
    agent: str | None = None,
    to: str | None = None,
    lane: str | None = None,
) -> None:
    """One notice, if there may be one. ``kind``: one word. ``subject``: which one, a path, name or id; of the same one
    nobody hears twice in an hour. ``agent``: whom it is about. ``to``: who is to hear of it, if that is an agent here;
    else ``escalate_to``. ``lane``: what follows there waits until it is on disk."""
    subject, text = _plain(subject), _plain(text)
    reader = _reader(desk, to, agent)
    hour = notices.hour_of(desk.steady)
    verdict = desk.notices.weigh(reader, kind, subject, hour)
    if verdict is Verdict.KNOWN:
        return
    ident = notices.notice_id(reader, kind, subject, hour)
    held = verdict is Verdict.HELD
    if held:
        wait_for_summary(desk)
    else:
        draft = notices.notice(reader, kind, subject, text, cure, agent, hour)
        desk.put(SendMessage(lane or agent or reader, draft))
    about = {"agent": agent, "cause": kind, "about": subject, "summary": text, "to": reader}
    desk.fact("notice", **about, notice_id=ident, held=held or None)


def _plain(text: str) -> str:
    """Names of files need not be UTF-8, but mail and state are."""
    return text.encode("utf-8", "replace").decode()


def _reader(desk: Desk, to: str | None, about: str | None) -> str:
    """Who lives inside the daemon reads no notices."""
    named = desk.agent_called(to) if to else None
    if named is not None and not desk.book.agents[named].policy.unwatched:
        return named
    return calling.target(desk, about or "")


def wait_for_summary(desk: Desk) -> None:
    """After a start as well: an hour may have ended in our absence. What was given is forgotten an hour later, or every
    start would give it again."""
    if desk.notices.owes:
        first = min(one.hour for one in desk.notices.all() if one.held and not one.summed)
        in_s = max(0.0, (first + 1) * notices.HOUR_S - desk.steady)
    elif desk.notices.has_given:
        in_s = notices.HOUR_S
    else:
        return
    rings_at = desk.alarms.at(("summary", ""))
    if rings_at is None or rings_at > desk.now.mono + in_s:
        desk.alarm("summary", "", in_s)


def sum_up(desk: Desk) -> None:
    """An hour is over."""
    for hour in desk.notices.over(notices.hour_of(desk.steady)):
        reader = desk.agent_called(hour.to) or calling.target(desk, "")  # it may have left the team
        draft = notices.summary(hour, reader)
        desk.put(SendMessage(reader, draft))
        desk.fact("notice", cause="summary", to=reader, summary=draft.body["summary"], notice_id=draft.message_id)
    wait_for_summary(desk)
