"""The profiles that come with ackd, and how a user's own builds on one: ``like = "claude"``, then what differs."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from ackd.core.errors import Problem
from ackd.dialects.screen.profile import BadProfile, Profile, profile_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHIPPED: Final = ("claude", "codex", "gemini", "opencode", "shell")


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("profiles", f"{name}.toml").read_text(encoding="utf-8"))


def load_profile(name: str, own: Mapping[str, Mapping[str, Any]] | None = None) -> Profile:
    """By name: one of ``own`` (tables of the config), else a shipped one. Fails with ``BadProfile``."""
    table = (own or {}).get(name)
    if table is None and name in SHIPPED:
        return profile_of(_table(name), name)
    if table is None:
        known = ", ".join(sorted({*(own or {}), *SHIPPED}))
        raise BadProfile(name, (Problem("", f"there is none of that name: {known}"),))
    like = table.get("like")
    if like is None:
        return profile_of(table, name)
    if like not in SHIPPED:
        raise BadProfile(name, (Problem("like", f"is one of {', '.join(SHIPPED)}"),))
    differs = {key: value for key, value in table.items() if key != "like"}
    return profile_of({**_table(like), **differs, "name": name}, name)
