from __future__ import annotations

import pytest

from ackd.coordination.ensemble.drafts import EnsembleDrafts, FileVersion, digest_of
from ackd.coordination.ensemble.rules.dispatches import Dispatch
from ackd.coordination.ensemble.settings import EnsembleSettings, Route
from ackd.core.words import Priority
from tests.coordination.ensemble.ensemble_team import called

GIVEN = Dispatch("m1", "worker-1", ("T-1", "worker-1-T-1"), "queue/tasks/worker-1-T-1.yaml", 1000, 0.0, 0.0)
REVIEW = Dispatch("m2", "worker-2", ("T-1",), "queue/tasks/worker-2-review-T-1.yaml", 2000, 0.0, 0.0)


def letters(**config: object) -> EnsembleDrafts:
    return EnsembleDrafts(EnsembleSettings(**config), called, 1_048_576)  # type: ignore[arg-type]


def sheet(name: str, text: str = "status: success\n", place: str = "reports", version: int = 1) -> FileVersion:
    data = text.encode()
    return FileVersion(f"{place}/{name}", name, f"queue/{place}/{name}", version, digest_of(data), data)


@pytest.mark.parametrize(
    ("name", "text", "sender", "to", "type_", "answers", "completes"),
    [
        ("T-1-completed.yaml", "status: success\n", "worker-1", "dispatch", "task_completed", "m1", True),
        ("T-1-completed.yaml", "{not yaml", "worker-1", "dispatch", "task_completed", "m1", True),
        ("T-1.yaml", "status: success\n", "worker-1", "dispatch", "task_completed", "m1", True),
        ("worker-1-T-1.yaml", "x: y\n", "worker-1", "dispatch", "task_completed", "m1", True),
        ("T-1.yaml", "status: in_progress\n", "worker-1", "dispatch", "progress_update", "m1", False),
        ("notes.yaml", "task_id: T-1\n", "worker-1", "dispatch", "message", "m1", False),
        ("T-9.yaml", "task_id: T-9\n", "ensemble", "dispatch", "task_completed", None, False),
        ("T-9.yaml", "hello: there\n", "ensemble", "dispatch", "message", None, False),
        ("T-9-completed.yaml", "worker_id: 2\n", "worker-2", "dispatch", "task_completed", None, False),
        ("T-1-completed.yaml", "worker: worker_2\n", "worker-2", "dispatch", "task_completed", None, False),
        ("T-1-completed.yaml", "from: queue_monitor\n", "worker-1", "dispatch", "task_completed", "m1", True),
        ("escalation-T-1.yaml", "why: stuck\n", "worker-1", "conductor", "escalation", "m1", False),
        ("completion-summary.yaml", "a: b\n", "dispatch", "conductor", "task_completed", None, False),
        ("T-1-review.yaml", "result: approved\n", "ensemble", "dispatch", "evaluation_result", None, False),
    ],
)  # fmt: skip
def test_a_report_is_from_whom_it_says_and_answers_its_task(
    name: str, text: str, sender: str, to: str, type_: str, answers: str | None, completes: bool
) -> None:
    report = letters().report(sheet(name, text), [GIVEN], 9000)
    draft = report.draft
    assert (draft.sender, draft.recipient, draft.type, draft.in_reply_to) == (sender, to, type_, answers)
    assert report.completes is completes


def test_a_review_answers_who_was_asked_for_it_and_says_its_verdict() -> None:
    report = letters().report(sheet("T-1-review.yaml", "result: approved\n"), [GIVEN, REVIEW], 9000)
    assert (report.draft.sender, report.draft.in_reply_to, report.completes) == ("worker-2", "m2", True)
    assert (report.draft.body["overall_status"], report.draft.body["task_id"]) == ("approved", "T-1")


def test_an_escalation_is_critical_and_a_route_of_ones_own_comes_first() -> None:
    ways = letters(routes=(Route(match="escalation-*", to="worker-2"), Route(match="*.md", to="worker-1")))
    draft = ways.report(sheet("escalation-1.yaml"), [], 9000).draft
    assert (draft.recipient, draft.priority) == ("worker-2", Priority.CRITICAL)
    assert ways.is_report("T-1.md")
    assert ways.report(sheet("T-1.md", "# done\n"), [], 9000).draft.recipient == "worker-1"
    assert not letters().is_report("T-1.md")


@pytest.mark.parametrize(
    ("name", "text", "to", "sender", "type_", "names"),
    [
        ("worker-1-T-1.yaml", "task_id: JOB\n", "worker-1", "dispatch", "task_assignment", ("JOB", "T-1", "worker-1-T-1")),
        ("worker_2.yaml", "id: 7\n", "worker-2", "dispatch", "task_assignment", ("7", "worker_2")),
        ("fe-T-1.yaml", "a: b\n", "worker-1", "dispatch", "task_assignment", ("T-1", "fe-T-1")),
        ("dispatch-plan.yaml", "a: b\n", "dispatch", "conductor", "task_assignment", ("plan", "dispatch-plan")),
        ("worker-2-review-T-1.yaml", "a: b\n", "worker-2", "dispatch", "evaluation_request", ("review-T-1", "worker-2-review-T-1")),
        ("T-1.yaml", "assigned_to: worker_2\n", "worker-2", "dispatch", "task_assignment", ("T-1",)),
    ],
)  # fmt: skip
def test_a_task_is_for_its_worker_by_the_names_that_others_may_use(
    name: str, text: str, to: str, sender: str, type_: str, names: tuple[str, ...]
) -> None:
    task = letters(workers={"fe": "worker_1"}).task(sheet(name, text, "tasks"))
    assert task is not None
    draft = task.draft
    assert (draft.recipient, draft.sender, draft.type, task.names) == (to, sender, type_, names)


@pytest.mark.parametrize("text", ["assigned_to: user\n", "assigned_to: nobody\n", "{", "- worker-1\n"])
def test_a_task_for_nobody_is_none(text: str) -> None:
    assert letters().task(sheet("T-1.yaml", text, "tasks")) is None


def test_an_id_tells_files_versions_and_contents_apart_and_nothing_else() -> None:
    one = sheet("a.yaml")
    others = [sheet("b.yaml"), sheet("a.yaml", "x: y\n"), sheet("a.yaml", version=2), sheet("a.yaml", place="tasks")]
    assert one.message_id == sheet("a.yaml").message_id
    assert len({one.message_id, *(other.message_id for other in others)}) == 5
