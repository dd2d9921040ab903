"""Proof that the crash tests can fail: a daemon with one rule taken away is found out, and the interposer does its work."""

from __future__ import annotations

import errno
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults import test_crash_send
from tests.faults.crash_cases import in_memory, run_case
from tests.faults.crash_processes import Fault
from tests.faults.crash_scripts import SCRIPTS, Stage

if TYPE_CHECKING:
    from tests.faults.crash_processes import Zygote

HANDLER = SCRIPTS["a_handler_completes_two"]


def found_out(zygote: Zygote, broken: str, only: str) -> list[str]:
    """What is wrong after a kill right after such a call. The first may fail, for want of a directory."""
    problems: list[str] = []
    for number in (1, 2):
        verdict = run_case(zygote, HANDLER, Fault("kill after", number, only=only), broken=broken, patience_s=5)
        assert verdict.notes, verdict
        problems += verdict.problems
    return problems


def test_a_move_that_unlinks_first_is_found_to_lose_messages(zygote: Zygote) -> None:
    problems = found_out(zygote, "unlink first", "unlink */queue/scribe/*.mime*")
    assert any("files in {}" in problem for problem in problems), problems


def test_a_daemon_that_remembers_nothing_is_found_to_leave_messages_without_an_end(zygote: Zygote) -> None:
    problems = found_out(zygote, "no journal and no memory", "rename */scribe/processed/*.mime */archive/*")
    assert any("the log says {}" in problem for problem in problems), problems


def test_a_message_that_is_run_again_after_its_end_is_found(zygote: Zygote) -> None:
    """The archive is a copy: what was completed stays in hand, and the next start offers it again."""
    problems = found_out(zygote, "archive by copy", "write */archive/*")
    assert any("before its end was on disk" in problem for problem in problems), problems


def test_a_send_that_writes_in_place_is_found_to_show_halves(zygote: Zygote) -> None:
    found = [
        line
        for n in range(1, 16)
        for line in test_crash_send.problems_of(zygote, ("scribe",), Fault("kill before", n), broken="written in place")
    ]
    assert any("half a message" in line for line in found)


def test_a_gateway_that_notes_before_it_mails_is_found_to_skip_a_task(zygote: Zygote) -> None:
    """The first register is an empty one."""
    fault = Fault("kill after", 2, only="rename */state/gateways/.ensemble.json.tmp *")
    team = SCRIPTS["an_ensemble_team_gives_out_acks_and_reports"]
    verdict = run_case(zygote, team, fault, broken="noted before mailed", patience_s=5)
    assert verdict.notes, verdict
    assert any("not at rest" in problem for problem in verdict.problems), verdict
    assert not run_case(zygote, team, fault).problems


@pytest.mark.parametrize(("action", "code"), [("kill before", -9), ("kill after", -9), ("fail", 73)])
def test_the_interposer_strikes_at_the_call_it_was_told(zygote: Zygote, action: str, code: int) -> None:
    """By the rename that makes a sent message visible: before it there is none, after it there is one."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        stage = Stage(Path(place))
        assert test_crash_send.send(zygote, stage, ("scribe",), Fault("record")) == 0
        record = (stage.place / "notes").read_text().splitlines()
    shown = next(n for n, line in enumerate(record, 1) if "\trename\t" in line)
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        stage = Stage(Path(place))
        fault = Fault(action, shown, errno.EIO if action == "fail" else 0)
        assert test_crash_send.send(zygote, stage, ("scribe",), fault) == code
        assert len(test_crash_send.visible(stage)) == (action == "kill after")


def test_what_the_daemon_starts_is_not_counted(zygote: Zygote) -> None:
    """Its commands write below the root, too: into the directories of their runs."""
    notes = run_case(zygote, SCRIPTS["a_command_completes"], Fault("record")).notes
    assert not [note for note in notes if re.search(r"open state/runs/.*/started$", note)]
    assert [note for note in notes if re.search(r"open state/runs/.*/spec.json$", note)]
