"""Whether the kernel's clock is kept in time, as adjtimex(2) tells."""

from __future__ import annotations

from typing import Final

#: Larger than struct timex on any architecture. All zeros: nothing is set, the state is only asked for.
_TIMEX_BYTES: Final = 512
_TIME_ERROR: Final = 5


def is_synchronised() -> bool | None:
    """Tell whether somebody keeps the clock in time; None where the kernel does not say."""
    import ctypes  # noqa: PLC0415

    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    state = adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if state < 0 else state != _TIME_ERROR
