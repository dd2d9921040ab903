"""`ackd message …` as a script meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli import runner

if TYPE_CHECKING:
    from tests.cli.runner import Result

CORPUS = Path(__file__).parents[2] / "formats" / "corpus"
PLAIN = (CORPUS / "good" / "plain.mime").read_bytes()


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    return runner.run(["message", *map(str, args)], stdin=stdin)


def fails(code: int, *args: str | Path, stdin: bytes | None = None) -> str:
    """Its one line on stderr."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    if code != 2:
        assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


MINIMAL = ("--from", "user", "--to", "leader", "--type", "user_goal")


def parsed(path: Path) -> dict[str, Any]:
    result = run("parse", path)
    assert result.exit_code == 0, result.stderr
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded
