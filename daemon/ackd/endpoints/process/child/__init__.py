"""A long-lived child with pipes: started, listened to, and ended with everything that belongs to it."""

from ackd.endpoints.process.child.child import Child, ChildProcess
from ackd.endpoints.process.child.leftovers import end_leftovers
from ackd.endpoints.process.child.pipes import OutputLine, StdinRefused
from ackd.endpoints.process.child.spawning import delegated

__all__ = ["Child", "ChildProcess", "OutputLine", "StdinRefused", "delegated", "end_leftovers"]
