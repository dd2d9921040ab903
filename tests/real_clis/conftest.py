"""A real program beside a real daemon, shared by the tests of one program: it takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.real_clis.programs import why_missing
from tests.real_clis.stage import DELIVERY, Stage, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Tests of one program run in one worker, one after the other.
PROGRAMS = [pytest.param(name, marks=pytest.mark.xdist_group(f"real {name}")) for name in ("claude", "codex", "gemini")]


@pytest.fixture(scope="module", params=PROGRAMS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A module may say how hasty it is: ``DELIVERY``, or what makes it when it is needed."""
    name: str = request.param
    if (why := why_missing(name)) is not None:
        pytest.skip(why)
    said: str | Callable[[], str] = getattr(request.module, "DELIVERY", DELIVERY)
    delivery = said if isinstance(said, str) else said()
    with staged(name, tmp_path_factory.mktemp(name), delivery=delivery) as found:
        yield found


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    """As a test expects it: at its empty input line, with nothing in hand."""
    shared.begin()
    yield shared
    shared.end()
