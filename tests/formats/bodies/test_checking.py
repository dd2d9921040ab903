"""Checking bodies: each broken field is named, with its line."""

from __future__ import annotations

import pytest

from ackd.core.message import KNOWN_TYPES
from ackd.formats import bodies, body_shapes, yaml_body
from tests.formats.bodies.bench import BREAKAGES, EXAMPLES, Step, changed, shown, type_of


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
