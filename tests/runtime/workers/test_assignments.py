"""What a worker is told of a message; bodies are hostile until read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackd.runtime.workers.assignments import work_of
from tests.runtime.workers.shop import tell

FILE, CWD = Path("/root/queue/worker/processed/x.mime"), Path("/project/./tree")


@pytest.mark.parametrize(
    ("body", "spec", "tree", "timeout_s"),
    [
        ({}, str(FILE), "/project/tree", 600),
        ({"spec_path": "/a/spec.md"}, "/a/spec.md", "/project/tree", 600),
        ({"spec_path": "docs/../spec.md"}, "/project/tree/spec.md", "/project/tree", 600),
        ({"worktree_path": "sub"}, str(FILE), "/project/tree/sub", 600),
        ({"timeout_seconds": 90}, str(FILE), "/project/tree", 90),
        ({"timeout_seconds": 0.5}, str(FILE), "/project/tree", 0.5),
        ({"timeout_seconds": 10**12}, str(FILE), "/project/tree", 30 * 86400),
        *(
            ({"timeout_seconds": bad}, str(FILE), "/project/tree", 600)
            for bad in (0, -1, True, "60", float("nan"), None)
        ),
        *(({"spec_path": bad}, str(FILE), "/project/tree", 600) for bad in ("", "a\0b", "x" * 5000, 7, None, ["a"])),
    ],
)
def test_the_body_counts_where_it_says_something_sane(
    body: dict[str, object], spec: str, tree: str, timeout_s: float
) -> None:
    work = work_of(tell(), "T-1", body, FILE, CWD, 600)
    assert (work.spec_path, work.worktree_path, work.timeout_s) == (spec, tree, timeout_s)
