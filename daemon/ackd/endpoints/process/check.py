"""Findings of `ackd check` about process agents: is their program there?"""

from __future__ import annotations

from typing import Final

from ackd.client.agent_findings import CommandCheck

CHECK: Final = CommandCheck
