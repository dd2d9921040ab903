"""The limited YAML loader: accepted values mean what their writer saw, and everything else is a named refusal."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ackd.core.errors import BadBody
from ackd.formats import yaml_body


def refusal(text: str) -> tuple[str, int | None]:
    with pytest.raises(BadBody) as caught:
        yaml_body.load(text)
    return caught.value.problems[0].what, caught.value.problems[0].line


@pytest.mark.parametrize("word", ["no", "No", "NO", "yes", "on", "off", "y", "n", "2026-11-16", "2026-11-16T01:02:03Z", "012", "1:30", "1_000", "0x1F", ".inf", ".nan", "1e5", "1.5e5", "=", "<<"])  # fmt: skip
def test_no_stays_a_string_and_does_not_become_False(word: str) -> None:
    assert yaml_body.load(f"answer: {word}\n{word}: key\n") == {"answer": word, word: "key"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("0", 0), ("-7", -7), ("+7", 7),
     ("2.50", 2.5), ("-1.0e+3", -1000.0), ('"7"', "7"), ("'true'", "true"), ("!!str 7", "7"), ("! 7", "7")],
)  # fmt: skip
def test_true_false_null_and_plain_numbers_mean_what_they_say(text: str, value: object) -> None:
    loaded = yaml_body.load(f"a: {text}")
    assert loaded == {"a": value}
    assert isinstance(loaded, dict)
    assert type(loaded["a"]) is type(value)


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    started = time.perf_counter()
    assert refusal(bomb) == ("anchor &a: anchors and aliases are not taken", 1)
    assert time.perf_counter() - started < 10


def test_an_alias_without_an_anchor_is_refused() -> None:
    assert refusal("a: 1\nb: *x\n")[1] == 2


def test_a_key_that_stands_twice_is_refused_and_not_the_last_one_taken() -> None:
    assert refusal("a: 1\nb:\n  c: 1\n  c: 2\n") == ("key 'c' stands twice", 4)
    assert yaml_body.load("a: {c: 1}\nb: {c: 2}") == {"a": {"c": 1}, "b": {"c": 2}}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 100_000, "- " * 50_000, "".join(" " * n + "a:\n" for n in range(200))]
)
def test_deep_nesting_is_refused_without_a_RecursionError(text: str) -> None:
    started = time.perf_counter()
    assert "nested deeper" in refusal(text)[0]
    assert time.perf_counter() - started < 10


def test_the_deepest_nesting_allowed_is_loaded() -> None:
    value: Any = "leaf"
    for _ in range(yaml_body.MAX_DEPTH):
        value = [value]
    text = "[" * yaml_body.MAX_DEPTH + "leaf" + "]" * yaml_body.MAX_DEPTH
    assert yaml_body.load(text) == value
    assert "nested deeper" in refusal(f"[{text}]")[0]


@pytest.mark.parametrize(
    "text",
    ["- a\n" * 30_000, "x" * (yaml_body.MAX_CHARS + 1), "a: !!python/object/apply:os.system [true]", "a: !mine 1",
     "a: !!int 'x'", "--- a\n--- b\n", "? [a]\n: b\n", "{[a]: b}", "a: b: c", "\ta: 1", "a: 'open", "a: \0", "a: \x1b", "\ud800",
     '"\\ud800"', '"\\UFFFFFFFF"', "%YAML 9.9\n--- a\n", "a: @b"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_is_not_taken_is_refused_by_name(text: str) -> None:
    assert refusal(text)[0]


def test_every_key_and_item_knows_its_line() -> None:
    _, lines = yaml_body.load_with_lines("# first\na: 1\nb:\n  - c: 2\n    d: |\n      x\n      y\n  - 3\n")
    assert lines == {(): 2, ("a",): 2, ("b",): 3, ("b", 0): 4, ("b", 0, "c"): 4, ("b", 0, "d"): 5, ("b", 1): 8}


def test_the_line_of_broken_yaml_is_named() -> None:
    assert refusal("a: 1\nb: 2\nc: [\n")[1] in {3, 4}
    assert refusal("a: 1\nb: \x07\n")[1] in {None, 1, 2}


@given(st.text(max_size=300))
def test_any_text_is_loaded_or_refused(text: str) -> None:
    try:
        yaml_body.load_with_lines(text)
    except BadBody as refused:
        assert refused.problems


_NOISE = st.lists(st.sampled_from(["a", ": ", "- ", "\n", "  ", "[", "]", "{", "}", "&a ", "*a", "!!str ", "|", ">", "'", '"', "#", "? ", ",", "---", "\\u", "1", "é"]), max_size=40).map("".join)  # fmt: skip


@given(_NOISE)
def test_any_noise_of_yaml_signs_is_loaded_or_refused(text: str) -> None:
    try:
        yaml_body.load_with_lines(text)
    except BadBody as refused:
        assert refused.problems


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["no", "yes", "on", "null", "~", "", "1", "1.5", "0x1F", "012", "1e5", "2026-11-16", "a: b", "- a", "# c", "a\nb", "a\nb\n",
     " a\n b", "a \nb", "\n", "\na", "a\n\n", "é\n日本", "'", '"', "|", ">", "%", "@", "`", "&a", "*a", "!t", "=", "<<", "...", "---"]
)  # fmt: skip
_VALUE = st.recursive(
    _TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_TEXT, _VALUE, max_size=4))
def test_what_is_dumped_comes_back_the_same(value: dict[str, Any]) -> None:
    assert yaml_body.load(yaml_body.dump(value)) == value


def test_a_dump_is_made_for_reading() -> None:
    shared = ["x"]
    text = yaml_body.dump({"z": "no", "a": "READMEを書く", "steps": "one\ntwo\n", "l": shared, "m": shared})
    assert text == "z: 'no'\na: READMEを書く\nsteps: |\n  one\n  two\nl:\n- x\nm:\n- x\n"


def test_a_lone_surrogate_is_written_as_a_question_mark_and_crashes_nobody() -> None:
    assert yaml_body.load(yaml_body.dump({"a": "x\ud800y"})) == {"a": "x?y"}


def test_without_libyaml_the_pure_loader_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: no\nb:\n  - c: 1\n    d: |\n      x\n  - 2.5\n"
    expected = yaml_body.load_with_lines(text)
    monkeypatch.setattr(yaml_body, "_BodyLoader", yaml.SafeLoader)
    assert yaml_body.load_with_lines(text) == expected
    for hostile in ("[" * 5000, "a: &x 1", '"\\ud800"', '"\\UFFFFFFFF"', "\0", "\ud800", "a: 'open"):
        assert refusal(hostile)[0]
