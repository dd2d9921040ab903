from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import anyio

from ackd.runtime.pipeline.lead import Lead
from tests.runtime.pipeline.lectern import NEW, lectern

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.config import Config


async def test_a_story_that_cannot_be_written_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with lectern(tmp_path) as desk:
        desk.files.change("A-2", lambda _: replace(NEW, story_id="A-2"))
        decide, decided = desk.conduct.decide, list[str]()

        async def refused(story_id: str, *words: Any, **more: Any) -> Any:
            if story_id == "A-1":
                raise OSError(40, "Too many levels of symbolic links")
            decided.append(story_id)
            return await decide(story_id, *words, **more)

        desk.conduct.decide = refused  # type: ignore[method-assign]
        desk.workers.settled_in = anyio.Event()  # type: ignore[attr-defined]
        desk.workers.settled_in.set()  # type: ignore[attr-defined]
        desk.workers.lost = {}  # type: ignore[attr-defined]
        lead = Lead(config=cast("Config", SimpleNamespace()), conduct=desk.conduct)
        await lead.look(None)
        desk.conduct.tasks.cancel_scope.cancel()
    assert decided == ["A-2"]
    assert [data["what"] for type_, data in desk.facts if type_ == "io_error"] == ["story A-1"]
