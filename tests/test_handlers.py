"""The public API for Python handlers, the docstring's example included."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import FrozenInstanceError, replace
from typing import TYPE_CHECKING

import pytest

import ackd.handlers
from ackd.core.errors import BadName
from ackd.core.message import AutoSubmitted, Draft, Priority
from ackd.handlers import BrokenHandler, Context, Defer, Handler, Mail, Refuse, UnknownHandler, load_handler

if TYPE_CHECKING:
    from pathlib import Path


def mail(body: str = "name: Ada\n", kind: str = "message") -> Mail:
    return Mail("1700.1.abc@ignite.local", "leader", "greeter", kind, Priority.HIGH, body, thread_id="t-1")


def context(about: Mail) -> tuple[Context, list[Draft]]:
    written: list[Draft] = []

    async def write(draft: Draft) -> None:
        written.append(draft)

    return Context("greeter", about, write), written


def docstring_block(after: str) -> str:
    """The indented block of the module's docstring that follows a line ending with ``after``."""
    doc = inspect.getdoc(ackd.handlers)
    assert doc is not None
    block = doc.split(f"{after}::\n\n", 1)[1].split("\n\nnamed in", 1)[0].split("\n\nand in", 1)[0]
    return textwrap.dedent(block)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as pip would leave it: the docstring's code, and the entry points of its pyproject lines."""
    (tmp_path / "my_team.py").write_text(docstring_block("A whole handler"))
    (tmp_path / "broken_team.py").write_text("import no_such_module_anywhere\n")
    _, greeter = docstring_block("named in the project's ``pyproject.toml``").strip().split("\n")
    points = [
        greeter.replace('"', ""),
        "broken = broken_team:greet",
        "text = my_team:__name__",
        "gone = my_team:nobody",
    ]
    info = tmp_path / "my_team-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-team\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[ackd.handlers]", *points, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_team", raising=False)
    return tmp_path


async def call(handler: Handler, about: Mail) -> list[Draft]:
    ctx, written = context(about)
    result = handler(about, ctx)
    assert result is not None
    await result
    return written


async def test_the_example_of_the_docstring_works_as_it_stands(installed: Path) -> None:
    greet = load_handler("greeter")
    reply, report = await call(greet, mail())
    assert (reply.sender, reply.recipient, reply.type, reply.body) == (
        "greeter",
        "leader",
        "message",
        {"content": "Hello, Ada!"},
    )
    assert (reply.in_reply_to, reply.thread_id, reply.priority) == ("1700.1.abc@ignite.local", "t-1", Priority.HIGH)
    assert (report.recipient, report.type, report.body) == ("user", "progress_update", {"message": "greeted Ada"})
    assert (report.in_reply_to, report.priority) == (None, Priority.LOW)
    with pytest.raises(Defer, match="nobody has come yet"):
        await call(greet, mail("name: nobody\n"))
    with pytest.raises(Refuse, match="greeter only reads messages, not user_goal"):
        await call(greet, mail(kind="user_goal"))


def test_the_example_is_ten_lines_at_most() -> None:
    assert len([line for line in docstring_block("A whole handler").splitlines() if line]) <= 10


def test_an_unknown_handler_names_the_known_ones(installed: Path) -> None:
    with pytest.raises(UnknownHandler) as caught:
        load_handler("greter")
    assert {"broken", "greeter"} <= set(caught.value.known)
    assert "'greter'" in str(caught.value)
    assert "broken, gone, greeter, text" in str(caught.value)


def test_what_is_installed_is_looked_through_once(installed: Path) -> None:
    greet = load_handler("greeter")
    (installed / "my_team-1.0.dist-info" / "entry_points.txt").unlink()
    assert load_handler("greeter") is greet


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("gone", "AttributeError"),
        ("text", "my_team:__name__ is no function but a str"),
    ],
)
def test_a_handler_that_cannot_be_used_says_why(installed: Path, name: str, why: str) -> None:
    with pytest.raises(BrokenHandler) as caught:
        load_handler(name)
    assert why in str(caught.value)


def test_a_body_is_parsed_when_asked_for_and_only_once() -> None:
    parsed: list[str] = []

    def load(text: str) -> object:
        parsed.append(text)
        return {"n": len(parsed)}

    one = Mail("m", "a", "b", "message", Priority.NORMAL, "n: 1", load=load)
    assert parsed == []
    assert (one.body, one.body) == ({"n": 1}, {"n": 1})
    assert parsed == ["n: 1"]
    assert mail("answer: no\n").body == {"answer": "no"}


def test_mail_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        mail().type = "user_goal"  # type: ignore[misc]


async def test_what_is_sent_again_after_a_crash_has_the_same_ids_and_distinct_ones_within_a_call() -> None:
    rounds = []
    for _ in range(2):
        ctx, written = context(mail())
        ids = [
            await ctx.reply(type="message", body={}),
            await ctx.send("user", "message", {}),
            await ctx.send("user", "message", {}),
        ]
        assert ids == [draft.message_id for draft in written]
        rounds.append(ids)
    assert rounds[0] == rounds[1]
    assert len(set(rounds[0])) == 3


async def test_an_automatic_reply_says_so_and_never_causes_another_one() -> None:
    ctx, written = context(mail())
    assert await ctx.reply_automatically(type="message", body={}) == written[0].message_id
    assert written[0].auto is AutoSubmitted.REPLIED
    for quiet in (replace(mail(), automatic=True), replace(mail(), sender="queue_monitor")):
        ctx, written = context(quiet)
        assert await ctx.reply_automatically(type="message", body={}) is None
        assert written == []


async def test_a_name_or_priority_that_cannot_be_is_refused_before_anything_is_written() -> None:
    ctx, written = context(mail())
    with pytest.raises(BadName):
        await ctx.send("../../etc", "message", {})
    with pytest.raises(ValueError, match="urgent"):
        await ctx.send("user", "message", {}, "urgent")
    assert written == []
