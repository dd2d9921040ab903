"""Pydantic models of the payloads, made from the plain table in ``shapes``, for reading and for explaining a refusal.

They are more tolerant than the quick check: where a shell writes a number for a name (``1.1``), one value for a list of
one, or ``"45%"`` for a number. Keys beyond the table stay. Missing values are filled in by the reader (reading). Fails
with pydantic's ValidationError.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, create_model

from ackd.coordination.bus.wire import shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

_EARLIEST: Final = 946_684_800.0  # 2000-01-01
_LATEST: Final = 4_102_444_800.0  # 2100-01-01
_LONGEST: Final = 64


# --- times ------------------------------------------------------------------------------------------------------------
def moment(value: object) -> float | None:
    """A time on a bus as wall seconds: with a ``Z``, with an offset, without either (read as local), or as seconds
    since 1970. None: it is no time, or none of this century."""
    match value:
        case bool():
            return None
        case str() if len(value) <= _LONGEST:
            seconds = _iso(value.strip())
        case int() | float():
            seconds = value
        case _:
            return None
    return float(seconds) if seconds is not None and _EARLIEST <= seconds < _LATEST else None


def _iso(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()  # a naive time counts as local
    except (ValueError, OverflowError, OSError):
        return None


# --- values -----------------------------------------------------------------------------------------------------------
def _name(value: object) -> object:
    """Read a name that was written as a number: task 1.1 is one to jq, and in a shell without quotes."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _one_is_a_list(value: object) -> object:
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _number(value: object) -> object:
    """Read a number that was written as text: ``"45"`` or ``"45%"``."""
    if not isinstance(value, str):
        return value
    try:
        return float(value.strip().removesuffix("%"))
    except ValueError:
        return value


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _moment(value: object) -> object:
    if moment(value) is None:
        raise ValueError("a time as in 2026-11-16T12:00:00Z")
    return value


def _range(most: float) -> Any:
    return Annotated[float, Field(ge=0, le=most, allow_inf_nan=False), BeforeValidator(_number)]


Id = Annotated[str, StringConstraints(min_length=1, max_length=shapes.MAX_ID_CHARS), BeforeValidator(_name)]
Ids = Annotated[list[Id], Field(max_length=shapes.MAX_IDS), BeforeValidator(_one_is_a_list)]
_KINDS: Final[Mapping[str, Any]] = {
    shapes.ID: Id,
    shapes.NOTE: Annotated[str, BeforeValidator(_name)],
    shapes.PERCENT: _range(100),
    shapes.SHARE: _range(1),
    # `ackd bus post` allows up to 10; a person who writes by hand may mean percents, as in the board's files.
    shapes.SCORE: _range(100),
    shapes.FLAG: bool,
    shapes.IDS: Ids,
    shapes.NAMES: Ids,
    shapes.ITEMS: Annotated[list[Any], BeforeValidator(_one_is_a_list)],
    shapes.TABLE: dict[str, Any],
    shapes.MOMENT: Annotated[Any, BeforeValidator(_moment)],
}


class Payload(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True, populate_by_name=True, defer_build=True)


def _type(shape: str | tuple[str, ...]) -> Any:
    if isinstance(shape, str):
        return _KINDS[shape]
    return Annotated[Literal[shape], BeforeValidator(_upper if shape[0].isupper() else _lower)]


def _model(name: str, keys: Mapping[str, str | tuple[str, ...]]) -> type[Payload]:
    fields: dict[str, Any] = {}
    for key, shape in keys.items():
        plain, optional = key.removesuffix("?"), key.endswith("?")
        field = f"{plain}_" if plain == "from" else plain  # a keyword of Python's
        kind = _type(shape) | None if optional else _type(shape)
        fields[field] = (kind, Field(default=None if optional else ..., alias=plain))
    return create_model(name, __base__=Payload, **fields)


MODELS: Final = {type_: _model(type_, keys) for type_, keys in shapes.SHAPES.items()}
