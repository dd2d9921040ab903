from __future__ import annotations

from typing import TYPE_CHECKING

from ackd.config import Config
from ackd.config_coordination import Ensemble
from ackd.runtime.gateways import made
from tests.runtime.gateways.ensemble.house import House

if TYPE_CHECKING:
    from pathlib import Path


def test_the_bus_is_always_served_and_the_rest_where_its_table_stands(tmp_path: Path) -> None:
    around = House(tmp_path).gateway._around
    plain, whole = Config(root=str(tmp_path)), Config(root=str(tmp_path), ensemble=Ensemble())
    assert [gateway.name for gateway in made(plain, around)] == ["bus", "leases", "board"]
    assert [gateway.name for gateway in made(whole, around)] == ["bus", "leases", "board", "ensemble"]
