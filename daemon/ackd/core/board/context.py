"""How large a meeting's context may be: any JSON value, that every request to a director can hold.

Owns the bounds, for whoever opens a meeting and for whoever reads its record: a record that somebody wrote by hand must
not bring down who reads it. Mail has limits of its own (dialects/yaml_body): 32 deep, the body being the first; 20,000
values, of which the discussion needs some. Cannot fail.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 31
MAX_VALUES: Final = 10_000

TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} deep"
TOO_MANY: Final = f"has more than {MAX_VALUES} values"


def excess_of(context: object) -> str | None:
    """What is too much about it, in words. Level by level, so that no nesting is too deep to be counted."""
    level, depth, values = [context], 0, 0
    while level:
        values += len(level)
        if values > MAX_VALUES:
            return TOO_MANY
        inner = [one for one in level if isinstance(one, dict | list)]
        depth += bool(inner)
        if depth > MAX_DEPTH:
            return TOO_DEEP
        level = [value for one in inner for value in ([*one, *one.values()] if isinstance(one, dict) else one)]
    return None
