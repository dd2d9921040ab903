"""Labels: words by which a message says which members of a pool it needs, or had rather have (``gpu``, ``py3.12``).

An agent has the labels of its table. A message names its own in X-ACKD-Needs and X-ACKD-Prefers, which come from
hostile text: ``labels_of`` is the only way to read them. Fails with ``BadLabels``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ackd.core.errors import BadLabels

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The form of a label, in words.
LABEL_FORM: Final = "1 to 64 letters, digits, dots, dashes, underscores or plus signs, the first a letter or digit"
#: More than these in one header are no wish but an attack.
MOST_LABELS: Final = 32

_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def is_label(text: str) -> bool:
    return _LABEL.fullmatch(text) is not None


def labels_of(text: str) -> tuple[str, ...]:
    """The labels in a header, or in what was typed: separated by commas or blanks, once each. Raises BadLabels."""
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    for label in found:
        if not is_label(label):
            raise BadLabels(f"{label!r:.100} is no label: {LABEL_FORM}")
    if not found:
        raise BadLabels("no label")
    if len(found) > MOST_LABELS:
        raise BadLabels(f"{len(found)} labels: more than {MOST_LABELS}")
    return found


def in_header(labels: Iterable[str]) -> str:
    """The labels as a header has them."""
    return ", ".join(labels)
