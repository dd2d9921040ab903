"""Where inputs that made a door fail are kept: new ones in .fuzz/, named ones in the corpus, for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
FOUND: Final = sorted(CORPUS.glob("*/*"))
SCRATCH: Final = Path(__file__).parents[2] / ".fuzz"


def keep(target: str, data: bytes) -> Path:
    """To be mended, then moved to ``corpus/<target>/`` under a name that says what it was."""
    path = SCRATCH / "found" / target / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
