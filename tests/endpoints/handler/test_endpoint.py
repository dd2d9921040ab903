"""Calls of real functions, with every end that a call can have."""

from __future__ import annotations

import asyncio
import functools
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import pytest

from ackd.core.effects import NudgeAgent, TellAgent
from ackd.core.errors import BadMessage
from ackd.core.events import EndpointAway, Event, NotTold, Outcome, RunEnded, Told
from ackd.core.message import Draft, Folder, Message, Place, Priority
from ackd.core.ports import Services
from ackd.endpoints.handler.endpoint import HandlerEndpoint
from ackd.handlers import Context, Defer, Handler, Mail, Refuse
from ackd.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MESSAGE = Message("1700.1.abc@ignite.local", "leader", "clerk", "message", Priority.NORMAL, "d1g")
PLACE = Place("clerk", Folder.PROCESSED, "message_1.mime")
CALLED = Told(1, "handler called", seen=True, attempt=3)
MAIL = Mail("1700.1.abc@ignite.local", "leader", "clerk", "message", Priority.NORMAL, "n: 1\n")


def tell(key: int = 1) -> TellAgent:
    return TellAgent("clerk", key, MESSAGE, PLACE, attempt=3)


@dataclass
class HandlerAgent:
    """Stands in for the runtime: takes events and drafts, and makes the endpoint."""

    events: list[Event] = field(default_factory=list)
    written: list[Draft] = field(default_factory=list)
    came: anyio.Event = field(default_factory=anyio.Event)

    def post(self, event: Event) -> None:
        self.events.append(event)
        self.came.set()

    async def write(self, draft: Draft) -> None:
        self.written.append(draft)

    @asynccontextmanager
    async def agent(
        self, handler: Handler, read: Callable[[Message, Place], Mail] = lambda *_: MAIL, threads: int = 8
    ) -> AsyncIterator[HandlerEndpoint]:
        async with anyio.create_task_group() as tasks:
            yield HandlerEndpoint(
                agent="clerk",
                handler=handler,
                read=read,
                write=self.write,
                services=Services(clock=SystemClock(), post=self.post, record=lambda *_: None, tasks=tasks),
                threads=threads,
            )
            tasks.cancel_scope.cancel()

    async def news(self) -> Event:
        with anyio.fail_after(60):
            while not self.events:
                self.came = anyio.Event()
                await self.came.wait()
        return self.events.pop(0)

    async def end_of(self, handler: Handler) -> Event:
        """The next event of a call that takes more than one step, after its ``Told``."""
        async with self.agent(handler) as endpoint:
            assert endpoint.tell(tell()) is None
            assert await self.news() == CALLED
            return await self.news()

    async def end_at_once_of(self, handler: Handler) -> Event:
        async with self.agent(handler) as endpoint:
            assert endpoint.tell(tell()) is None
            return await self.news()


@pytest.fixture
def handler_agent() -> HandlerAgent:
    return HandlerAgent()


# --- how a call ends --------------------------------------------------------------------------------------------------
async def test_a_call_that_returns_is_done(handler_agent: HandlerAgent) -> None:
    given: list[tuple[Mail, str]] = []

    async def note(mail: Mail, ctx: Context) -> None:
        given.append((mail, ctx.agent))

    assert await handler_agent.end_at_once_of(note) == RunEnded(1, Outcome.DONE, "returned", 3, told="handler called")
    assert given == [(MAIL, "clerk")]


async def test_a_plain_function_runs_in_a_thread(handler_agent: HandlerAgent) -> None:
    threads: list[threading.Thread] = []

    def note(mail: Mail, ctx: Context) -> None:
        threads.append(threading.current_thread())
        anyio.from_thread.run(ctx.send, "user", "message", {"content": "from a thread"})

    assert await handler_agent.end_of(note) == RunEnded(1, Outcome.DONE, "returned", 3)
    assert threads != [threading.main_thread()]
    assert [draft.body for draft in handler_agent.written] == [{"content": "from a thread"}]


class Caller:
    async def __call__(self, mail: Mail, ctx: Context) -> None:
        assert threading.current_thread() is threading.main_thread()


async def _with_more(more: str, mail: Mail, ctx: Context) -> None:
    assert more == "more"
    assert threading.current_thread() is threading.main_thread()


