"""What is wrong with a body, in words, each broken field with its line.

Owns the words in which ``validate`` names a broken field, and the JSON Schema of each type. Refuses to know headers.
``check`` never raises: what is wrong with a body is its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from ackd.core.errors import BadBody, Problem
from ackd.core.message import KNOWN_TYPES
from ackd.dialects import yaml_body
from ackd.dialects.bodies.models import MODELS, OUTCOMES, Body, TaskCompleted, TaskFailed, TaskSucceeded

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


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


def _model(message_type: str, loaded: dict[str, Any]) -> type[Body]:
    if message_type != "task_completed":
        return MODELS[message_type]
    status = loaded.get("status")
    return OUTCOMES.get(status, TaskCompleted) if isinstance(status, str) else TaskCompleted


def _problem(detail: ErrorDetails, lines: dict[yaml_body.Path, int], first_line: int) -> Problem:
    path = detail["loc"]
    near = path
    while near not in lines:  # a missing key has no line of its own: take its holder's
        near = near[:-1]
    return Problem(where(path), _what(detail), lines[near] + first_line - 1)


def where(path: tuple[str | int, ...]) -> str:
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
