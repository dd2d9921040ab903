"""Models of bodies, and their pydantic-free shadow: each example passes, each single breakage is named."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ackd.core.message import KNOWN_TYPES
from ackd.dialects import bodies, body_shapes, yaml_body

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted((Path(__file__).parent / "corpus" / "bodies").glob("*.yaml"))
EXAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
Step = tuple[str | int, ...]


def type_of(stem: str) -> str:
    return stem.partition("--")[0]


def paths(value: Any, at: Step = ()) -> Iterator[Step]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*at, key))


def changed(value: Any, at: Step, new: Any) -> Any:
    result = copy.deepcopy(value)
    holder = result
    for step in at[:-1]:
        holder = holder[step]
    if new is DROPPED:
        del holder[at[-1]]
    else:
        holder[at[-1]] = new
    return result


DROPPED = object()
WRONG: tuple[Any, ...] = (DROPPED, None, "", "other", 7, -7, 101, 2.5, -0.5, True, [], [None], ["x"], {}, {"x": 1})
BREAKAGES = [(stem, at) for stem, text in EXAMPLES.items() for at in paths(yaml_body.load(text))]


def shown(at: Step) -> str:
    return bodies._where(at)


def test_there_is_an_example_of_every_body_that_is_modelled() -> None:
    assert {type_of(stem) for stem in EXAMPLES} == set(bodies.MODELS)
    assert set(body_shapes.SHAPES) | {"task_completed"} == set(bodies.MODELS)


@pytest.mark.parametrize("stem", EXAMPLES)
def test_each_example_validates(stem: str) -> None:
    assert bodies.check(type_of(stem), EXAMPLES[stem]) == []
    assert body_shapes.quick_check(type_of(stem), yaml_body.load(EXAMPLES[stem]))


@pytest.mark.parametrize(("stem", "at"), BREAKAGES, ids=lambda part: part if isinstance(part, str) else shown(part))
def test_the_models_and_the_quick_check_agree_on_every_breakage_of_every_field(stem: str, at: Step) -> None:
    kind, example = type_of(stem), yaml_body.load(EXAMPLES[stem])
    for wrong in WRONG:
        body = changed(example, at, wrong)
        problems = bodies.check(kind, yaml_body.dump(body))
        assert body_shapes.quick_check(kind, body) == (not problems), (wrong, problems)


@pytest.mark.parametrize(("stem", "at"), BREAKAGES, ids=lambda part: part if isinstance(part, str) else shown(part))
def test_a_field_of_the_wrong_kind_is_named_with_its_line(stem: str, at: Step) -> None:
    example = yaml_body.load(EXAMPLES[stem])
    text = yaml_body.dump(changed(example, at, {"of": "another kind"}))
    _, lines = yaml_body.load_with_lines(text)
    problems = bodies.check(type_of(stem), text, first_line=100)
    expected = shown(at)
    assert problems
    assert all(problem.where == expected or problem.where.startswith(f"{expected}.") for problem in problems)
    assert {problem.line for problem in problems} <= {lines[at] + 99, lines[at] + 98}


def test_a_missing_field_is_named_with_the_line_of_what_lacks_it() -> None:
    text = "goal: x\nstrategy_summary: y\ntasks:\n  - title: t\n    description: d\n    phase: 1\n    priority: soon\n"
    problems = bodies.check("task_list", text, first_line=12)
    assert [(p.where, p.line) for p in problems] == [
        ("tasks[0].task_id", 15), ("tasks[0].deliverables", 15), ("tasks[0].priority", 18),
    ]  # fmt: skip
    assert problems[0].what == "is required, and missing"
    assert problems[2].what == "must be 'critical', 'high', 'normal' or 'low', not 'soon'"


def test_numbers_are_not_taken_from_text_nor_text_from_numbers() -> None:
    (problem,) = bodies.check("progress_update", 'repository: a/b\nsummary: s\npercent: "40"\n')
    assert str(problem) == "line 3: percent: must be a whole number, not the text '40'"
    (problem,) = bodies.check("user_goal", "goal: 7\n")
    assert str(problem) == "line 1: goal: must be text, not 7"


def test_a_percentage_ends_at_100() -> None:
    (problem,) = bodies.check("progress_update", "repository: a/b\nsummary: s\npercent: 101\n")
    assert str(problem) == "line 3: percent: should be less than or equal to 100, not 101"


def test_a_failed_task_must_say_what_failed_and_a_finished_one_what_it_made() -> None:
    assert [p.where for p in bodies.check("task_completed", "task_id: a\ntitle: b\nstatus: error\n")] == ["error"]
    assert [p.where for p in bodies.check("task_completed", "task_id: a\ntitle: b\nstatus: success\n")] == [
        "deliverables"
    ]
    assert [p.where for p in bodies.check("task_completed", "task_id: a\ntitle: b\nstatus: maybe\n")] == ["status"]


def test_keys_beyond_the_model_are_allowed() -> None:
    assert bodies.check("user_goal", "goal: x\nmood: good\n") == []


@pytest.mark.parametrize("body", ["- a list\n", "just text\n", ""])
def test_a_body_that_is_no_mapping_is_refused_for_modelled_types(body: str) -> None:
    assert len(bodies.check("user_goal", body)) == 1
    assert not body_shapes.quick_check("user_goal", yaml_body.load(body))
    assert not body_shapes.quick_check("task_completed", yaml_body.load(body))


def test_other_types_are_free_but_must_be_yaml() -> None:
    assert bodies.check("github_event", "- anything\n") == []
    assert body_shapes.quick_check("github_event", ["anything"])
    (problem,) = bodies.check("github_event", "a: 1\na: 2\n", first_line=10)
    assert problem.line == 11


@pytest.mark.parametrize("kind", sorted(KNOWN_TYPES))
def test_every_type_has_a_schema(kind: str) -> None:
    described = bodies.schema(kind)
    assert described["title"] == kind
    assert described["$schema"].startswith("https://json-schema.org/")


def test_the_schema_lists_what_is_required() -> None:
    assert bodies.schema("progress_update")["required"] == ["repository", "summary"]
    assert "from" in bodies.schema("escalation")["$defs"]["AboutMessage"]["required"]
    assert len(bodies.schema("task_completed")["oneOf"]) == 2


def test_a_type_that_does_not_exist_has_no_schema() -> None:
    with pytest.raises(KeyError):
        bodies.schema("poem")
