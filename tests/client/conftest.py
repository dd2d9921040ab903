"""A team on disk, as for the commands."""

from tests.cli.conftest import team

__all__ = ["team"]
