"""The payloads of the types, as plain data: the one schema, which ``models`` turns into pydantic models.

`ackd bus post` cannot wait for pydantic: ``quick_check`` accepts what is plainly right by this table alone. It does not
explain a refusal: the caller then imports ``reading``. ``from_text`` reads a value that was typed as text
(``unblocks=1.2,1.3`` is a list). Quick to import. Never fails.
"""

from collections.abc import Callable, Mapping
from typing import Final

ID: Final = "id"  # a text of 1 to 1024 characters
NOTE: Final = "note"  # any text
PERCENT: Final = "percent"  # a number from 0 to 100
SHARE: Final = "share"  # a number from 0 to 1
SCORE: Final = "score"  # a number from 0 to 10
FLAG: Final = "flag"
IDS: Final = "ids"  # at most 256
NAMES: Final = "names"  # an id, or several (the seed has one)
ITEMS: Final = "items"  # a list of anything
TABLE: Final = "table"
MOMENT: Final = "moment"  # a time, as text

MAX_ID_CHARS: Final = 1024
MAX_IDS: Final = 256

#: A key ending in ``?`` may be absent or null; a tuple is a choice. Keys beyond these are allowed.
SHAPES: Final[Mapping[str, Mapping[str, str | tuple[str, ...]]]] = {
    "PROGRESS": {"task_id?": ID, "progress_pct?": PERCENT, "current_subtask?": NOTE},
    "TASK_COMPLETE": {"task_id": ID, "commit_sha?": NOTE, "files_modified?": ITEMS, "unblocks?": IDS},
    "TASK_FAILED": {"task_id": ID, "error?": NOTE, "stack_trace?": NOTE},
    "FILE_LOCK": {"filepath": ID, "lock_type?": ("exclusive", "shared"), "expires_at?": MOMENT},
    "FILE_UNLOCK": {"filepath": ID},
    "BLOCKED": {"task_id?": ID, "waiting_for?": NAMES, "resource?": ID},
    "BOARD_ASSESS": {
        "director?": ID,
        "verdict": ID,
        "score?": SCORE,
        "concerns?": ITEMS,
        "recommendations?": ITEMS,
    },
    "BOARD_DISCUSS": {
        "from?": ID,
        "to?": ID,
        "type?": ("CHALLENGE", "AGREE", "QUESTION", "CLARIFY"),
        "message": NOTE,
        "changes_my_verdict?": FLAG,
    },
    "BOARD_VOTE": {
        "director?": ID,
        "final_verdict": ("APPROVE", "REJECT"),
        "confidence?": SHARE,
        "conditions?": ITEMS,
    },
    "BOARD_RESOLVE": {"verdict": ID, "vote_summary?": TABLE, "conditions?": ITEMS, "dissent?": ITEMS},
    "BUS_INIT": {},
    "WORKER_DISPATCHED": {},
    "TASK_BLOCKED": {},
    "DEADLOCK_RESOLVED": {},
}
TYPES: Final = tuple(SHAPES)


# --- a quick yes ------------------------------------------------------------------------------------------------------
def quick_check(type_: str, payload: Mapping[str, object]) -> bool:
    for key, fits, needed in _KEYS[type_]:
        value = payload.get(key)
        if value is None:
            if needed:
                return False
        elif not fits(value):
            return False
    return True


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_IDS and all(map(_is_id, value))


def _is_number(most: float) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most

    return fits


_FITS: Final[Mapping[str, Callable[[object], bool]]] = {
    ID: _is_id,
    NOTE: lambda value: isinstance(value, str),
    MOMENT: lambda _: False,  # left to the models, because the check needs datetime
    IDS: _is_ids,
    NAMES: lambda value: _is_id(value) or _is_ids(value),
    ITEMS: lambda value: isinstance(value, list),
    TABLE: lambda value: isinstance(value, dict),
    FLAG: lambda value: isinstance(value, bool),
    PERCENT: _is_number(100),
    SHARE: _is_number(1),
    SCORE: _is_number(10),
}


def _fits(shape: str | tuple[str, ...]) -> Callable[[object], bool]:
    return shape.__contains__ if isinstance(shape, tuple) else _FITS[shape]


#: Each key, the check of its value, and whether it is required: made once, since every post goes through it.
_KEYS: Final = {
    type_: tuple((name.removesuffix("?"), _fits(shape), not name.endswith("?")) for name, shape in shapes.items())
    for type_, shapes in SHAPES.items()
}


# --- typed values -----------------------------------------------------------------------------------------------------
def from_text(type_: str, key: str, text: str) -> object:
    """The value that was typed: a number, a list or a flag if its key is for one, else the text."""
    shapes = SHAPES[type_]
    shape = shapes.get(key) or shapes.get(f"{key}?")
    match shape:
        case "names" if "," not in text and not text.startswith("["):
            return text
        case "ids" | "items" | "names" if not text.startswith("["):
            return [part.strip() for part in text.split(",") if part.strip()]
        case "flag" if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
        case "ids" | "items" | "names" | "table" | "percent" | "share" | "score" | None:
            return _json(text)
        case _:
            return text


def _json(text: str) -> object:
    import json  # noqa: PLC0415 - who says only a task needs none

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
