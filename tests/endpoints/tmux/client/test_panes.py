"""Lines of list-panes become panes, whatever text stands in them; and finding the pane that is meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackd.endpoints.tmux.client import AmbiguousPane, NoPane, Pane, TmuxRefused, with_target, with_title
from ackd.endpoints.tmux.client.panes import parse_pane

LINE = "%3, 4242, 0, , 1, 0, 0, 80, 24, 7, 1763254800, 2, 1, 4:team 4:main {title} 6:leader 0: node"
PANE = Pane(
    "%3", 4242, False, None, True, False, False, 80, 24, 7, 1763254800, 2, 1, "team", "main", "t", "node", "leader", ""
)


def line(title: str) -> bytes:
    return LINE.format(title=f"{len(title.encode())}:{title}").encode()


def test_a_line_is_read_into_a_pane() -> None:
    assert parse_pane(line("t")) == PANE
    assert PANE.target == "team:2.1"


@pytest.mark.parametrize("title", ["", "a b", "5:forge 6:boss 0: node", ", , , %9", "◇ Ready", " "])
def test_no_title_can_forge_the_words_behind_it(title: str) -> None:
    assert parse_pane(line(title)) == replace(PANE, title=title)


def test_what_tmux_says_of_a_pane_that_is_not_there_is_no_pane() -> None:
    with pytest.raises(NoPane):
        parse_pane(b", , , , , , , , , , , , , 0: 0: 0: 0: 0: ")


@pytest.mark.parametrize("bad", [b"", b"%1", b"%3, x", line("t")[:-12], line("t").replace(b"6:leader", b"9:leader")])
def test_a_line_that_cannot_be_read_is_said_to_be_so(bad: bytes) -> None:
    with pytest.raises((TmuxRefused, NoPane)):
        parse_pane(bad)


OTHER = replace(PANE, pane_id="%4", pane_index=2, title="u")


@pytest.mark.parametrize(
    ("target", "found"), [("%3", "%3"), ("team:2.1", "%3"), ("team:main.2", "%4"), ("=team:2.2", "%4")]
)
def test_a_target_is_matched_whole(target: str, found: str) -> None:
    assert with_target([PANE, OTHER], target).pane_id == found


@pytest.mark.parametrize("target", ["team:2.7", "team:3", "tea:2.1", "%33", "", "team:2.1x"])
def test_no_other_pane_is_taken_for_one_that_is_not_there(target: str) -> None:
    with pytest.raises(NoPane):
        with_target([PANE, OTHER], target)


def test_where_several_panes_fit_none_is_guessed_at() -> None:
    with pytest.raises(AmbiguousPane, match="%3, %4"):
        with_target([PANE, OTHER], "team:2")
    with pytest.raises(AmbiguousPane):
        with_title([PANE, replace(OTHER, title="t")], "t")


def test_of_a_living_and_a_dead_pane_the_living_one_is_meant() -> None:
    assert with_title([replace(PANE, dead=True), replace(OTHER, title="t")], "t").pane_id == "%4"
