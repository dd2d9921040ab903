"""What a value is here: a record of named fields that is compared and hashed by them, and never changed.

Owns the one decorator. That nothing is changed is held by the type checker, which takes every ``@value`` for frozen.
``dataclass(frozen=True)`` would hold it at run time as well, and takes nearly twice as long to make one: it sets each
field by a call, and a message is some thirty values of 130 fields on its way. Cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    return dataclass(slots=True, unsafe_hash=True)(cls)
