"""``python -m tests.simulation``: what it does and takes is in seeds.py.

Sets are walked in the order of hashes, and times are read as local ones: both are fixed before anything else is
imported, by starting anew.
"""

from __future__ import annotations

import os
import sys

_FIXED = {"PYTHONHASHSEED": "0", "TZ": "UTC"}

if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in _FIXED.items()):
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **_FIXED})
    from tests.simulation.seeds import main

    sys.exit(main())
