"""Reading a worker's line into a value, or into the code for what is wrong with it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.worker import WorkerState
from ackd.endpoints.process import wire as worker_json
from ackd.endpoints.process.wire import BadLine, Checkpoint, Flaw
from ackd.endpoints.process.wire.reading import MAX_TEXT
from ackd.formats.json_line import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = Path(__file__).parent / "corpus"
GOOD = sorted((CORPUS / "good").iterdir())
BAD = sorted((CORPUS / "bad").iterdir())


def line(**said: Any) -> bytes:
    return json.dumps(said).encode() + b"\n"


def good(name: str) -> Any:
    return worker_json.decode((CORPUS / "good" / f"{name}.json").read_bytes())


def refusal(data: bytes) -> BadLine:
    with pytest.raises(BadLine) as caught:
        worker_json.decode(data)
    return caught.value


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


# --- what is right ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_line_is_read_as_what_its_type_says(file: Path) -> None:
    kinds = {
        "heartbeat": worker_json.Heartbeat,
        "progress": worker_json.Progressed,
        "complete": worker_json.Completed,
        "failed": worker_json.Failed,
        "blocked": worker_json.Blocked,
        "context_threshold": worker_json.ContextThreshold,
    }
    said = worker_json.decode(file.read_bytes())
    assert type(said) is kinds[file.stem.partition("--")[0]]


def test_every_type_has_a_good_line_and_every_flaw_a_bad_one() -> None:
    from ackd.endpoints.process.wire.models import FROM_WORKER

    assert {file.stem.partition("--")[0] for file in GOOD} == set(FROM_WORKER)
    # One that is too long is not kept as a file; that keys stand there twice is a bus's flaw, not a worker's.
    assert {file.stem.partition("--")[0] for file in BAD} == set(Flaw) - {Flaw.TOO_LONG, Flaw.DUPLICATE_KEY}


def test_a_heartbeat_says_how_full_its_context_is_what_it_does_and_about_what() -> None:
    assert good("heartbeat") == worker_json.Heartbeat(
        task_id="task_007",
        worker_id="ignitian_1",
        said_at=datetime(2026, 11, 16, 12, 0, 0, 250_000, UTC).timestamp(),
        message_id="1763254800.4242.a1b2c3@ignite.local",
        attempt=1,
        generation=2,
        context_usage=0.42,
        current_step="writing tests",
        state=WorkerState.EXECUTING,
    )


def test_a_worker_may_say_no_more_than_that_it_lives() -> None:
    assert good("heartbeat--of_few_words") == worker_json.Heartbeat()


@pytest.mark.parametrize("usage", [0, 0.0, 0.7, 1, 1.0])
def test_a_context_usage_is_a_share(usage: float) -> None:
    said = worker_json.decode(line(type="heartbeat", context_usage=usage))
    assert isinstance(said, worker_json.Heartbeat)
    assert said.context_usage == usage


def test_progress_knows_its_share_where_the_total_is_known() -> None:
    said = good("progress")
    assert (said.step, said.total_steps, said.percent, said.description) == (2, 5, 40, "wrote the parser")
    assert (said.state, said.context_usage) == (WorkerState.VERIFYING, 0.5)
    assert good("progress--without_a_total").percent is None


def test_progress_may_bring_where_to_go_on_should_its_worker_die() -> None:
    said = worker_json.decode(line(type="progress", task_id="t", step=1, payload={"checkpoint": {"current_step": 1}}))
    assert isinstance(said, worker_json.Progressed)
    assert said.checkpoint == worker_json.checkpoint({"current_step": 1})
    assert good("progress").checkpoint is None


# --- the seed's own form: a base message, and everything in its payload ----------------------------------------------
SEED = {"worker_id": "w1", "timestamp": "2026-11-16T12:00:00Z"}


def in_payload(kind: str, **payload: Any) -> Any:
    return worker_json.decode(line(type=kind, **SEED, payload=payload))


@pytest.mark.parametrize("kind", ["progress", "blocked", "complete", "failed"])
def test_a_line_whose_fields_are_all_in_its_payload_says_what_they_say_at_the_top(kind: str) -> None:
    whole = json.loads((CORPUS / "good" / f"{kind}.json").read_bytes())
    at_the_top = {"type", "worker_id", "timestamp", "payload"}
    payload = {key: value for key, value in whole.items() if key not in at_the_top} | whole["payload"]
    moved = {key: value for key, value in whole.items() if key in at_the_top} | {"payload": payload}
    assert worker_json.decode(line(**moved)) == worker_json.decode(line(**whole))


def test_progress_in_a_payload_may_leave_out_what_the_seed_does_not_name() -> None:
    said = in_payload("progress", task_id="t", current_step="writing tests", mood="good")
    assert (said.task_id, said.step, said.percent, said.description) == ("t", None, None, "writing tests")
    assert in_payload("progress", step="writing tests").description == "writing tests"
    assert in_payload("progress", step=2, total_steps=4).percent == 50
    assert in_payload("progress", step=2, checkpoint={"current_step": 2}).checkpoint.step == 2


def test_blocked_in_a_payload_may_leave_out_what_the_seed_does_not_name() -> None:
    said = in_payload("blocked", task_id="t", need="help")
    assert (said.task_id, said.reason, said.blocker) == ("t", "", None)
    assert in_payload("blocked", reason="no key", blocking_task_id="dba").blocker == "dba"


def test_what_lacks_a_field_at_the_top_may_have_it_in_its_payload() -> None:
    assert worker_json.decode(line(type="progress", task_id="t", payload={"step": 3})) == worker_json.decode(
        line(type="progress", task_id="t", step=3)
    )
    assert refusal(line(type="blocked", task_id="t", payload={"need": "help"})).code == Flaw.MISSING_FIELD


def test_a_line_that_lacks_nothing_keeps_its_payload_to_itself() -> None:
    said = worker_json.decode(line(type="progress", task_id="t", step=1, payload={"description": 5, "total_steps": 0}))
    assert said == worker_json.Progressed(task_id="t", step=1)


@pytest.mark.parametrize(
    "payload", [{"step": -1}, {"step": 6, "total_steps": 5}, {"task_id": 7}, {"step": 1.5}, {"context_usage": 70}]
)
def test_what_is_wrong_in_a_payload_is_refused_by_name(payload: dict[str, Any]) -> None:
    assert refusal(line(type="progress", **SEED, payload=payload)).code == Flaw.BAD_FIELD


def test_a_heartbeat_may_name_its_step_in_its_payload() -> None:
    assert in_payload("heartbeat", current_step="tests", context_usage=0.5) == worker_json.Heartbeat(
        worker_id="w1", said_at=1794830400.0, context_usage=0.5, current_step="tests"
    )
    assert in_payload("heartbeat", current_step=3).current_step is None


def test_a_completion_says_whether_it_was_verified_and_what_it_wrote() -> None:
    said = good("complete")
    assert (said.verification_passed, said.verification_output) == (True, "3 passed")
    assert (said.files_created, said.files_modified) == (("a.py", "テスト.py"), ())
    assert good("complete--not_verified").verification_passed is False


def test_a_failure_brings_its_checkpoint_or_says_where_one_lies() -> None:
    assert good("failed").checkpoint == Checkpoint(
        b'{"task_id":"task_007","current_step":3,"n":1180591620717411303424}', 3
    )
    pathed = good("failed--with_a_path").checkpoint
    assert json.loads(pathed.json) == {"task_id": "task_007", "checkpoint_path": "/tmp/../etc/passwd"}
    assert pathed.step is None
    assert good("failed--for_good").checkpoint is None


def test_blocked_names_its_blocker_if_it_knows_one() -> None:
    assert good("blocked").blocker == "task_006"
    assert good("blocked--by_nobody_named").blocker is None


def test_the_checkpoint_is_all_of_the_payload_as_its_worker_wrote_it() -> None:
    file = CORPUS / "good" / "context_threshold.json"
    said = worker_json.decode(file.read_bytes())
    assert isinstance(said, worker_json.ContextThreshold)
    assert said.checkpoint is not None
    assert json.loads(said.checkpoint.json) == json.loads(file.read_bytes())["payload"]
    assert (said.checkpoint.step, said.context_usage, said.task_id) == (2, 0.7, "task_007")


def test_a_checkpoint_that_is_not_ready_is_none_yet() -> None:
    assert good("context_threshold--not_written_down_yet").checkpoint is None


# --- times ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("in_tokyo")
def test_a_time_without_a_zone_is_read_as_local_and_marked() -> None:
    naive = worker_json.decode(line(type="heartbeat", timestamp="2026-11-16T21:00:00"))
    aware = worker_json.decode(line(type="heartbeat", timestamp="2026-11-16T12:00:00Z"))
    assert naive.said_at == aware.said_at
    assert (naive.naive_time, aware.naive_time) == (True, False)
    assert worker_json.decode(line(type="heartbeat")).naive_time is False


# --- what is wrong --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_line_is_refused_by_name(file: Path) -> None:
    bad = refusal(file.read_bytes())
    assert bad.code == file.stem.partition("--")[0]
    assert str(bad) == bad.detail != ""
    assert len(bad.detail) < 500


def test_a_line_that_is_too_long_is_refused_before_it_is_read() -> None:
    whole = line(type="heartbeat", current_step="")
    longest = whole.replace(b'""', b'"' + b"x" * (worker_json.MAX_LINE_BYTES - len(whole)) + b'"')
    assert len(longest) == worker_json.MAX_LINE_BYTES
    worker_json.decode(longest)
    assert refusal(longest + b"\n").code == Flaw.TOO_LONG == worker_json.too_long().code


def test_depth_counts_brackets_that_nest_and_no_others() -> None:
    worker_json.decode(line(type="heartbeat", payload={"many": [[]] * 500, "text": "[{" * 500}))
    inner: list[Any] = []
    for _ in range(MAX_DEPTH - 3):
        inner = [inner]
    worker_json.decode(line(type="heartbeat", payload={"deep": inner}))
    assert refusal(line(type="heartbeat", payload={"deep": [inner]})).code == Flaw.TOO_DEEP


def test_every_wrong_field_is_named_up_to_three() -> None:
    bad = refusal(line(type="heartbeat", context_usage=70, current_step=3, timestamp=1, worker_id=2))
    assert bad.detail.count(": ") >= 3
    assert bad.detail.endswith("; and 1 more")


def test_a_type_that_only_ackd_says_is_refused_as_that() -> None:
    assert "ackd says that" in refusal(line(type="shutdown")).detail


# --- texts for people -----------------------------------------------------------------------------------------------
def test_texts_are_cut_where_they_matter_least() -> None:
    long = "b" + "x" * 2 * MAX_TEXT + "e"
    blocked = worker_json.decode(line(type="blocked", task_id="t", reason=long))
    assert isinstance(blocked, worker_json.Blocked)
    assert blocked.reason == long[:MAX_TEXT]
    done = worker_json.decode(line(type="complete", task_id="t", verification_passed=False, verification_output=long))
    assert isinstance(done, worker_json.Completed)
    assert done.verification_output == long[-MAX_TEXT:]


# --- checkpoints that were kept -------------------------------------------------------------------------------------
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.integers(0, 10**6), st.dictionaries(st.text(min_size=1), _json, max_size=4))
def test_a_checkpoint_comes_back_as_it_was_given(step: int, data: dict[str, Any]) -> None:
    payload = {"task_id": "t", "current_step": step, "data": data}
    said = worker_json.decode(line(type="context_threshold", payload=payload))
    assert isinstance(said, worker_json.ContextThreshold)
    assert said.checkpoint is not None
    assert (
        worker_json.read_checkpoint(said.checkpoint.json) == said.checkpoint == Checkpoint(said.checkpoint.json, step)
    )
    work = worker_json.Assignment(
        "t", "/s", "/w", 60, "1.2@x", "user", "message", "normal", 1, 1, None, said.checkpoint
    )
    assert json.loads(worker_json.assign("w", 0.0, work))["payload"]["checkpoint"] == payload


@pytest.mark.parametrize("filler", [["語" * 300_000], [1e5] * 150_000])
def test_the_largest_checkpoint_that_can_be_said_can_be_kept(filler: list[Any]) -> None:
    text = json.dumps({"task_id": "t", "current_step": 1, "data": filler}, ensure_ascii=False).replace(
        "100000.0", "1e5"
    )
    said = worker_json.decode(f'{{"type":"context_threshold","payload":{text}}}'.encode())
    assert isinstance(said, worker_json.ContextThreshold)
    assert said.checkpoint is not None
    assert worker_json.read_checkpoint(said.checkpoint.json) == said.checkpoint


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{", b"null", b"\0" * 30, b'{"a":' * 100])
def test_a_file_that_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(BadLine):
        worker_json.read_checkpoint(data)


@pytest.mark.parametrize("step", ["3", 1.5, True, -1, None])
def test_a_checkpoint_with_a_step_of_its_own_kind_is_kept_without_a_count(step: object) -> None:
    assert worker_json.read_checkpoint(line(current_step=step)).step is None


# --- whatever comes in ----------------------------------------------------------------------------------------------
@given(st.binary(max_size=300) | _json.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_worker_writes_it_is_read_or_refused_by_name(data: bytes) -> None:
    try:
        worker_json.decode(data)
    except BadLine as bad:
        assert bad.code in set(Flaw)


@given(
    st.fixed_dictionaries(
        {"context_usage": st.floats(0, 1) | st.none(), "current_step": st.text(min_size=1) | st.none()},
        optional={"worker_id": st.text(), "extra": _json},
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "task_id": st.text(min_size=1, max_size=50),
            "message_id": st.text(min_size=1, max_size=50),
            "attempt": st.integers(0, 2**63),
            "generation": st.integers(0, 2**63),
            "state": st.sampled_from([state.value for state in WorkerState]),
        },
    ),
)
def test_what_a_heartbeat_says_is_what_was_said(top: dict[str, Any], payload: dict[str, Any]) -> None:
    said = asdict(worker_json.decode(line(type="heartbeat", **top, payload=payload)))
    state = said.pop("state")
    assert (state and state.value) == payload.pop("state", None)
    top.pop("extra", None)
    unsaid = dict.fromkeys(said) | {"naive_time": False}
    assert said == unsaid | top | payload
