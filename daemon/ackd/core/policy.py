"""How one agent is to be treated: the numbers of the config, as the engine takes them.

Pure data. Endpoints differ by these values only; the engine never asks which kind it serves.
"""

from __future__ import annotations

from dataclasses import dataclass

from ackd.core.words import Word

UNLIMITED = 1_000_000_000


class CompletesOn(Word):
    """What ends a message well, besides its agent's own last word, which always does."""

    DONE = "done"  # nothing else: a receipt, a report in reply, the deletion of its file, the end of its run
    SEEN = "seen"  # evidence that its agent took it in


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    ack_timeout_s: float = 60
    processing_timeout_s: float = 300
    task_timeout_s: float = 1800
    busy_timeout_s: float = 900
    remind_after_s: float = 900
    retry_limit: int = 3
    backoff_base_s: float = 5
    backoff_cap_s: float = 300
    crash_limit: int = 10
    max_in_flight: int = 1
    aging_s: float = 300
    #: How many rungs follow the first telling; None: silence has no ladder here (exec, handler, inbox).
    rungs: int | None = None
    #: What each rung does: 1 the line again, 2 interrupt first, 3 with a clean slate. As long as ``rungs``.
    ladder: tuple[int, ...] = (1, 2, 3)
    #: Quiet for this long with work in its hands: it is asked. None: nothing lives behind its endpoint to be watched.
    heartbeat_timeout_s: float | None = None
    #: Asked, and no sign for this long: it hangs.
    probe_timeout_s: float = 60
    #: The share of its context that a worker may use before a fresh one takes over.
    context_threshold: float = 0.70
    #: True: its screen (or hook) says whether it works or waits for a line. Then it is reminded, and never asked.
    shows: bool = False
    #: Nothing but its busy rows changing for this long: it hangs. 0: never taken for hanging.
    hung_after_s: float = 1800
    #: True: one that hangs is started anew, and its work offered again. False: it climbs its ladder from rung 2.
    restarts: bool = False
    #: True: telling does not outlive the daemon (exec, handler): what was told but has no living run is offered again.
    volatile: bool = False
    #: True: nobody else notices when it takes too long (handler): that is said after task_timeout_s, as of who acked.
    unwatched: bool = False
    #: True: mail waits to be pulled, and one reminder is given after remind_after_s (inbox).
    reminds: bool = False
    #: What completes its mail (completion.py): all of it, what only informs, and single types.
    completes_on: CompletesOn = CompletesOn.DONE
    notices_complete_on: CompletesOn = CompletesOn.DONE
    completes_on_type: tuple[tuple[str, CompletesOn], ...] = ()


@dataclass(frozen=True, slots=True)
class EnginePolicy:
    escalate_to: str = "user"
    dedup_window_s: float = 86400
    loop_limit: int = 5
