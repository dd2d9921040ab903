"""ackd as a service of systemd: install it for a workspace, say how it stands, restart it, take it away again.

``manager`` speaks with systemd by its own commands. ``units`` makes the text of a unit for this installation.
``installing`` and ``standing`` are the use cases.
"""

from ackd.client.service.installing import Plan, Step, install, plan, uninstall
from ackd.client.service.standing import ServiceStatus, found_service, restart, status
from ackd.client.service.systemctl import SYSTEM, USER, Manager, Service, service_of

__all__ = [
    "SYSTEM",
    "USER",
    "Manager",
    "Plan",
    "Service",
    "ServiceStatus",
    "Step",
    "found_service",
    "install",
    "plan",
    "restart",
    "service_of",
    "status",
    "uninstall",
]
