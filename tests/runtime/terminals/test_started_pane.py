"""A pane that ackd starts: real programs that come up, end, are closed, and are met again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ackd.adapters.tmux import Occupants
from ackd.core.errors import CannotStart
from ackd.core.events import Told
from ackd.runtime.terminals import StartedPane, TerminalEndpoint
from tests.living import is_gone
from tests.runtime.terminals.stage import FAKE, Stage, tell
from tests.waiting import until


def started(stage: Stage, endpoint: TerminalEndpoint, command: str = "", **differs: Any) -> StartedPane:
    options: dict[str, Any] = {
        "cwd": stage.place,
        "env": {"GREETING": "hi"},
        "stop_timeout_s": 0.3,
        "closed_check_s": 0.1,
    }
    fake = shlex.join([sys.executable, str(FAKE)])
    return StartedPane(agent="worker", tmux=stage.tmux, eye=endpoint.eye, command=command or fake, **options | differs)


async def test_it_is_started_told_and_stopped_with_all_that_it_has_started(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        pane = started(stage, endpoint)
        assert await pane.start() == f"pane {endpoint.eye.pane_id}"
        assert isinstance(await endpoint.tell(tell()), Told)
        life = (await stage.tmux.look(str(endpoint.eye.pane_id))).pane.life
        assert Occupants(life).living()
        await pane.stop(1)
        assert Occupants(life).living() == []
        assert await stage.tmux.panes() == []


async def test_its_end_is_heard_with_its_last_words(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        pane = started(
            stage,
            endpoint,
            "echo '> '; echo; echo '? help'; for _ in $(seq 6000); do [ -e go ] && break; sleep 0.01; done; exit 7",
        )
        await pane.start()
        (stage.place / "go").touch()
        with anyio.fail_after(60):
            end = await pane.exited()
        assert end.code in {7, None}  # None: tmux missed the exit, as 3.3a now and then does
        assert "? help" in end.why
        assert await stage.tmux.panes() == []


async def test_a_closed_pane_is_an_end_even_for_what_ignores_it(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        pane = started(stage, endpoint, "trap '' HUP TERM; echo '> '; echo; echo '? help'; while :; do sleep 0.1; done")
        await pane.start()
        stage.open("cat", title="other")  # or the server would end with it
        life = (await stage.tmux.look(str(endpoint.eye.pane_id))).pane.life
        await stage.tmux.kill(str(endpoint.eye.pane_id))
        with anyio.fail_after(60):
            end = await pane.exited()
        assert end.why == "its pane was closed"
        assert Occupants(life).living() == []


@pytest.mark.parametrize("how", ["stopped", "closed"])
async def test_what_emptied_its_environment_and_ignores_the_hang_up_is_ended_too(stage: Stage, how: str) -> None:
    """As `env -i gemini` does: it lives on without its pane, and nothing in its environment says whose it is."""
    program = "trap '' HUP; echo $$ > pid~; mv pid~ pid; echo '> '; echo; echo '? help'; while :; do sleep 0.1; done"
    async with stage.endpoint(title=None) as endpoint:
        pane = started(stage, endpoint, f"exec env -i PATH=/usr/bin:/bin sh -c {shlex.quote(program)}")
        await pane.start()
        stage.open("cat", title="other")  # or the server would end with it
        pid = int((stage.place / "pid").read_text())
        assert not is_gone(pid)
        if how == "stopped":
            await pane.stop(1)
        else:
            await stage.tmux.kill(str(endpoint.eye.pane_id))
        with anyio.fail_after(20):
            await pane.exited()
        assert is_gone(pid)


async def test_a_pane_outlives_the_daemon_and_is_taken_up_again(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        first = await started(stage, endpoint).start()
    async with stage.endpoint(title=None) as endpoint:
        pane = started(stage, endpoint)
        assert await pane.start() == first
        assert len(await stage.tmux.panes()) == 1
        await pane.stop(1)


async def test_it_can_be_started_again_after_its_end(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        pane = started(stage, endpoint)
        first = await pane.start()
        stage.open("cat", title="other")
        stage.control("quit")
        with anyio.fail_after(60):
            await pane.exited()
        (stage.place / "control").unlink()
        assert await pane.start() != first
        assert isinstance(await endpoint.tell(tell()), Told)
        await pane.stop(1)


@pytest.mark.parametrize("command", ["exit 3", "no-such-program-here"])
async def test_what_ends_at_once_cannot_be_started_and_leaves_nothing(stage: Stage, command: str) -> None:
    async with stage.endpoint(title=None) as endpoint:
        with pytest.raises(CannotStart, match=command):
            await started(stage, endpoint, command).start()
    assert await stage.tmux.panes() == []


async def test_without_its_directory_or_tmux_it_cannot_be_started(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        with pytest.raises(CannotStart, match="no working directory /no/where"):
            await started(stage, endpoint, cwd=Path("/no/where")).start()
        stage.tmux.program = "no-such-tmux"
        with pytest.raises(CannotStart, match="no-such-tmux"):
            await started(stage, endpoint).start()


async def test_a_program_that_shows_nothing_known_is_started_all_the_same(stage: Stage) -> None:
    async with stage.endpoint(title=None) as endpoint:
        pane = started(stage, endpoint, "touch up; exec sleep 100", start_timeout_s=0.3)
        assert (await pane.start()).startswith("pane %")
        await until((stage.place / "up").exists)
        await pane.stop(0)
    assert await stage.tmux.panes() == []


async def test_a_new_server_gives_old_ids_to_others_and_they_are_not_taken_for_ours(stage: Stage) -> None:
    await stage.agent()
    async with stage.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        endpoint.forget(1)
        await until(lambda: endpoint._watch._scope is None)
        stage._run("kill-server")
        await until(lambda: not Path(f"/proc/{(stage.place / 'up').read_text()}").exists())
        (stage.place / "up").unlink()
        (stage.place / "typed").unlink()
        stage.open("cat", title="someone else's")
        assert stage.pane_id == endpoint.eye.pane_id
        assert not isinstance(await endpoint.tell(tell(attempt=2)), Told)
        assert (await stage.tmux.look(stage.pane_id)).text.strip() == ""
