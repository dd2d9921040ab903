from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.coordination.ensemble import wire as ensemble
from ackd.coordination.ensemble.wire import Owner, ReportKind
from ackd.core.names import identity

TEAM = ("conductor", "dispatch", "worker-1", "worker-2", "worker")
SEED = ensemble.routes((), "dispatch", "conductor")


def called(name: str) -> str | None:
    return next((agent for agent in TEAM if identity(agent) == identity(name)), None)


# --- routes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "to", "kind"),
    [
        ("T-1-completed.yaml", "dispatch", ReportKind.COMPLETED),
        ("T-1-completed.yml", "dispatch", ReportKind.COMPLETED),
        ("completion-summary.yaml", "conductor", ReportKind.SUMMARY),
        ("escalation-T-1.yaml", "conductor", ReportKind.ESCALATION),
        ("T-1-review.yaml", "dispatch", ReportKind.REVIEW),
        ("T-1.yaml", None, ReportKind.OTHER),
        ("completed.yaml", None, ReportKind.OTHER),
        ("my-completion-summary.yaml", None, ReportKind.OTHER),
        # Both fit: the seed's order decides.
        ("escalation-T-1-completed.yaml", "dispatch", ReportKind.COMPLETED),
        ("escalation-T-1-review.yaml", "conductor", ReportKind.ESCALATION),
    ],
)
def test_the_seeds_routes_in_their_order(name: str, to: str | None, kind: ReportKind) -> None:
    assert (ensemble.recipient(name, SEED), ensemble.kind_of(name)) == (to, kind)


def test_a_users_routes_come_first_and_in_their_order() -> None:
    own = (("*-deploy.yaml", "operations"), ("T-*", "worker-1"), ("*", "conductor"))
    ways = ensemble.routes(own, "dispatch", "conductor")
    names = ["T-1-deploy.yaml", "T-1-completed.yaml", "X-completed.yaml"]
    assert [ensemble.recipient(name, ways) for name in names] == ["operations", "worker-1", "conductor"]


@pytest.mark.parametrize(
    ("name", "is_yaml", "is_passing"),
    [
        ("T-1.yaml", True, False),
        ("T-1.yml", True, False),
        (".T-1.yaml", False, True),
        ("T-1.yaml.lock", False, True),
        ("T-1.yaml.tmp", False, True),
        ("T-1.yaml~", False, True),
        ("T-1.json", False, False),
    ],
)
def test_drafts_and_locks_are_told_from_reports(name: str, is_yaml: bool, is_passing: bool) -> None:
    assert (ensemble.is_yaml(name), ensemble.is_passing(name)) == (is_yaml, is_passing)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("T-1-completed.yaml", "T-1"),
        ("T-1-review.yml", "T-1"),
        ("escalation-T-1.yaml", "T-1"),
        ("T-1.yaml", "T-1"),
        ("T-1.ack", "T-1"),
        ("completion-summary.yaml", "completion-summary"),
    ],
)
def test_a_report_names_its_task(name: str, task: str) -> None:
    assert ensemble.reported_task(name) == task


# --- owners -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("worker-1.yaml", Owner("worker-1", "")),
        ("worker-1-T-7.yaml", Owner("worker-1", "T-7")),
        ("worker_1_T-7.yaml", Owner("worker-1", "T-7")),
        ("worker-1.T-7.yaml", Owner("worker-1", "T-7")),
        ("worker-T-7.yaml", Owner("worker", "T-7")),
        ("worker-10-T-7.yaml", Owner("worker", "10-T-7")),  # longest name that ends with a word
        ("workers-T-7.yaml", None),
        ("T-7.yaml", None),
        ("../worker-1.yaml", None),
        (".yaml", None),
    ],
)
def test_a_task_is_the_workers_whose_name_its_file_begins_with(name: str, owner: Owner | None) -> None:
    assert ensemble.owner(name, {}, called) == owner


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("w1-T-7.yaml", Owner("worker-1", "T-7")),
        ("w1.yaml", Owner("worker-1", "")),
        ("w12-T-7.yaml", Owner("worker-2", "T-7")),
        ("w13-T-7.yaml", None),
        ("fe12.yaml", Owner("worker-2", "12")),
        ("fetch.yaml", None),
        ("front_end-T-7.yaml", Owner("worker-1", "T-7")),
        ("worker-1-T-7.yaml", Owner("worker-2", "7")),  # what the config says comes before an agent's name
    ],
)
def test_prefixes_of_the_config_come_first_the_longest_of_them(name: str, owner: Owner | None) -> None:
    prefixes = {
        "w1": "worker-1",
        "w12": "worker-2",
        "fe": "worker-2",
        "front-end": "worker-1",
        "worker-1-T": "worker-2",
    }
    assert ensemble.owner(name, prefixes, called) == owner


@given(st.text(max_size=80))
def test_no_name_is_too_strange(name: str) -> None:
    ensemble.owner(name, {"w": "worker-1", "": "worker-2"}, called)
    ensemble.recipient(name, SEED)
    assert ensemble.reported_task(name) in name
