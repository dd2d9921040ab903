"""README's first steps, typed as they stand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.teams import Team

README = Path(__file__).parents[2] / "README.md"


def blocks_of(section: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    inside = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", inside, flags=re.DOTALL)


def test_the_first_steps_do_what_the_readme_says(tmp_path: Path) -> None:
    _install, steps, later = blocks_of("First steps")
    listing = later.replace("kill %1", "kill %1; wait")
    environment = Team(tmp_path / "unused").environment
    here = tmp_path / "team"
    here.mkdir()
    typed = subprocess.run(
        ["bash", "-c", f"{steps}\n{listing}"],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = typed.stdout + typed.stderr
    assert "completed: builder" in said, said
    assert "not completed within 2 s: builder: retrying after: exit 1" in said, said
    assert re.search(r"^builder +exec +available", said, re.MULTILINE), said
    assert '"session_end"' in (here / "run.log").read_text()


async def test_the_handler_of_the_readme_runs() -> None:
    from ackd.core.message import Draft, Priority
    from ackd.handlers import Context, Mail, Refuse

    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    defined: dict[str, Any] = {}
    exec(code, defined)
    written: list[Draft] = []

    async def write(draft: Draft) -> None:
        written.append(draft)

    def asked(body: str) -> tuple[Mail, Context]:
        mail = Mail("1.1.a@x", "user", "greeter", "message", Priority.NORMAL, body)
        return mail, Context("greeter", mail, write)

    await defined["greet"](*asked("name: Ada\n"))
    assert [(draft.recipient, draft.in_reply_to, draft.body) for draft in written] == [
        ("user", "1.1.a@x", {"content": "Hello, Ada!"})
    ]
    with pytest.raises(Refuse, match="whom"):
        await defined["greet"](*asked("content: hello\n"))


def test_every_command_of_the_readme_exists() -> None:
    from click.testing import CliRunner

    from ackd.frontends.cli.group import cli

    text = README.read_text(encoding="utf-8")
    commands = set(re.findall(r"^ackd ([a-z]+)", text, flags=re.MULTILINE)) | set(re.findall(r"`ackd ([a-z]+)", text))
    assert {"send", "explain", "dead", "lint", "message"} <= commands
    for command in sorted(commands):
        assert CliRunner().invoke(cli, [command, "--help"]).exit_code == 0, command
