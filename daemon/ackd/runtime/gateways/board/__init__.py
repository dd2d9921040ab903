"""Meetings of a board, driven over all tracks."""

from ackd.runtime.gateways.board.gateway import BoardGateway

__all__ = ["BoardGateway"]
