"""Every cell of the delivery table, against a grid that was written down apart from it."""

from __future__ import annotations

import pytest

from ackd.core.delivery import ENDED, IN_WINDOW, MOVING, SHOWN, TABLE, Act, Happening, State, step
from ackd.core.errors import ImpossibleEvent

LETTERS = {
    "Q": State.QUEUED,
    "C": State.CLAIMING,
    "P": State.PROCESSING,
    "D": State.DELIVERED,
    "A": State.ACKED,
    "R": State.RETRYING,
    "F": State.FINISHING,
    "B": State.BURYING,
    "V": State.REVIVING,
    "H": State.RETURNING,
    "K": State.CANCELLING,
    "N": State.ANNULLING,
    "T": State.WITHDRAWING,
    "X": State.DEAD,
    "Y": State.CANCELLED,
    "Z": State.COMPLETED,
    "W": State.WITHDRAWN,
}
#: ``-`` cannot happen · ``=`` stays, nothing is done · ``=:note`` stays, and is noted · ``C:claim`` goes to C, by claiming
GRID = """
             Q           C           P           D           A           R         F        B           V           H           K         N           T           X         Y           Z  W
offered      C:claim     -           -           -           -           P:tell    -        -           -           -           -         -           -           -         -           -  -
claimed      -           P:tell      -           -           -           -         -        -           -           -           -         -           -           -         -           -  -
told         =           =           D:await     =           =:note      =         =        =           =           =           =:note    =           =           =         =           -  -
not_told     =           =           R:retry     =           =           =         =        =           =           =           =         =           =           =         =           -  -
away         =           =           R:postpone  =           =           =         =        =           =           =           =         =           =           =         =           -  -
seen         =:note      =:note      =:note      =:note      =:note      =:note    =        =           =           =           =         =           =           =         =           -  -
enough       F:finish    =:remember  F:finish    F:finish    F:finish    F:finish  =        =           =           =           =         =           =           =         =           -  -
acked        C:claim     =:remember  A:start     A:start     =           A:start   =        =           =           =           =         =           =           =         =           -  -
done         F:finish    =:remember  F:finish    F:finish    F:finish    F:finish  =        =:remember  =:remember  =:remember  F:finish  =:remember  =:too_late  F:finish  =:too_late  -  -
sent_twice   F:finish    -           -           -           -           -         -        -           -           -           -         -           -           -         -           -  -
refused      B:bury      =:remember  B:bury      B:bury      B:bury      B:bury    =        =           =           =:remember  N:annul   =           =           =         =           -  -
failed       =           =           R:retry     R:retry     R:retry     =         =        =           =           =           N:annul   =           =           =         =           -  -
exhausted    =           =           B:bury      B:bury      B:bury      B:bury    =        =           =           =           N:annul   =           =           =         =           -  -
stopped      =           =           R:postpone  R:postpone  R:postpone  =         =        =           =           =           N:annul   =           =           =         =           -  -
silent       -           -           -           B:bury      B:bury      -         -        -           -           -           -         -           -           -         -           -  -
unfinished   -           -           -           B:bury      B:bury      -         -        -           -           -           -         -           -           -         -           -  -
overdue      -           -           -           =:warn      =:warn      -         -        -           -           -           -         -           -           -         -           -  -
vanished     W:end       =           Z:end       Z:end       Z:end       Z:end     =        =           =           =           Z:end     =           =           =         =           -  -
moved        -           -           -           -           -           -         Z:end    X:end       Q:note      Q:rejoin    -         Y:end       W:end       -         -           -  -
lost         -           W:end       -           -           -           -         Z:end    Z:end       X:nothing   Z:end       -         Z:end       W:end       -         -           -  -
disk_failed  -           Q:hold      -           -           -           -         =:again  =:again     =:again     =:again     -         =:again     =:again     -         -           -  -
spool_lost   W:end       W:end       W:end       W:end       W:end       W:end     =        W:end       =           W:end       W:end     W:end       =           =         =           -  -
requeued     =           =           =           =           =           =         =        =           =           =           =         =           =           V:revive  V:revive    -  -
cancelled    T:withdraw  =:remember  K:call_off  K:call_off  K:call_off  N:annul   =        =           =           =:remember  =         =           =           =         =           -  -
let_go       =           =           =           =           =           =         =        =           =           =           N:annul   =           =           =         =           -  -
expired      B:bury      =           =           =           =           B:bury    =        =           =           =           =         =           =           =         =           -  -
handed_back  -           -           -           -           -           H:return  -        -           -           -           -         -           -           -         -           -  -
recalled     T:withdraw  -           T:withdraw  -           -           -         -        -           -           -           -         -           -           -         -           -  -
"""


