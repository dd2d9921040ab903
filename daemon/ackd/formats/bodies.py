"""Say in words what is wrong with a body, each broken field with its line; and give the JSON Schema of each type.

The pydantic models are made from ``body_shapes``, which is the one place where a body's shape is written down. Headers
are not looked at. ``check`` never raises: it returns the problems. Slow to import: pydantic is loaded only for a body
that ``body_shapes.quick_check`` refuses, and for a schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, create_model

from ackd.core.errors import BadBody, Problem
from ackd.core.message import KNOWN_TYPES
from ackd.formats import body_shapes, yaml_body
from ackd.formats.body_shapes import MappingShape

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from ackd.formats.body_shapes import Shape

_KINDS_OF_VALUE: Final[dict[str, Any]] = {
    body_shapes.TEXT: Annotated[str, StringConstraints(min_length=1)],
    body_shapes.NOTE: str,
    body_shapes.COUNT: Annotated[int, Field(ge=0)],
    body_shapes.AMOUNT: Annotated[float, Field(ge=0)],
    body_shapes.PERCENT: Annotated[int, Field(ge=0, le=100)],
    body_shapes.FLAG: bool,
}
#: Keys that cannot be the name of a Python field, and the name that stands for each.
_ALIASES: Final = {"from": "sender"}


# --- models -----------------------------------------------------------------------------------------------------------
class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=False)


def _model_of(keys: MappingShape) -> type[Body]:
    fields: dict[str, Any] = {}
    for key, shape in keys.shapes.items():
        name, optional = key.removesuffix("?"), key.endswith("?")
        kind = _type_of(shape)
        if name in _ALIASES:
            kind = Annotated[kind, Field(alias=name)]
        fields[_ALIASES.get(name, name)] = (kind | None, None) if optional else (kind, ...)
    model = create_model(keys.name, __base__=Body, __module__=__name__, **fields)
    model.__doc__ = keys.about
    return model


def _type_of(shape: Shape) -> Any:
    if isinstance(shape, str):
        return _KINDS_OF_VALUE[shape]
    if isinstance(shape, tuple):
        return Literal[shape]
    if isinstance(shape, list):
        return list[_type_of(shape[0])]  # type: ignore[misc]
    return _model_of(shape)


OUTCOMES: Final[dict[str, type[Body]]] = {status: _model_of(keys) for status, keys in body_shapes.OUTCOMES.items()}
MODELS: Final[dict[str, type[Body]]] = {
    **{message_type: _model_of(keys) for message_type, keys in body_shapes.SHAPES.items()},
    "task_completed": _model_of(body_shapes.NO_OUTCOME),
}


# --- checking ---------------------------------------------------------------------------------------------------------
def check(message_type: str, body_text: str, first_line: int = 1) -> list[Problem]:
    """Name what is wrong with a body, each broken field once, in the order of lines. ``first_line``: the body's."""
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
    """Return the JSON Schema of a type's body. KeyError for a type that does not exist."""
    if message_type == "task_completed":
        succeeded, failed = OUTCOMES.values()
        either = Annotated[succeeded | failed, Field(discriminator="status")]  # type: ignore[valid-type] # made above
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
    return OUTCOMES.get(status, MODELS[message_type]) if isinstance(status, str) else MODELS[message_type]


def _problem(detail: ErrorDetails, lines: dict[yaml_body.Path, int], first_line: int) -> Problem:
    path = detail["loc"]
    near = path
    while near not in lines:  # a missing key has no line of its own: take that of the mapping around it
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
