"""Which gateways a team has, by its config, and who of them hears of what on a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.config_coordination import Board, Bus
from ackd.runtime.gateways.board import BoardGateway
from ackd.runtime.gateways.bus import BusGateway
from ackd.runtime.gateways.deadlocks import Deadlocks
from ackd.runtime.gateways.leases import LeaseGateway

if TYPE_CHECKING:
    from ackd.config import Config
    from ackd.runtime.gateways.gateway import Around, Gateway


def made(config: Config, around: Around) -> list[Gateway]:
    """The bus, its leases and its board are always served: the house's own may be made at any time."""
    bus, escalate_to = config.bus or Bus(), config.engine_policy().escalate_to
    orchestrator = bus.orchestrator or escalate_to
    leases = LeaseGateway(bus, around)
    board = BoardGateway(config.board or Board(), config.bus, escalate_to, around)
    deadlocks = Deadlocks(around, orchestrator)
    gateways: list[Gateway] = [
        BusGateway(bus, orchestrator, around, (leases, board), deadlocks, leases.waits),
        leases,
        board,
    ]
    if config.ensemble is not None:
        from ackd.runtime.gateways.ensemble import EnsembleGateway  # noqa: PLC0415 - others need not wait for it

        gateways.append(EnsembleGateway(config.ensemble, escalate_to, around, config.max_message_bytes))
    return gateways
