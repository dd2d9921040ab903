"""The message bus's lines: fourteen types of JSON objects, one a line.

Reading (``reading``, ``status``) is imported by who reads: posting does not wait for pydantic.
"""

from ackd.dialects.bus.shapes import TYPES, from_text, quick_check
from ackd.dialects.bus.writing import encode

__all__ = ["TYPES", "encode", "from_text", "quick_check"]
