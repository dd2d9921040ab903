"""`ackd story`: start stories by hand, look at them, pause, resume and cancel them.

The use cases are those of ``coordination/pipeline/door``, and work without a daemon: its next look does the rest.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from ackd.cli.command_line import Command, Group, argument, for_team
from ackd.cli.errors import NO, Ended, Failure, creating
from ackd.cli.output import clear_screen, echo, print_json, printable, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackd.config.site import Site
    from ackd.coordination.pipeline.door import Stories, StoryDoor
    from ackd.coordination.pipeline.rules.record import Story

_WATCH_S: Final = 0.5


story = Group("""Start, list, show, pause, resume or cancel stories, which go through four stages.""")


@story.command
@argument("ids", nargs="+", metavar="ID...")
@argument("--after", action="append", metavar="ID", help="Start only when this story is done. May be given again.")
@argument("--again", action="store_true", help="Begin a story that is done or cancelled anew.")
@argument("--agent", metavar="NAME", help="The agent that waits for the stories (default: ACKD_AGENT, or this pane's).")
@for_team
def start(
    site: Site, as_json: bool, ids: tuple[str, ...], after: tuple[str, ...], again: bool, agent: str | None
) -> None:
    """Start stories: each goes through stages 0 to 3 in turn, at most max_parallel stories at a time."""
    from ackd.client.identity import named_agent
    from ackd.coordination.pipeline.door import StoryDoor, StoryNotNow

    door, by = StoryDoor(site), named_agent(site, agent)
    try:
        with creating(door.directory):
            started = door.start(ids, after=after, again=again, by=by)
    except StoryNotNow as refused:
        raise Failure(NO, f"{refused}{': --again' if refused.begins_again else ''}") from None
    _say_done(door, started, "started", as_json=as_json)


@story.command
@argument("--watch", action="store_true", help="Follow until all are done, paused or cancelled; then sum up.")
@for_team
def list_(site: Site, as_json: bool, watch: bool) -> None:
    """List every story, with the result of each of its stages."""
    from ackd.coordination.pipeline.door import StoryDoor

    door = StoryDoor(site)
    found = _follow(door, quiet=as_json) if watch else _all(door)
    if as_json:
        from ackd.coordination.pipeline.commands.story_table import plain

        listed = [plain(one, found.stories, found.checkpoints.get(one.story_id)) for one in found.stories]
        print_json({"stories": listed})
    elif not watch or not sys.stdout.isatty():
        _board(found)
    if watch:
        _close(found.stories, quiet=as_json)


@story.command
@argument("wanted", metavar="ID")
@for_team
def show(site: Site, as_json: bool, wanted: str) -> None:
    """Show one story in full: each try of each stage, with its time, score and reason."""
    from ackd.coordination.pipeline.commands.story_table import page, plain, step_of
    from ackd.coordination.pipeline.door import StoryDoor

    door = StoryDoor(site)
    story = door.show(wanted)
    every = _all(door)
    checkpoint = every.checkpoints.get(story.story_id)
    if as_json:
        print_json(plain(story, every.stories, checkpoint))
        return
    for line in page(story, every.stories, time.time(), step_of(checkpoint)):
        say(line)


def _by_hand(name: str, done: str, help_: str, change: Callable[[StoryDoor, Site, tuple[str, ...]], None]) -> Command:
    def run(site: Site, as_json: bool, ids: tuple[str, ...]) -> None:
        from ackd.coordination.pipeline.door import StoryDoor

        door = StoryDoor(site)
        with creating(door.directory):
            change(door, site, ids)
        _say_done(door, list(ids), done, as_json=as_json)

    run.__doc__ = help_
    return Command(argument("ids", nargs="+", metavar="ID...")(for_team(run)), name)


def _resume(door: StoryDoor, site: Site, ids: tuple[str, ...]) -> None:  # noqa: ARG001 - who resumes is not kept
    door.resume(ids)


def _pause(door: StoryDoor, site: Site, ids: tuple[str, ...]) -> None:
    from ackd.client.identity import person_or_agent

    door.pause(ids, by=person_or_agent(site))


def _cancel(door: StoryDoor, site: Site, ids: tuple[str, ...]) -> None:
    from ackd.client.identity import person_or_agent

    door.cancel(ids, by=person_or_agent(site))


story.add(_by_hand("resume", "resumed", "Let paused stories go on at their stage, with fresh budgets.", _resume))
story.add(_by_hand("pause", "paused", "Pause stories: their worker leaves, and the stage begins anew later.", _pause))
story.add(_by_hand("cancel", "cancelled", "Give stories up for good.", _cancel))


# --- shared by the commands -------------------------------------------------------------------------------------------
def _all(door: StoryDoor) -> Stories:
    found = door.stories()
    for bad in found.unreadable:
        echo(printable(f"ackd: {bad}"), err=True)
    return found


def _say_done(door: StoryDoor, ids: list[str], done: str, *, as_json: bool) -> None:
    running = door.daemon_running
    if as_json:
        print_json({"stories": ids, "done": done, "daemon_running": running})
        return
    say(f"{done}: {', '.join(ids)}" + ("" if running else " (waits: no daemon is running)"))


def _board(found: Stories) -> None:
    from ackd.cli.table import print_table
    from ackd.coordination.pipeline.commands.story_table import COLUMNS, STYLES, rows, step_of

    if not found.stories:
        say("no stories: `ackd story start ID` starts one")
        return
    steps = {one.story_id: step_of(found.checkpoints.get(one.story_id)) for one in found.stories}
    print_table(COLUMNS, rows(found.stories, time.time(), steps), STYLES)


def _follow(door: StoryDoor, *, quiet: bool) -> Stories:
    """Follow until no story goes on by itself. A terminal shows the board anew, a pipe gets a line for each change."""
    from ackd.coordination.pipeline.commands.story_table import moving

    shown: dict[str, str] | None = None
    warned = False
    while True:
        found = _all(door)
        if not quiet and sys.stdout.isatty():
            clear_screen()
            _board(found)
        elif not quiet:
            shown = _lines(found.stories, shown)
        if not moving(found.stories):
            return found
        if not warned and not door.daemon_running:
            warned = True
            echo("ackd: no daemon is running: nothing goes on until `ackd run` does", err=True)
        time.sleep(_WATCH_S)


def _close(stories: Sequence[Story], *, quiet: bool) -> None:
    """Print the summary, and end with 1 if a story waits for a person."""
    from ackd.coordination.pipeline.commands.story_table import closing

    for line in closing(stories) if not quiet else ():
        say(line)
    if any(one.state.value == "paused" for one in stories):
        raise Ended(NO)


def _lines(stories: Sequence[Story], shown: dict[str, str] | None) -> dict[str, str]:
    now = {one.story_id: f"{one.state.value}{f': {one.reason}' if one.reason else ''}" for one in stories}
    for name, words in now.items():
        if shown is None or shown.get(name) != words:
            say(f"{name}: {words}")
    return now
