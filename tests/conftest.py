"""For every test. A missing tool is a visible skip on a user's machine, and an error where skipping is forbidden (CI)."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

_LONGEST: Final = (
    "real_clis/",  # mostly waiting, one program after the other
    "system_manager/",  # one machine, so all of it is one worker's
    "test_nearly_three_simulated_weeks",
    "faults/test_soak",
    "faults/test_pipeline_storm",
    "simulation/",
    "faults/",
    "acceptance/",
)


#: No test judges by seconds: a loaded machine is no fault of ours.
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure() -> None:
    """A run that is ended by TERM (``timeout``, CI) still ends the processes that its tests have started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, the longest come first: none is left to run alone at the end, with the other workers idle."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: next((n for n, part in enumerate(_LONGEST) if part in item.nodeid), len(_LONGEST)))
        if config.getoption("loadgroup", default=False):
            _name_groups(items)


def _name_groups(items: list[pytest.Item]) -> None:
    """Put each test's group behind its id, by which tests are shared out. pytest-xdist 3.8 does that with an attribute
    that pytest 9.2 does not read any more, so that groups would mean nothing, without a word."""
    for item in items:
        group = _group_of(item)
        if (
            group and hasattr(item, "_id") and not item.nodeid.endswith(group)
        ):  # an older pytest reads xdist's attribute
            item._id = type(item.id).parse(f"{item.nodeid}{group}")


def _group_of(item: pytest.Item) -> str:
    groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
    return f"@{'_'.join(groups)}" if groups else ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take the group away again before anybody notes what failed: `pytest --last-failed` knows a test by its own id."""
    at = report.nodeid.rfind("@")
    if "PYTEST_XDIST_WORKER" not in os.environ and at > report.nodeid.rfind("]"):
        report.nodeid = report.nodeid[:at]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("ACKD_FORBID_SKIPS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"{item.nodeid} was skipped, and ACKD_FORBID_SKIPS is set: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test has to tell beside having passed: how many cases, what was counted."""
    passed = terminalreporter.getreports("passed")
    told = [value for report in passed for name, value in report.user_properties if name == "told"]
    if told:
        terminalreporter.section("told")
        for line in told:
            terminalreporter.write_line(str(line))


@pytest.fixture(autouse=True)
def _no_ackd_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test run by an agent of a real team must not talk to that team."""
    for name in list(os.environ):
        if name.startswith("ACKD_") and name not in {"ACKD_FORBID_SKIPS", "ACKD_HYPOTHESIS_EXAMPLES"}:
            monkeypatch.delenv(name)
