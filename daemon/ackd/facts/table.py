"""Every type of line in the session log, in one table.

Each folder that records facts declares them (core.fact); this table brings the declarations together. Two folders that
declare the same type are a mistake that importing this module names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from ackd.coordination.registry import CAPABILITIES
from ackd.core.fact import FactType, declared_in
from ackd.endpoints.registry import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The modules that declare facts.
DECLARING: Final = (
    "ackd.core.daemon_facts",
    "ackd.core.message_facts",
    "ackd.core.agent_facts",
    *(one.facts for one in KINDS.values() if one.facts),
    *(one.facts for one in CAPABILITIES if one.facts),
)


def _assembled() -> Mapping[str, FactType]:
    table: dict[str, FactType] = {}
    for module in DECLARING:
        for row in declared_in(vars(importlib.import_module(module))):
            if table.setdefault(row.type, row) is not row:
                message = f"two folders declare the fact {row.type}: {module} and {table[row.type].declared.__module__}"
                raise TypeError(message)
    return table


#: Type of line → how it was declared, in the order of the document.
FACTS: Final = _assembled()
