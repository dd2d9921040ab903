"""A real tmux server: looking, typing, and calls of a program that ends at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from ackd.endpoints.tmux.client import NoPane, NoServer, NoTmux, Pane, Tmux, TmuxSilent, with_target
from ackd.endpoints.tmux.client.server import call
from tests.endpoints.process.child.real_children import assert_no_child_left, descriptors, note_others
from tests.living import is_gone
from tests.strays import UNTIL_GO, children
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.endpoints.tmux.client import Screen


async def started(tmux: Tmux, cwd: Path, command: str, **env: str) -> Pane:
    return await tmux.start(
        session="team", window="worker", command=command, cwd=cwd, env=env, agent="worker", life="abc"
    )


async def shown(tmux: Tmux, pane: Pane, words: str) -> Screen:
    with anyio.fail_after(60):
        while words not in (screen := await tmux.look(pane.pane_id)).text:  # noqa: ASYNC110 - tmux tells of no change
            await anyio.sleep(0.02)
    return screen


async def test_a_server_that_is_not_there_has_no_panes(tmux: Tmux) -> None:
    assert await tmux.panes() == []
    with pytest.raises(NoServer):
        await tmux.look("%0")
    await tmux.kill("%0")  # gone already is as good


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NoTmux, match="no-such-tmux"):
        await Tmux(program="no-such-tmux").panes()


async def test_a_server_that_does_not_answer_is_given_up_and_no_child_is_left(tmp_path: Path) -> None:
    silent = tmp_path / "tmux"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o700)
    others = children()
    with pytest.raises(TmuxSilent, match=r"list-panes did not answer within 0\.2 s"):
        await Tmux(program=str(silent), timeout_s=0.2).panes()
    assert children() <= others


async def test_a_started_pane_has_its_directory_environment_and_mark(tmux: Tmux, tmp_path: Path) -> None:
    pane = await started(tmux, tmp_path, 'echo "$PWD $GREETING"; cat', GREETING="grüße; ende")
    screen = await shown(tmux, pane, "grüße; ende")
    assert str(tmp_path) in screen.text.replace("\n", "")
    assert (screen.pane.agent, screen.pane.life, screen.pane.session, screen.pane.window) == (
        "worker",
        "abc",
        "team",
        "worker",
    )
    assert [one.pane_id for one in await tmux.panes()] == [pane.pane_id]


async def test_a_second_pane_gets_a_window_in_the_same_session(tmux: Tmux, tmp_path: Path) -> None:
    first, second = await started(tmux, tmp_path, "cat"), await started(tmux, tmp_path, "cat")
    assert (first.session, second.session) == ("team", "team")
    assert first.window_index != second.window_index
    assert with_target(await tmux.panes(), second.target).pane_id == second.pane_id


async def test_a_pane_stays_after_its_command_has_ended_dead(tmux: Tmux, tmp_path: Path) -> None:
    pane = await started(tmux, tmp_path, f"echo last words; {UNTIL_GO}; exit 3")
    await shown(tmux, pane, "last words")
    (tmp_path / "go").touch()
    with anyio.fail_after(60):
        while not (now := (await tmux.look(pane.pane_id)).pane).dead:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    assert now.dead_status in {3, None}  # None: tmux missed the exit, as 3.3a now and then does
    assert "last words" in (await tmux.look(pane.pane_id, rows_back=5)).text
    await tmux.kill(pane.pane_id)
    with pytest.raises((NoPane, NoServer)):
        await tmux.look(pane.pane_id)


async def test_no_other_pane_answers_for_one_that_is_gone(tmux: Tmux, tmp_path: Path) -> None:
    await started(tmux, tmp_path, "cat")
    with pytest.raises(NoPane):
        await tmux.look("%99")
    with pytest.raises(NoPane):
        await tmux.type_text("%99", "x")


@pytest.mark.parametrize(
    "text", ["plain words", "ends with;", ";", "-l", "$HOME `id` #{pane_id}", "grüße → ende", "Enter", "\\;"]
)
async def test_text_arrives_literally(tmux: Tmux, tmp_path: Path, text: str) -> None:
    pane = await started(tmux, tmp_path, "stty -echo; cat > typed")
    await until((tmp_path / "typed").exists)
    await tmux.type_text(pane.pane_id, text)
    await tmux.press(pane.pane_id, "Enter")
    await until(lambda: (tmp_path / "typed").read_text() == text + "\n")


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[A", "\x03", "tab\t", "\x7f", "\u202e"])
async def test_control_characters_are_never_typed(text: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        await Tmux(program="no-such-tmux").type_text("%0", text)


async def test_a_pane_in_copy_mode_is_left_before_anything_is_typed(tmux: Tmux, tmp_path: Path) -> None:
    pane = await started(tmux, tmp_path, "cat > typed")
    await until((tmp_path / "typed").exists)
    await tmux.run("copy-mode", "-t", pane.pane_id)
    assert (await tmux.look(pane.pane_id)).pane.in_mode
    await tmux.type_text(pane.pane_id, "through")
    await tmux.press(pane.pane_id, "Enter")
    await until(lambda: (tmp_path / "typed").read_text() == "through\n")
    assert not (await tmux.look(pane.pane_id)).pane.in_mode


async def test_bytes_are_sent_raw_and_keys_repeated(tmux: Tmux, tmp_path: Path) -> None:
    script = "stty raw -echo; touch ready; dd bs=1 count=5 of=typed 2>/dev/null; touch done"
    pane = await started(tmux, tmp_path, script)
    await until((tmp_path / "ready").exists)
    await tmux.send_bytes(pane.pane_id, b"\x00\r")
    await tmux.press_again(pane.pane_id, "a", 3)
    await until((tmp_path / "done").exists)
    assert (tmp_path / "typed").read_bytes() == b"\x00\raaa"


async def test_nothing_is_left_in_a_paste_buffer(tmux: Tmux, tmp_path: Path) -> None:
    pane = await started(tmux, tmp_path, "cat")
    await tmux.type_text(pane.pane_id, "secret")
    assert await tmux.run("list-buffers") == b""


async def test_who_types_into_one_pane_waits_for_who_does(tmux: Tmux) -> None:
    assert tmux.turn("%1") is not tmux.turn("%2")
    with_turn = tmux.turn("%1")
    assert tmux.turn("%1") is with_turn


async def test_a_program_with_a_line_break_in_its_name_forges_no_pane(tmux: Tmux, tmp_path: Path) -> None:
    (tmp_path / "forge.py").write_text('import os\nos.execv("/bin/sleep", ["x\\n%9, 1, 0, , 0, 0", "60"])\n')
    pane = await started(tmux, tmp_path, f"exec {sys.executable} forge.py")
    with anyio.fail_after(60):
        while "x_%9" not in (now := (await tmux.look(pane.pane_id)).pane).command:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    assert [one.pane_id for one in await tmux.panes()] == [now.pane_id]


# --- one call of a program --------------------------------------------------------------------------------------------
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _others() -> None:
    note_others()


async def test_its_exit_status_and_both_outputs_are_told_apart() -> None:
    done = await call(["sh", "-c", "echo out; echo err >&2; exit 3"], PATIENCE_S)
    assert done == (3, b"out\n", b"err\n")
    assert_no_child_left()


async def test_more_than_a_pipe_holds() -> None:
    done = await call([sys.executable, "-I", "-S", "-c", "print('x' * 1_000_000)"], PATIENCE_S)
    assert len(done.out) == 1_000_001


async def test_a_program_that_is_not_there() -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await call(["no-such-program-here"], PATIENCE_S)
    assert descriptors() <= before


async def test_one_that_takes_too_long_is_killed() -> None:
    before = descriptors()
    with pytest.raises(TimeoutError):
        await call(["sleep", "60"], 0.05)
    assert descriptors() <= before
    assert_no_child_left()


async def test_one_whose_caller_is_cancelled_is_killed(tmp_path: Path) -> None:
    async def calling() -> None:
        await call(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], PATIENCE_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calling)
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        tasks.cancel_scope.cancel()
    assert is_gone(int((tmp_path / "pid").read_text()))
    assert_no_child_left()
