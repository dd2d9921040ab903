"""The shape of every body that the seed specifies (ignite-mime, "Message Type Specifications"), and of ackd's own.

The shapes are plain data, because `ackd send` checks each body and cannot wait for pydantic. ``quick_check`` says
whether a body is right; ``bodies.check``, whose models are made from these shapes, says what is wrong with it. Pure,
and never fails.

Keys that a receiver cannot do without are required; keys that merely help (context, notes, estimates, risks,
recommendations) may be absent or null. Keys beyond a shape are allowed, and types without a shape are free YAML. Values
are taken strictly: "60" is no number.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

TEXT: Final = "text"  # not empty
NOTE: Final = "note"  # any text
COUNT: Final = "count"  # a whole number from 0
AMOUNT: Final = "amount"  # a number from 0
PERCENT: Final = "percent"  # a whole number from 0 to 100
FLAG: Final = "flag"


class MappingShape:
    """The shape of a mapping: a shape for each key, in the order of the JSON Schema.

    A key ending in ``?`` may be absent or null. ``name`` and ``about`` stand in the JSON Schema.
    """

    __slots__ = ("about", "name", "shapes")

    def __init__(self, name: str, shapes: dict[str, Any], about: str | None = None) -> None:
        self.name = name
        self.shapes = shapes
        self.about = about


#: A kind (above), a list of one shape, a tuple of allowed texts, or a mapping.
Shape: TypeAlias = "str | list[Any] | tuple[str, ...] | MappingShape"

_DELIVERABLE: Final = MappingShape("Deliverable", {"file": TEXT, "location": TEXT, "description?": NOTE})


def _completed(name: str, statuses: tuple[str, ...], about: str | None = None, **more: Shape) -> MappingShape:
    shapes = {"task_id": TEXT, "title": TEXT, "status": statuses, "execution_time?": AMOUNT, "notes?": NOTE, **more}
    return MappingShape(name, shapes, about)


#: task_completed is two shapes, told apart by its status.
OUTCOMES: Final = {
    "success": _completed("TaskSucceeded", ("success",), deliverables=[_DELIVERABLE]),
    "error": _completed(
        "TaskFailed", ("error",), error=MappingShape("TaskError", {"type": TEXT, "message": TEXT, "details?": NOTE})
    ),
}
#: The shape of a task_completed whose status is neither of the two.
NO_OUTCOME: Final = _completed("TaskCompleted", ("success", "error"))

_DEAD_LETTER: Final = MappingShape(
    "DeadLetter",
    {
        "message_id": TEXT,
        "type": TEXT,
        "to": TEXT,
        "reason": TEXT,
        "retry_count": COUNT,
        "how_to_requeue": TEXT,
        "error_at?": NOTE,
        "file?": NOTE,
    },
    about="Ours: tells a sender that its message was given up, and how to bring it back.",
)

SHAPES: Final = {
    "user_goal": MappingShape("UserGoal", {"goal": TEXT, "context?": NOTE}),
    "strategy_request": MappingShape("StrategyRequest", {"goal": TEXT, "requirements": [TEXT], "context?": NOTE}),
    "strategy_response": MappingShape(
        "StrategyResponse",
        {
            "goal": TEXT,
            "strategy": MappingShape(
                "Strategy",
                {
                    "approach": TEXT,
                    "phases": [MappingShape("Phase", {"phase": COUNT, "name": TEXT, "description": NOTE})],
                },
            ),
            "task_count": COUNT,
            "estimated_duration?": AMOUNT,
            "risks?": [TEXT],
            "recommendations?": [TEXT],
        },
    ),
    "task_list": MappingShape(
        "TaskList",
        {
            "goal": TEXT,
            "strategy_summary": NOTE,
            "tasks": [
                MappingShape(
                    "Task",
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
                    },
                )
            ],
        },
    ),
    "task_assignment": MappingShape(
        "TaskAssignment",
        {
            "task_id": TEXT,
            "title": TEXT,
            "description": NOTE,
            "instructions": TEXT,
            "deliverables": [TEXT],
            "skills_required?": [TEXT],
            "estimated_time?": AMOUNT,
        },
    ),
    "evaluation_request": MappingShape(
        "EvaluationRequest",
        {
            "task_id": TEXT,
            "title": TEXT,
            "deliverables": [_DELIVERABLE],
            "requirements": [TEXT],
            "criteria": [TEXT],
        },
    ),
    "evaluation_result": MappingShape(
        "EvaluationResult",
        {
            "repository": TEXT,
            "task_id": TEXT,
            "title": TEXT,
            "overall_status": TEXT,
            "score": AMOUNT,
            "checks_performed": [MappingShape("Check", {"check": TEXT, "status": TEXT, "details?": NOTE})],
            "next_action": TEXT,
            "issues_found?": [
                MappingShape(
                    "IssueFound",
                    {"severity": TEXT, "description": TEXT, "location?": NOTE, "recommendation?": NOTE},
                )
            ],
            "recommendations?": [TEXT],
        },
    ),
    "improvement_request": MappingShape(
        "ImprovementRequest",
        {
            "task_id": TEXT,
            "target": TEXT,
            "issues": [
                MappingShape("IssueToFix", {"issue": TEXT, "severity": TEXT, "location": TEXT, "suggested_fix?": NOTE})
            ],
        },
    ),
    "improvement_suggestion": MappingShape(
        "ImprovementSuggestion",
        {
            "title": TEXT,
            "category": TEXT,
            "current_situation": MappingShape("CurrentSituation", {"description": TEXT, "issues": [TEXT]}),
            "proposed_improvement": MappingShape(
                "ProposedImprovement", {"description": TEXT, "approach": TEXT, "benefits": [TEXT]}
            ),
            "implementation_plan": [MappingShape("PlanStep", {"step": COUNT, "action": TEXT, "effort?": NOTE})],
            "priority": TEXT,
            "estimated_effort?": NOTE,
        },
    ),
    "progress_update": MappingShape(
        "ProgressUpdate",
        {
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
    ),
    "escalation": MappingShape(
        "Escalation",
        {
            "agent": TEXT,
            "cause": TEXT,
            "summary": TEXT,
            "action": TEXT,
            "what_happened": [MappingShape("Attempt", {"at": TEXT, "what": TEXT, "why?": NOTE})],
            "message?": MappingShape(
                "AboutMessage", {"message_id": TEXT, "type": TEXT, "from": TEXT, "to": TEXT, "file?": NOTE}
            ),
            "counted?": COUNT,
            "dead_letter?": _DEAD_LETTER,
        },
        about="Ours: what ackd could not mend, and what a person or leader is to do.",
    ),
    "dead_letter": _DEAD_LETTER,
}


def quick_check(message_type: str, loaded: object) -> bool:
    """Say whether a body is right. If not, ``bodies.check`` says what is wrong."""
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
    return isinstance(value, dict) and all(_holds(value, key, inner) for key, inner in shape.shapes.items())


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
