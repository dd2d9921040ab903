"""An Ensemble team's tasks, reports and ACK files, taken in.

gateway: looks, and mails · letters: from a file to a message · acks: ACK files · patience: what is overdue · voice:
what is said · register: how far it came, on disk · shelf: a directory as it lies there.
"""

from ackd.runtime.gateways.ensemble.gateway import EnsembleGateway

__all__ = ["EnsembleGateway"]
