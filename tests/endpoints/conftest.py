"""Commands of endpoint kinds are tested like those of the command line: with a team on disk."""

from tests.cli.conftest import team

__all__ = ["team"]