def cells() -> dict[tuple[State, Happening], str]:
    head, *rows = (line.split() for line in GRID.strip("\n").splitlines())
    return {
        (LETTERS[letter], Happening[name.upper()]): cell
        for name, *row in rows
        for letter, cell in zip(head, row, strict=True)
    }


def test_the_grid_has_every_state_and_every_happening() -> None:
    assert set(cells()) == {(state, happening) for state in State for happening in Happening}


@pytest.mark.parametrize(("state", "happening"), [(s, h) for s in State for h in Happening], ids=str)
def test_every_cell(state: State, happening: Happening) -> None:
    cell = cells()[state, happening]
    if cell == "-":
        with pytest.raises(ImpossibleEvent) as caught:
            step(state, happening)
        assert (caught.value.machine, caught.value.state, caught.value.event) == (
            "delivery",
            state.value,
            happening.value,
        )
        return
    letter, _, act = cell.partition(":")
    expected = state if letter == "=" else LETTERS[letter]
    assert step(state, happening) == (expected, Act[act.upper()] if act else Act.NOTHING)


def test_nothing_happens_to_what_is_completed_or_withdrawn() -> None:
    assert TABLE[State.COMPLETED] == TABLE[State.WITHDRAWN] == {}


def test_an_ack_is_valid_in_every_living_state() -> None:
    """An ack may come before "told" came back, while the file is being moved, or after its death."""
    assert all(Happening.ACKED in TABLE[state] for state in State if state not in (State.COMPLETED, State.WITHDRAWN))


def test_a_late_answer_of_an_endpoint_is_never_an_error() -> None:
    late = (Happening.TOLD, Happening.NOT_TOLD, Happening.AWAY, Happening.SEEN)
    for state in set(State) - {State.COMPLETED, State.WITHDRAWN}:
        assert all(happening in TABLE[state] for happening in late), state


def test_every_move_has_an_answer_for_success_for_nothing_there_and_for_a_disk_that_refuses() -> None:
    for state in MOVING:
        success = Happening.CLAIMED if state is State.CLAIMING else Happening.MOVED
        assert {success, Happening.LOST, Happening.DISK_FAILED} <= set(TABLE[state]), state


def test_a_finished_message_is_never_unfinished() -> None:
    assert {next_state for next_state, _ in TABLE[State.FINISHING].values()} == {State.FINISHING, State.COMPLETED}


def test_the_window_is_what_an_agent_has_in_hand() -> None:
    assert {State.CLAIMING, State.PROCESSING, State.DELIVERED, State.ACKED, State.CANCELLING} == IN_WINDOW
    assert {State.COMPLETED, State.DEAD, State.CANCELLED, State.WITHDRAWN} == ENDED


def test_what_was_cancelled_is_never_completed_and_lives_again_only_by_a_requeue() -> None:
    after = {next_state for next_state, _ in TABLE[State.CANCELLED].values()}
    assert after == {State.CANCELLED, State.REVIVING}
    assert {next_state for next_state, _ in TABLE[State.WITHDRAWING].values()} == {State.WITHDRAWING, State.WITHDRAWN}


def test_what_is_being_cancelled_is_never_told_again() -> None:
    for state in (State.CANCELLING, State.ANNULLING, State.WITHDRAWING, State.CANCELLED):
        assert not {State.PROCESSING, State.RETRYING, State.QUEUED} & {after for after, _ in TABLE[state].values()}


def test_every_state_has_a_word_for_people() -> None:
    assert set(SHOWN) == set(State)
    assert SHOWN[State.CLAIMING] == "queued"
