"""Process agents: a worker that is kept alive and speaks worker_json on its pipes.

worker: one life after the other · hand: what it has in hand · assignments: what it is told of a message · voice: how
that is said · hearing: what its words mean · checkpoints: where work stands, on disk · endpoint: the port.
"""

from ackd.runtime.workers.checkpoints import Checkpoints
from ackd.runtime.workers.endpoint import ProcessEndpoint
from ackd.runtime.workers.worker import Worker

__all__ = ["Checkpoints", "ProcessEndpoint", "Worker"]
