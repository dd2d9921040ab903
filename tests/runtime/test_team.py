"""The team's names and endpoints, from a real config and a real spool."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING
from unittest import mock

import anyio
import pytest

from ackd.config.live import LiveConfig
from ackd.config.model import load_site
from ackd.config.site import find_site
from ackd.core.errors import BadConfig
from ackd.core.events import AgentJoined, Event
from ackd.core.ports import Inhabited, Services
from ackd.endpoints.exec.endpoint import ExecEndpoint
from ackd.endpoints.handler.endpoint import HandlerEndpoint
from ackd.endpoints.inbox.endpoint import InboxEndpoint
from ackd.endpoints.making import Offered
from ackd.runtime.builtin_handlers import SystemHandler, queue_monitor
from ackd.runtime.mail_reader import MailReader
from ackd.runtime.supervisor import Supervisor
from ackd.runtime.team import Makers, Team, command_environment, environment
from ackd.storage.checkpoints import CheckpointFiles
from ackd.storage.spool import Spool
from ackd.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from ackd.core.message import Draft

CONFIG = """
[agents.ignitian-1]
endpoint = "exec"
command = ["true"]
[agents.reader]
[agents.clerk]
endpoint = "handler"
handler = "no-such-handler"
"""


async def assemble(place: Path, posted: list[Event], *names: str) -> Team:
    (place / "ackd.toml").write_text(CONFIG)
    site = find_site(cwd=place)
    spool = Spool(site.root, max_message_bytes=1024, durable=False)
    spool.ensure_layout()

    async def send(draft: Draft) -> None:
        raise AssertionError(draft)

    async with anyio.create_task_group() as tasks:
        config, record = LiveConfig(load_site(site)), lambda *_: None
        keeper = Supervisor(tasks=tasks, post=posted.append, record=record, rng=random.Random(1), config=config)
        offered = Offered(
            services=Services(clock=SystemClock(), post=posted.append, record=record, tasks=tasks),
            live=config,
            site=site,
            files=MailReader(spool),
            send=send,
            checkpoints=CheckpointFiles(site.state / "checkpoints"),
            keeper=keeper,
            is_stopped=lambda _: False,
            environment={},
            handlers={"system": SystemHandler(dict), "queue_monitor": queue_monitor},
        )
        makers = Makers(offered)
        team = Team(
            config=config,
            site=site,
            makers=makers,
            post=posted.append,
            keeper=keeper,
            tasks=tasks,
            work_ended=lambda *_: None,
        )
        for name in names:
            team.join(name)
    return team


async def test_each_is_announced_once_with_the_endpoint_of_its_table(tmp_path: Path) -> None:
    posted: list[Event] = []
    names = ("ignitian-1", "reader", "user", "system", "queue_monitor", "newcomer", "ignitian_1", "reader")
    team = await assemble(tmp_path, posted, *names)
    joined = {event.agent: event.endpoint for event in posted if isinstance(event, AgentJoined)}
    assert len(posted) == len(joined) == 6
    assert joined == {
        "ignitian-1": "exec",
        "reader": "inbox",
        "user": "inbox",
        "system": "handler",
        "queue_monitor": "handler",
        "newcomer": "inbox",
    }
    kinds = {name: type(team.endpoint(name)) for name in joined}
    assert kinds["ignitian-1"] is ExecEndpoint
    assert kinds["system"] is kinds["queue_monitor"] is HandlerEndpoint
    assert kinds["reader"] is kinds["newcomer"] is InboxEndpoint
    assert len(team.endpoints()) == 6


async def test_an_endpoint_is_inhabited_if_something_lives_behind_it(tmp_path: Path) -> None:
    team = await assemble(tmp_path, [], "reader", "ignitian-1", "system")
    assert [team.inhabited(name) for name in ("reader", "ignitian-1", "system")] == [None, None, None]
    lived_in = mock.create_autospec(Inhabited, instance=True)
    lived_in.inhabited = lived_in
    with mock.patch.object(Makers, "make", return_value=lived_in):
        team.join("worker")
    assert team.inhabited("worker") is lived_in


async def test_two_spellings_are_one_agent_and_one_box(tmp_path: Path) -> None:
    team = await assemble(tmp_path, [], "ignitian-1")
    assert team.called("ignitian_1") == team.called("ignitian-1") == team.join("ignitian_1") == "ignitian-1"
    assert team.called("nobody") is None
    assert team.box("ignitian-1") == "ignitian-1"
    (tmp_path / ".ackd/queue/ignitian_1").mkdir()
    assert team.box("ignitian-1") == "ignitian_1"


async def test_a_handler_that_is_not_there_is_named_with_its_line_in_the_config(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await assemble(tmp_path, [], "clerk")
    (error,) = caught.value.exceptions
    assert isinstance(error, BadConfig)
    assert "line 8: agents.clerk.handler: no handler 'no-such-handler'" in str(error)


async def test_commands_are_told_where_the_team_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = await assemble(tmp_path, [])
    monkeypatch.setenv("SOMETHING", "else")
    told = {"ACKD_ROOT": str(tmp_path / ".ackd"), "ACKD_CONFIG": str(tmp_path / "ackd.toml")}
    assert environment(team.site) == told
    assert command_environment(team.site).items() >= {**told, "SOMETHING": "else"}.items()
