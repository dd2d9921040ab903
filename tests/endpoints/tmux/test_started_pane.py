"""Panes that ackd starts: real programs that come up, end, are closed, and are taken up again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackd.core.errors import CannotStart
from ackd.core.events import Told
from ackd.endpoints.tmux.client import PaneProcesses
from ackd.endpoints.tmux.started_pane import StartedPane
from tests.endpoints.tmux.fake_pane import FAKE, FakePane, tell
from tests.live_config import live_config
from tests.living import is_gone
from tests.waiting import until

if TYPE_CHECKING:
    from ackd.endpoints.tmux.endpoint import TerminalEndpoint


def started(fake_pane: FakePane, endpoint: TerminalEndpoint, command: str = "", **differs: Any) -> StartedPane:
    options: dict[str, Any] = {
        "cwd": fake_pane.place,
        "env": {"GREETING": "hi"},
        "config": live_config(stop_timeout_s=0.3),
        "closed_check_s": 0.1,
    }
    fake = shlex.join([sys.executable, str(FAKE)])
    return StartedPane(
        agent="worker", tmux=fake_pane.tmux, finder=endpoint.finder, command=command or fake, **options | differs
    )


async def test_it_is_started_told_and_stopped_with_all_that_it_has_started(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(fake_pane, endpoint)
        assert await pane.start() == f"pane {endpoint.finder.pane_id}"
        assert isinstance(await endpoint.tell(tell()), Told)
        life = (await fake_pane.tmux.look(str(endpoint.finder.pane_id))).pane.life
        assert PaneProcesses(life).living()
        await pane.stop(1)
        assert PaneProcesses(life).living() == []
        assert await fake_pane.tmux.panes() == []


async def test_its_end_is_heard_with_its_last_words(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(
            fake_pane,
            endpoint,
            "echo '> '; echo; echo '? help'; for _ in $(seq 6000); do [ -e go ] && break; sleep 0.01; done; exit 7",
        )
        await pane.start()
        (fake_pane.place / "go").touch()
        with anyio.fail_after(60):
            end = await pane.exited()
        assert end.code in {7, None}  # None: tmux missed the exit, as 3.3a now and then does
        assert "? help" in end.why
        assert await fake_pane.tmux.panes() == []


async def test_a_closed_pane_is_an_end_even_for_what_ignores_it(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(
            fake_pane, endpoint, "trap '' HUP TERM; echo '> '; echo; echo '? help'; while :; do sleep 0.1; done"
        )
        await pane.start()
        fake_pane.open("cat", title="other")  # or the server would end with it
        life = (await fake_pane.tmux.look(str(endpoint.finder.pane_id))).pane.life
        await fake_pane.tmux.kill(str(endpoint.finder.pane_id))
        with anyio.fail_after(60):
            end = await pane.exited()
        assert end.why == "its pane was closed"
        assert PaneProcesses(life).living() == []


@pytest.mark.parametrize("how", ["stopped", "closed"])
async def test_what_emptied_its_environment_and_ignores_the_hang_up_is_ended_too(fake_pane: FakePane, how: str) -> None:
    """`env -i gemini` does that: it lives on without its pane, and its environment does not show whose it is."""
    program = "trap '' HUP; echo $$ > pid~; mv pid~ pid; echo '> '; echo; echo '? help'; while :; do sleep 0.1; done"
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(fake_pane, endpoint, f"exec env -i PATH=/usr/bin:/bin sh -c {shlex.quote(program)}")
        await pane.start()
        fake_pane.open("cat", title="other")  # or the server would end with it
        pid = int((fake_pane.place / "pid").read_text())
        assert not is_gone(pid)
        if how == "stopped":
            await pane.stop(1)
        else:
            await fake_pane.tmux.kill(str(endpoint.finder.pane_id))
        with anyio.fail_after(20):
            await pane.exited()
        assert is_gone(pid)


async def test_a_pane_outlives_the_daemon_and_is_taken_up_again(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        first = await started(fake_pane, endpoint).start()
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(fake_pane, endpoint)
        assert await pane.start() == first
        assert len(await fake_pane.tmux.panes()) == 1
        await pane.stop(1)


async def test_it_can_be_started_again_after_its_end(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(fake_pane, endpoint)
        first = await pane.start()
        fake_pane.open("cat", title="other")
        fake_pane.control("quit")
        with anyio.fail_after(60):
            await pane.exited()
        (fake_pane.place / "control").unlink()
        assert await pane.start() != first
        assert isinstance(await endpoint.tell(tell()), Told)
        await pane.stop(1)


@pytest.mark.parametrize("command", ["exit 3", "no-such-program-here"])
async def test_what_ends_at_once_cannot_be_started_and_leaves_nothing(fake_pane: FakePane, command: str) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        with pytest.raises(CannotStart, match=command):
            await started(fake_pane, endpoint, command).start()
    assert await fake_pane.tmux.panes() == []


async def test_without_its_directory_or_tmux_it_cannot_be_started(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        with pytest.raises(CannotStart, match="no working directory /no/where"):
            await started(fake_pane, endpoint, cwd=Path("/no/where")).start()
        fake_pane.tmux.program = "no-such-tmux"
        with pytest.raises(CannotStart, match="no-such-tmux"):
            await started(fake_pane, endpoint).start()


async def test_a_program_that_shows_nothing_known_is_started_all_the_same(fake_pane: FakePane) -> None:
    async with fake_pane.endpoint(title=None) as endpoint:
        pane = started(fake_pane, endpoint, "touch up; exec sleep 100", start_timeout_s=0.3)
        assert (await pane.start()).startswith("pane %")
        await until((fake_pane.place / "up").exists)
        await pane.stop(0)
    assert await fake_pane.tmux.panes() == []


async def test_a_new_server_gives_old_ids_to_others_and_they_are_not_taken_for_ours(fake_pane: FakePane) -> None:
    await fake_pane.agent()
    async with fake_pane.endpoint() as endpoint:
        assert isinstance(await endpoint.tell(tell()), Told)
        endpoint.let_go(1)
        await until(lambda: endpoint._watch._scope is None)
        fake_pane._run("kill-server")
        await until(lambda: not Path(f"/proc/{(fake_pane.place / 'up').read_text()}").exists())
        (fake_pane.place / "up").unlink()
        (fake_pane.place / "typed").unlink()
        fake_pane.open("cat", title="someone else's")
        assert fake_pane.pane_id == endpoint.finder.pane_id
        assert not isinstance(await endpoint.tell(tell(attempt=2)), Told)
        assert (await fake_pane.tmux.look(fake_pane.pane_id)).text.strip() == ""
