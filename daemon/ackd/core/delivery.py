"""The states of one message for one recipient, and the table that leads from one to the next.

The table says which event leads from which state to which, and names what is to be done then (``Act``); transitions.py
does it. A pair that is not in the table cannot happen: ``step`` raises ``ImpossibleEvent`` and nothing changes.

Receipts (seen, acked) are facts that may be skipped and may come in any order: an ack is valid before "told" came back.
So every outside fact has a cell in every living state, and answers of an endpoint that come too late have one that does
nothing.
"""

from __future__ import annotations

from typing import Final

from ackd.core.errors import ImpossibleEvent
from ackd.core.words import Word


class State(Word):
    """The states of a message. Those in ``MOVING`` wait for a move on disk, which is the commit."""

    QUEUED = "queued"  # in queue/<agent>/, waiting for its turn
    CLAIMING = "claiming"  # its move to processed/ was asked for
    PROCESSING = "processing"  # in processed/, its agent is being told
    DELIVERED = "delivered"  # its agent was told, and there is proof
    ACKED = "acked"  # its agent said it has it
    RETRYING = "retrying"  # in processed/, waiting to be told (again)
    FINISHING = "finishing"  # its move to archive/ was asked for
    BURYING = "burying"  # its notices and its move to dead_letter/ were asked for
    RETURNING = "returning"  # its holder gave it back: its move to its pool's queue was asked for
    REVIVING = "reviving"  # its move from dead_letter/ back to queue/ was asked for
    CANCELLING = "cancelling"  # cancelled while its agent has it: the agent is being told to let go
    ANNULLING = "annulling"  # cancelled: its notice and its move to dead_letter/ were asked for
    WITHDRAWING = "withdrawing"  # cancelled before anyone was told: its move to archive/ was asked for
    COMPLETED = "completed"  # in archive/, or removed by its agent's hand
    DEAD = "dead"  # in dead_letter/, with its reason
    CANCELLED = "cancelled"  # in dead_letter/ because it was cancelled: a late completion changes nothing
    WITHDRAWN = "withdrawn"  # removed from queue/, or cancelled there, before anyone was told


class Happening(Word):
    """The events of the table."""

    OFFERED = "offered"  # its turn came: the agent is available and its window has room
    CLAIMED = "claimed"
    TOLD = "told"
    NOT_TOLD = "not told"  # a failure that the retry policy lets pass
    AWAY = "endpoint away"  # nobody there to tell: no failure of the message
    SEEN = "seen"
    ENOUGH = "seen is enough"  # seen or acked, and it only informs: that completes it (completion.py)
    ACKED = "acked"
    DONE = "done"
    SENT_TWICE = "sent twice"  # a twin of it is open, or was completed
    REFUSED = "refused"
    FAILED = "failed"  # deferred, non-zero exit, agent died: the retry policy says again
    EXHAUSTED = "exhausted"  # the same, and the retry policy says enough
    STOPPED = "stopped"  # by our own shutdown: uncounted
    SILENT = "silent"  # its agent's ladder ended
    UNFINISHED = "unfinished"  # its agent took it and was idle for too long; it may have been done
    OVERDUE = "overdue"  # acked (or a handler called) long ago, not completed
    VANISHED = "file gone"
    MOVED = "moved"  # the asked-for move is on disk
    LOST = "nothing to move"  # the file was gone when we came to move it
    DISK_FAILED = "disk failed"  # the move could not be made; nothing changed
    SPOOL_LOST = "directory gone"  # not its agent's deletion: the whole queue directory went, or it was written over
    REQUEUED = "requeued"  # by an operator
    CANCELLED = "cancelled"  # by its sender, by a person, or because its deadline passed
    HANDED_BACK = "handed back"  # by its holder, to its pool
    RECALLED = "recalled"  # cancelled while it was claimed, before its agent was told
    LET_GO = "let go"  # its agent was told that it is cancelled, or has had its time to let go of it
    EXPIRED = "expired"  # nobody had it in hand when it expired


class Act(Word):
    """The action that the engine takes on entering a cell."""

    NOTHING = "nothing"
    NOTE = "note"  # write the fact down
    REMEMBER = "remember"  # it came while a move is under way: act on it when that is through (the stronger word wins)
    CLAIM = "claim"
    TELL = "tell"
    AWAIT = "await the ack"
    START = "start"  # the agent has it
    RETRY = "retry"  # counted, after a backoff
    POSTPONE = "postpone"  # uncounted
    FINISH = "finish"
    BURY = "bury"
    RETURN = "return"  # move it back to its pool's queue
    REJOIN = "rejoin"  # it lies in its pool's queue again
    REVIVE = "revive"
    AGAIN = "again"  # ask for the same move once more, later
    HOLD = "hold"  # back to the line; the agent waits for the disk
    WARN = "warn"
    CALL_OFF = "call off"  # tell its agent to let go of it
    ANNUL = "annul"  # tell its sender, and put it into dead_letter/ as cancelled
    WITHDRAW = "withdraw"
    TOO_LATE = "too late"  # completed after it was cancelled: write that down, and nothing else
    END = "end"  # the commit is on disk: write it down, forget the message


