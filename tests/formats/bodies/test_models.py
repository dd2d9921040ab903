"""Models of bodies, and the quick check without pydantic: each example passes, and both agree on each breakage."""

from __future__ import annotations

from typing import Any

import pytest

from ackd.formats import bodies, body_shapes, yaml_body
from tests.formats.bodies.bench import BREAKAGES, DROPPED, EXAMPLES, Step, changed, shown, type_of

WRONG: tuple[Any, ...] = (DROPPED, None, "", "other", 7, -7, 101, 2.5, -0.5, True, [], [None], ["x"], {}, {"x": 1})


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


def test_a_failed_task_must_say_what_failed_and_a_finished_one_what_it_made() -> None:
    assert [p.where for p in bodies.check("task_completed", "task_id: a\ntitle: b\nstatus: error\n")] == ["error"]
    assert [p.where for p in bodies.check("task_completed", "task_id: a\ntitle: b\nstatus: success\n")] == [
        "deliverables"
    ]
    assert [p.where for p in bodies.check("task_completed", "task_id: a\ntitle: b\nstatus: maybe\n")] == ["status"]


def test_keys_beyond_the_model_are_allowed() -> None:
    assert bodies.check("user_goal", "goal: x\nmood: good\n") == []
