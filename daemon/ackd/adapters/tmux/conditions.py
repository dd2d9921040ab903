"""What can be wrong between us and a tmux server.

    TmuxFault
    ├── NoTmux           the program is not installed, or cannot be run
    ├── NoServer         nothing listens on that socket
    ├── NoPane           no pane of that id, target or title
    ├── AmbiguousPane    several panes fit, and none is guessed at
    ├── TmuxSilent       the server did not answer in time
    └── TmuxRefused      anything else it said no to, in its own words

A machine that refuses us a child (no processes, no descriptors) is plain ``OSError``: it says nothing about tmux.
"""

from __future__ import annotations

from ackd.core.errors import AckdError


class TmuxFault(AckdError):  # noqa: N818 - the tree names the condition
    """Root of the conditions above. Its text is for people."""


class NoTmux(TmuxFault):
    def __init__(self, program: str, why: str) -> None:
        super().__init__(program, why)
        self.program = program
        self.why = why

    def __str__(self) -> str:
        return f"cannot run {self.program}: {self.why}"


class NoServer(TmuxFault):
    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said

    def __str__(self) -> str:
        return f"no tmux server: {self.said}"


class NoPane(TmuxFault):
    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted

    def __str__(self) -> str:
        return f"no pane {self.wanted}"


class AmbiguousPane(TmuxFault):
    def __init__(self, wanted: str, ids: tuple[str, ...]) -> None:
        super().__init__(wanted, ids)
        self.wanted = wanted
        self.ids = ids

    def __str__(self) -> str:
        return f"{self.wanted} fits {len(self.ids)} panes: {', '.join(self.ids[:5])}"


class TmuxSilent(TmuxFault):
    def __init__(self, command: str, timeout_s: float) -> None:
        super().__init__(command, timeout_s)
        self.command = command
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"tmux {self.command} did not answer within {self.timeout_s:g} s"


class TmuxRefused(TmuxFault):
    def __init__(self, command: str, said: str) -> None:
        super().__init__(command, said)
        self.command = command
        self.said = said

    def __str__(self) -> str:
        return f"tmux {self.command}: {self.said}"