class Uptake(Word):
    """The stages of what an agent is known to have made of a message since it was told, or before."""

    UNSEEN = "unseen"
    SEEN = "seen"  # it has it; this session's log does not say that its task began
    STARTED = "started"  # it has it, and the log says so of its task, if it is one


class Completion(Word):
    """The ways in which a message is completed."""

    DEALT_WITH = "dealt with"  # its agent says so, or has removed it
    BY_SIGHT = "by sight"  # it was seen, which is enough: nobody has said that it is dealt with
    LATE = "late"  # done when it lay in dead_letter/ already
    DUPLICATE = "duplicate"  # archived untold: its twin is open, or was completed


S, H, A = State, Happening, Act

#: Answers of an endpoint that may come after the message has moved on. They do nothing, and are no error.
_LATE: Final = (H.TOLD, H.NOT_TOLD, H.AWAY, H.FAILED, H.EXHAUSTED, H.STOPPED, H.LET_GO)


def _late(state: State) -> dict[Happening, tuple[State, Act]]:
    return dict.fromkeys(_LATE, (state, A.NOTHING))


#: Events that may come while the last move of a message is under way.
_MEANWHILE: Final = (
    H.SEEN, H.ENOUGH, H.ACKED, H.DONE, H.REFUSED, H.VANISHED, H.SPOOL_LOST, H.REQUEUED, H.CANCELLED, H.EXPIRED,
)  # fmt: skip

