"""What the tables of ackd.toml are made of: the kinds of values, each with its range."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, Strict

MONTH_S: Final = 31 * 86_400

Seconds = Annotated[float, Field(gt=0, le=MONTH_S, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0, le=MONTH_S, allow_inf_nan=False)]
Words = Annotated[tuple[str, ...], Strict(strict=False)]


class Table(BaseModel):
    """A table of the file. An unknown key is a mistake; what is a number in TOML is one here."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
