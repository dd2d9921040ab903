"""The message bus: tracks found and followed, their lines acted on, their workers watched."""

from ackd.runtime.gateways.bus.gateway import BusGateway, DeadlockSearch, LeaseWaits

__all__ = ["BusGateway", "DeadlockSearch", "LeaseWaits"]
