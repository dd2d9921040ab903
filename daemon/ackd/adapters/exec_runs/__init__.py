"""Exec agents: one command per message, each run under a shim that outlives us.

run_files: what lies in a run's directory · shim: what is started, and with what · run: one run under watch · verdict:
what it came to · found: runs of a daemon that is gone · endpoint: the port.
"""

from ackd.adapters.exec_runs.endpoint import ExecEndpoint
from ackd.adapters.exec_runs.found import FoundRun, discard_run, scan_runs
from ackd.adapters.exec_runs.run_files import lock_held

__all__ = ["ExecEndpoint", "FoundRun", "discard_run", "lock_held", "scan_runs"]
