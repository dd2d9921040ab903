"""`ackd stage`, with which a stage worker reports to its lead, and `ackd hook`, which its hooks call.

Everything is done by ``ackd.stage``. A report is checked before it is sent: a text that the lead would not understand
is refused here, with the form that it comes closest to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ackd.cli.command_line import Group, argument, at_least, for_team
from ackd.cli.errors import BAD_DATA, NO, TRY_AGAIN, USAGE, Ended, Failure, WrongUsage, accepted, creating
from ackd.cli.output import echo, print_json, printable, read_stdin, say
from ackd.cli.waiting import waiting

if TYPE_CHECKING:
    from ackd.config.site import Site
    from ackd.coordination.pipeline.rules.stage_words import Report
    from ackd.stage import Stage


stage = Group("""For stage workers: report to the lead, answer a status check, record a checkpoint.""")


@stage.command
@argument("text", nargs="+", metavar="TEXT...")
@argument(
    "--wait",
    dest="wait_s",
    type=at_least(0),
    default=60.0,
    metavar="S",
    help="Seconds to wait for the ACK; then exit 75. 0: do not wait.  [default: %(default)s]",
)
@for_team
def report(site: Site, as_json: bool, text: tuple[str, ...], wait_s: float) -> None:
    """Report the end of a stage, in its exact text (- reads it from stdin), and wait for the ACK.

    \b
    Stage 0 COMPLETE for ID. N tasks created. Plan score: N/4.
    Stage 1 COMPLETE for ID. Verdict: GO. Readiness: N.
    Stage 1 COMPLETE for ID. Verdict: NO-GO. Readiness: N. Reason: TEXT
    Stage 2 COMPLETE for ID. All tasks Done. Story set to To Review.
    Stage 3 COMPLETE for ID. Verdict: PASS|CONCERNS|WAIVED. Quality Score: N/100.
    Stage 3 COMPLETE for ID. Verdict: FAIL. Quality Score: N/100. Issues: TEXT
    Stage N ERROR for ID: TEXT

    Those of stages 1 and 3 may go on, after a full stop, with which agents took part: "Agents: LIST."
    """
    from ackd.stage import Stage

    said = _read(site, text)
    me = Stage.of(site) or Stage(site, said.story, said.stage)
    if (me.story, me.stage) != (said.story, said.stage):
        raise Failure(BAD_DATA, f"this is the worker of stage {me.stage} for {me.story}: it cannot speak for another")
    stays = "interrupted: if the report was sent, it stays sent"
    with creating(site.queue, me.files.directory), waiting(f"for its ACK, {wait_s:g} s at most", stays=stays):
        sent = me.send_report(said, wait_s)
    with accepted(f"{sent.message_id} is reported"):
        if as_json:
            print_json(sent._asdict())
        elif sent.acknowledged:
            say(f"ACK Stage {me.stage} for {me.story}")
        else:
            say(f"reported as {sent.message_id}: not acknowledged yet")
    if wait_s > 0 and not sent.acknowledged:
        raise Ended(TRY_AGAIN)


def _read(site: Site, words: tuple[str, ...]) -> Report:
    from ackd.coordination.pipeline import wire as stage_text
    from ackd.coordination.pipeline.rules.stage_words import MAX_TEXT_CHARS, StandsAt
    from ackd.stage import text_rules

    text = read_stdin(4 * MAX_TEXT_CHARS).decode(errors="replace") if words == ("-",) else " ".join(words)
    try:
        said = stage_text.read(text, *text_rules(site))
    except stage_text.BadStageText as bad:
        raise Failure(BAD_DATA, f"that is no report: {bad}") from None
    if isinstance(said, StandsAt):
        raise WrongUsage("a status is no report: `ackd stage status`")
    return said


@stage.command
@argument("step", nargs="+", metavar="STEP...")
@argument(
    "--doing",
    choices=["EXECUTING", "WAITING", "ERROR"],
    default="EXECUTING",
    help="The kind of answer.  [default: %(default)s]",
)
@for_team
def status(site: Site, as_json: bool, step: tuple[str, ...], doing: str) -> None:
    """Answer a status check: say in words what this worker is doing."""
    me = _worker(site)
    words = " ".join(step)
    if not words.strip().removesuffix("."):
        raise WrongUsage("STEP is empty: say what the worker is doing")
    with creating(site.queue):
        message_id = me.status(words, doing)
    if as_json:
        print_json({"message_id": message_id})
    else:
        say(f"status sent as {message_id}")


@stage.command
@argument(
    "--wait",
    dest="wait_s",
    type=at_least(0),
    default=0.0,
    metavar="S",
    help="Seconds to wait for a status check.  [default: %(default)s]",
)
@for_team
def check(site: Site, as_json: bool, wait_s: float) -> None:
    """Print the status check that waits for an answer (`ackd stage status`); exit 1 if there is none.

    The same stands in the file that ACKD_STATUS_CHECK names, for as long as it waits.
    """
    with waiting(f"for a status check, {wait_s:g} s at most"):
        asked = _worker(site).status_check(wait_s)
    if as_json:
        print_json({"asked": asked})
    elif asked is not None:
        say(asked)
    if asked is None:
        raise Ended(NO)


@stage.command
@argument("action", nargs="+", metavar="ACTION...")
@argument("--done", action="append", metavar="TASK", help="A task that is done. May be given again.")
@argument("--remaining", action="append", metavar="TASK", help="A task that remains. May be given again.")
@for_team
def checkpoint(
    site: Site, as_json: bool, action: tuple[str, ...], done: tuple[str, ...], remaining: tuple[str, ...]
) -> None:
    """Record where the stage stands, for the worker that follows if this one has to be replaced."""
    me = _worker(site)
    with creating(me.files.directory):
        path = me.checkpoint(" ".join(action), done, remaining)
    if as_json:
        print_json({"file": str(path)})
    else:
        say(f"checkpoint kept: {path}")


hook = Group("""Commands that agents' hooks call.""")


@hook.command
@argument(
    "--wait",
    dest="wait_s",
    type=at_least(0),
    default=5.0,
    metavar="S",
    help="Seconds to wait for the ACK before saying that it has not come.  [default: %(default)s]",
)
@for_team
def keepalive(site: Site, as_json: bool, wait_s: float) -> None:
    """Serve as a stage worker's stop hook: exit 2, the reason on stderr, while its report is not acknowledged.

    Exit 0 after the ACK, outside of a stage worker, and when the report was sent once more after a status check and is
    still not acknowledged.
    """
    if not os.environ.get("ACKD_STORY") and not os.environ.get("ACKD_AGENT", "").startswith(("story-", "story_")):
        return  # most agents are no stage workers, and this is known without loading the rest
    from ackd.stage import Stage

    me = Stage.of(site)
    if me is None:
        return
    with creating(me.files.directory):
        decision = me.may_stop(wait_s)
    if as_json:
        print_json({"stay": decision.stays, "reason": decision.reason})
    elif decision.stays:
        echo(printable(decision.reason), err=True)
    if decision.stays:
        raise Ended(USAGE)  # 2: the exit code by which a stop hook makes its agent go on


def _worker(site: Site) -> Stage:
    from ackd.stage import Stage

    me = Stage.of(site)
    if me is None:
        raise WrongUsage("the stage is not known: ACKD_STORY and ACKD_STAGE (or ACKD_AGENT) are not set")
    return me
