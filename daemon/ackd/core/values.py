"""The decorator for values: records of named fields that are compared and hashed by them, and never changed.

The type checker takes every ``@value`` for frozen. ``dataclass(frozen=True)`` would hold that at run time as well, and
takes nearly twice as long to make one: it sets each field by a call, and a message is some thirty values of 130 fields
on its way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    if not cls.__doc__:  # dataclass would work out the signature for it, which takes a quarter of its time
        cls.__doc__ = cls.__name__
    return dataclass(slots=True, unsafe_hash=True)(cls)
