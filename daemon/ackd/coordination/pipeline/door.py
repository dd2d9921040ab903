"""The use cases of stories, for programs and every front door: start stories, look at them, pause, resume, cancel them.

Each change is a change of a story's record, which a daemon notices. So everything works without a daemon, and waits for
one. What may be done to a story in which state is the table of ``rules/story``.

Fails with the errors below, ``UnknownStory``, ``BadStory``, ``BadStoryRecord``, ``StoriesHeld``, ``NewerState`` and
OSError.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackd.coordination.pipeline.rules import decisions
from ackd.coordination.pipeline.rules.record import Story
from ackd.coordination.pipeline.rules.story import ENDS, StoryState
from ackd.core.errors import BadConfig, Busy, NotNow, TheirFault, UnknownStory
from ackd.core.names import USER, identity
from ackd.stage import checked_id, files_of
from ackd.storage import root_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from ackd.config.site import Site
    from ackd.coordination.pipeline.rules.decisions import StoryDecision
    from ackd.coordination.pipeline.rules.record import BadStoryRecord


class NoPipeline(BadConfig):
    """The team's config has no table [pipeline]."""

    def __init__(self) -> None:
        super().__init__("", ())

    def __str__(self) -> str:
        return "this team has no pipeline: a table [pipeline] with [pipeline.worker] makes one"


class StoryNotNow(NotNow):
    """A change that a story in this state does not allow. ``begins_again``: it could be started anew."""

    def __init__(self, story: str, state: StoryState, why: str, *, begins_again: bool = False) -> None:
        super().__init__(why)
        self.story, self.state, self.begins_again = story, state, begins_again


class NoStoryBefore(UnknownStory):
    """A story that others are to come after does not exist."""

    def __str__(self) -> str:
        return f"there is no story {self.story} to come after: start it first"


class BadOrder(TheirFault):
    """Stories that would wait for themselves or for each other, or whose names are the same to agents."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class WorkerNotGone(Busy):
    """A story cannot begin anew before the last worker of its earlier life has left."""

    def __init__(self, story: str) -> None:
        super().__init__(story)
        self.story = story

    def __str__(self) -> str:
        return f"the last worker of {self.story} has not left yet: a running daemon sees to that"


@dataclass(frozen=True)
class Stories:
    """All stories, in the order in which they were started. ``unreadable``: records that were passed over.

    ``checkpoints``: where the stage of each story that is at work stands, as far as anybody has said so.
    """

    stories: tuple[Story, ...]
    checkpoints: Mapping[str, Mapping[str, object]]
    unreadable: tuple[BadStoryRecord, ...]


class StoryDoor:
    """The stories of one team. NoPipeline."""

    def __init__(self, site: Site) -> None:
        if "pipeline" not in site.tables:
            raise NoPipeline
        self._site = site
        self._files = files_of(site)

    @property
    def directory(self) -> Path:
        return self._files.directory

    @property
    def daemon_running(self) -> bool:
        return root_lock.holder(self._site.run) is not None

    # --- changing -----------------------------------------------------------------------------------------------------
    def start(
        self, ids: Iterable[str], *, after: Iterable[str] = (), again: bool = False, by: str | None = None
    ) -> list[str]:
        """Start stories, and return their ids.

        ``after``: they begin when these are done. ``again``: also those that are done; a cancelled one may always begin
        anew. ``by``: the agent that waits for them; None for a person, whom nobody would call idle.
        """
        wanted = [checked_id(self._site, one) for one in ids]
        before = tuple(checked_id(self._site, one) for one in after)
        started_by = by if by != USER else None
        with self._files.locked():
            known = {one.story_id: one for one in self._files.all()[0]}
            _check_order(wanted, before, known)
            for one in wanted:
                _check_earlier_life(known.get(one), again=again)
            last = max((one.sequence for one in known.values()), default=0)
            for number, one in enumerate(dict.fromkeys(wanted), last + 1):
                now = time.time()
                story = Story(one, StoryState.WAITING, now, number, after=before, since=now, moves=1)
                earlier = known[one].generation if one in known else 0
                self._files.drop_checkpoint(one)
                self._files.write(story._replace(started_by=started_by, earlier=earlier))
        return wanted

    def pause(self, ids: Iterable[str], *, by: str = USER) -> None:
        """Pause stories. Their workers leave, and their stages begin anew later."""
        self._change(ids, "paused", lambda story: decisions.held(story, by, time.time()))

    def resume(self, ids: Iterable[str]) -> None:
        """Let paused stories go on at their stage, with fresh budgets."""
        self._change(ids, "resumed", lambda story: decisions.resumed(story, time.time()))

    def cancel(self, ids: Iterable[str], *, by: str = USER) -> None:
        """Give stories up for good."""
        self._change(ids, "cancelled", lambda story: decisions.dropped(story, by, time.time()))

    def _change(self, ids: Iterable[str], done: str, decide: Callable[[Story], StoryDecision]) -> None:
        """Change each story in turn. The first that cannot be changed ends it; those before it are changed."""
        for one in [checked_id(self._site, one) for one in ids]:
            before, after = self._files.change(one, lambda it: None if it is None else decide(it).story)
            if before is None:
                raise UnknownStory(one)
            if after is before:
                raise StoryNotNow(one, before.state, f"{one} is {before.state.value}: it cannot be {done}")

    # --- looking ------------------------------------------------------------------------------------------------------
    def stories(self) -> Stories:
        stories, bad = self._files.all()
        found = {one.story_id: self._checkpoint(one) for one in stories}
        checkpoints = {name: checkpoint for name, checkpoint in found.items() if checkpoint is not None}
        return Stories(tuple(stories), checkpoints, tuple(bad))

    def show(self, story_id: str) -> Story:
        found = self._files.read(checked_id(self._site, story_id))
        if found is None:
            raise UnknownStory(story_id)
        return found

    def _checkpoint(self, story: Story) -> Mapping[str, object] | None:
        return self._files.checkpoint(story.story_id, story.stage) if story.current is not None else None


def _check_earlier_life(old: Story | None, *, again: bool) -> None:
    """Let a story begin anew only when it has ended, and when nobody is left who could speak for it."""
    if old is None:
        return
    if not (old.state in ENDS and (again or old.state is StoryState.CANCELLED)):
        why = f"{old.story_id} is {old.state.value} already"
        raise StoryNotNow(old.story_id, old.state, why, begins_again=old.state in ENDS)
    if any(not one.settled for one in old.tries):
        raise WorkerNotGone(old.story_id)


def _check_order(wanted: list[str], before: tuple[str, ...], known: Mapping[str, Story]) -> None:
    for one in before:
        if one in wanted:
            raise BadOrder(f"{one} cannot come after itself")
        if one not in known:
            raise NoStoryBefore(one)
    for one in wanted:
        if (circle := _waits_for(one, before, known)) is not None:
            raise BadOrder(f"{one} and {circle} would wait for each other")
    names = {identity(one): one for one in (*known, *wanted)}
    for one in wanted:
        if names[identity(one)] != one:
            raise BadOrder(f"{one} and {names[identity(one)]} would be one: `-` and `_` are the same in names")


def _waits_for(one: str, before: tuple[str, ...], known: Mapping[str, Story]) -> str | None:
    """Return which of the stories before it waits, itself or through others, for this one."""
    for first in before:
        seen, ahead = {first}, [first]
        while ahead:
            story = known.get(ahead.pop())
            follows = story.after if story is not None and story.state not in ENDS else ()
            if one in follows:
                return first
            ahead += [name for name in follows if name not in seen]
            seen.update(follows)
    return None
