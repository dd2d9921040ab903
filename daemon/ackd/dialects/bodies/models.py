"""The models of every body that the seed specifies (ignite-mime, "Message Type Specifications"), and of ackd's own.

Required is what a receiver cannot do without; what merely helps (context, notes, estimates, risks, recommendations) may
be absent or null. Keys beyond these are allowed; types without a model are free YAML. Values are taken strictly: "60"
is no number. body_shapes says the same without pydantic. Refuses to know headers, and the words for what is broken
(checking). Fails with pydantic's ValidationError.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Percent = Annotated[int, Field(ge=0, le=100)]
TaskPriority = Literal["critical", "high", "normal", "low"]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=False)


class UserGoal(Body):
    goal: Text
    context: str | None = None


class StrategyRequest(Body):
    goal: Text
    requirements: list[Text]
    context: str | None = None


class Phase(Body):
    phase: Count
    name: Text
    description: str


class Strategy(Body):
    approach: Text
    phases: list[Phase]


class StrategyResponse(Body):
    goal: Text
    strategy: Strategy
    task_count: Count
    estimated_duration: Amount | None = None
    risks: list[Text] | None = None
    recommendations: list[Text] | None = None


class Task(Body):
    task_id: Text
    title: Text
    description: str
    phase: Count
    priority: TaskPriority
    deliverables: list[Text]
    estimated_time: Amount | None = None
    dependencies: list[Text] | None = None
    skills_required: list[Text] | None = None


class TaskList(Body):
    goal: Text
    strategy_summary: str
    tasks: list[Task]


class TaskAssignment(Body):
    task_id: Text
    title: Text
    description: str
    instructions: Text
    deliverables: list[Text]
    skills_required: list[Text] | None = None
    estimated_time: Amount | None = None


class Deliverable(Body):
    file: Text
    location: Text
    description: str | None = None


class TaskError(Body):
    type: Text
    message: Text
    details: str | None = None


class TaskCompleted(Body):
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


class EvaluationRequest(Body):
    task_id: Text
    title: Text
    deliverables: list[Deliverable]
    requirements: list[Text]
    criteria: list[Text]


class Check(Body):
    check: Text
    status: Text
    details: str | None = None


class IssueFound(Body):
    severity: Text
    description: Text
    location: str | None = None
    recommendation: str | None = None


class EvaluationResult(Body):
    repository: Text
    task_id: Text
    title: Text
    overall_status: Text
    score: Amount
    checks_performed: list[Check]
    next_action: Text
    issues_found: list[IssueFound] | None = None
    recommendations: list[Text] | None = None


class IssueToFix(Body):
    issue: Text
    severity: Text
    location: Text
    suggested_fix: str | None = None


class ImprovementRequest(Body):
    task_id: Text
    target: Text
    issues: list[IssueToFix]


class CurrentSituation(Body):
    description: Text
    issues: list[Text]


class ProposedImprovement(Body):
    description: Text
    approach: Text
    benefits: list[Text]


class PlanStep(Body):
    step: Count
    action: Text
    effort: str | None = None


class ImprovementSuggestion(Body):
    title: Text
    category: Text
    current_situation: CurrentSituation
    proposed_improvement: ProposedImprovement
    implementation_plan: list[PlanStep]
    priority: Text
    estimated_effort: str | None = None


class ProgressUpdate(Body):
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


class Attempt(Body):
    at: Text
    what: Text
    why: str | None = None


class AboutMessage(Body):
    message_id: Text
    type: Text
    sender: Annotated[Text, Field(alias="from")]
    to: Text
    file: str | None = None


class Escalation(Body):
    """Ours: what ackd could not mend, and what a person or leader is to do."""

    agent: Text
    cause: Text
    summary: Text
    action: Text
    what_happened: list[Attempt]
    message: AboutMessage | None = None
    counted: Count | None = None


class DeadLetter(Body):
    """Ours: tells a sender that its message was given up, and how to bring it back."""

    message_id: Text
    type: Text
    to: Text
    reason: Text
    retry_count: Count
    how_to_requeue: Text
    error_at: str | None = None
    file: str | None = None


MODELS: Final[dict[str, type[Body]]] = {
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
OUTCOMES: Final[dict[object, type[TaskCompleted]]] = {"success": TaskSucceeded, "error": TaskFailed}
