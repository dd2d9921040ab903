"""Tests of the capabilities' commands use the fixture ``team`` of the command line's tests: a team on disk."""

from tests.cli.conftest import team

__all__ = ["team"]
