"""Stands for the package ``ackd.worker`` in a Python that has no ackd: its modules are those of the ackd that started
this process.

ackd puts the directory above ``ackd`` on the PYTHONPATH of its children. There is no ``__init__.py`` in ``ackd`` on
purpose: a Python that has an ackd of its own takes that one, wherever it stands on its path, and this module is not
looked at. Nothing but ``ackd.worker`` is to be found here, because the rest of ackd needs other packages.
"""

from pathlib import Path

__path__ = [str(Path(__file__).absolute().parents[2])]

from ackd.worker.life import run
from ackd.worker.task import HandOver, Refuse, Task

__all__ = ["HandOver", "Refuse", "Task", "run"]
