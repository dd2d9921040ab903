"""The shapes of bodies once more, as plain data: for `ackd send`, which cannot wait for pydantic.

Owns a quick yes. Refuses to explain a no: the caller then imports ``bodies`` and asks ``check``. The two are kept the
same by a test that breaks every field of every example in every way. Never fails.

A shape is a kind (below), a list of one shape, a tuple of allowed texts, or a mapping of keys to shapes. A key ending
in ``?`` may be absent or null; keys beyond the shape are allowed.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Shape: TypeAlias = "str | list[Any] | tuple[str, ...] | dict[str, Any]"

TEXT: Final = "text"  # not empty
NOTE: Final = "note"  # any text
COUNT: Final = "count"  # a whole number from 0
AMOUNT: Final = "amount"  # a number from 0
PERCENT: Final = "percent"  # a whole number from 0 to 100
FLAG: Final = "flag"

_DELIVERABLE: Final = {"file": TEXT, "location": TEXT, "description?": NOTE}
_OUTCOME: Final = {"task_id": TEXT, "title": TEXT, "execution_time?": AMOUNT, "notes?": NOTE}

SHAPES: Final[dict[str, dict[str, Shape]]] = {
    "user_goal": {"goal": TEXT, "context?": NOTE},
    "strategy_request": {"goal": TEXT, "requirements": [TEXT], "context?": NOTE},
    "strategy_response": {
        "goal": TEXT,
        "strategy": {"approach": TEXT, "phases": [{"phase": COUNT, "name": TEXT, "description": NOTE}]},
        "task_count": COUNT,
        "estimated_duration?": AMOUNT,
        "risks?": [TEXT],
        "recommendations?": [TEXT],
    },
    "task_list": {
        "goal": TEXT,
        "strategy_summary": NOTE,
        "tasks": [
            {
                "task_id": TEXT,
                "title": TEXT,
                "description": NOTE,
                "phase": COUNT,
                "priority": ("critical", "high", "normal", "low"),
                "deliverables": [TEXT],
                "estimated_time?": AMOUNT,
                "dependencies?": [TEXT],
                "skills_required?": [TEXT],
            }
        ],
    },
    "task_assignment": {
        "task_id": TEXT,
        "title": TEXT,
        "description": NOTE,
        "instructions": TEXT,
        "deliverables": [TEXT],
        "skills_required?": [TEXT],
        "estimated_time?": AMOUNT,
    },
    "evaluation_request": {
        "task_id": TEXT,
        "title": TEXT,
        "deliverables": [_DELIVERABLE],
        "requirements": [TEXT],
        "criteria": [TEXT],
    },
    "evaluation_result": {
        "repository": TEXT,
        "task_id": TEXT,
        "title": TEXT,
        "overall_status": TEXT,
        "score": AMOUNT,
        "checks_performed": [{"check": TEXT, "status": TEXT, "details?": NOTE}],
        "next_action": TEXT,
        "issues_found?": [{"severity": TEXT, "description": TEXT, "location?": NOTE, "recommendation?": NOTE}],
        "recommendations?": [TEXT],
    },
    "improvement_request": {
        "task_id": TEXT,
        "target": TEXT,
        "issues": [{"issue": TEXT, "severity": TEXT, "location": TEXT, "suggested_fix?": NOTE}],
    },
    "improvement_suggestion": {
        "title": TEXT,
        "category": TEXT,
        "current_situation": {"description": TEXT, "issues": [TEXT]},
        "proposed_improvement": {"description": TEXT, "approach": TEXT, "benefits": [TEXT]},
        "implementation_plan": [{"step": COUNT, "action": TEXT, "effort?": NOTE}],
        "priority": TEXT,
        "estimated_effort?": NOTE,
    },
    "progress_update": {
        "repository": TEXT,
        "summary": TEXT,
        "issue?": COUNT,
        "stage?": NOTE,
        "percent?": PERCENT,
        "message?": NOTE,
        "total_tasks?": COUNT,
        "completed?": COUNT,
        "in_progress?": COUNT,
        "pending?": COUNT,
        "final?": FLAG,
    },
    "escalation": {
        "agent": TEXT,
        "cause": TEXT,
        "summary": TEXT,
        "action": TEXT,
        "what_happened": [{"at": TEXT, "what": TEXT, "why?": NOTE}],
        "message?": {"message_id": TEXT, "type": TEXT, "from": TEXT, "to": TEXT, "file?": NOTE},
        "counted?": COUNT,
    },
    "dead_letter": {
        "message_id": TEXT,
        "type": TEXT,
        "to": TEXT,
        "reason": TEXT,
        "retry_count": COUNT,
        "how_to_requeue": TEXT,
        "error_at?": NOTE,
        "file?": NOTE,
    },
}
#: task_completed is two shapes, told apart by its status.
OUTCOMES: Final[dict[str, dict[str, Shape]]] = {
    "success": {**_OUTCOME, "status": ("success",), "deliverables": [_DELIVERABLE]},
    "error": {**_OUTCOME, "status": ("error",), "error": {"type": TEXT, "message": TEXT, "details?": NOTE}},
}


def quick_check(message_type: str, loaded: object) -> bool:
    """True: the body is right. False: ask ``bodies.check`` what is wrong."""
    shape: Shape | None = SHAPES.get(message_type)
    if message_type == "task_completed":
        status = loaded.get("status") if isinstance(loaded, dict) else None
        shape = OUTCOMES.get(status) if isinstance(status, str) else None
        return shape is not None and _fits(shape, loaded)
    return shape is None or _fits(shape, loaded)


def _fits(shape: Shape, value: object) -> bool:
    if isinstance(shape, str):
        return _is_kind(shape, value)
    if isinstance(shape, tuple):
        return isinstance(value, str) and value in shape
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(shape[0], item) for item in value)
    return isinstance(value, dict) and all(_holds(value, key, inner) for key, inner in shape.items())


def _holds(mapping: dict[str, object], key: str, shape: Shape) -> bool:
    if key.endswith("?"):
        value = mapping.get(key[:-1])
        return value is None or _fits(shape, value)
    return key in mapping and _fits(shape, mapping[key])


def _is_kind(kind: str, value: object) -> bool:
    if isinstance(value, bool):
        return kind == FLAG
    match kind:
        case "text":
            return isinstance(value, str) and value != ""
        case "note":
            return isinstance(value, str)
        case "count":
            return isinstance(value, int) and value >= 0
        case "percent":
            return isinstance(value, int) and 0 <= value <= 100
        case "amount":
            return isinstance(value, int | float) and value >= 0
        case _:
            return False
