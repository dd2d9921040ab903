"""Leases, watched over: what time, death and the bus's lines do to them."""

from ackd.runtime.gateways.leases.gateway import LeaseGateway

__all__ = ["LeaseGateway"]
