"""A ``LiveConfig`` for tests of single parts: the defaults, and the few values that a test names."""

from __future__ import annotations

from typing import Any

from ackd.config.live import LiveConfig
from ackd.config.model import Config, DaemonSettings, WatchSettings


def config_with(*, settle_s: float = 1, stop_timeout_s: float = 10, **keys: Any) -> Config:
    tables = {"watch": WatchSettings(settle_s=settle_s), "daemon": DaemonSettings(stop_timeout_s=stop_timeout_s)}
    return Config(**{**tables, **keys})


def live_config(**keys: Any) -> LiveConfig:
    return LiveConfig(config_with(**keys))
