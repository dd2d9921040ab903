"""[pipeline]: stories through four stages, and the template of the workers that do them.

Has the keys of the tables, and the checks that need no disk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from ackd.config.values import Seconds, Table, Words
from ackd.coordination.pipeline.rules.budgets import Budgets
from ackd.coordination.pipeline.rules.stage_names import (
    DEFAULT_ID_PATTERN,
    TextRules,
    is_lead,
    text_rules,
    whose_worker,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ackd.config.values import Complaint

_Count = Annotated[int, Field(ge=0, le=100)]
#: The rules' own numbers: the defaults of the config are theirs.
_BUDGETS: Final = Budgets()


class StageWorker(Table):
    """The template of workers, one of which is made for each stage and try.

    An ``exec`` worker is asked for a status only if it has a ``heartbeat_timeout_s`` of its own: a command may well be
    quiet."""

    endpoint: Literal["exec", "process", "tmux"] = "exec"
    command: Words = ()
    start: str | None = None
    profile: str = "claude"
    cwd: str = "."
    env: dict[str, str] = Field(default_factory=dict)
    timeout_s: Seconds = 3600
    heartbeat_timeout_s: Seconds | None = None
    probe_timeout_s: Seconds | None = None

    @property
    def in_pane(self) -> bool:
        """True if each worker has a pane of its own, which keeps what was typed into it when the daemon dies."""
        return self.endpoint == "tmux"


class PipelineSettings(Table):
    """``readiness_scale``: the highest readiness there is, 0 being the lowest; 0: any number is one.
    ``report_patience_s``: a worker that says for so long that its report was not acknowledged is asked for its
    status. ``leave_s``: how long one may take to leave after its ACK."""

    worker: StageWorker
    id_pattern: str = DEFAULT_ID_PATTERN
    readiness_scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    max_parallel: Annotated[int, Field(ge=1, le=1000)] = 4
    respawns: _Count = _BUDGETS.respawns
    no_go_retries: _Count = _BUDGETS.no_go
    fail_returns: _Count = _BUDGETS.returns
    report_patience_s: Seconds = 30
    leave_s: Seconds = 10

    @property
    def texts(self) -> TextRules:
        return text_rules(self.id_pattern, self.readiness_scale)

    @property
    def budgets(self) -> Budgets:
        return Budgets(self.respawns, self.no_go_retries, self.fail_returns)


def complaints(pipeline: PipelineSettings, agents: Iterable[str], shared: Iterable[str]) -> Iterator[Complaint]:  # noqa: ARG001 - names no recipient
    try:
        re.compile(pipeline.id_pattern, re.ASCII)
    except re.error as error:
        yield ("pipeline", "id_pattern"), f"no regular expression: {error}"
        return
    yield from _worker_complaints(pipeline.worker)
    for name in agents:
        if is_lead(name) or whose_worker(name, pipeline.id_pattern) is not None:
            yield ("agents", name), "is the pipeline's own: [pipeline] makes it"


def _worker_complaints(worker: StageWorker) -> Iterator[Complaint]:
    if worker.in_pane and not worker.start:
        yield (
            ("pipeline", "worker", "start"),
            "endpoint tmux needs a command to start a pane with: each try has its own",
        )
    if not worker.in_pane and (not worker.command or not worker.command[0]):
        what = f"endpoint {worker.endpoint} needs a command: a list, the program first"
        yield ("pipeline", "worker", "command"), what
    for key in sorted(worker.model_fields_set & ({"command", "timeout_s"} if worker.in_pane else {"start", "profile"})):
        yield ("pipeline", "worker", key), f"has no meaning for endpoint {worker.endpoint}"
    texts = (*worker.command, *worker.env, *worker.env.values(), worker.cwd, worker.start or "")
    if any("\0" in text for text in texts):
        yield ("pipeline", "worker"), "holds a NUL character"
    if any("=" in key or not key for key in worker.env):
        yield ("pipeline", "worker", "env"), "a variable's name must not be empty or hold `=`"