@pytest.mark.parametrize("handler", [Caller(), functools.partial(_with_more, "more")])
async def test_any_callable_is_a_handler(handler_agent: HandlerAgent, handler: Handler) -> None:
    assert await handler_agent.end_at_once_of(handler) == RunEnded(
        1, Outcome.DONE, "returned", 3, told="handler called"
    )


async def test_a_plain_function_may_return_what_is_to_be_awaited(handler_agent: HandlerAgent) -> None:
    assert await handler_agent.end_of(lambda m, c: _with_more("more", m, c)) == RunEnded(1, Outcome.DONE, "returned", 3)


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("raised", "outcome", "detail"),
    [
        (Refuse("not my\njob"), Outcome.REFUSED, "not my job"),
        (Defer("later"), Outcome.DEFERRED, "later"),
        (ValueError("two\nlines \x1b[31mred"), Outcome.FAILED, "ValueError: two lines [31mred"),
        (SystemExit(3), Outcome.FAILED, "SystemExit: 3"),
        (asyncio.CancelledError(), Outcome.FAILED, "asyncio.exceptions.CancelledError"),
        (KeyError("x" * 1000), Outcome.FAILED, ("KeyError: '" + "x" * 1000)[:500]),
        (Unspeakable(), Outcome.FAILED, "test_endpoint.Unspeakable: <exception str() failed>"),
    ],
)
async def test_what_a_handler_raises_says_how_it_ended(
    handler_agent: HandlerAgent, raised: BaseException, outcome: Outcome, detail: str
) -> None:
    async def fail(mail: Mail, ctx: Context) -> None:
        await anyio.sleep(0.001)
        raise raised

    ended = await handler_agent.end_of(fail)
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.attempt) == (outcome, 3)
    assert ended.detail.endswith(detail)


async def test_a_plain_function_that_raises_fails_the_same_way(handler_agent: HandlerAgent) -> None:
    def fail(mail: Mail, ctx: Context) -> None:
        raise Refuse("no")

    assert await handler_agent.end_of(fail) == RunEnded(1, Outcome.REFUSED, "no", 3)


async def test_a_handler_may_use_timeouts_and_task_groups_of_its_own(handler_agent: HandlerAgent) -> None:
    async def wait(mail: Mail, ctx: Context) -> None:
        with anyio.move_on_after(0.01) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep_forever)
        assert scope.cancelled_caught

    assert await handler_agent.end_of(wait) == RunEnded(1, Outcome.DONE, "returned", 3)


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "No such file or directory"), BadMessage("no_header", "no From")]
)
async def test_a_message_that_cannot_be_read_is_not_told(handler_agent: HandlerAgent, error: Exception) -> None:
    def read(message: Message, place: Place) -> Mail:
        raise error

    async with handler_agent.agent(Caller(), read) as endpoint:
        answer = endpoint.tell(tell())
    assert isinstance(answer, NotTold)
    assert "clerk/processed/message_1.mime" in answer.reason
    assert handler_agent.events == []


async def test_a_slow_call_delays_no_other(handler_agent: HandlerAgent) -> None:
    release = anyio.Event()
    calls: list[Mail] = []

    async def wait_if_first(mail: Mail, ctx: Context) -> None:
        calls.append(mail)
        if len(calls) == 1:
            await release.wait()

    async with handler_agent.agent(wait_if_first) as endpoint:
        endpoint.tell(tell(1))
        endpoint.tell(tell(2))
        assert await handler_agent.news() == RunEnded(2, Outcome.DONE, "returned", 3, told="handler called")
        assert await handler_agent.news() == CALLED
        release.set()
        assert await handler_agent.news() == RunEnded(1, Outcome.DONE, "returned", 3)


async def test_what_is_called_together_and_through_at_once_is_said_once_each(handler_agent: HandlerAgent) -> None:
    async def nothing(mail: Mail, ctx: Context) -> None:
        pass

    async with handler_agent.agent(nothing) as endpoint:
        for key in range(1, 9):
            endpoint.tell(tell(key))
        ends = [await handler_agent.news() for _ in range(8)]
        assert ends == [RunEnded(key, Outcome.DONE, "returned", 3, told="handler called") for key in range(1, 9)]
        await anyio.sleep(0.001)
        assert handler_agent.events == []


