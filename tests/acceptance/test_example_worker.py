"""The example of a worker, run as it is, with a model of our own."""

from __future__ import annotations

import json
from pathlib import Path

from ackd.endpoints.process.wire import Blocked, Completed, ContextThreshold
from tests.worker.children import child

EXAMPLE = Path(__file__).parents[2] / "config" / "examples" / "worker.py"
MODEL = """#!/bin/sh
echo "$1" | head -n 1 | cut -d: -f1 | tr ' ' _ >> notes
case "$1" in
    "read the task"*) echo '{"text": "BLOCKED by a missing schema", "context_usage": 0.4}' ;;
    "write the tests"*) echo '{"text": "three tests", "context_usage": 0.75}' ;;
    "write the code"*) echo '{"text": "forty lines", "context_usage": 0.2}' ;;
    *) echo '{"text": "approved", "context_usage": 0.3}' ;;
esac
"""


def test_the_example_works_on_after_a_fresh_worker_took_over(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text(MODEL)
    (tmp_path / "agent").chmod(0o700)
    script = f"import runpy; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    with child(tmp_path, "", run=script) as worker:
        worker.assign()
        assert worker.hear(Blocked).reason == "BLOCKED by a missing schema"
        handed = worker.hear(ContextThreshold)
        assert (handed.checkpoint and handed.checkpoint.step, handed.context_usage) == (2, 0.75)
        worker.shut_down()
        assert worker.ended() == 0
    assert handed.checkpoint is not None
    assert json.loads(handed.checkpoint.json)["data"] == {"answers": ["BLOCKED by a missing schema", "three tests"]}
    with child(tmp_path, "", run=script) as worker:
        worker.assign(attempt=2, checkpoint=handed.checkpoint)
        done = worker.hear(Completed)
        assert (done.verification_passed, done.verification_output) == (True, "approved")
        assert worker.done() == ["read_the_task", "write_the_tests", "write_the_code", "review_it"]
