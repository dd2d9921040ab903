"""What a worker prints, line by line, and the words for its lead among it.

Owns which lines those are, and their numbers: a run's output that is read again after a restart has the same numbers
again, and so the same mail. A line that was meant for the lead and is no word is one too: the lead asks about it. Of
several such lines that nobody has asked for yet only the last counts. Refuses to know what a word does to a story.
Cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ackd.core.stage_words import StandsAt
from ackd.dialects import stage_text
from ackd.dialects.stage_text import BadStageText

if TYPE_CHECKING:
    from ackd.core.stage_words import TextRules

#: A line that has no end yet is kept up to this length; a longer one is no word for the lead.
_LONGEST_BYTES: Final = 262_144


@dataclass(frozen=True, slots=True)
class Printed:
    """``nth`` of the words that a worker has printed, from 1; ``clear``: it is one that the lead understands."""

    text: str
    nth: int
    clear: bool


@dataclass(eq=False)
class Ear:
    """``reports``: a report is heard when it is printed. Else it is left for the end, where the last one counts."""

    rules: TextRules
    reports: bool
    #: What nobody has taken away yet, in order.
    waiting: list[Printed] = field(default_factory=list, init=False)
    #: It printed what was meant for its lead, and is no word.
    unclear: bool = field(default=False, init=False)
    _count: int = field(default=0, init=False)
    _rest: bytes = field(default=b"", init=False)

    def hear(self, line: bytes) -> bool:
        """Whether it was meant for the lead."""
        text = line.decode(errors="replace").strip()
        word = stage_text.word_in(text, *self.rules)
        if word is None:
            return False
        self._count += 1
        said = Printed(text, self._count, clear=not isinstance(word, BadStageText))
        if not said.clear:
            self.unclear = True
        self.waiting = [one for one in self.waiting if one.clear]
        if not said.clear or self.reports or isinstance(word, StandsAt):
            self.waiting.append(said)
        return True

    def hear_some(self, data: bytes, *, last: bool) -> None:
        """A piece of an output; ``last``: it is over, and its last line needs no end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.hear(line)
        if last and self._rest:
            self.hear(self._rest)
            self._rest = b""
        self._rest = self._rest[-_LONGEST_BYTES:]

    def took(self, said: Printed) -> None:
        self.waiting = [one for one in self.waiting if one is not said]
