"""The message bus's lines: fourteen types of JSON objects, one a line.

Readers import ``reading`` themselves, so that posting does not wait for pydantic.
"""

from ackd.coordination.bus.wire.shapes import TYPES, from_text, quick_check
from ackd.coordination.bus.wire.writing import encode

__all__ = ["TYPES", "encode", "from_text", "quick_check"]
