"""`ackd story`: stories by hand. Start them, look at them, pause, resume and cancel them.

Owns the command lines. Each changes a story's record, which the daemon looks at when it changes; so all of this works
without one as well, and waits for it. What may be done to a story is core/story's to say.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from ackd.frontends.cli.errors import BAD_CONFIG, BAD_DATA, NO, NOT_FOUND, TRY_AGAIN, Ended, Failure, creating
from ackd.frontends.cli.options import Commands, site_options
from ackd.frontends.cli.output import clear_screen, echo, print_json, printable, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ackd.adapters.story_files import StoryFiles
    from ackd.core.story_decisions import Decision
    from ackd.core.story_record import Story
    from ackd.site import Site

_WATCH_S: Final = 0.5


@click.group(cls=Commands)
def story() -> None:
    """Stories through four stages: start them, watch them, pause, resume or cancel them."""


@story.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--after", multiple=True, metavar="ID", help="Not before this story is done. May be given again.")
@click.option("--again", is_flag=True, help="Also one that is done or cancelled: it begins anew.")
@click.option("--agent", metavar="NAME", help="Who asks, and waits for them (default: ACKD_AGENT, or this pane's).")
@site_options
def start(
    site: Site, as_json: bool, ids: tuple[str, ...], after: tuple[str, ...], again: bool, agent: str | None
) -> None:
    """Start stories: each goes through stages 0 to 3, in turn, so many at a time as max_parallel says."""
    from ackd.core.story import StoryState
    from ackd.core.story_record import Story as Record
    from ackd.stage import checked_id

    files, by = _files(site), _asker(site, agent)
    wanted, before = [checked_id(site, one) for one in ids], tuple(checked_id(site, one) for one in after)
    with creating(files.directory), files.locked():
        known = {one.story_id: one for one in files.all()[0]}
        _check_order(wanted, before, known)
        for one in wanted:
            _check_old(known.get(one), again=again)
        number = max((one.sequence for one in known.values()), default=0)
        for one in dict.fromkeys(wanted):
            number += 1
            now = time.time()
            earlier = known[one].generation if one in known else 0
            files.drop_checkpoint(one)
            anew = Record(one, StoryState.WAITING, now, number, after=before, since=now, moves=1, started_by=by)
            files.write(replace(anew, earlier=earlier))
    _say_done(site, wanted, "started", as_json=as_json)


def _asker(site: Site, given: str | None) -> str | None:
    """The agent that will wait for them; None for a person, whom nobody would call idle."""
    from ackd.core.names import USER
    from ackd.frontends.cli.whose import said

    name = said(site, given)
    return name if name != USER else None


def _check_old(old: Story | None, *, again: bool) -> None:
    """Begun anew only when it has ended, and when nobody is left who could speak for it."""
    from ackd.core.story import ENDS, StoryState

    if old is None:
        return
    if not (old.state in ENDS and (again or old.state is StoryState.CANCELLED)):
        raise Failure(NO, f"{old.story_id} is {old.state.value} already{': --again' if old.state in ENDS else ''}")
    if any(not one.settled for one in old.tries):
        raise Failure(TRY_AGAIN, f"the last worker of {old.story_id} has not left yet: a running daemon sees to that")


def _check_order(wanted: list[str], before: tuple[str, ...], known: dict[str, Story]) -> None:
    from ackd.core.names import identity

    for one in before:
        if one in wanted:
            raise Failure(BAD_DATA, f"{one} cannot come after itself")
        if one not in known:
            raise Failure(NOT_FOUND, f"there is no story {one} to come after: start it first")
    for one in wanted:
        if (circle := _waits_for(one, before, known)) is not None:
            raise Failure(BAD_DATA, f"{one} and {circle} would wait for each other")
    names = {identity(one): one for one in (*known, *wanted)}
    for one in wanted:
        if names[identity(one)] != one:
            raise Failure(BAD_DATA, f"{one} and {names[identity(one)]} would be one: `-` and `_` are the same in names")


def _waits_for(one: str, before: tuple[str, ...], known: dict[str, Story]) -> str | None:
    """Which of these waits, itself or through others, for this one; None if none does."""
    from ackd.core.story import ENDS

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


@story.command("list")
@click.option("--watch", is_flag=True, help="Follow until all are done, paused or cancelled; then a summary.")
@site_options
def list_(site: Site, as_json: bool, watch: bool) -> None:
    """The stage board: every story, and how each of its stages went."""
    files = _files(site)
    stories = _follow(site, files, quiet=as_json) if watch else _all(files)
    if as_json:
        from ackd.frontends.story_board import plain

        print_json([plain(one, stories, _checkpoint(files, one)) for one in stories])
    elif not watch or not sys.stdout.isatty():
        _board(files, stories)
    if watch:
        _close(stories, quiet=as_json)


@story.command()
@click.argument("wanted", metavar="ID")
@site_options
def show(site: Site, as_json: bool, wanted: str) -> None:
    """One story in full: each try of each stage, with its time, score and reason."""
    from ackd.frontends.story_board import page, plain, step_of
    from ackd.stage import checked_id

    files = _files(site)
    found = files.read(checked_id(site, wanted))
    if found is None:
        raise Failure(NOT_FOUND, f"there is no story {wanted} here")
    stories = _all(files)
    if as_json:
        print_json(plain(found, stories, _checkpoint(files, found)))
        return
    for line in page(found, stories, time.time(), step_of(_checkpoint(files, found))):
        say(line)


def _by_hand(name: str, done: str, help_: str, decide: Callable[[Story, str], Decision]) -> click.Command:
    def run(site: Site, as_json: bool, ids: tuple[str, ...]) -> None:
        from ackd.stage import checked_id

        files, by = _files(site), _who(site)
        for one in [checked_id(site, one) for one in ids]:
            with creating(files.directory):
                before, after = files.change(one, lambda it: None if it is None else decide(it, by).story)
            if before is None:
                raise Failure(NOT_FOUND, f"there is no story {one} here")
            if after is before:
                raise Failure(NO, f"{one} is {before.state.value}: it cannot be {done}")
        _say_done(site, list(ids), done, as_json=as_json)

    run.__doc__ = help_
    command = click.argument("ids", nargs=-1, required=True, metavar="ID...")(site_options(run))
    return click.command(name)(command)


def _resumed(one: Story, by: str) -> Decision:  # noqa: ARG001 - who resumes it is nowhere kept
    from ackd.core.story_decisions import resumed

    return resumed(one, time.time())


def _held(one: Story, by: str) -> Decision:
    from ackd.core.story_decisions import held

    return held(one, by, time.time())


def _dropped(one: Story, by: str) -> Decision:
    from ackd.core.story_decisions import dropped

    return dropped(one, by, time.time())


story.add_command(
    _by_hand("resume", "resumed", "Let paused stories go on at their stage, with fresh budgets.", _resumed)
)
story.add_command(
    _by_hand("pause", "paused", "Pause stories: their worker leaves, and the stage begins anew later.", _held)
)
story.add_command(_by_hand("cancel", "cancelled", "Give stories up for good.", _dropped))


# --- what they share --------------------------------------------------------------------------------------------------
def _files(site: Site) -> StoryFiles:
    from ackd.stage import files_of

    if site.pipeline is None:
        raise Failure(BAD_CONFIG, "this team has no pipeline: a table [pipeline] with [pipeline.worker] makes one")
    return files_of(site)


def _all(files: StoryFiles) -> list[Story]:
    stories, bad = files.all()
    for one in bad:
        echo(printable(f"ackd: {one}"), err=True)
    return stories


def _who(site: Site) -> str:
    from ackd.frontends.cli.whose import agent_here

    return agent_here(site) or "user"


def _say_done(site: Site, ids: list[str], done: str, *, as_json: bool) -> None:
    from ackd.adapters import root_lock

    running = root_lock.holder(site.run) is not None
    if as_json:
        print_json({"stories": ids, "done": done, "daemon_running": running})
        return
    say(f"{done}: {', '.join(ids)}" + ("" if running else " (waits: no daemon is running)"))


def _checkpoint(files: StoryFiles, story: Story) -> Mapping[str, object] | None:
    """Of the worker that is at it."""
    return files.checkpoint(story.story_id, story.stage) if story.current is not None else None


def _board(files: StoryFiles, stories: list[Story]) -> None:
    from ackd.frontends.cli.table import print_table
    from ackd.frontends.story_board import COLUMNS, STYLES, rows, step_of

    if not stories:
        say("no stories: `ackd story start ID` starts one")
        return
    steps = {one.story_id: step_of(_checkpoint(files, one)) for one in stories}
    print_table(COLUMNS, rows(stories, time.time(), steps), STYLES)


def _follow(site: Site, files: StoryFiles, *, quiet: bool) -> list[Story]:
    """Until none goes on by itself. On a terminal the board is drawn anew; into a pipe goes a line for each change."""
    from ackd.adapters import root_lock
    from ackd.frontends.story_board import moving

    shown: dict[str, str] | None = None
    warned = False
    while True:
        stories = _all(files)
        if not quiet and sys.stdout.isatty():
            clear_screen()
            _board(files, stories)
        elif not quiet:
            shown = _lines(stories, shown)
        if not moving(stories):
            return stories
        if not warned and root_lock.holder(site.run) is None:
            warned = True
            echo("ackd: no daemon is running: nothing goes on until `ackd run` does", err=True)
        time.sleep(_WATCH_S)


def _close(stories: list[Story], *, quiet: bool) -> None:
    """The summary; exit 1 if a person is wanted."""
    from ackd.frontends.story_board import closing

    for line in closing(stories) if not quiet else ():
        say(line)
    if any(one.state.value == "paused" for one in stories):
        raise Ended(NO)


def _lines(stories: list[Story], shown: dict[str, str] | None) -> dict[str, str]:
    now = {one.story_id: f"{one.state.value}{f': {one.reason}' if one.reason else ''}" for one in stories}
    for name, words in now.items():
        if shown is None or shown.get(name) != words:
            say(f"{name}: {words}")
    return now