TABLE: Final[dict[State, dict[Happening, tuple[State, Act]]]] = {
    S.QUEUED: {
        **_late(S.QUEUED),  # of an earlier life: it was requeued
        H.OFFERED: (S.CLAIMING, A.CLAIM),
        H.SEEN: (S.QUEUED, A.NOTE),
        H.ENOUGH: (S.FINISHING, A.FINISH),
        H.ACKED: (S.CLAIMING, A.CLAIM),  # it has it already: no telling
        H.DONE: (S.FINISHING, A.FINISH),
        H.SENT_TWICE: (S.FINISHING, A.FINISH),
        H.REFUSED: (S.BURYING, A.BURY),
        H.VANISHED: (S.WITHDRAWN, A.END),
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.REQUEUED: (S.QUEUED, A.NOTHING),
        H.CANCELLED: (S.WITHDRAWING, A.WITHDRAW),
        H.RECALLED: (S.WITHDRAWING, A.WITHDRAW),  # its claim was refused
        H.EXPIRED: (S.BURYING, A.BURY),
    },
    S.CLAIMING: {
        **_late(S.CLAIMING),
        **dict.fromkeys((H.ENOUGH, H.ACKED, H.DONE, H.REFUSED, H.CANCELLED), (S.CLAIMING, A.REMEMBER)),
        H.SEEN: (S.CLAIMING, A.NOTE),
        H.CLAIMED: (S.PROCESSING, A.TELL),
        H.LOST: (S.WITHDRAWN, A.END),
        H.DISK_FAILED: (S.QUEUED, A.HOLD),
        H.VANISHED: (S.CLAIMING, A.NOTHING),  # the move finds out by itself
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.REQUEUED: (S.CLAIMING, A.NOTHING),
        H.EXPIRED: (S.CLAIMING, A.NOTHING),  # its turn came before that
    },
    S.PROCESSING: {
        H.TOLD: (S.DELIVERED, A.AWAIT),
        H.NOT_TOLD: (S.RETRYING, A.RETRY),
        H.FAILED: (S.RETRYING, A.RETRY),
        H.EXHAUSTED: (S.BURYING, A.BURY),
        H.AWAY: (S.RETRYING, A.POSTPONE),
        H.STOPPED: (S.RETRYING, A.POSTPONE),
        H.SEEN: (S.PROCESSING, A.NOTE),
        H.ENOUGH: (S.FINISHING, A.FINISH),
        H.ACKED: (S.ACKED, A.START),
        H.DONE: (S.FINISHING, A.FINISH),
        H.REFUSED: (S.BURYING, A.BURY),
        H.VANISHED: (S.COMPLETED, A.END),
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.REQUEUED: (S.PROCESSING, A.NOTHING),
        H.CANCELLED: (S.CANCELLING, A.CALL_OFF),
        H.RECALLED: (S.WITHDRAWING, A.WITHDRAW),
        H.LET_GO: (S.PROCESSING, A.NOTHING),
        H.EXPIRED: (S.PROCESSING, A.NOTHING),  # its agent has it
    },
    S.DELIVERED: {
        H.TOLD: (S.DELIVERED, A.NOTHING),  # a nudge's answer
        H.NOT_TOLD: (S.DELIVERED, A.NOTHING),
        H.AWAY: (S.DELIVERED, A.NOTHING),
        H.FAILED: (S.RETRYING, A.RETRY),
        H.EXHAUSTED: (S.BURYING, A.BURY),
        H.STOPPED: (S.RETRYING, A.POSTPONE),
        H.SEEN: (S.DELIVERED, A.NOTE),
        H.ENOUGH: (S.FINISHING, A.FINISH),
        H.ACKED: (S.ACKED, A.START),
        H.DONE: (S.FINISHING, A.FINISH),
        H.REFUSED: (S.BURYING, A.BURY),
        H.SILENT: (S.BURYING, A.BURY),
        H.UNFINISHED: (S.BURYING, A.BURY),
        H.OVERDUE: (S.DELIVERED, A.WARN),  # a handler that does not return
        H.VANISHED: (S.COMPLETED, A.END),
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.REQUEUED: (S.DELIVERED, A.NOTHING),
        H.CANCELLED: (S.CANCELLING, A.CALL_OFF),
        H.LET_GO: (S.DELIVERED, A.NOTHING),
        H.EXPIRED: (S.DELIVERED, A.NOTHING),  # its agent has it
    },
    S.ACKED: {
        H.TOLD: (S.ACKED, A.NOTE),  # the ack was quicker than the proof
        H.NOT_TOLD: (S.ACKED, A.NOTHING),
        H.AWAY: (S.ACKED, A.NOTHING),
        H.FAILED: (S.RETRYING, A.RETRY),
        H.EXHAUSTED: (S.BURYING, A.BURY),
        H.STOPPED: (S.RETRYING, A.POSTPONE),
        H.SEEN: (S.ACKED, A.NOTE),
        H.ENOUGH: (S.FINISHING, A.FINISH),
        H.ACKED: (S.ACKED, A.NOTHING),
        H.DONE: (S.FINISHING, A.FINISH),
        H.REFUSED: (S.BURYING, A.BURY),
        H.SILENT: (S.BURYING, A.BURY),  # it had taken it, and then fell silent
        H.UNFINISHED: (S.BURYING, A.BURY),
        H.OVERDUE: (S.ACKED, A.WARN),
        H.VANISHED: (S.COMPLETED, A.END),
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.REQUEUED: (S.ACKED, A.NOTHING),
        H.CANCELLED: (S.CANCELLING, A.CALL_OFF),
        H.LET_GO: (S.ACKED, A.NOTHING),
        H.EXPIRED: (S.ACKED, A.NOTHING),  # its agent has it
    },
    S.RETRYING: {
        **_late(S.RETRYING),
        H.OFFERED: (S.PROCESSING, A.TELL),
        H.EXHAUSTED: (S.BURYING, A.BURY),  # poison: we died too often with it in hand
        H.SEEN: (S.RETRYING, A.NOTE),
        H.ENOUGH: (S.FINISHING, A.FINISH),
        H.ACKED: (S.ACKED, A.START),  # it had it after all
        H.DONE: (S.FINISHING, A.FINISH),
        H.REFUSED: (S.BURYING, A.BURY),
        H.VANISHED: (S.COMPLETED, A.END),
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.REQUEUED: (S.RETRYING, A.NOTHING),
        H.CANCELLED: (S.ANNULLING, A.ANNUL),  # nobody has it in hand
        H.EXPIRED: (S.BURYING, A.BURY),
        H.HANDED_BACK: (S.RETURNING, A.RETURN),
    },
    S.RETURNING: {
        **_late(S.RETURNING),
        **dict.fromkeys(_MEANWHILE, (S.RETURNING, A.NOTHING)),
        **dict.fromkeys((H.DONE, H.REFUSED, H.CANCELLED), (S.RETURNING, A.REMEMBER)),
        H.MOVED: (S.QUEUED, A.REJOIN),
        H.LOST: (S.COMPLETED, A.END),  # its holder completed it meanwhile, by deleting it
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.DISK_FAILED: (S.RETURNING, A.AGAIN),
    },
    S.FINISHING: {
        **_late(S.FINISHING),
        **dict.fromkeys(_MEANWHILE, (S.FINISHING, A.NOTHING)),
        H.MOVED: (S.COMPLETED, A.END),
        H.LOST: (S.COMPLETED, A.END),  # removed by its agent's hand meanwhile
        H.DISK_FAILED: (S.FINISHING, A.AGAIN),
    },
    S.BURYING: {
        **_late(S.BURYING),
        **dict.fromkeys(_MEANWHILE, (S.BURYING, A.NOTHING)),
        H.DONE: (S.BURYING, A.REMEMBER),
        H.MOVED: (S.DEAD, A.END),
        H.LOST: (S.COMPLETED, A.END),  # its agent, who had it, completed it meanwhile
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.DISK_FAILED: (S.BURYING, A.AGAIN),
    },
    S.DEAD: {
        **_late(S.DEAD),
        **dict.fromkeys(_MEANWHILE, (S.DEAD, A.NOTHING)),
        H.DONE: (S.FINISHING, A.FINISH),  # a late completion
        H.REQUEUED: (S.REVIVING, A.REVIVE),
    },
    S.REVIVING: {
        **_late(S.REVIVING),
        **dict.fromkeys(_MEANWHILE, (S.REVIVING, A.NOTHING)),
        H.DONE: (S.REVIVING, A.REMEMBER),
        H.MOVED: (S.QUEUED, A.NOTE),
        H.LOST: (S.DEAD, A.NOTHING),
        H.DISK_FAILED: (S.REVIVING, A.AGAIN),
    },
    S.CANCELLING: {
        H.TOLD: (S.CANCELLING, A.NOTE),  # its telling was under way
        H.NOT_TOLD: (S.CANCELLING, A.NOTHING),
        H.AWAY: (S.CANCELLING, A.NOTHING),
        **dict.fromkeys((H.SEEN, H.ENOUGH, H.ACKED, H.CANCELLED, H.EXPIRED, H.REQUEUED), (S.CANCELLING, A.NOTHING)),
        H.DONE: (S.FINISHING, A.FINISH),  # before the move: the completion counts
        # However its work ends otherwise, its agent has let go of it.
        **dict.fromkeys((H.LET_GO, H.REFUSED, H.FAILED, H.EXHAUSTED, H.STOPPED), (S.ANNULLING, A.ANNUL)),
        H.VANISHED: (S.COMPLETED, A.END),
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
    },
    S.ANNULLING: {
        **_late(S.ANNULLING),
        **dict.fromkeys(_MEANWHILE, (S.ANNULLING, A.NOTHING)),
        H.DONE: (S.ANNULLING, A.REMEMBER),
        H.MOVED: (S.CANCELLED, A.END),
        H.LOST: (S.COMPLETED, A.END),  # its agent, who had it, completed it meanwhile
        H.SPOOL_LOST: (S.WITHDRAWN, A.END),
        H.DISK_FAILED: (S.ANNULLING, A.AGAIN),
    },
    S.WITHDRAWING: {
        **_late(S.WITHDRAWING),
        **dict.fromkeys(_MEANWHILE, (S.WITHDRAWING, A.NOTHING)),
        H.DONE: (S.WITHDRAWING, A.TOO_LATE),
        H.MOVED: (S.WITHDRAWN, A.END),
        H.LOST: (S.WITHDRAWN, A.END),
        H.DISK_FAILED: (S.WITHDRAWING, A.AGAIN),
    },
    S.CANCELLED: {
        **_late(S.CANCELLED),
        **dict.fromkeys(_MEANWHILE, (S.CANCELLED, A.NOTHING)),
        H.DONE: (S.CANCELLED, A.TOO_LATE),
        H.REQUEUED: (S.REVIVING, A.REVIVE),
    },
    S.COMPLETED: {},
    S.WITHDRAWN: {},
}