async def test_what_gets_out_of_a_call_is_a_bug_and_ends_the_daemon(handler_agent: HandlerAgent) -> None:
    class Bug(BaseException):
        pass

    async def fail(mail: Mail, ctx: Context) -> None:
        raise Bug

    with pytest.raises(BaseExceptionGroup) as raised:
        async with handler_agent.agent(fail) as endpoint:
            endpoint.tell(tell())
            await anyio.sleep(5)
    assert isinstance(raised.value.exceptions[0], Bug)
    assert not any(isinstance(event, RunEnded) for event in handler_agent.events)


async def test_handlers_have_no_ladder(handler_agent: HandlerAgent) -> None:
    async with handler_agent.agent(Caller()) as endpoint:
        nudge = NudgeAgent("clerk", 1, MESSAGE, PLACE, rung=1)
        assert await endpoint.nudge(nudge) == NotTold(1, "handlers have no ladder")


# --- stopping ---------------------------------------------------------------------------------------------------------
async def test_a_call_that_ends_while_we_drain_says_its_own_outcome(handler_agent: HandlerAgent) -> None:
    async def wait(mail: Mail, ctx: Context) -> None:
        await asyncio.sleep(0.05)
        raise Defer("later")

    async with handler_agent.agent(wait) as endpoint:
        endpoint.tell(tell())
        await endpoint.stop(10)
        assert handler_agent.events == [CALLED, RunEnded(1, Outcome.DEFERRED, "later", 3)]


async def _forever(mail: Mail, ctx: Context) -> None:
    await anyio.sleep_forever()


async def _forever_and_cross(mail: Mail, ctx: Context) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise RuntimeError("cancelled, and cross about it")


@pytest.mark.parametrize("handler", [_forever, _forever_and_cross])
async def test_a_call_that_outlasts_the_drain_is_stopped_not_failed(
    handler_agent: HandlerAgent, handler: Handler
) -> None:
    async with handler_agent.agent(handler) as endpoint:
        endpoint.tell(tell())
        await asyncio.sleep(0)
        await endpoint.stop(0)
        assert handler_agent.events == [CALLED, RunEnded(1, Outcome.STOPPED, "ackd was stopped", 3)]
        assert endpoint.tell(tell(2)) == EndpointAway(2, "ackd is stopping", attempt=3)


async def test_a_call_that_was_told_but_had_not_begun_is_stopped_too(handler_agent: HandlerAgent) -> None:
    async with handler_agent.agent(_forever) as endpoint:
        endpoint.tell(tell())
        await endpoint.stop(0)
        assert handler_agent.events == [CALLED, RunEnded(1, Outcome.STOPPED, "ackd was stopped", 3)]


async def test_a_call_that_finishes_its_work_when_cancelled_is_done(handler_agent: HandlerAgent) -> None:
    async def finish(mail: Mail, ctx: Context) -> None:
        with anyio.CancelScope(shield=True):
            await asyncio.sleep(0.05)

    async with handler_agent.agent(finish) as endpoint:
        endpoint.tell(tell())
        await endpoint.stop(0.01)
        assert handler_agent.events == [CALLED, RunEnded(1, Outcome.DONE, "returned", 3)]


async def test_a_thread_is_not_waited_for_beyond_the_drain(handler_agent: HandlerAgent) -> None:
    release = threading.Event()

    def block(mail: Mail, ctx: Context) -> None:
        release.wait(60)

    try:
        async with handler_agent.agent(block, threads=1) as endpoint:
            endpoint.tell(tell(1))
            endpoint.tell(tell(2))  # waits for the only thread
            await endpoint.stop(0.02)
            assert sorted(event.key for event in handler_agent.events if isinstance(event, RunEnded)) == [1, 2]
            assert {event.outcome for event in handler_agent.events if isinstance(event, RunEnded)} == {Outcome.STOPPED}
    finally:
        release.set()


async def test_a_daemon_that_dies_posts_no_end_for_what_it_held(handler_agent: HandlerAgent) -> None:
    async with handler_agent.agent(_forever) as endpoint:
        endpoint.tell(tell())
        assert await handler_agent.news() == CALLED
    assert handler_agent.events == []
