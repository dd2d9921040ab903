"""The subject of a message in a list."""

from __future__ import annotations

import pytest

from ackd.client import mail


@pytest.mark.parametrize(
    ("body", "subject"),
    [
        (b"agent: b\nsummary: |\n  two lines\n  of it\ntitle: t\n", "two lines"),
        (b"repository: o/r\ntitle: 'it''s broken'\n", "it's broken"),
        (b'goal: "say \\"hi\\""\n', 'say "hi"'),
        (b"task_id: T1\nreason: exit 3\nmessage: >-\n  folded\n", "folded"),
        (b"task_id: T1\nreason: exit 3\n", "exit 3"),
        (b"agent: b\ntask_id: T1\n", "T1"),
        (b"summary:\n  total: 5\ntask_id: T1\n", "T1"),
        (b"strategy:\n  title: nested\n", "strategy:"),
        (b"\n  just words\n", "just words"),
        (b"", ""),
        (b"\xff\ntitle: |\n", "\ufffd"),
    ],
)
def test_the_subject_is_what_tells_most(body: bytes, subject: str) -> None:
    assert mail.subject(body) == subject
