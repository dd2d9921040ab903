"""``python -m ackd`` is ``ackd``."""

from ackd.cli.main import main

main()
