"""Makes the endpoints of handler agents: finds the function, in ackd itself or among the installed entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackd.core.errors import TheirFault
from ackd.core.names import identity
from ackd.endpoints.handler.endpoint import HandlerEndpoint
from ackd.endpoints.making import EndpointMaker
from ackd.handlers import load_handler

if TYPE_CHECKING:
    from ackd.config.model import Config
    from ackd.endpoints.handler.settings import HandlerSettings
    from ackd.handlers import Handler


class HandlerMaker(EndpointMaker):
    def make(self, agent: str, table: HandlerSettings) -> HandlerEndpoint:
        offered = self.offered
        return HandlerEndpoint(
            agent=agent,
            handler=self._handler(agent, table),
            read=offered.files.mail,
            write=offered.send,
            services=offered.services,
        )

    def adapt(self, endpoint: HandlerEndpoint, table: HandlerSettings, agent: str) -> None:
        endpoint.call_from_now_on(self._handler(agent, table))

    def verify(self, agent: str, table: HandlerSettings, config: Config) -> None:
        self._handler(agent, table, config)

    def _handler(self, agent: str, table: HandlerSettings, config: Config | None = None) -> Handler:
        if table.handler is None and identity(agent) in self.offered.handlers:
            return self.offered.handlers[identity(agent)]
        try:
            return load_handler(table.handler or agent)
        except TheirFault as fault:
            raise self.offered.bad_config(agent, "handler", str(fault), config) from None


MAKER: Final = HandlerMaker
