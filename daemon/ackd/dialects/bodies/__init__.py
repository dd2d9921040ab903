"""What the body of each message type must hold, to the leaves.

models: the shapes, for pydantic · checking: what is wrong with a body, in words.
"""

from ackd.dialects.bodies.checking import check, schema
from ackd.dialects.bodies.models import MODELS

__all__ = ["MODELS", "check", "schema"]
