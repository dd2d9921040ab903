"""What the body of each message type must hold, to the leaves.

Owns the models of every body that the seed specifies (ignite-mime, "Message Type Specifications") and of ackd's own
``escalation`` and ``dead_letter``, and the words in which ``validate`` names a broken field. Keys beyond these are
allowed; other types are free YAML. Refuses to know headers. ``check`` never raises: what is wrong with a body is its
answer.

Required is what a receiver cannot do without; what merely helps (context, notes, estimates, risks, recommendations) may
be absent or null. Values are taken strictly: "60" is no number. body_shapes says the same without pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from ackd.core.errors import BadBody, Problem
from ackd.core.message import KNOWN_TYPES
from ackd.dialects import yaml_body

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Text = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Percent = Annotated[int, Field(ge=0, le=100)]
TaskPriority = Literal["critical", "high", "normal", "low"]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=False)


class UserGoal(_Body):
    goal: Text
    context: str | None = None


class StrategyRequest(_Body):
    goal: Text
    requirements: list[Text]
    context: str | None = None


class Phase(_Body):
    phase: Count
    name: Text
    description: str


class Strategy(_Body):
    approach: Text
    phases: list[Phase]


class StrategyResponse(_Body):
    goal: Text
    strategy: Strategy
    task_count: Count
    estimated_duration: Amount | None = None
    risks: list[Text] | None = None
    recommendations: list[Text] | None = None


class Task(_Body):
    task_id: Text
    title: Text
    description: str
    phase: Count
    priority: TaskPriority
    deliverables: list[Text]
    estimated_time: Amount | None = None
    dependencies: list[Text] | None = None
    skills_required: list[Text] | None = None


class TaskList(_Body):
    goal: Text
    strategy_summary: str
    tasks: list[Task]


class TaskAssignment(_Body):
    task_id: Text
    title: Text
    description: str
    instructions: Text
    deliverables: list[Text]
    skills_required: list[Text] | None = None
    estimated_time: Amount | None = None


class Deliverable(_Body):
    file: Text
    location: Text
    description: str | None = None


class TaskError(_Body):
    type: Text
    message: Text
    details: str | None = None


class TaskCompleted(_Body):
    """Any status, for a body whose status is neither of the two."""

    task_id: Text
    title: Text
    status: Literal["success", "error"]
    execution_time: Amount | None = None
    notes: str | None = None


class TaskSucceeded(TaskCompleted):
    status: Literal["success"]
    deliverables: list[Deliverable]


class TaskFailed(TaskCompleted):
    status: Literal["error"]
    error: TaskError


class EvaluationRequest(_Body):
    task_id: Text
    title: Text
    deliverables: list[Deliverable]
    requirements: list[Text]
    criteria: list[Text]


class Check(_Body):
    check: Text
    status: Text
    details: str | None = None


class IssueFound(_Body):
    severity: Text
    description: Text
    location: str | None = None
    recommendation: str | None = None


class EvaluationResult(_Body):
    repository: Text
    task_id: Text
    title: Text
    overall_status: Text
    score: Amount
    checks_performed: list[Check]
    next_action: Text
    issues_found: list[IssueFound] | None = None
    recommendations: list[Text] | None = None


class IssueToFix(_Body):
    issue: Text
    severity: Text
    location: Text
    suggested_fix: str | None = None


class ImprovementRequest(_Body):
    task_id: Text
    target: Text
    issues: list[IssueToFix]


class CurrentSituation(_Body):
    description: Text
    issues: list[Text]


class ProposedImprovement(_Body):
    description: Text
    approach: Text
    benefits: list[Text]


class PlanStep(_Body):
    step: Count
    action: Text
    effort: str | None = None


class ImprovementSuggestion(_Body):
    title: Text
    category: Text
    current_situation: CurrentSituation
    proposed_improvement: ProposedImprovement
    implementation_plan: list[PlanStep]
    priority: Text
    estimated_effort: str | None = None


class ProgressUpdate(_Body):
    repository: Text
    summary: Text
    issue: Count | None = None
    stage: str | None = None
    percent: Percent | None = None
    message: str | None = None
    total_tasks: Count | None = None
    completed: Count | None = None
    in_progress: Count | None = None
    pending: Count | None = None
    final: bool | None = None


class Attempt(_Body):
    at: Text
    what: Text
    why: str | None = None


class AboutMessage(_Body):
    message_id: Text
    type: Text
    sender: Annotated[Text, Field(alias="from")]
    to: Text
    file: str | None = None


class Escalation(_Body):
    """Ours: what ackd could not mend, and what a person or leader is to do."""

    agent: Text
    cause: Text
    summary: Text
    action: Text
    what_happened: list[Attempt]
    message: AboutMessage | None = None
    counted: Count | None = None


class DeadLetter(_Body):
    """Ours: tells a sender that its message was given up, and how to bring it back."""

    message_id: Text
    type: Text
    to: Text
    reason: Text
    retry_count: Count
    how_to_requeue: Text
    error_at: str | None = None
    file: str | None = None


MODELS: Final[dict[str, type[_Body]]] = {
    "user_goal": UserGoal,
    "strategy_request": StrategyRequest,
    "strategy_response": StrategyResponse,
    "task_list": TaskList,
    "task_assignment": TaskAssignment,
    "task_completed": TaskCompleted,
    "evaluation_request": EvaluationRequest,
    "evaluation_result": EvaluationResult,
    "improvement_request": ImprovementRequest,
    "improvement_suggestion": ImprovementSuggestion,
    "progress_update": ProgressUpdate,
    "escalation": Escalation,
    "dead_letter": DeadLetter,
}
_OUTCOMES: Final[dict[object, type[TaskCompleted]]] = {"success": TaskSucceeded, "error": TaskFailed}


def check(message_type: str, body_text: str, first_line: int = 1) -> list[Problem]:
    """What is wrong with a body, each broken field once, in the order of lines. ``first_line``: where it begins."""
    try:
        loaded, lines = yaml_body.load_with_lines(body_text)
    except BadBody as error:
        return [Problem(p.where, p.what, p.line and p.line + first_line - 1) for p in error.problems]
    if message_type not in MODELS:
        return []
    if not isinstance(loaded, dict):
        return [Problem("", f"the body of {message_type} must be a mapping of keys to values", first_line)]
    try:
        _model(message_type, loaded).model_validate(loaded)
    except ValidationError as error:
        found = [_problem(detail, lines, first_line) for detail in error.errors(include_url=False)]
        return sorted(found, key=lambda problem: problem.line or 0)
    return []


def schema(message_type: str) -> dict[str, Any]:
    """JSON Schema of a type's body. Raises KeyError for a type that does not exist."""
    if message_type == "task_completed":
        either = Annotated[TaskSucceeded | TaskFailed, Field(discriminator="status")]
        described = TypeAdapter[Any](either).json_schema()
    elif message_type in MODELS:
        described = MODELS[message_type].model_json_schema()
    elif message_type in KNOWN_TYPES:
        described = {"description": "Free YAML: ackd asks nothing of this body but that it can be parsed."}
    else:
        raise KeyError(message_type)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described, "title": message_type}


def _model(message_type: str, loaded: dict[str, Any]) -> type[_Body]:
    if message_type != "task_completed":
        return MODELS[message_type]
    status = loaded.get("status")
    return _OUTCOMES.get(status, TaskCompleted) if isinstance(status, str) else TaskCompleted


def _problem(detail: ErrorDetails, lines: dict[yaml_body.Path, int], first_line: int) -> Problem:
    path = detail["loc"]
    near = path
    while near not in lines:  # a missing key has no line of its own: take its holder's
        near = near[:-1]
    return Problem(_where(path), _what(detail), lines[near] + first_line - 1)


def _where(path: tuple[str | int, ...]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


_KINDS: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "a mapping of keys to values",
}


def _what(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "missing":
            return "is required, and missing"
        case "string_too_short":
            return "must not be empty"
        case "literal_error":
            return f"must be {detail['ctx']['expected']}, not {detail['input']!r:.60}"
        case kind if kind in _KINDS:
            return f"must be {_KINDS[kind]}, not {_described(detail['input'])}"
        case _:
            words = detail["msg"].removeprefix("Input should ").rstrip(".")
            return f"should {words}, not {detail['input']!r:.60}"


def _described(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"the text {value!r:.60}"
        case _:
            return f"{value!r:.60}"
