"""What is wrong with a message, each problem with its line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.message.bench import CORPUS, PLAIN, fails, parsed, run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_type_of_the_config_is_known_where_the_config_is(tmp_path: Path) -> None:
    (tmp_path / "ackd.toml").write_text('extra_types = ["poem"]\n')
    out = tmp_path / "m.mime"
    assert run("build", "--from", "user", "--to", "leader", "--type", "poem", "-o", out).exit_code == 0
    assert parsed(out)["type"] == "poem"
    assert run("validate", out).exit_code == 0
    assert json.loads(run("schema", "poem").stdout)["title"] == "poem"


@pytest.mark.parametrize("path", sorted((CORPUS / "broken").glob("*.mime")), ids=lambda path: path.stem)
def test_a_broken_message_is_65_for_parse_and_1_for_validate(path: Path) -> None:
    assert str(path) in fails(65, "parse", path)
    result = run("validate", path)
    assert result.exit_code == 1
    assert str(path) in result.stdout


def test_a_broken_message_can_be_mended_step_by_step(file: Path) -> None:
    file.write_bytes(PLAIN.replace(b"task_assignment", b"poem").replace(b"high", b"urgent"))
    assert run("update-header", file, "X-IGNITE-Priority", "high").exit_code == 0
    assert run("update-header", file, "X-IGNITE-Type", "task_assignment").exit_code == 0
    assert file.read_bytes() == PLAIN


def test_validate_names_each_problem_with_its_line_in_the_file(file: Path) -> None:
    file.write_bytes(
        PLAIN.replace(b"high", b"urgent").replace(b"title: Mend the parser", b"title: 7").replace(b"Nov", b"Brumaire")
    )
    result = run("validate", file)
    assert result.exit_code == 1
    assert [line.removeprefix(f"{file}: ") for line in result.stdout.splitlines()] == [
        "line 7: header: unknown priority 'urgent': critical, high, normal, low",
        "line 5: header: Date is no RFC 2822 date: 'Mon, 16 Brumaire 2026 01:02:03 +0000'",
        "line 12: title: must be text, not 7",
    ]


def test_validate_answers_in_json(file: Path) -> None:
    assert json.loads(run("validate", file, "--json").stdout) == {"file": str(file), "valid": True, "problems": []}
    file.write_bytes(PLAIN.replace(b"title:", b"task_id:"))
    result = run("validate", file, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == [{"line": 12, "where": "", "what": "key 'task_id' stands twice"}]


def test_validate_survives_an_alias_bomb(file: Path) -> None:
    bomb = "a: &a [x,x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1 if n else ''},*a]\n" for n in range(30))
    file.write_bytes(PLAIN + bomb.encode())
    assert "anchor" in run("validate", file).stdout


def test_validate_of_a_missing_file_is_66(tmp_path: Path) -> None:
    assert "no such file" in fails(66, "validate", tmp_path / "none.mime")


def test_the_weekday_of_the_date_is_not_checked(file: Path) -> None:
    file.write_bytes(PLAIN.replace(b"Mon, 16", b"Sun, 16"))
    assert run("validate", file).stdout == f"{file}: valid\n"


def test_validate_calls_what_is_no_regular_file_a_problem_of_it(tmp_path: Path) -> None:
    (tmp_path / "link.mime").symlink_to(CORPUS / "good" / "plain.mime")
    result = run("validate", tmp_path / "link.mime")
    assert result.exit_code == 1
    assert "symbolic link" in result.stdout