#: States in which a message fills a place of its agent's window.
IN_WINDOW: Final = frozenset({S.CLAIMING, S.PROCESSING, S.DELIVERED, S.ACKED, S.CANCELLING})
#: States that wait for a move on disk: its answer, and nothing else, says where the file is.
MOVING: Final = frozenset({S.CLAIMING, S.FINISHING, S.BURYING, S.REVIVING, S.RETURNING, S.ANNULLING, S.WITHDRAWING})
ENDED: Final = frozenset({S.COMPLETED, S.DEAD, S.CANCELLED, S.WITHDRAWN})
#: States of a message that lies in dead_letter/.
IN_DEAD_LETTER: Final = frozenset({S.DEAD, S.CANCELLED})

#: The word for each state in what people read: a move under way is shown as the state that it comes from.
SHOWN: Final[dict[State, str]] = {
    **{state: state.value for state in State},
    S.CLAIMING: "queued",
    S.FINISHING: "completing",
    S.BURYING: "dying",
    S.REVIVING: "dead",
    S.RETURNING: "queued",
    S.ANNULLING: "cancelling",
}


def step(state: State, happening: Happening) -> tuple[State, Act]:
    try:
        return TABLE[state][happening]
    except KeyError:
        raise ImpossibleEvent("delivery", state.value, happening.value) from None
