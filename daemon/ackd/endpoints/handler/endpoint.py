"""Handler agents: one call of a Python function inside the daemon per message.

Nothing that a handler raises gets further than ``RunEnded``; a message that cannot be read is ``NotTold``. A full disk
or an exhausted machine is nobody's failure, whether the daemon meets it or the handler does.

Every call is its own task. To run the first step of a coroutine in the teller's task, and make a task only of one that
waits, would be faster, but the timeouts and task groups it opens in that step would belong to the wrong task. The task
is a plain asyncio task, which costs a fifth of one in a task group; an exception that escapes from it is a bug, and is
raised in the group. It has a cancel scope all the same, because a handler that shields its last steps does so with
anyio.

``Told`` is posted once all handlers that were called together have had their first step. For a call that is over by
then, ``RunEnded`` says both.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from ackd.core import faults
from ackd.core.errors import TheirFault
from ackd.core.events import EndpointAway, Hindered, LetGo, NotTold, Outcome, RunEnded, Told
from ackd.core.ports import Endpoint
from ackd.handlers import Context, Defer, Refuse
from ackd.system.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ackd.core.effects import CallOff, NudgeAgent, TellAgent
    from ackd.core.message import Draft, Message, Place
    from ackd.core.ports import Services
    from ackd.handlers import Handler, Mail

_DETAIL_CHARS: Final = 500
_PROOF: Final = "handler called"
#: A handler that will not be cancelled is not waited for longer than this.
_CANCELLED_WAIT_S: Final = 5.0


@dataclass(kw_only=True, eq=False)
class HandlerEndpoint(Endpoint):
    """Calls ``handler`` once per message. A bug is raised in a task of ``services.tasks``.

    ``threads``: how many calls of a plain function run at a time; the others wait.
    """

    agent: str
    handler: Handler
    read: Callable[[Message, Place], Mail]
    write: Callable[[Draft], Awaitable[None]]
    services: Services
    threads: int = 8
    _calls: dict[anyio.CancelScope, asyncio.Task[None]] = field(default_factory=dict, init=False)
    #: Calls of which no ``Told`` has been posted yet.
    _unsaid: dict[anyio.CancelScope, TellAgent] = field(default_factory=dict, init=False)
    #: The call of each message, by the message's key.
    _by_key: dict[int, anyio.CancelScope] = field(default_factory=dict, init=False)
    _stopping: bool = field(default=False, init=False)
    #: anyio asks at every scope which event loop it is on, which takes longer than making one.
    _scopes: type[anyio.CancelScope] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.call_from_now_on(self.handler)
        self._task_name = f"handler {self.agent}"
        # Not anyio's common limiter, where flushes would wait behind handlers.
        self._limiter = anyio.CapacityLimiter(self.threads)

    def call_from_now_on(self, handler: Handler) -> None:
        """Call this handler for every message that is told from now on."""
        self.handler = handler
        by_class = type(handler).__call__
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(by_class)

    def tell(self, order: TellAgent) -> NotTold | EndpointAway | Hindered | None:
        if self._stopping:
            return EndpointAway(order.key, "ackd is stopping", attempt=order.attempt)
        try:
            mail = self.read(order.message, order.place)
        except (OSError, TheirFault) as error:
            why = f"could not read {order.place}: {_one_line(error)}"
            nobodys = isinstance(error, OSError) and faults.is_nobodys(error)
            return (Hindered if nobodys else NotTold)(order.key, why, attempt=order.attempt)
        self._begin(order, mail)
        return None

    def _begin(self, order: TellAgent, mail: Mail) -> None:
        loop, scope = asyncio.get_running_loop(), self._scope()
        self._by_key[order.key] = scope
        self._calls[scope] = loop.create_task(self._run(order, mail, scope), name=self._task_name)
        if not self._unsaid:
            loop.call_soon(self._say_later)
        self._unsaid[scope] = order

    def _scope(self) -> anyio.CancelScope:
        if self._scopes is None:
            self._scopes = type(anyio.CancelScope())
        return self._scopes()

    def _say_later(self) -> None:
        """Schedule ``_say``. This runs between the first steps of the first and the second call, so that all calls have
        had their first step before ``_say``."""
        if self._unsaid:
            asyncio.get_running_loop().call_soon(self._say)

    def _say(self) -> None:
        unsaid, self._unsaid = self._unsaid, {}
        for order in unsaid.values():
            self.services.post(Told(order.key, _PROOF, seen=True, attempt=order.attempt))

    async def nudge(self, order: NudgeAgent) -> Told | NotTold:
        return NotTold(order.key, "handlers have no ladder", attempt=order.attempt)

    def call_off(self, order: CallOff) -> LetGo | None:
        """Cancel the call. A thread cannot be cancelled: it runs on, and nobody waits for it."""
        scope = self._by_key.get(order.key)
        if scope is None:
            return LetGo(order.key, "its handler is not at work on it", order.attempt)
        scope.cancel()
        return None

    async def stop(self, drain_s: float) -> None:
        """Cancel what still runs after the drain. A thread cannot be cancelled: it runs on, and nobody waits for it."""
        self._stopping = True
        await self._all_over(drain_s)
        for scope in self._calls:
            scope.cancel()
        await self._all_over(_CANCELLED_WAIT_S)

    def has_work(self) -> bool:
        return bool(self._calls)

    async def _all_over(self, wait_s: float) -> None:
        if self._calls:
            await asyncio.wait(self._calls.values(), timeout=wait_s)

    async def _run(self, order: TellAgent, mail: Mail, scope: anyio.CancelScope) -> None:
        outcome, detail = Outcome.FAILED, "cancelled"
        try:
            with scope:
                outcome, detail = await self._outcome(mail)
            if scope.cancel_called and outcome is Outcome.FAILED:
                outcome, detail = Outcome.STOPPED, "ackd was stopped" if self._stopping else "its handler was cancelled"
            told = _PROOF if self._unsaid.pop(scope, None) is not None else ""
            self.services.post(RunEnded(order.key, outcome, detail, order.attempt, told))
        except (asyncio.CancelledError, GeneratorExit):
            raise  # the daemon dies: the next one finds the message in hand
        except BaseException as bug:  # noqa: BLE001 - raised where somebody waits for it
            self.services.tasks.start_soon(_raise, bug)
        finally:
            del self._calls[scope]
            if self._by_key.get(order.key) is scope:
                del self._by_key[order.key]

    async def _outcome(self, mail: Mail) -> tuple[Outcome, str]:
        try:
            await self._call(mail)
        except Refuse as refuse:
            return Outcome.REFUSED, _plain(refuse.reason)
        except Defer as defer:
            return Outcome.DEFERRED, _plain(defer.reason)
        except asyncio.CancelledError as error:
            if _we_are_cancelled():
                raise
            return Outcome.FAILED, _one_line(error)  # something that the handler waited for was cancelled, not we
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a handler raises is its failure, never ours
            nobodys = isinstance(error, OSError) and faults.is_nobodys(error)
            return Outcome.HINDERED if nobodys else Outcome.FAILED, _one_line(error)
        return Outcome.DONE, "returned"

    async def _call(self, mail: Mail) -> None:
        context = Context(self.agent, mail, self.write)
        if self._is_async:
            result = self.handler(mail, context)
        else:
            call = partial(self.handler, mail, context)
            result = await in_thread(call, abandon_on_cancel=True, limiter=self._limiter)
        if inspect.isawaitable(result):
            await result


async def _raise(bug: BaseException) -> None:
    raise bug


def _we_are_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _one_line(error: BaseException) -> str:
    """Type and message of an exception. ``str(error)`` is the handler's code too, and may raise: traceback copes."""
    return _plain(traceback.format_exception_only(error)[-1])


def _plain(text: object) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())[:_DETAIL_CHARS]
