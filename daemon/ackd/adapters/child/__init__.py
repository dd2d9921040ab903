"""One long-lived child with pipes: started, listened to, ended with all that belongs to it.

spawning: starting it on a leash · pipes: lines in and out, bounded · stderr_log: its stderr, rotated · life: one life ·
child: what each life is started with · remnants: what a killed daemon left · cgroup: where one was delegated.
"""

from ackd.adapters.child.cgroup import delegated
from ackd.adapters.child.child import Child
from ackd.adapters.child.life import Life
from ackd.adapters.child.pipes import CannotWrite, Line
from ackd.adapters.child.remnants import end_remnants

__all__ = ["CannotWrite", "Child", "Life", "Line", "delegated", "end_remnants"]
