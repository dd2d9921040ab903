"""A view that remembers what it was shown."""

from __future__ import annotations


class RecordingView:
    def __init__(self) -> None:
        self.shown: list[tuple[str, dict[str, object]]] = []
        self.flushes = 0

    def show(self, type_: str, data: dict[str, object], _at: float) -> None:
        self.shown.append((type_, data))

    def flush(self) -> None:
        self.flushes += 1
