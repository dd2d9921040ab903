"""Other protocols' files, taken in: each becomes native mail, and all delivery state stays native."""

from ackd.runtime.gateways.gateway import Around, Gateway
from ackd.runtime.gateways.gateways import Gateways
from ackd.runtime.gateways.making import made

__all__ = ["Around", "Gateway", "Gateways", "made"]
